/* Valid GGUF files: every value type, both versions, look-ups. test_gguf_hostile.c has the others.
 */
#include "support/gguf_writer.h"
#include "weights/gguf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Parses what the writer has; fails the test when that is refused. */
static struct gguf *parse(struct gguf_writer *w)
{
    size_t len;
    struct err err = {0};
    struct gguf *g = NULL;
    const void *bytes = gguf_writer_finish(w, &len);
    if (gguf_parse(&g, bytes, len, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return g;
}

static void assert_text(struct gguf_string s, const char *expected)
{
    assert_int_equal(s.len, strlen(expected));
    assert_memory_equal(s.bytes, expected, s.len);
}

static void test_empty_file_of_both_versions(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct gguf_writer w;
        gguf_writer_init(&w, version);
        struct gguf *g = parse(&w);
        assert_int_equal(gguf_version(g), version);
        assert_int_equal(gguf_file_size(g), 24);
        assert_string_equal(gguf_path(g), "(memory)");
        assert_int_equal(gguf_tensor_count(g), 0);
        assert_int_equal(gguf_value_count(g), 0);
        assert_null(gguf_tensor(g, "x"));
        assert_null(gguf_value(g, "x"));
        gguf_close(g);
        gguf_writer_fini(&w);
    }
    gguf_close(NULL);
}

/* One integer of each type at its extremes, as u32, int64 and double. */
static void test_integers(void **state)
{
    static const struct {
        const char *key;
        uint32_t type;
        size_t size;
        uint64_t bits;
        int64_t integer;
        bool fits_u32;
    } cases[] = {
        {"u8", GGUF_U8, 1, 0xff, 255, true},
        {"i8", GGUF_I8, 1, 0x80, -128, false},
        {"i8.positive", GGUF_I8, 1, 0x7f, 127, true},
        {"u16", GGUF_U16, 2, 0xffff, 65535, true},
        {"i16", GGUF_I16, 2, 0x8000, INT16_MIN, false},
        {"u32", GGUF_U32, 4, UINT32_MAX, UINT32_MAX, true},
        {"i32", GGUF_I32, 4, 0x80000000, INT32_MIN, false},
        {"u64", GGUF_U64, 8, 49152, 49152, true},
        {"u64.large", GGUF_U64, 8, (uint64_t)UINT32_MAX + 1, (int64_t)UINT32_MAX + 1, false},
        {"u64.largest", GGUF_U64, 8, UINT64_MAX, INT64_MAX, false},
        {"i64", GGUF_I64, 8, (uint64_t)INT64_MIN, INT64_MIN, false},
        {"i64.zero", GGUF_I64, 8, 0, 0, true},
    };
    struct gguf_writer w;
    (void)state;
    gguf_writer_init(&w, 3);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        gguf_writer_pair(&w, cases[i].key, cases[i].type, &cases[i].bits, cases[i].size);
    struct gguf *g = parse(&w);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct gguf_value *v = gguf_value(g, cases[i].key);
        uint32_t u32 = 7;
        struct err err;
        assert_ptr_equal(v, gguf_value_at(g, i));
        assert_int_equal(v->type, cases[i].type);
        assert_int_equal(v->element, cases[i].type);
        assert_int_equal(v->count, 1);
        assert_true(gguf_integer(v, 0) == cases[i].integer);
        if (cases[i].bits != UINT64_MAX)
            assert_true(gguf_number(v, 0) == (double)cases[i].integer);
        enum status s = gguf_get_u32(g, cases[i].key, &u32, &err);
        assert_int_equal(s, cases[i].fits_u32 ? STATUS_OK : STATUS_INVALID);
        assert_int_equal(u32, cases[i].fits_u32 ? cases[i].integer : 7);
    }
    assert_true(gguf_unsigned(gguf_value(g, "u64.largest"), 0) == UINT64_MAX);
    assert_true(gguf_number(gguf_value(g, "u64.largest"), 0) == 18446744073709551616.0);
    gguf_close(g);
    gguf_writer_fini(&w);
}

static void test_floats_bools_and_strings(void **state)
{
    struct gguf_writer w;
    double wide = 10000.0;
    float f = 7;
    bool b = false;
    struct gguf_string s;
    (void)state;
    gguf_writer_init(&w, 3);
    gguf_writer_f32(&w, "f32", 1e-5f);
    gguf_writer_pair(&w, "f64", GGUF_F64, &wide, sizeof wide);
    gguf_writer_u32(&w, "u32", 8);
    gguf_writer_bool(&w, "bool", true);
    gguf_writer_string(&w, "string", "llama");
    gguf_writer_string(&w, "empty", "");
    struct gguf *g = parse(&w);
    assert_int_equal(gguf_get_f32(g, "f32", &f, NULL), STATUS_OK);
    assert_true(f == 1e-5f);
    assert_int_equal(gguf_get_f32(g, "f64", &f, NULL), STATUS_OK);
    assert_true(f == 10000.0f);
    assert_int_equal(gguf_get_f32(g, "u32", &f, NULL), STATUS_OK);
    assert_true(f == 8.0f);
    assert_int_equal(gguf_get_bool(g, "bool", &b, NULL), STATUS_OK);
    assert_true(b);
    assert_int_equal(gguf_get_string(g, "string", &s, NULL), STATUS_OK);
    assert_text(s, "llama");
    assert_int_equal(gguf_get_string(g, "empty", &s, NULL), STATUS_OK);
    assert_int_equal(s.len, 0);
    gguf_close(g);
    gguf_writer_fini(&w);
}

static void test_lookups_refuse_other_types(void **state)
{
    struct gguf_writer w;
    struct err err;
    uint32_t u = 7;
    float f = 7;
    bool b = true;
    double huge = 1e300;
    struct gguf_string s = {NULL, 7};
    (void)state;
    gguf_writer_init(&w, 3);
    gguf_writer_string(&w, "string", "4");
    gguf_writer_f32(&w, "nan", NAN);
    gguf_writer_bool(&w, "bool", true);
    gguf_writer_pair(&w, "huge", GGUF_F64, &huge, sizeof huge);
    gguf_writer_array(&w, "array", GGUF_U32, 1, &u, sizeof u);
    struct gguf *g = parse(&w);

    assert_int_equal(gguf_get_u32(g, "absent", &u, &err), STATUS_NOT_FOUND);
    assert_string_equal(err.text, "key \"absent\" is missing");
    assert_string_equal(err.param, "absent");
    assert_int_equal(gguf_get_u32(g, "string", &u, &err), STATUS_INVALID);
    assert_string_equal(err.text, "key \"string\": expected an integer, found string");
    assert_int_equal(gguf_get_u32(g, "bool", &u, &err), STATUS_INVALID);
    assert_int_equal(gguf_get_u32(g, "array", &u, &err), STATUS_INVALID);
    assert_int_equal(gguf_get_f32(g, "absent", &f, &err), STATUS_NOT_FOUND);
    assert_int_equal(gguf_get_f32(g, "nan", &f, &err), STATUS_INVALID);
    assert_int_equal(gguf_get_f32(g, "huge", &f, &err), STATUS_INVALID);
    assert_string_equal(err.text, "key \"huge\": expected a finite 32-bit number, found 1e+300");
    assert_int_equal(gguf_get_f32(g, "bool", &f, &err), STATUS_INVALID);
    assert_int_equal(gguf_get_bool(g, "absent", &b, &err), STATUS_NOT_FOUND);
    assert_int_equal(gguf_get_bool(g, "string", &b, &err), STATUS_INVALID);
    assert_int_equal(gguf_get_string(g, "absent", &s, &err), STATUS_NOT_FOUND);
    assert_int_equal(gguf_get_string(g, "array", &s, &err), STATUS_INVALID);
    assert_string_equal(err.text, "key \"array\": expected a string, found array");
    assert_int_equal(u, 7);
    assert_true(f == 7 && b && s.len == 7);
    gguf_close(g);
    gguf_writer_fini(&w);
}

static void test_arrays(void **state)
{
    static const char *const words[] = {"a", "", "longer word", "\xff\xfe"};
    static const float scores[] = {0.5f, -1.0f, 3.0f};
    static const int32_t kinds[] = {1, -6};
    static const unsigned char flags[] = {0, 1, 1};
    struct gguf_writer w;
    struct gguf_cursor c = {0, 0};
    (void)state;
    gguf_writer_init(&w, 2);
    gguf_writer_strings(&w, "words", 4, words);
    gguf_writer_array(&w, "scores", GGUF_F32, 3, scores, sizeof scores);
    gguf_writer_array(&w, "kinds", GGUF_I32, 2, kinds, sizeof kinds);
    gguf_writer_array(&w, "flags", GGUF_BOOL, 3, flags, sizeof flags);
    gguf_writer_array(&w, "none", GGUF_STRING, 0, NULL, 0);
    struct gguf *g = parse(&w);
    const struct gguf_value *v = gguf_value(g, "words");
    assert_int_equal(v->type, GGUF_ARRAY);
    assert_int_equal(v->element, GGUF_STRING);
    assert_int_equal(v->count, 4);
    for (uint64_t i = 0; i < 4; i++)
        assert_text(gguf_array_string(v, i, &c), words[i]);
    assert_text(gguf_array_string(v, 3, &c), words[3]); /* again, */
    assert_text(gguf_array_string(v, 1, &c), words[1]); /* backwards, */
    assert_text(gguf_array_string(v, 2, &c), words[2]); /* and on */
    assert_true(gguf_number(gguf_value(g, "scores"), 1) == -1.0);
    assert_true(gguf_integer(gguf_value(g, "kinds"), 1) == -6);
    assert_true(gguf_integer(gguf_value(g, "flags"), 2) == 1);
    assert_int_equal(gguf_value(g, "none")->count, 0);
    gguf_close(g);
    gguf_writer_fini(&w);
}

/* [["a"], [], ["b", "c"]] and [[1, 2], [3]], element by element. */
static void test_arrays_of_arrays(void **state)
{
    struct gguf_writer w;
    (void)state;
    gguf_writer_init(&w, 3);
    gguf_writer_array(&w, "words", GGUF_ARRAY, 3, NULL, 0);
    static const char *const words[] = {"a", "b", "c"};
    for (size_t i = 0, at = 0; i < 3; i++) {
        size_t n = (size_t[]){1, 0, 2}[i];
        gguf_writer_put_u32(&w.pairs, GGUF_STRING);
        gguf_writer_put_u64(&w.pairs, n);
        for (size_t k = 0; k < n; k++)
            gguf_writer_put_string(&w.pairs, words[at++]);
    }
    gguf_writer_array(&w, "numbers", GGUF_ARRAY, 2, NULL, 0);
    gguf_writer_put_u32(&w.pairs, GGUF_U8);
    gguf_writer_put_u64(&w.pairs, 2);
    gguf_writer_put(&w.pairs, "\1\2", 2);
    gguf_writer_put_u32(&w.pairs, GGUF_U8);
    gguf_writer_put_u64(&w.pairs, 1);
    gguf_writer_put(&w.pairs, "\3", 1);
    struct gguf *g = parse(&w);

    struct gguf_cursor outer = {0, 0}, inner = {0, 0};
    const struct gguf_value *v = gguf_value(g, "words");
    assert_int_equal(v->element, GGUF_ARRAY);
    struct gguf_value sub = gguf_element(v, 1, &outer);
    assert_int_equal(sub.type, GGUF_ARRAY);
    assert_int_equal(sub.element, GGUF_STRING);
    assert_int_equal(sub.count, 0);
    sub = gguf_element(v, 2, &outer);
    assert_int_equal(sub.count, 2);
    assert_text(gguf_array_string(&sub, 1, &inner), "c");
    outer = inner = (struct gguf_cursor){0, 0};
    sub = gguf_element(gguf_value(g, "numbers"), 1, &outer);
    assert_int_equal(sub.count, 1);
    struct gguf_value last = gguf_element(&sub, 0, &inner);
    assert_int_equal(last.type, GGUF_U8);
    assert_true(gguf_integer(&last, 0) == 3);
    gguf_close(g);
    gguf_writer_fini(&w);
}

static void test_tensors(void **state)
{
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    struct gguf_writer w;
    (void)state;
    for (uint32_t alignment = 8; alignment <= 64; alignment *= 2) {
        gguf_writer_init(&w, 3);
        w.alignment = alignment;
        gguf_writer_u32(&w, "general.alignment", alignment);
        gguf_writer_tensor(&w, "z", TENSOR_F32, 2, (uint64_t[]){3, 2}, values);
        gguf_writer_tensor(&w, "a", TENSOR_Q4_1, 2, (uint64_t[]){64, 5}, NULL);
        gguf_writer_tensor(&w, "m", TENSOR_F16, 4, (uint64_t[]){1, 2, 3, 4}, NULL);
        struct gguf *g = parse(&w);
        assert_int_equal(gguf_tensor_count(g), 3);
        const struct tensor *t = gguf_tensor(g, "z");
        assert_ptr_equal(t, gguf_tensor_at(g, 0));
        assert_int_equal(t->type, TENSOR_F32);
        assert_int_equal(t->n_dims, 2);
        assert_true(t->dims[0] == 3 && t->dims[1] == 2 && t->dims[2] == 1 && t->dims[3] == 1);
        assert_int_equal(t->size, sizeof values);
        assert_memory_equal(t->data, values, sizeof values);
        t = gguf_tensor(g, "a");
        assert_string_equal(t->name, "a");
        assert_int_equal(t->size, 2 * 20 * 5);
        assert_ptr_equal(w.file.data + gguf_tensor_offset(g, t), t->data);
        assert_int_equal(gguf_tensor_offset(g, t) % alignment, 0);
        assert_int_equal(gguf_tensor(g, "m")->size, 48);
        assert_null(gguf_tensor(g, "b"));
        assert_null(gguf_tensor(g, ""));
        gguf_close(g);
        gguf_writer_fini(&w);
    }
}

/* Many keys and tensors, each found again: the look-ups' order is not the file's. */
static void test_many_names(void **state)
{
    struct gguf_writer w;
    char name[32];
    (void)state;
    gguf_writer_init(&w, 3);
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "blk.%u", i * 7919 % 1000);
        gguf_writer_u32(&w, name, i);
        gguf_writer_info(&w, name, 1, (uint64_t[]){1}, 0, i * 32);
    }
    for (size_t i = 0; i < 32000; i++)
        gguf_writer_put(&w.data, "", 1);
    struct gguf *g = parse(&w);
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "blk.%u", i * 7919 % 1000);
        assert_ptr_equal(gguf_value(g, name), gguf_value_at(g, i));
        assert_ptr_equal(gguf_tensor(g, name), gguf_tensor_at(g, i));
    }
    gguf_close(g);
    gguf_writer_fini(&w);
}

static void test_open_a_file(void **state)
{
    char path[] = "/tmp/test_gguf_XXXXXX";
    struct gguf_writer w;
    struct gguf *g = NULL;
    struct err err = {0};
    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    gguf_writer_init(&w, 3);
    gguf_writer_tensor(&w, "t", TENSOR_F32, 1, (uint64_t[]){2}, (float[]){1, 2});
    assert_true(gguf_writer_save(&w, path));
    if (gguf_open(&g, path, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    assert_string_equal(gguf_path(g), path);
    assert_int_equal(gguf_file_size(g), w.file.len);
    assert_memory_equal(gguf_tensor(g, "t")->data, ((float[]){1, 2}), 8);
    gguf_close(g);
    unlink(path);
    gguf_writer_fini(&w);
}

static void test_string_text(void **state)
{
    char text[16];
    (void)state;
    assert_string_equal(gguf_string_text((struct gguf_string){"plain", 5}, text, 16), "\"plain\"");
    assert_string_equal(gguf_string_text((struct gguf_string){"a\"\0", 3}, text, 16),
                        "\"a\\x22\\x00\"");
    assert_string_equal(gguf_string_text((struct gguf_string){"abcdefghijklmnopqr", 18}, text, 16),
                        "\"abcdefghij\"...");
    assert_string_equal(gguf_string_text((struct gguf_string){NULL, 0}, text, 16), "\"\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_file_of_both_versions),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_floats_bools_and_strings),
        cmocka_unit_test(test_lookups_refuse_other_types),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_arrays_of_arrays),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_open_a_file),
        cmocka_unit_test(test_string_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
