/* Weights as floats times float activations with AVX2: one row against up to four tokens.
 *
 * A pair has two accumulators of eight lanes: values 16i .. 16i + 7 and 16i + 8 .. 16i + 15, then a
 * tail of whole eights and of single values in the first. The order is the same in every tile.
 */
#include "kernels/variants.h"
#include "kernels/x86/vec_avx2.h"

#define TILE_TOKENS 4

typedef void dequantize_fn(float *out, const void *row, size_t n);

ALWAYS_INLINE void dot_tokens(float *out[TILE_TOKENS], const float *w,
                              const float *const x[TILE_TOKENS], size_t k, int tokens)
{
    __m256 acc[TILE_TOKENS][2];
    size_t i = 0;
    for (int t = 0; t < tokens; t++)
        acc[t][0] = acc[t][1] = _mm256_setzero_ps();
    for (; i + 16 <= k; i += 16) {
        __m256 w0 = _mm256_loadu_ps(w + i), w1 = _mm256_loadu_ps(w + i + 8);
        for (int t = 0; t < tokens; t++) {
            acc[t][0] = _mm256_fmadd_ps(w0, _mm256_loadu_ps(x[t] + i), acc[t][0]);
            acc[t][1] = _mm256_fmadd_ps(w1, _mm256_loadu_ps(x[t] + i + 8), acc[t][1]);
        }
    }
    for (; i + 8 <= k; i += 8)
        for (int t = 0; t < tokens; t++)
            acc[t][0] =
                _mm256_fmadd_ps(_mm256_loadu_ps(w + i), _mm256_loadu_ps(x[t] + i), acc[t][0]);
    if (i < k)
        for (int t = 0; t < tokens; t++)
            acc[t][0] =
                _mm256_fmadd_ps(load_tail(w + i, k - i), load_tail(x[t] + i, k - i), acc[t][0]);
    for (int t = 0; t < tokens; t++)
        *out[t] = sum8(_mm256_add_ps(acc[t][0], acc[t][1]));
}

/* One row, in floats, against all tokens; its results go to column r. */
static void matmul_row_f32_avx2(const struct matmul_f32_args *a, const float *w, size_t r)
{
    for (size_t t = 0; t < a->n_tokens; t += TILE_TOKENS) {
        size_t n = a->n_tokens - t < TILE_TOKENS ? a->n_tokens - t : TILE_TOKENS;
        const float *x[TILE_TOKENS];
        float *out[TILE_TOKENS];
        for (size_t i = 0; i < n; i++) {
            x[i] = a->x + (t + i) * a->x_stride;
            out[i] = a->out + (t + i) * a->out_stride + r;
        }
        if (n == 4)
            dot_tokens(out, w, x, a->k, 4);
        else if (n == 3)
            dot_tokens(out, w, x, a->k, 3);
        else if (n == 2)
            dot_tokens(out, w, x, a->k, 2);
        else
            dot_tokens(out, w, x, a->k, 1);
    }
}

static void matmul_f32(const struct matmul_f32_args *a, dequantize_fn *dequantize)
{
    for (size_t r = 0; r < a->n_rows; r++) {
        dequantize(a->scratch, (const char *)a->w + r * a->w_row_bytes, a->k);
        matmul_row_f32_avx2(a, a->scratch, r);
    }
}

#define X(type, name, groups)                                                                      \
    static void matmul_f32_##name##_avx2(const struct matmul_f32_args *a)                          \
    {                                                                                              \
        matmul_f32(a, dequantize_##name##_avx2);                                                   \
    }
FLOAT_TYPE_MAP(X)
QUANT_TYPE_MAP(X)
#undef X

void matmul_f32_avx2_fill(struct kernels *k)
{
#define X(type, name, groups) k->matmul_f32[TENSOR_##type] = matmul_f32_##name##_avx2;
    FLOAT_TYPE_MAP(X)
    QUANT_TYPE_MAP(X)
#undef X
}
