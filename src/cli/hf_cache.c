#include "cli/hf_cache.h"

#include "base/buf.h"
#include "base/mem.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FLAG "--hf-model-id"

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);
    return n > k && strcmp(name + n - k, end) == 0;
}

static bool hf_cache_is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static enum status hf_cache_no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for a path");
}

/* --- a folder ------------------------------------------------------------------------------- */

/* What a folder holds. */
struct content {
    struct buf gguf; /* path of the last one seen, or of the folder */
    unsigned n_gguf, n_safetensors;
};

/* A part of a split model other than its first: "NAME-00002-of-00003.gguf". */
static bool is_later_part(const char *name)
{
    const char *of = strstr(name, "-of-");
    unsigned part, count;
    char after;
    return of && of - name > 6 && sscanf(of - 6, "-%5u-of-%5u.ggu%c", &part, &count, &after) == 3 &&
           part > 1;
}

static enum status hf_cache_look(struct content *c, const char *folder, struct err *err)
{
    DIR *d = opendir(folder);
    if (!d)
        return err_param(err, STATUS_IO, FLAG, FLAG ": cannot read %s: %s", folder,
                         strerror(errno));
    for (struct dirent *entry; (entry = readdir(d));) {
        c->n_safetensors += ends_in(entry->d_name, ".safetensors");
        if (!ends_in(entry->d_name, ".gguf") || is_later_part(entry->d_name))
            continue;
        c->n_gguf++;
        buf_clear(&c->gguf);
        buf_printf(&c->gguf, "%s/%s", folder, entry->d_name);
    }
    closedir(d);
    return c->gguf.failed ? hf_cache_no_memory(err) : STATUS_OK;
}

static enum status find_in_folder(char **out, const char *folder, struct err *err)
{
    struct content c = {0};
    enum status status = hf_cache_look(&c, folder, err);
    if (status == STATUS_OK && c.n_gguf == 0 && c.n_safetensors > 0)
        buf_puts(&c.gguf, folder); /* a model in the Hub's own format */
    else if (status == STATUS_OK && c.n_gguf != 1)
        status = err_param(err, STATUS_INVALID, FLAG,
                           FLAG ": %s has %u GGUF files, expected one, or safetensors; "
                                "--model PATH names it",
                           folder, c.n_gguf);
    if (status == STATUS_OK && !(*out = buf_take(&c.gguf)))
        status = hf_cache_no_memory(err);
    buf_fini(&c.gguf);
    return status;
}

/* --- the cache ------------------------------------------------------------------------------ */

/* "name" or "org/name" of letters, digits, '.', '_' and '-': no way out of the cache's folder. */
static bool hf_cache_is_name(const char *id)
{
    unsigned slashes = 0;
    for (const char *p = id; *p; p++) {
        slashes += *p == '/';
        if (!isalnum((unsigned char)*p) && !strchr("._-/", *p))
            return false;
    }
    return isalnum((unsigned char)*id) && slashes <= 1 && !strstr(id, "..");
}

static void append_cache(struct buf *path)
{
    const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME"), *user = getenv("HOME");
    if (cache && *cache)
        buf_puts(path, cache);
    else if (home && *home)
        buf_printf(path, "%s/hub", home);
    else
        buf_printf(path, "%s/.cache/huggingface/hub", user ? user : "");
}

/* "org/name" is kept in the folder models--org--name. */
static void append_model(struct buf *path, const char *id)
{
    buf_puts(path, "/models--");
    for (const char *p = id; *p; p++) {
        if (*p == '/')
            buf_puts(path, "--");
        else
            buf_putc(path, *p);
    }
}

/* refs/main holds the name of the folder in snapshots/ that is current. */
static bool read_revision(const char *folder, char *revision, size_t size)
{
    struct buf path = {0};
    buf_printf(&path, "%s/refs/main", folder);
    FILE *f = path.failed ? NULL : fopen(buf_str(&path), "r");
    buf_fini(&path);
    if (!f)
        return false;
    size_t n = fread(revision, 1, size - 1, f);
    fclose(f);
    revision[n] = '\0';
    revision[strcspn(revision, " \r\n")] = '\0';
    return hf_cache_is_name(revision) && !strchr(revision, '/');
}

static enum status find_in_cache(char **out, const char *id, struct err *err)
{
    struct buf path = {0};
    char revision[128];
    append_cache(&path);
    append_model(&path, id);
    enum status status = path.failed ? hf_cache_no_memory(err) : STATUS_OK;
    if (status == STATUS_OK && !hf_cache_is_folder(buf_str(&path)))
        status = err_param(err, STATUS_NOT_FOUND, FLAG,
                           FLAG ": there is no folder %s, and none in the local cache, %s", id,
                           buf_str(&path));
    if (status == STATUS_OK && !read_revision(buf_str(&path), revision, sizeof revision))
        status = err_param(err, STATUS_INVALID, FLAG, FLAG ": %s/refs/main names no revision",
                           buf_str(&path));
    if (status == STATUS_OK && !buf_printf(&path, "/snapshots/%s", revision))
        status = hf_cache_no_memory(err);
    if (status == STATUS_OK)
        status = find_in_folder(out, buf_str(&path), err);
    buf_fini(&path);
    return status;
}

enum status hf_cache_find(char **out, const char *id, struct err *err)
{
    struct stat s;
    if (hf_cache_is_folder(id))
        return find_in_folder(out, id, err);
    if (ends_in(id, ".gguf") && stat(id, &s) == 0) {
        *out = mem_strdup(id);
        return *out ? STATUS_OK : hf_cache_no_memory(err);
    }
    if (!hf_cache_is_name(id))
        return err_param(err, STATUS_INVALID, FLAG,
                         FLAG ": \"%.100s\" is neither a folder nor a name such as org/name", id);
    return find_in_cache(out, id, err);
}
