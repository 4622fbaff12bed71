/* Broken and hostile GGUF files: each is refused, with an error that names the thing, what was
 * expected and what was found. */
#include "base/limits.h"
#include "support/gguf_writer.h"
#include "weights/gguf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Parses a copy of the bytes in a block of exactly their size, so that the address sanitizer sees
 * any read past their end. Returns the status; the error's text is in *err. */
static enum status parse_copy(const void *bytes, size_t len, struct err *err)
{
    struct gguf *g = NULL;
    void *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    enum status s = gguf_parse(&g, copy, len, err);
    assert_true((s == STATUS_OK) == (g != NULL));
    gguf_close(g);
    free(copy);
    return s;
}

/* What the writer has is refused with `code` and a text that contains `expected`. Ends the writer.
 */
static void assert_refused(struct gguf_writer *w, enum status code, const char *expected)
{
    size_t len;
    struct err err = {0};
    const void *bytes = gguf_writer_finish(w, &len);
    enum status s = parse_copy(bytes, len, &err);
    if (!strstr(err.text, expected))
        fail_msg("expected \"%s\" in the error, found \"%s\"", expected, err.text);
    assert_int_equal(s, code);
    assert_int_equal(err.code, code);
    assert_int_equal(gguf_parse(&(struct gguf *){NULL}, bytes, len, NULL), code);
    gguf_writer_fini(w);
}

/* A file with a bit of everything, whose last byte is the last tensor's. */
static void write_sample(struct gguf_writer *w)
{
    static const char *const words[] = {"<s>", "a"};
    gguf_writer_init(w, 3);
    gguf_writer_string(w, "general.architecture", "llama");
    gguf_writer_u32(w, "general.alignment", 32);
    gguf_writer_f32(w, "eps", 1e-5f);
    gguf_writer_bool(w, "flag", true);
    gguf_writer_strings(w, "tokens", 2, words);
    gguf_writer_array(w, "scores", GGUF_F32, 2, "\0\0\0\0\0\0\0\0", 8);
    gguf_writer_array(w, "nested", GGUF_ARRAY, 1, NULL, 0);
    gguf_writer_put_u32(&w->pairs, GGUF_STRING);
    gguf_writer_put_u64(&w->pairs, 1);
    gguf_writer_put_string(&w->pairs, "x");
    gguf_writer_tensor(w, "norm.weight", TENSOR_F32, 1, (uint64_t[]){3}, NULL);
    gguf_writer_tensor(w, "output.weight", TENSOR_Q8_0, 2, (uint64_t[]){32, 2}, NULL);
}

static void test_truncated_at_every_byte(void **state)
{
    struct gguf_writer w;
    size_t len;
    (void)state;
    write_sample(&w);
    const void *bytes = gguf_writer_finish(&w, &len);
    for (size_t cut = 0; cut < len; cut++) {
        struct err err = {0};
        assert_int_not_equal(parse_copy(bytes, cut, &err), STATUS_OK);
        assert_true(strstr(err.text, "found") || strstr(err.text, "do not fit"));
    }
    assert_int_equal(parse_copy(bytes, len, NULL), STATUS_OK);
    gguf_writer_fini(&w);
}

/* Every byte of the sample replaced by a few others: refused or not, nothing may be read outside.
 */
static void test_any_byte_changed(void **state)
{
    static const unsigned char others[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    struct gguf_writer w;
    size_t len;
    (void)state;
    write_sample(&w);
    gguf_writer_finish(&w, &len);
    for (size_t i = 0; i < len - w.data.len; i++) {
        char kept = w.file.data[i];
        for (size_t k = 0; k < sizeof others; k++) {
            w.file.data[i] = (char)others[k];
            parse_copy(w.file.data, len, NULL);
        }
        w.file.data[i] = kept;
    }
    gguf_writer_fini(&w);
}

static void test_not_gguf(void **state)
{
    struct err err;
    (void)state;
    assert_int_equal(parse_copy("", 0, &err), STATUS_INVALID);
    assert_string_equal(err.text, "expected a GGUF file, found an empty file");
    assert_int_equal(parse_copy("PK\x03\x04zip", 7, &err), STATUS_INVALID);
    assert_string_equal(err.text, "expected a GGUF file (first bytes \"GGUF\"), found "
                                  "\"PK\\x03\\x04\"");
    assert_int_equal(parse_copy("GG", 2, &err), STATUS_INVALID);
    assert_string_equal(err.text, "expected a GGUF file (first bytes \"GGUF\"), found \"GG\"");
    assert_int_equal(parse_copy("GGUF\3", 5, &err), STATUS_INVALID);
    assert_string_equal(err.text,
                        "version: expected 4 bytes at byte 4, found 1 before the file ends");
}

static void test_versions(void **state)
{
    struct gguf_writer w;
    (void)state;
    gguf_writer_init(&w, 1);
    assert_refused(&w, STATUS_UNSUPPORTED, "expected GGUF version 2 or 3, found version 1");
    gguf_writer_init(&w, 4);
    assert_refused(&w, STATUS_UNSUPPORTED, "expected GGUF version 2 or 3, found version 4");
    gguf_writer_init(&w, 0x03000000);
    assert_refused(&w, STATUS_UNSUPPORTED, "found a big-endian one (version 3 with");
}

static void test_counts_larger_than_the_file(void **state)
{
    struct gguf_writer w;
    (void)state;
    gguf_writer_init(&w, 3);
    w.n_tensors = UINT64_MAX;
    assert_refused(&w, STATUS_INVALID,
                   "tensor count: 18446744073709551615 of at least 32 bytes each do not fit in "
                   "the 0 bytes left");
    gguf_writer_init(&w, 3);
    w.n_tensors = UINT64_MAX / 32 + 2; /* times 32 wraps around to something small */
    assert_refused(&w, STATUS_INVALID, "tensor count: ");
    gguf_writer_init(&w, 3);
    w.n_values = 1;
    assert_refused(&w, STATUS_INVALID, "metadata count: 1 of at least 13 bytes");
}

static void test_counts_larger_than_the_limits(void **state)
{
    struct gguf_writer w;
    (void)state;
    gguf_writer_init(&w, 3);
    w.n_tensors = LIMIT_GGUF_TENSORS + 1;
    while (w.data.len < w.n_tensors * 32)
        gguf_writer_put(&w.data, "0123456789abcdef0123456789abcdef", 32);
    assert_refused(&w, STATUS_TOO_LARGE, "tensor count: expected at most 65536, found 65537");
    gguf_writer_init(&w, 3);
    w.n_values = LIMIT_GGUF_KEYS + 1;
    while (w.data.len < w.n_values * 13)
        gguf_writer_put(&w.data, "0123456789abc", 13);
    assert_refused(&w, STATUS_TOO_LARGE, "metadata count: expected at most 65536, found 65537");
}

static void test_keys(void **state)
{
    struct gguf_writer w;
    (void)state;
    gguf_writer_init(&w, 3);
    gguf_writer_u32(&w, "", 1);
    assert_refused(&w, STATUS_INVALID, "metadata pair 0: expected a key, found an empty one");

    gguf_writer_init(&w, 3);
    gguf_writer_u32(&w, "fine", 1);
    gguf_writer_put_u64(&w.pairs, UINT64_MAX); /* a key's length */
    gguf_writer_put_u64(&w.pairs, 0);
    w.n_values++;
    assert_refused(&w, STATUS_INVALID,
                   "metadata pair 1: key: expected 18446744073709551615 bytes at byte 52, found 8");

    char *key = malloc(LIMIT_GGUF_KEY_BYTES + 2);
    memset(key, 'k', LIMIT_GGUF_KEY_BYTES + 1);
    key[LIMIT_GGUF_KEY_BYTES + 1] = '\0';
    gguf_writer_init(&w, 3);
    gguf_writer_u32(&w, key, 1);
    assert_refused(&w, STATUS_TOO_LARGE,
                   "metadata pair 0: key: expected at most 65535 bytes, found 65536");
    free(key);

    gguf_writer_init(&w, 3);
    gguf_writer_u32(&w, "b", 1);
    gguf_writer_u32(&w, "a", 1);
    gguf_writer_string(&w, "b", "again");
    assert_refused(&w, STATUS_INVALID, "key \"b\": expected once, found twice");
}

static void test_values(void **state)
{
    struct gguf_writer w;
    (void)state;
    gguf_writer_init(&w, 3);
    gguf_writer_pair(&w, "k", 13, "\0\0\0\0\0\0\0\0", 8);
    assert_refused(&w, STATUS_INVALID, "key \"k\": value type: expected 0 to 12, found 13");
    gguf_writer_init(&w, 3);
    gguf_writer_pair(&w, "k", GGUF_BOOL, "\2", 1);
    assert_refused(&w, STATUS_INVALID, "key \"k\": bool: expected 0 or 1, found 2");
    gguf_writer_init(&w, 3);
    gguf_writer_array(&w, "k", GGUF_BOOL, 3, "\0\1\377", 3);
    assert_refused(&w, STATUS_INVALID, "key \"k\": bool: expected 0 or 1, found 255");
    gguf_writer_init(&w, 3);
    gguf_writer_pair(&w, "k", GGUF_STRING, "\377\377\377\377\377\377\377\377", 8);
    assert_refused(&w, STATUS_INVALID,
                   "key \"k\": string: expected 18446744073709551615 bytes at byte 45, found 0");
    gguf_writer_init(&w, 3);
    gguf_writer_string(&w, "k", "");
    gguf_writer_pad(&w.data, 1);
    while (w.data.len <= LIMIT_GGUF_STRING)
        gguf_writer_put(&w.data, "0123456789abcdef0123456789abcdef", 32);
    memcpy(w.pairs.data + w.pairs.len - 8, &(uint64_t){LIMIT_GGUF_STRING + 1}, 8);
    assert_refused(&w, STATUS_TOO_LARGE,
                   "key \"k\": string: expected at most 16777216 bytes, found 16777217");
}

static void test_arrays(void **state)
{
    struct gguf_writer w;
    (void)state;
    gguf_writer_init(&w, 3);
    gguf_writer_array(&w, "k", 99, 0, NULL, 0);
    assert_refused(&w, STATUS_INVALID, "key \"k\": array element type: expected 0 to 12, found 99");
    gguf_writer_init(&w, 3);
    gguf_writer_array(&w, "k", GGUF_U32, UINT64_MAX / 4 + 2, "1234", 4); /* times 4 wraps to 4 */
    assert_refused(&w, STATUS_INVALID,
                   "key \"k\": array length: 4611686018427387905 of at least 4 bytes each do not "
                   "fit in the 4 bytes left");
    gguf_writer_init(&w, 3);
    gguf_writer_array(&w, "k", GGUF_STRING, 2, "\0\0\0\0\0\0\0\0", 8);
    assert_refused(&w, STATUS_INVALID, "array length: 2 of at least 8 bytes");
    gguf_writer_init(&w, 3);
    gguf_writer_array(&w, "k", GGUF_ARRAY, 1, "\0\0\0\0\0\0\0\0", 8);
    assert_refused(&w, STATUS_INVALID, "array length: 1 of at least 12 bytes");
}

/* An array `depth` levels deep whose innermost one is empty. */
static void write_deep_array(struct gguf_writer *w, int depth)
{
    gguf_writer_init(w, 3);
    gguf_writer_pair(w, "deep", GGUF_ARRAY, NULL, 0);
    for (int level = 1; level <= depth; level++) {
        gguf_writer_put_u32(&w->pairs, level < depth ? GGUF_ARRAY : GGUF_U8);
        gguf_writer_put_u64(&w->pairs, level < depth);
    }
}

static void test_array_depth(void **state)
{
    struct gguf_writer w;
    size_t len;
    (void)state;
    write_deep_array(&w, LIMIT_GGUF_ARRAY_DEPTH);
    const void *bytes = gguf_writer_finish(&w, &len);
    assert_int_equal(parse_copy(bytes, len, NULL), STATUS_OK);
    gguf_writer_fini(&w);
    write_deep_array(&w, LIMIT_GGUF_ARRAY_DEPTH + 1);
    assert_refused(&w, STATUS_TOO_LARGE,
                   "key \"deep\": array: expected at most 4 levels, found more");
    write_deep_array(&w, 100000);
    assert_refused(&w, STATUS_TOO_LARGE, "key \"deep\": array: expected at most 4 levels");
}

static void test_alignment(void **state)
{
    static const struct {
        uint32_t alignment;
        const char *expected;
    } cases[] = {
        {0, "expected a power of two of at least 8, found 0"},
        {4, "expected a power of two of at least 8, found 4"},
        {48, "expected a power of two of at least 8, found 48"},
        {0x80000000, "tensor \"t\": expected 4 bytes at 2147483648 + 0, found the file's end"},
    };
    struct gguf_writer w;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gguf_writer_init(&w, 3);
        gguf_writer_u32(&w, "general.alignment", cases[i].alignment);
        gguf_writer_tensor(&w, "t", TENSOR_F32, 1, (uint64_t[]){1}, NULL);
        assert_refused(&w, STATUS_INVALID, cases[i].expected);
    }
    gguf_writer_init(&w, 3);
    gguf_writer_string(&w, "general.alignment", "32");
    assert_refused(&w, STATUS_INVALID,
                   "key \"general.alignment\": expected an integer, found string");
}

/* A file whose one tensor "t" has this info, and 64 bytes of data. */
static void write_one(struct gguf_writer *w, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                      uint64_t offset)
{
    gguf_writer_init(w, 3);
    gguf_writer_info(w, "t", n_dims, dims, type, offset);
    for (int i = 0; i < 64; i++)
        gguf_writer_put(&w->data, "", 1);
}

static void test_dimensions(void **state)
{
    struct gguf_writer w;
    uint64_t big = UINT64_C(1) << 62;
    (void)state;
    write_one(&w, 0, NULL, 0, 0);
    gguf_writer_put(&w.infos, "12345678", 8); /* still 32 bytes, the least that an info takes */
    assert_refused(&w, STATUS_INVALID, "tensor \"t\": expected 1 to 4 dimensions, found 0");
    write_one(&w, 5, (uint64_t[]){1, 1, 1, 1, 1}, 0, 0);
    assert_refused(&w, STATUS_INVALID, "tensor \"t\": expected 1 to 4 dimensions, found 5");
    write_one(&w, 2, (uint64_t[]){4, 0}, 0, 0);
    assert_refused(&w, STATUS_INVALID, "tensor \"t\": dimension 1: expected at least 1, found 0");
    write_one(&w, 2, (uint64_t[]){33, 2}, 8, 0);
    assert_refused(&w, STATUS_INVALID,
                   "tensor \"t\": Q8_0 rows must be a multiple of 32 values, found 33");
    write_one(&w, 2, (uint64_t[]){32, 8}, 12, 0);
    assert_refused(&w, STATUS_INVALID,
                   "tensor \"t\": Q4_K rows must be a multiple of 256 values, found 32");
    write_one(&w, 2, (uint64_t[]){4, big}, 0, 0); /* 2^64 values: wraps to 0 */
    assert_refused(&w, STATUS_INVALID,
                   "tensor \"t\": shape [4, 4611686018427387904]: expected a size below 2^64");
    write_one(&w, 1, &big, 0, 0); /* 2^62 values: 2^64 bytes */
    assert_refused(&w, STATUS_INVALID, "tensor \"t\": shape [4611686018427387904]: expected");
    write_one(&w, 2, (uint64_t[]){32, 32}, 0, 0); /* larger than the file */
    assert_refused(&w, STATUS_INVALID,
                   "tensor \"t\": expected 4096 bytes at 96 + 0, found the file's end at byte 160");
}

static void test_types_not_read(void **state)
{
    struct gguf_writer w;
    (void)state;
    write_one(&w, 1, (uint64_t[]){256}, 21, 0);
    assert_refused(&w, STATUS_UNSUPPORTED,
                   "tensor \"t\": type IQ3_S (number 21) cannot be read by this program");
    write_one(&w, 1, (uint64_t[]){256}, 4000, 0);
    assert_refused(&w, STATUS_UNSUPPORTED, "tensor \"t\": type unknown (number 4000)");
}

static void test_offsets(void **state)
{
    struct gguf_writer w;
    (void)state;
    write_one(&w, 1, (uint64_t[]){4}, 0, 16);
    assert_refused(&w, STATUS_INVALID,
                   "tensor \"t\": offset 16: expected a multiple of the alignment 32");
    write_one(&w, 1, (uint64_t[]){4}, 0, 64);
    assert_refused(&w, STATUS_INVALID,
                   "tensor \"t\": expected 16 bytes at 64 + 64, found the file's end at byte 128");
    write_one(&w, 1, (uint64_t[]){4}, 0, UINT64_MAX - 31); /* wraps around to before the data */
    assert_refused(&w, STATUS_INVALID,
                   "tensor \"t\": expected 16 bytes at 64 + 184467440737095515");
}

static void test_tensor_names(void **state)
{
    struct gguf_writer w;
    char name[LIMIT_GGUF_TENSOR_NAME + 2];
    (void)state;
    gguf_writer_init(&w, 3);
    gguf_writer_tensor(&w, "b", TENSOR_F32, 1, (uint64_t[]){1}, NULL);
    gguf_writer_tensor(&w, "a", TENSOR_F32, 1, (uint64_t[]){1}, NULL);
    gguf_writer_tensor(&w, "b", TENSOR_F32, 1, (uint64_t[]){1}, NULL);
    assert_refused(&w, STATUS_INVALID, "tensor \"b\": expected once, found twice");
    gguf_writer_init(&w, 3);
    gguf_writer_tensor(&w, "", TENSOR_F32, 1, (uint64_t[]){1}, NULL);
    assert_refused(&w, STATUS_INVALID, "tensor 0: expected a name, found an empty one");
    gguf_writer_init(&w, 3);
    gguf_writer_tensor(&w, "axb", TENSOR_F32, 1, (uint64_t[]){1}, NULL);
    w.infos.data[9] = '\0';
    assert_refused(&w, STATUS_INVALID, "tensor 0: expected a name, found one with a NUL in it");
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    gguf_writer_init(&w, 3);
    gguf_writer_tensor(&w, name, TENSOR_F32, 1, (uint64_t[]){1}, NULL);
    assert_refused(&w, STATUS_TOO_LARGE, "tensor 0: name: expected at most 64 bytes, found 65");
    gguf_writer_init(&w, 3);
    gguf_writer_tensor(&w, "\x1b[31m\n", TENSOR_F32, 1, (uint64_t[]){0}, NULL);
    assert_refused(&w, STATUS_INVALID, "tensor \"\\x1b[31m\\x0a\": dimension 0: expected");
}

static void assert_not_opened(const char *path, enum status code, const char *expected)
{
    struct gguf *g = NULL;
    struct err err = {0};
    char text[128];
    assert_int_equal(gguf_open(&g, path, &err), code);
    assert_null(g);
    snprintf(text, sizeof text, "%s: %s", path, expected);
    assert_string_equal(err.text, text);
}

static void test_not_a_file(void **state)
{
    char dir[] = "/tmp/test_gguf_XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_not_opened(dir, STATUS_INVALID, "expected a regular file, found a directory");
    snprintf(path, sizeof path, "%s/m.gguf", dir);
    assert_not_opened(path, STATUS_NOT_FOUND, "cannot open: No such file or directory");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_not_opened(path, STATUS_INVALID, "expected a regular file, found a FIFO");
    unlink(path);
    fclose(fopen(path, "w"));
    assert_not_opened(path, STATUS_INVALID, "expected a GGUF file, found an empty file");
    unlink(path);
    rmdir(dir);
    assert_not_opened("/dev/null", STATUS_INVALID, "expected a regular file, found a device");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncated_at_every_byte),
        cmocka_unit_test(test_any_byte_changed),
        cmocka_unit_test(test_not_gguf),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_counts_larger_than_the_file),
        cmocka_unit_test(test_counts_larger_than_the_limits),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_array_depth),
        cmocka_unit_test(test_alignment),
        cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_types_not_read),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_tensor_names),
        cmocka_unit_test(test_not_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
