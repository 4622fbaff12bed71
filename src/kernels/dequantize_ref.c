/* References: rows of every weight type to floats. */
#include "kernels/quant_group.h"
#include "kernels/variants.h"

void dequantize_f32_ref(float *out, const void *row, size_t n)
{
    memcpy(out, row, n * sizeof *out);
}

void dequantize_f16_ref(float *out, const void *row, size_t n)
{
    const uint8_t *bytes = row;
    for (size_t i = 0; i < n; i++)
        out[i] = half_to_float((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8));
}

void dequantize_bf16_ref(float *out, const void *row, size_t n)
{
    const uint8_t *bytes = row;
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_to_float((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8));
}

/* d times an integer scale is exact. */
static void group_to_float(float *out, const struct quant_group *g)
{
    for (int i = 0; i < GROUP_VALUES; i++)
        out[i] = g->s.d * (float)g->s.scale[i / 16] * (float)g->q[i] + g->s.m[i / 16];
}

#define X(type, name, groups)                                                                      \
    void dequantize_##name##_ref(float *out, const void *row, size_t n)                            \
    {                                                                                              \
        struct quant_group g;                                                                      \
        for (size_t i = 0; i < n / GROUP_VALUES; i++) {                                            \
            group_##name(&g, row, i);                                                              \
            group_to_float(out + GROUP_VALUES * i, &g);                                            \
        }                                                                                          \
    }
QUANT_TYPE_MAP(X)
#undef X

void dequantize_ref_fill(struct kernels *k)
{
#define X(type, name, groups) k->dequantize[TENSOR_##type] = dequantize_##name##_ref;
    FLOAT_TYPE_MAP(X)
    QUANT_TYPE_MAP(X)
#undef X
}
