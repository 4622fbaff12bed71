/* Safetensors: good files, files that lie, and sharded sets. */
#include "support/cmocka_all.h"
#include "support/safetensors_writer.h"
#include "weights/safetensors.h"

#include "base/limits.h"
#include "base/mem.h"

#include <stdlib.h>
#include <unistd.h>

/* Parses a copy of exactly `len` bytes, so that the address sanitizer sees any read past it. */
static enum status parse_copy(struct safetensors **out, char **copy, const void *bytes, size_t len,
                              struct err *err)
{
    *copy = malloc(len ? len : 1);
    assert_non_null(*copy);
    memcpy(*copy, bytes, len);
    return safetensors_parse(out, *copy, len, err);
}

static void reads_a_good_file(void **state)
{
    (void)state;
    struct safetensors_writer w = {0};
    struct safetensors *s = NULL;
    struct err err = {0};
    const float matrix[6] = {1, 2, 3, 4, 5, 6};
    const uint16_t vector[2] = {0x3f80, 0x4000};
    char *copy;
    size_t len;
    buf_puts(&w.header, "\"__metadata__\":{\"format\":\"pt\"}");
    safetensors_writer_tensor(&w, "w", "F32", "2,3", matrix, sizeof matrix);
    safetensors_writer_tensor(&w, "b", "BF16", "2", vector, sizeof vector);
    safetensors_writer_tensor(&w, "mask", "BOOL", "", "\1", 1);
    safetensors_writer_tensor(&w, "none", "F16", "0,4", "", 0);
    const void *bytes = safetensors_writer_finish(&w, &len);
    assert_int_equal(parse_copy(&s, &copy, bytes, len, &err), STATUS_OK);
    assert_int_equal(safetensors_count(s), 4);
    assert_int_equal(safetensors_file_size(s), len);
    const struct safetensors_tensor *t = safetensors_find(s, "w");
    assert_true(t->is_weight && t->type == TENSOR_F32 && t->n_dims == 2);
    assert_true(t->dims[0] == 2 && t->dims[1] == 3 && t->dims[2] == 1);
    assert_memory_equal(t->data, matrix, sizeof matrix);
    assert_ptr_equal(t->data, copy + t->offset);
    t = safetensors_find(s, "b");
    assert_true(t->is_weight && t->type == TENSOR_BF16 && t->size == 4);
    assert_memory_equal(t->data, vector, sizeof vector);
    t = safetensors_find(s, "mask");
    assert_true(!t->is_weight && t->n_dims == 0 && t->size == 1);
    assert_string_equal(t->dtype, "BOOL");
    assert_null(safetensors_find(s, "absent"));
    assert_string_equal(safetensors_at(s, 0)->name, "b"); /* in order of names */
    safetensors_close(s);
    free(copy);
    safetensors_writer_fini(&w);
}

/* A file whose every shorter form is refused. */
static void refuses_every_truncation(void **state)
{
    (void)state;
    struct safetensors_writer w = {0};
    size_t len;
    safetensors_writer_tensor(&w, "w", "F16", "2,2", "01234567", 8);
    safetensors_writer_tensor(&w, "v", "F32", "1", "0123", 4);
    const void *bytes = safetensors_writer_finish(&w, &len);
    for (size_t n = 0; n < len; n++) {
        struct safetensors *s = NULL;
        struct err err = {0};
        char *copy;
        assert_int_not_equal(parse_copy(&s, &copy, bytes, n, &err), STATUS_OK);
        assert_null(s);
        assert_true(err.text[0] != '\0');
        free(copy);
    }
    safetensors_writer_fini(&w);
}

#define INFO(dtype, shape, begin, end)                                                             \
    "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

/* Headers over 8 bytes of data, and words of the error. */
static const struct bad {
    const char *header;
    enum status status;
    const char *words[2];
} bads[] = {
    {"", STATUS_INVALID, {"header", ""}},
    {"[]", STATUS_INVALID, {"expected a JSON object", ""}},
    {"{\"w\":1}", STATUS_INVALID, {"tensor \"w\"", "expected an object"}},
    {"{\"w\":" INFO("F32", "2", 0, 8) ",\"w\":" INFO("F32", "2", 0, 8) "}",
     STATUS_INVALID,
     {"duplicate", "w"}},
    {"{\"w\":" INFO("Q4", "2", 0, 8) "}", STATUS_UNSUPPORTED, {"dtype", "\"Q4\""}},
    {"{\"w\":{\"shape\":[2],\"data_offsets\":[0,8]}}", STATUS_INVALID, {"dtype", "\"w\""}},
    {"{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", STATUS_INVALID, {"shape", "array"}},
    {"{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", STATUS_INVALID, {"data_offsets", "[begin"}},
    {"{\"w\":" INFO("F32", "-2", 0, 8) "}", STATUS_INVALID, {"shape", "number 0"}},
    {"{\"w\":" INFO("F32", "2.0", 0, 8) "}", STATUS_INVALID, {"shape", "number 0"}},
    {"{\"w\":" INFO("F32", "1,1,1,1,1,1,1,1,2", 0, 8) "}", STATUS_INVALID, {"up to 8", "more"}},
    {"{\"w\":" INFO("F32", "4294967296,4294967296", 0, 8) "}", STATUS_INVALID, {"shape", "2^64"}},
    {"{\"w\":" INFO("F32", "4611686018427387904", 0, 8) "}", STATUS_INVALID, {"shape", "2^64"}},
    {"{\"w\":" INFO("F32", "3", 0, 8) "}", STATUS_INVALID, {"the 12 bytes of 3 F32", "found 8"}},
    {"{\"w\":" INFO("F4", "3", 0, 8) "}", STATUS_INVALID, {"F4 values", "found 8"}},
    {"{\"w\":" INFO("F32", "2", 8, 0) "}", STATUS_INVALID, {"data_offsets", "[begin"}},
    {"{\"w\":" INFO("F32", "2", -8, 0) "}", STATUS_INVALID, {"data_offsets", "[begin"}},
    {"{\"w\":" INFO("F32", "3", 0, 12) "}", STATUS_INVALID, {"an end up to 8", "found 12"}},
    {"{\"w\":" INFO("F32", "1", 0, 9223372036854775807) "}", STATUS_INVALID, {"up to 8", "found"}},
    {"{\"w\":" INFO("F32", "1", 0, 9223372036854775808) "}", STATUS_INVALID, {"header", "integer"}},
    {"{\"w\":" INFO("F32", "1", 4, 8) "}", STATUS_INVALID, {"begin at 0", "found 4"}},
    {"{\"w\":" INFO("F32", "1", 0, 4) "}", STATUS_INVALID, {"to end with its last tensor", ""}},
    {"{\"w\":" INFO("F32", "2", 0, 8) ",\"v\":" INFO("F32", "1", 4, 8) "}",
     STATUS_INVALID,
     {"tensor \"v\"", "expected to begin at 8, where the one before ends, found 4"}},
    {"{\"__metadata__\":[],\"w\":" INFO("F32", "2", 0, 8) "}",
     STATUS_INVALID,
     {"__metadata__", ""}},
    {"{\"__metadata__\":{\"a\":1},\"w\":" INFO("F32", "2", 0, 8) "}",
     STATUS_INVALID,
     {"__metadata__", "strings"}},
};

static void refuses_what_lies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        struct safetensors_writer w = {0};
        struct safetensors *s = NULL;
        struct err err = {0};
        char *copy;
        size_t len;
        const void *bytes = safetensors_writer_raw(&w, bads[i].header, "01234567", 8, &len);
        enum status status = parse_copy(&s, &copy, bytes, len, &err);
        if (status != bads[i].status || !strstr(err.text, bads[i].words[0]) ||
            !strstr(err.text, bads[i].words[1]))
            fail_msg("case %zu (%s): %s: %s", i, bads[i].header, status_name(status), err.text);
        assert_null(s);
        free(copy);
        safetensors_writer_fini(&w);
    }
}

static void limits_the_header(void **state)
{
    (void)state;
    size_t len = 8 + (size_t)LIMIT_SAFETENSORS_HEADER + 1;
    unsigned char *bytes = malloc(len);
    struct safetensors *s = NULL;
    struct err err = {0};
    assert_non_null(bytes);
    memset(bytes, ' ', len);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((len - 8) >> 8 * i);
    assert_int_equal(safetensors_parse(&s, bytes, len, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, "16777216"));
    free(bytes);
}

/* --- sharded sets --------------------------------------------------------------------------- */

struct folder {
    char path[32];
};

static void make_folder(struct folder *f)
{
    struct safetensors_writer w = {0};
    strcpy(f->path, "/tmp/shards-XXXXXX");
    assert_non_null(mkdtemp(f->path));
    safetensors_writer_tensor(&w, "a", "F32", "1", "aaaa", 4);
    safetensors_writer_tensor(&w, "both", "F32", "1", "1111", 4);
    safetensors_writer_save(&w, f->path, "one.safetensors");
    safetensors_writer_fini(&w);
    w = (struct safetensors_writer){0};
    safetensors_writer_tensor(&w, "b", "F16", "2", "bbbb", 4);
    safetensors_writer_tensor(&w, "both", "F32", "1", "2222", 4);
    safetensors_writer_save(&w, f->path, "two.safetensors");
    safetensors_writer_fini(&w);
}

static void remove_folder(const struct folder *f)
{
    static const char *const names[] = {"one.safetensors", "two.safetensors", "model.safetensors",
                                        "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", f->path, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(f->path), 0);
}

static void write_index(const struct folder *f, const char *json)
{
    safetensors_writer_put(f->path, "model.safetensors.index.json", json, strlen(json));
}

static void reads_a_sharded_set(void **state)
{
    (void)state;
    struct folder f;
    struct safetensors *s = NULL;
    struct err err = {0};
    make_folder(&f);
    write_index(&f, "{\"weight_map\": {\"a\": \"one.safetensors\", \"b\": \"two.safetensors\","
                    " \"both\": \"two.safetensors\"}}");
    assert_int_equal(safetensors_open_folder(&s, f.path, &err), STATUS_OK);
    assert_int_equal(safetensors_count(s), 3);
    assert_memory_equal(safetensors_find(s, "a")->data, "aaaa", 4);
    assert_memory_equal(safetensors_find(s, "b")->data, "bbbb", 4);
    assert_memory_equal(safetensors_find(s, "both")->data, "2222", 4); /* as the index says */
    assert_non_null(strstr(safetensors_find(s, "b")->file, "two.safetensors"));
    safetensors_close(s);
    remove_folder(&f);
}

static void expect_folder_error(const struct folder *f, enum status status, const char *word,
                                const char *other)
{
    struct safetensors *s = NULL;
    struct err err = {0};
    assert_int_equal(safetensors_open_folder(&s, f->path, &err), status);
    assert_null(s);
    if (!strstr(err.text, f->path) || !strstr(err.text, word) || !strstr(err.text, other))
        fail_msg("expected %s, \"%s\" and \"%s\" in: %s", f->path, word, other, err.text);
}

static void an_index_that_lies(void **state)
{
    (void)state;
    struct folder f;
    make_folder(&f);
    expect_folder_error(&f, STATUS_NOT_FOUND, "model.safetensors.index.json", "found neither");
    write_index(&f, "{\"weight_map\": {\"a\": \"one.safetensors\", \"c\": \"two.safetensors\"}}");
    expect_folder_error(&f, STATUS_INVALID, "two.safetensors: expected tensor \"c\"", "found none");
    write_index(&f, "{\"weight_map\": {\"a\": \"x.safetensors\", \"c\": \"y.safetensors\"}}");
    expect_folder_error(&f, STATUS_NOT_FOUND, "expected 2 files",
                        "missing: x.safetensors, y.safetensors");
    write_index(&f, "{\"weight_map\": {\"a\": \"../one.safetensors\"}}");
    expect_folder_error(&f, STATUS_INVALID, "tensor \"a\"", "in the same folder");
    write_index(&f, "{\"weight_map\": {\"a\": 7}}");
    expect_folder_error(&f, STATUS_INVALID, "tensor \"a\"", "no string");
    write_index(&f, "{}");
    expect_folder_error(&f, STATUS_INVALID, "index.json", "weight_map");
    write_index(&f, "{\"weight_map\": ");
    expect_folder_error(&f, STATUS_INVALID, "index.json", "line 1");
    write_index(&f, "{\"weight_map\": {\"a\": \"one.safetensors\"}}");
    safetensors_writer_put(f.path, "one.safetensors", "short", 5);
    expect_folder_error(&f, STATUS_INVALID, "one.safetensors", "at least 8 bytes");
    safetensors_writer_put(f.path, "model.safetensors", "", 0); /* wins over the index */
    expect_folder_error(&f, STATUS_INVALID, "/model.safetensors:", "found 0");
    remove_folder(&f);
}

/* More files than a model may have. */
static void limits_the_files(void **state)
{
    (void)state;
    struct folder f;
    struct buf json = {0};
    make_folder(&f);
    buf_puts(&json, "{\"weight_map\": {");
    for (int i = 0; i <= LIMIT_MODEL_FILES; i++)
        buf_printf(&json, "%s\"t%d\": \"f%d\"", i ? "," : "", i, i);
    buf_puts(&json, "}}");
    write_index(&f, buf_str(&json));
    expect_folder_error(&f, STATUS_TOO_LARGE, "expected up to 1024 files", "found 1025");
    buf_fini(&json);
    remove_folder(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_good_file),   cmocka_unit_test(refuses_every_truncation),
        cmocka_unit_test(refuses_what_lies),   cmocka_unit_test(limits_the_header),
        cmocka_unit_test(reads_a_sharded_set), cmocka_unit_test(an_index_that_lies),
        cmocka_unit_test(limits_the_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
