#include "base/cgroup.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_FILE "/proc/self/cgroup"
#define MOUNTS_FILE "/proc/self/mountinfo"
#define NO_LIMIT    UINT64_MAX
#define V1_LIMITED  (UINT64_C(1) << 60) /* version 1 writes about 2^63 where there is no limit */

/* A group, of the version 1 hierarchy of a controller or of version 2 (controller NULL). */
struct group {
    char mount[PATH_MAX]; /* where the hierarchy is mounted */
    char below[PATH_MAX]; /* the group's path below it: "", or "/a/b" */
};

/* Reads lines until `line` returns true: it was found. */
static bool find_line(const char *root, const char *file, bool (*line)(void *arg, char *text),
                      void *arg)
{
    char path[PATH_MAX];
    char *text = NULL;
    size_t cap = 0;
    bool found = false;
    snprintf(path, sizeof path, "%s%s", root, file);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    while (!found && getline(&text, &cap, f) >= 0) {
        text[strcspn(text, "\n")] = '\0';
        found = line(arg, text);
    }
    free(text); /* getline's */
    fclose(f);
    return found;
}

/* Is the word in the list, which commas separate? */
static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

/* The process's group: a line "4:memory:/a/b", or "0::/a/b" of version 2 */

struct own_group {
    const char *controller;
    char path[PATH_MAX];
};

static bool own_line(void *arg, char *text)
{
    struct own_group *o = arg;
    char *controllers = strchr(text, ':');
    char *path = controllers ? strchr(++controllers, ':') : NULL;
    if (!path)
        return false;
    *path++ = '\0';
    if (o->controller ? !has_word(controllers, o->controller) : *controllers != '\0')
        return false;
    return (size_t)snprintf(o->path, sizeof o->path, "%s", path) < sizeof o->path;
}

/* Where it is mounted: "31 23 0:28 ROOT MOUNT OPTIONS [MORE...] - TYPE SOURCE OPTIONS" */

struct mount_search {
    const char *controller;
    const char *path; /* of the process's group */
    struct group *found;
    bool any; /* *found is one that does not show where the group is */
};

/* Cuts the next word off; "": there is none. */
static char *next_word(char **at)
{
    static char none[1];
    return *at ? strsep(at, " ") : none;
}

/* Blanks and the like are written \040. */
static void cgroup_unescape(char *text)
{
    char *out = text;
    for (; *text; out++) {
        unsigned code;
        if (*text == '\\' && sscanf(text + 1, "%3o", &code) == 1 && strlen(text) > 3) {
            *out = (char)code;
            text += 4;
        } else {
            *out = *text++;
        }
    }
    *out = '\0';
}

/* What follows of the group's path below the mount's own root; NULL: it is elsewhere. Roots and
 * paths outside of this process's namespace begin with "/..". */
static const char *path_below(const char *mount_root, const char *path)
{
    size_t len = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    if (strstr(path, "/..") || strstr(mount_root, "/..") || strncmp(path, mount_root, len) != 0)
        return NULL;
    path += len;
    if (*path != '/' && *path != '\0')
        return NULL;
    return strcmp(path, "/") == 0 ? "" : path;
}

static bool mount_line(void *arg, char *text)
{
    struct mount_search *m = arg;
    char *kind = strstr(text, " - ");
    if (!kind)
        return false;
    *kind = '\0';
    kind += 3;
    for (int i = 0; i < 3; i++)
        next_word(&text);
    char *mount_root = next_word(&text), *mount = next_word(&text);
    const char *type = next_word(&kind);
    next_word(&kind);
    if (strcmp(type, m->controller ? "cgroup" : "cgroup2") != 0 ||
        (m->controller && !has_word(next_word(&kind), m->controller)))
        return false;
    cgroup_unescape(mount_root);
    cgroup_unescape(mount);
    const char *below = path_below(mount_root, m->path);
    if (!below && m->any)
        return false;
    m->any = true;
    snprintf(m->found->mount, sizeof m->found->mount, "%s", mount);
    snprintf(m->found->below, sizeof m->found->below, "%s", below ? below : "");
    return below != NULL;
}

/* Where the group is not to be seen, the highest that is stands for it: a bound all the same. */
static bool find_group(const char *root, const char *controller, struct group *out)
{
    struct own_group own = {.controller = controller};
    struct mount_search m = {.controller = controller, .path = own.path, .found = out};
    if (!find_line(root, GROUPS_FILE, own_line, &own))
        return false;
    return find_line(root, MOUNTS_FILE, mount_line, &m) || m.any;
}

/* From the group up to the mount: the least that `look` finds in a folder. */
static uint64_t least(const char *root, const char *controller,
                      uint64_t (*look)(const char *folder))
{
    struct group g;
    char folder[3 * PATH_MAX];
    uint64_t found = NO_LIMIT;
    if (!find_group(root, controller, &g))
        return NO_LIMIT;
    for (;;) {
        snprintf(folder, sizeof folder, "%s%s%s", root, g.mount, g.below);
        uint64_t here = look(folder);
        found = here < found ? here : found;
        char *last = strrchr(g.below, '/');
        if (!last)
            return found;
        *last = '\0';
    }
}

/* Files of numbers */

struct number {
    const char *key; /* before it in its line; "" in a file of one line */
    uint64_t value;
};

static bool number_line(void *arg, char *text)
{
    struct number *n = arg;
    size_t len = strlen(n->key);
    char *end;
    if (strncmp(text, n->key, len) != 0)
        return false;
    text += len + strspn(text + len, " ");
    if (*text < '0' || *text > '9') /* "max", "-1" */
        return false;
    n->value = strtoull(text, &end, 10);
    return *end == '\0';
}

/* `otherwise` where there is no such number. */
static uint64_t cgroup_read_number(const char *folder, const char *file, const char *key,
                                   uint64_t otherwise)
{
    struct number n = {.key = key};
    return find_line(folder, file, number_line, &n) ? n.value : otherwise;
}

/* Memory */

static uint64_t room(uint64_t limit, uint64_t used, uint64_t droppable)
{
    used -= droppable < used ? droppable : used;
    return limit > used ? limit - used : 0;
}

static uint64_t room_v2(const char *folder)
{
    uint64_t limit = cgroup_read_number(folder, "/memory.max", "", NO_LIMIT);
    uint64_t high = cgroup_read_number(folder, "/memory.high", "", NO_LIMIT);
    limit = high < limit ? high : limit;
    if (limit == NO_LIMIT)
        return NO_LIMIT;
    return room(limit, cgroup_read_number(folder, "/memory.current", "", 0),
                cgroup_read_number(folder, "/memory.stat", "inactive_file ", 0) +
                    cgroup_read_number(folder, "/memory.stat", "active_file ", 0));
}

static uint64_t room_v1(const char *folder)
{
    uint64_t limit = cgroup_read_number(folder, "/memory.limit_in_bytes", "", NO_LIMIT);
    if (limit >= V1_LIMITED)
        return NO_LIMIT;
    /* total_: of the groups below, too, as the limit and the use are */
    return room(limit, cgroup_read_number(folder, "/memory.usage_in_bytes", "", 0),
                cgroup_read_number(folder, "/memory.stat", "total_inactive_file ", 0) +
                    cgroup_read_number(folder, "/memory.stat", "total_active_file ", 0));
}

size_t cgroup_memory_room_in(const char *root)
{
    uint64_t v1 = least(root, "memory", room_v1), v2 = least(root, NULL, room_v2);
    uint64_t both = v1 < v2 ? v1 : v2;
    return both < SIZE_MAX ? (size_t)both : SIZE_MAX;
}

size_t cgroup_memory_room(void)
{
    return cgroup_memory_room_in("");
}

/* Processors */

static uint64_t cgroup_own_processors(uint64_t quota, uint64_t period)
{
    if (quota == NO_LIMIT || quota == 0 || period == 0)
        return NO_LIMIT;
    return 1 + (quota - 1) / period;
}

struct cpu_max {
    uint64_t quota, period;
};

static bool cpu_max_line(void *arg, char *text)
{
    struct cpu_max *c = arg;
    return sscanf(text, "%" SCNu64 " %" SCNu64, &c->quota, &c->period) == 2;
}

static uint64_t processors_v2(const char *folder)
{
    struct cpu_max c;
    return find_line(folder, "/cpu.max", cpu_max_line, &c)
               ? cgroup_own_processors(c.quota, c.period)
               : NO_LIMIT;
}

static uint64_t processors_v1(const char *folder)
{
    uint64_t quota = cgroup_read_number(folder, "/cpu.cfs_quota_us", "", NO_LIMIT);
    return quota == NO_LIMIT ? NO_LIMIT
                             : cgroup_own_processors(
                                   quota, cgroup_read_number(folder, "/cpu.cfs_period_us", "", 0));
}

int cgroup_processors_in(const char *root)
{
    uint64_t v1 = least(root, "cpu", processors_v1), v2 = least(root, NULL, processors_v2);
    uint64_t both = v1 < v2 ? v1 : v2;
    return both < INT_MAX ? (int)both : INT_MAX;
}

int cgroup_processors(void)
{
    return cgroup_processors_in("");
}

void cgroup_each_path(void (*see)(void *arg, const char *path), void *arg)
{
    static const char *const controllers[] = {"memory", "cpu", NULL};
    struct group g;
    see(arg, GROUPS_FILE);
    see(arg, MOUNTS_FILE);
    for (size_t i = 0; i < sizeof controllers / sizeof *controllers; i++)
        if (find_group("", controllers[i], &g))
            see(arg, g.mount);
}
