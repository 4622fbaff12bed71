/* Tensor types and shapes. */
#include "weights/tensor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The numbers and block sizes are the file format's: they are written out here again. */
static void test_types_match_the_format(void **state)
{
    static const struct {
        enum tensor_type type;
        uint32_t gguf;
        const char *name;
        size_t values, bytes;
    } expected[] = {
        {TENSOR_F32, 0, "F32", 1, 4},
        {TENSOR_F16, 1, "F16", 1, 2},
        {TENSOR_BF16, 30, "BF16", 1, 2},
        {TENSOR_Q4_0, 2, "Q4_0", 32, 2 + 16},
        {TENSOR_Q4_1, 3, "Q4_1", 32, 4 + 16},
        {TENSOR_Q5_0, 6, "Q5_0", 32, 2 + 4 + 16},
        {TENSOR_Q5_1, 7, "Q5_1", 32, 4 + 4 + 16},
        {TENSOR_Q8_0, 8, "Q8_0", 32, 2 + 32},
        {TENSOR_Q2_K, 10, "Q2_K", 256, 16 + 64 + 4},
        {TENSOR_Q3_K, 11, "Q3_K", 256, 32 + 64 + 12 + 2},
        {TENSOR_Q4_K, 12, "Q4_K", 256, 4 + 12 + 128},
        {TENSOR_Q5_K, 13, "Q5_K", 256, 4 + 12 + 32 + 128},
        {TENSOR_Q6_K, 14, "Q6_K", 256, 128 + 64 + 16 + 2},
        {TENSOR_IQ4_NL, 20, "IQ4_NL", 32, 2 + 16},
        {TENSOR_IQ4_XS, 23, "IQ4_XS", 256, 4 + 4 + 128},
    };
    (void)state;
    assert_int_equal(sizeof expected / sizeof expected[0], TENSOR_TYPES);
    for (size_t i = 0; i < TENSOR_TYPES; i++) {
        enum tensor_type type = TENSOR_TYPES;
        assert_true(tensor_type_from_gguf(expected[i].gguf, &type));
        assert_int_equal(type, expected[i].type);
        assert_string_equal(tensor_type_name(type), expected[i].name);
        assert_string_equal(tensor_gguf_type_name(expected[i].gguf), expected[i].name);
        assert_int_equal(tensor_type_block_values(type), expected[i].values);
        assert_int_equal(tensor_type_block_bytes(type), expected[i].bytes);
    }
}

static void test_types_not_read_have_names(void **state)
{
    enum tensor_type type = TENSOR_F16;
    (void)state;
    assert_false(tensor_type_from_gguf(21, &type));
    assert_false(tensor_type_from_gguf(UINT32_MAX, &type));
    assert_int_equal(type, TENSOR_F16);
    assert_string_equal(tensor_gguf_type_name(21), "IQ3_S");
    assert_string_equal(tensor_gguf_type_name(28), "F64");
    assert_string_equal(tensor_gguf_type_name(34), "TQ1_0");
    assert_string_equal(tensor_gguf_type_name(39), "MXFP4");
    assert_null(tensor_gguf_type_name(1000));
    assert_null(tensor_gguf_type_name(UINT32_MAX));
}

static void test_row_bytes(void **state)
{
    (void)state;
    assert_int_equal(tensor_row_bytes(TENSOR_F32, 0), 0);
    assert_int_equal(tensor_row_bytes(TENSOR_F32, 3), 12);
    assert_int_equal(tensor_row_bytes(TENSOR_BF16, 576), 1152);
    assert_int_equal(tensor_row_bytes(TENSOR_Q4_1, 576), 360);
    assert_int_equal(tensor_row_bytes(TENSOR_Q6_K, 512), 420);
}

static void test_shape_text(void **state)
{
    char text[32];
    struct tensor t = {.n_dims = 2, .dims = {576, 49152, 1, 1}};
    (void)state;
    assert_string_equal(tensor_shape_text(&t, text, sizeof text), "[576, 49152]");
    t.n_dims = 1;
    assert_string_equal(tensor_shape_text(&t, text, sizeof text), "[576]");
    t.n_dims = 0;
    assert_string_equal(tensor_shape_text(&t, text, sizeof text), "[]");
    t.n_dims = 4;
    t.dims[2] = t.dims[3] = UINT64_MAX;
    for (size_t size = 1; size <= sizeof text; size++)
        assert_int_equal(strlen(tensor_shape_text(&t, text, size)), size - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_match_the_format),
        cmocka_unit_test(test_types_not_read_have_names),
        cmocka_unit_test(test_row_bytes),
        cmocka_unit_test(test_shape_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
