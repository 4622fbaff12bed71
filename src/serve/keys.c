#include "serve/keys.h"

#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Padded with zeros, so that comparing looks at every byte of every key. */
struct key {
    unsigned char bytes[LIMIT_API_KEY_BYTES];
};

struct keys {
    struct key *list;
    size_t n;
};

static enum status add(struct keys *k, const char *text, size_t len, const char *from,
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
    list[k->n] = (struct key){0};
    memcpy(list[k->n++].bytes, text, len);
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
    FILE *f = fopen(path, "re");
    if (!f)
        return err_set(err, STATUS_IO, "cannot read the API keys in %s: %s", path, strerror(errno));
    char *line = NULL;
    size_t cap = 0;
    enum status st = STATUS_OK;
    while (st == STATUS_OK && getline(&line, &cap, f) >= 0) {
        char *key = trimmed(line);
        if (*key)
            st = add(k, key, strlen(key), path, err);
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
        st = add(k, one, strlen(one), "FIRSTLIGHT_API_KEY", err);
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

enum status keys_check(const struct keys *k, const char *authorization, size_t *index,
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
    size_t at = 0;
    for (size_t i = 0; i < k->n; i++) {
        unsigned same = difference(&asked, &k->list[i]) == 0;
        at |= i & -(size_t)(same & !found);
        found |= same;
    }
    if (!found || len == 0 || len > LIMIT_API_KEY_BYTES)
        return err_set(err, STATUS_UNAUTHENTICATED, "the API key is not one of this server's");
    *index = at;
    return STATUS_OK;
}

enum status keys_secret(const struct keys *k, size_t index, const struct salt_secret *process,
                        struct salt_secret *out, struct err *err)
{
    REQUIRE(index < k->n);
    return salt_secret_of_key(out, process, k->list[index].bytes, sizeof k->list[index].bytes, err);
}
