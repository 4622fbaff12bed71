/* Quantising: the blocks of the gguf package, bit for bit (tools/golden_quantize.py). */
#include "support/cmocka_all.h"

#include "kernels/kernels.h"
#include "model/quantize.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096

struct golden {
    uint32_t n;
    float x[MOST];
    unsigned char bytes[4 * MOST];
    size_t size;
};

static void read_golden(struct golden *g, enum tensor_type type)
{
    char path[128];
    snprintf(path, sizeof path, "tests/golden/quantize/%s.bin", tensor_type_name(type));
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(&g->n, sizeof g->n, 1, f), 1);
    assert_true(g->n <= MOST);
    assert_int_equal(fread(g->x, sizeof *g->x, g->n, f), g->n);
    g->size = fread(g->bytes, 1, sizeof g->bytes, f);
    fclose(f);
}

static void blocks_equal_the_gguf_package(void **state)
{
    (void)state;
    static const enum tensor_type types[] = {TENSOR_Q4_0, TENSOR_Q8_0, TENSOR_F16, TENSOR_BF16,
                                             TENSOR_F32};
    struct golden *g = malloc(sizeof *g);
    assert_non_null(g);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        read_golden(g, types[i]);
        assert_int_equal(g->size, tensor_row_bytes(types[i], g->n));
        unsigned char *out = malloc(g->size + 1);
        assert_non_null(out);
        out[g->size] = 0xa5;
        assert_true(quantize_has(types[i]));
        assert_true(quantize_row(types[i], out, g->x, g->n));
        for (size_t k = 0; k < g->size; k++)
            if (out[k] != g->bytes[k])
                fail_msg("%s: byte %zu: expected %02x, found %02x", tensor_type_name(types[i]), k,
                         g->bytes[k], out[k]);
        assert_int_equal(out[g->size], 0xa5);
        free(out);
    }
    free(g);
}

/* Values that a type cannot hold are refused, those that are all but zero become zero. */
static void extreme_values(void **state)
{
    (void)state;
    unsigned char out[4 * 32];
    float x[32] = {0};
    for (int type = 0; type < TENSOR_TYPES; type++) {
        if (!quantize_has((enum tensor_type)type))
            continue;
        const float refused[] = {NAN, INFINITY, -INFINITY};
        for (size_t i = 0; i < 3; i++) {
            x[31] = refused[i];
            assert_false(quantize_row((enum tensor_type)type, out, x, 32));
        }
        x[31] = 1e-44f;
        assert_true(quantize_row((enum tensor_type)type, out, x, 32));
    }
    x[31] = 1e30f;
    assert_true(quantize_row(TENSOR_BF16, out, x, 32));
    assert_false(quantize_row(TENSOR_F16, out, x, 32));
    assert_false(quantize_row(TENSOR_Q8_0, out, x, 32));
    assert_false(quantize_row(TENSOR_Q4_0, out, x, 32));
    x[31] = 65504;
    assert_true(quantize_row(TENSOR_F16, out, x, 32));
    assert_true(quantize_row(TENSOR_Q4_0, out, x, 32));
    assert_false(quantize_has(TENSOR_Q6_K));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_equal_the_gguf_package),
        cmocka_unit_test(extreme_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
