#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/landlock.h, of which Debian 12 has the first two versions only. */

enum { GET_VERSION = 1, RULE_PATH = 1, RULE_PORT = 2 };

enum {
    FILE_WRITE = 1 << 1,
    FILE_READ = 1 << 2,
    FILE_IOCTL = 1 << 15,
    PORT_BIND = 1 << 0,
};

struct path_rule {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed));

struct port_rule {
    uint64_t allowed, port;
};

/* In each version the rights begin with the lowest bit, and have no gaps. */
struct sandbox_rights sandbox_rights(int abi)
{
    static const struct {
        int files, net, scope; /* how many there are */
    } known[SANDBOX_ABI_MOST + 1] = {
        {0, 0, 0},  {13, 0, 0}, /* files */
        {14, 0, 0},             /* links between folders */
        {15, 0, 0},             /* truncate */
        {15, 2, 0},             /* bind and connect by TCP */
        {16, 2, 0},             /* ioctl of devices */
        {16, 2, 2},             /* abstract sockets and signals */
    };
    int i = abi < 0 ? 0 : abi < SANDBOX_ABI_MOST ? abi : SANDBOX_ABI_MOST;
    return (struct sandbox_rights){(UINT64_C(1) << known[i].files) - 1,
                                   (UINT64_C(1) << known[i].net) - 1,
                                   (UINT64_C(1) << known[i].scope) - 1};
}

static int sandbox_create(const void *rights, size_t size, int flags)
{
    return (int)syscall(SYS_landlock_create_ruleset, rights, size, flags);
}

static void sandbox_give_up(struct sandbox *s, const char *why)
{
    if (s->rules >= 0)
        close(s->rules);
    s->rules = -1;
    s->abi = 0;
    s->landlock_off = why;
}

#ifdef FIRSTLIGHT_SANITIZED

void sandbox_open(struct sandbox *s, int abi_most)
{
    (void)abi_most;
    *s = (struct sandbox){.rules = -1, .seccomp_off = "built with a sanitizer"};
    sandbox_give_up(s, "built with a sanitizer");
    (void)sandbox_create;
}

#else

void sandbox_open(struct sandbox *s, int abi_most)
{
    *s = (struct sandbox){.rules = -1, .seccomp_off = "not yet"};
    int abi = sandbox_create(NULL, 0, GET_VERSION);
    if (abi <= 0) { /* ENOSYS: an old kernel; EOPNOTSUPP: switched off at its start */
        sandbox_give_up(s, abi < 0 ? strerrordesc_np(errno) : "version 0");
        return;
    }
    s->abi = abi < abi_most ? abi : abi_most;
    struct sandbox_rights rights = sandbox_rights(s->abi);
    if (s->abi <= 0)
        sandbox_give_up(s, "left out");
    else if ((s->rules = sandbox_create(&rights, sizeof rights, 0)) < 0)
        sandbox_give_up(s, strerrordesc_np(errno));
}

#endif

static void sandbox_add(struct sandbox *s, int type, const void *rule)
{
    /* EBADFD: a pipe or the like, which Landlock leaves alone */
    if (syscall(SYS_landlock_add_rule, s->rules, type, rule, 0) != 0 && errno != EBADFD)
        sandbox_give_up(s, strerrordesc_np(errno));
}

void sandbox_allow(struct sandbox *s, const char *path, int allowed)
{
    if (s->rules < 0 || !path)
        return;
    uint64_t rights = (allowed & SANDBOX_READ ? FILE_READ : 0u) |
                      (allowed & SANDBOX_WRITE ? FILE_WRITE : 0u) |
                      (allowed & SANDBOX_IOCTL ? FILE_IOCTL : 0u);
    struct path_rule rule = {.allowed = rights & sandbox_rights(s->abi).files,
                             .fd = open(path, O_PATH | O_CLOEXEC)};
    if (rule.fd < 0)
        return;
    if (rule.allowed)
        sandbox_add(s, RULE_PATH, &rule);
    close(rule.fd);
}

static void allow_folder(struct sandbox *s, char *path, const char *file, int allowed)
{
    const char *folder = dirname(path);
    sandbox_allow(s, strcmp(folder, "/") == 0 ? file : folder, allowed);
}

void sandbox_allow_folder_of(struct sandbox *s, const char *path, int allowed)
{
    char given[PATH_MAX], real[PATH_MAX];
    if (!path || (size_t)snprintf(given, sizeof given, "%s", path) >= sizeof given)
        return;
    allow_folder(s, given, path, allowed);
    if (realpath(path, real))
        allow_folder(s, real, path, allowed);
}

void sandbox_allow_bind(struct sandbox *s, uint16_t port)
{
    struct port_rule rule = {sandbox_rights(s->abi).net & PORT_BIND, port};
    if (s->rules >= 0 && rule.allowed)
        sandbox_add(s, RULE_PORT, &rule);
}

void sandbox_confine(struct sandbox *s)
{
#ifndef FIRSTLIGHT_SANITIZED
    /* Every kernel that can be met here has it; seccomp and Landlock want it of whoever is not
     * root, and a program that the server would start gains no rights. */
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#endif
    if (s->rules < 0)
        return;
    if (syscall(SYS_landlock_restrict_self, s->rules, 0) != 0) {
        sandbox_give_up(s, strerrordesc_np(errno));
        return;
    }
    close(s->rules);
    s->rules = -1;
    s->confined = true;
}

void sandbox_seal(struct sandbox *s)
{
#ifndef FIRSTLIGHT_SANITIZED
    int e = sandbox_calls_load();
    s->sealed = e == 0;
    s->seccomp_off = s->sealed ? NULL : strerrordesc_np(-e);
#else
    (void)s;
#endif
}

const char *sandbox_describe(const struct sandbox *s, char *out, size_t out_size)
{
    char landlock[96], seccomp[96];
    snprintf(landlock, sizeof landlock, "off landlock_reason=\"%s\"", s->landlock_off);
    snprintf(seccomp, sizeof seccomp, "off seccomp_reason=\"%s\"", s->seccomp_off);
    if (s->confined)
        snprintf(landlock, sizeof landlock, "%d", s->abi);
    snprintf(out, out_size, "landlock=%s seccomp=%s", landlock, s->sealed ? "on" : seccomp);
    return out;
}
