#include "api/keys.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/secret_file.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct key {
    unsigned char
        bytes[LIMIT_API_KEY_BYTES]; /* padded with zeros, so that comparing looks at all */
    uint64_t id;
};

struct keys {
    struct key *list;
    size_t n;
};

/* The beginning of a digest: among LIMIT_API_KEYS keys no two share it. */
static uint64_t id_of(const struct key *k)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    uint64_t id;
    SHA256(k->bytes, sizeof k->bytes, digest);
    memcpy(&id, digest, sizeof id);
    return id;
}

static enum status keys_add(struct keys *k, const char *text, size_t len, const char *from,
                            struct err *err)
{
    if (len > LIMIT_API_KEY_BYTES)
        return err_set(err, STATUS_INVALID, "%s: a key has %zu bytes, the most is %d", from, len,
                       LIMIT_API_KEY_BYTES);
    if (k->n == LIMIT_API_KEYS)
        return err_set(err, STATUS_INVALID, "%s: more than %d keys", from, LIMIT_API_KEYS);
    struct key *list = mem_resize(k->list, (k->n + 1) * sizeof *list);
    if (!list)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the API keys");
    k->list = list;
    struct key *added = &list[k->n++];
    *added = (struct key){0};
    memcpy(added->bytes, text, len);
    added->id = id_of(added);
    return STATUS_OK;
}

/* A line without blanks around it; "" for a comment. */
static char *trimmed(char *line)
{
    line += strspn(line, " \t");
    line[strcspn(line, "\r\n")] = '\0';
    for (size_t n = strlen(line); n > 0 && strchr(" \t", line[n - 1]); n--)
        line[n - 1] = '\0';
    return *line == '#' ? line + strlen(line) : line;
}

static enum status read_file(struct keys *k, const char *path, struct err *err)
{
    enum status st = secret_file_check(path, SECRET_FILE_KEYS, err);
    if (st)
        return st;
    FILE *f = fopen(path, "re");
    if (!f)
        return err_set(err, STATUS_IO, "cannot read the API keys in %s: %s", path, strerror(errno));
    char *line = NULL;
    size_t cap = 0;
    while (st == STATUS_OK && getline(&line, &cap, f) >= 0) {
        char *key = trimmed(line);
        if (*key)
            st = keys_add(k, key, strlen(key), path, err);
    }
    free(line); /* getline's */
    fclose(f);
    if (st == STATUS_OK && k->n == 0)
        return err_set(err, STATUS_INVALID, "%s has no API key: one a line, # for comments", path);
    return st;
}

enum status keys_load(struct keys **out, const char *path, struct err *err)
{
    const char *one = getenv("FIRSTLIGHT_API_KEY");
    enum status st = STATUS_OK;
    *out = NULL;
    if (!path && (!one || !*one))
        return STATUS_OK;
    struct keys *k = mem_zalloc(sizeof *k);
    if (!k)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the API keys");
    if (path)
        st = read_file(k, path, err);
    if (st == STATUS_OK && one && *one)
        st = keys_add(k, one, strlen(one), "FIRSTLIGHT_API_KEY", err);
    if (st) {
        keys_free(k);
        return st;
    }
    *out = k;
    return STATUS_OK;
}

void keys_free(struct keys *k)
{
    if (!k)
        return;
    if (k->list)
        explicit_bzero(k->list, k->n * sizeof *k->list);
    mem_free(k->list);
    mem_free(k);
}

size_t keys_count(const struct keys *k)
{
    return k ? k->n : 0;
}

void keys_first(const struct keys *k, char *out)
{
    memcpy(out, k->list[0].bytes, LIMIT_API_KEY_BYTES);
    out[LIMIT_API_KEY_BYTES] = '\0';
}

static unsigned difference(const struct key *a, const struct key *b)
{
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof a->bytes; i++)
        bits |= a->bytes[i] ^ b->bytes[i];
    return bits;
}

enum status keys_check(const struct keys *k, const char *authorization, uint64_t *id,
                       struct err *err)
{
    if (!k)
        return STATUS_OK;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return err_set(err, STATUS_UNAUTHENTICATED,
                       "this server needs an API key: send the header \"Authorization: Bearer "
                       "KEY\"");
    const char *text = authorization + 7 + strspn(authorization + 7, " ");
    size_t len = strlen(text);
    struct key asked = {0};
    memcpy(asked.bytes, text, len < sizeof asked.bytes ? len : sizeof asked.bytes);
    unsigned found = 0;
    uint64_t which = 0;
    for (size_t i = 0; i < k->n; i++) {
        unsigned same = difference(&asked, &k->list[i]) == 0;
        which |= k->list[i].id & -(uint64_t)(same & !found);
        found |= same;
    }
    if (!found || len == 0 || len > LIMIT_API_KEY_BYTES)
        return err_set(err, STATUS_UNAUTHENTICATED, "the API key is not one of this server's");
    *id = which;
    return STATUS_OK;
}

enum status keys_secret(const struct keys *k, uint64_t id, const struct key_secret *process,
                        struct key_secret *out, struct err *err)
{
    size_t i = 0;
    while (i < k->n && k->list[i].id != id)
        i++;
    REQUIRE(i < k->n);
    return cache_salt_secret_of_key(out, process, k->list[i].bytes, sizeof k->list[i].bytes, err);
}
