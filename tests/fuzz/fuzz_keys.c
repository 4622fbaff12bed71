/* Fuzz target of a file of API keys and of the Authorization header that is checked against it: the
 * input is the file, and behind its last zero byte the header. tests/fuzz/keys_seeds.py
 * writes the seeds. */
#include "api/keys.h"
#include "base/limits.h"
#include "base/mem.h"
#include "fuzz/memory_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool passes(const struct keys *k, const char *header)
{
    struct key_secret secret = {0};
    struct err err = {0};
    size_t index = SIZE_MAX;
    enum status st = keys_check(k, header, &index, &err);
    REQUIRE(st == STATUS_OK || (st == STATUS_UNAUTHENTICATED && err.text[0]));
    if (st == STATUS_OK) /* which requires that there is such a key */
        REQUIRE(keys_secret(k, index, &secret, &secret, NULL) == STATUS_OK);
    return st == STATUS_OK;
}

/* Is this one of the file's lines, without blanks around it? Much as keys.c has it, but by looking
 * from both ends of the key. */
static bool is_line(const char *file, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = strstr(file, key); n > 0 && at; at = strstr(at + 1, key)) {
        const char *from = at, *to = at + n;
        while (from > file && strchr(" \t", from[-1]))
            from--;
        while (*to && strchr(" \t", *to))
            to++;
        if ((from == file || from[-1] == '\n') && (!*to || strchr("\r\n", *to)))
            return true;
    }
    return false;
}

static void check_keys(const struct keys *k, const char *file, const char *header)
{
    char first[sizeof "Bearer " + LIMIT_API_KEY_BYTES + 1] = "Bearer ";
    keys_first(k, first + 7);
    REQUIRE(first[7] && first[7] != '#' && is_line(file, first + 7));
    REQUIRE(passes(k, first));
    first[0] = 'b'; /* as RFC 9110 has it: any case */
    REQUIRE(passes(k, first));
    REQUIRE(!passes(k, NULL) && !passes(k, "") && !passes(k, "Bearer ") && !passes(k, first + 1));
    if (passes(k, header)) {
        const char *key = header + 7 + strspn(header + 7, " ");
        REQUIRE(*key != '#' && is_line(file, key));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct memory_file f;
    struct err err = {0};
    struct keys *k;
    const uint8_t *zero = size > 0 ? memrchr(data, 0, size) : NULL;
    size_t n_file = zero ? (size_t)(zero - data) : size;
    char *file = mem_alloc(size + 2), *header = file + n_file + 1;
    REQUIRE(file);
    memcpy(file, data, size);
    file[size] = file[n_file] = file[size + 1] = '\0';
    for (size_t i = 0; i < n_file; i++) /* a line is read up to a zero byte */
        file[i] = file[i] ? file[i] : '\n';
    unsetenv("FIRSTLIGHT_API_KEY");
    memory_file_open(&f, data, n_file);
    enum status st = keys_load(&k, f.path, &err);
    if (st == STATUS_OK)
        check_keys(k, file, header);
    else
        REQUIRE(st == STATUS_INVALID && !k && strncmp(err.text, f.path, strlen(f.path)) == 0);
    keys_free(k);
    memory_file_close(&f);
    mem_free(file);
    return 0;
}
