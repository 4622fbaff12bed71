/* Rows of every weight type to floats. The 16-bit types have their instructions; the quantised ones
 * are the reference's loops, which the compiler vectorises well enough here: they run once per row
 * of a product with float activations. The values are the reference's, to the bit. */
#include "kernels/quant_group.h"
#include "kernels/variants.h"
#include "kernels/x86/vec_avx2.h"

void dequantize_f32_avx2(float *out, const void *row, size_t n)
{
    memcpy(out, row, n * sizeof *out);
}

void dequantize_f16_avx2(float *out, const void *row, size_t n)
{
    const uint8_t *bytes = row;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, half_to_float8(bytes + 2 * i));
    for (; i < n; i++)
        out[i] = half_to_float((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8));
}

void dequantize_bf16_avx2(float *out, const void *row, size_t n)
{
    const uint8_t *bytes = row;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i half = _mm_loadu_si128((const __m128i *)(bytes + 2 * i));
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
        _mm256_storeu_ps(out + i, _mm256_castsi256_ps(bits));
    }
    for (; i < n; i++)
        out[i] = bf16_to_float((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8));
}

#define X(type, name)                                                                              \
    void dequantize_##name##_avx2(float *out, const void *row, size_t n)                           \
    {                                                                                              \
        struct quant_group g;                                                                      \
        for (size_t i = 0; i < n / GROUP_VALUES; i++) {                                            \
            group_##name(&g, row, i);                                                              \
            group_to_float(out + GROUP_VALUES * i, &g);                                            \
        }                                                                                          \
    }
QUANT_TYPE_MAP(X)
#undef X

void dequantize_avx2_fill(struct kernels *k)
{
#define X(type, name) k->dequantize[TENSOR_##type] = dequantize_##name##_avx2;
    FLOAT_TYPE_MAP(X)
    QUANT_TYPE_MAP(X)
#undef X
}
