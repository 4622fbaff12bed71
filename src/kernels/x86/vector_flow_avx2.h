/* What norms and activations share whatever the width of a vector: rows go into int8 blocks through
 * a chunk that stays in L1, in steps which vector_steps_avx2.h has; a file that includes others
 * (vector_steps_avx512.h) before this one takes those:
 *
 *     pair             vectors of two blocks
 *     load_pair        from x on, n values left; the second block is zero when n is one block
 *     max_magnitudes, inverses_and_scales, quantize_pair
 *     sum_squares      of x, which delta is added to before where there is one
 *     norm_rows        out = x * scale * weight
 *     sum_values       of x, which delta is added to before where there is one
 *     sum_deviations   of (x - mean)^2
 *     layernorm_rows   out = (x - mean) * scale * weight + bias
 */
#ifndef FIRSTLIGHT_KERNELS_X86_VECTOR_FLOW_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_VECTOR_FLOW_AVX2_H

#ifndef FIRSTLIGHT_KERNELS_X86_VECTOR_STEPS_AVX512_H
#include "kernels/x86/vector_steps_avx2.h"
#endif

#include <math.h>
#include <stdalign.h>

#define CHUNK 512

/* n <= CHUNK. All factors first: a block's is one long chain of dependent instructions. */
ALWAYS_INLINE void quantize_chunk(struct q8_rows *out, const float *x, size_t n)
{
    float factors[CHUNK / Q8_PAIR][4];
    pair v;
    for (size_t i = 0; i < n; i += Q8_PAIR) {
        load_pair(v, x + i, n - i);
        _mm_storeu_ps(factors[i / Q8_PAIR], inverses_and_scales(max_magnitudes(v)));
    }
    for (size_t i = 0; i < n; i += Q8_PAIR) {
        load_pair(v, x + i, n - i);
        quantize_pair(out, v, factors[i / Q8_PAIR], n - i >= Q8_PAIR);
    }
}

ALWAYS_INLINE void quantize_flow(struct q8_block *out, const float *x, size_t n)
{
    struct q8_rows row = q8_rows_start(out, n / Q8_VALUES, n / Q8_VALUES);
    for (size_t i = 0; i < n; i += CHUNK)
        quantize_chunk(&row, x + i, n - i < CHUNK ? n - i : CHUNK);
}

ALWAYS_INLINE void rmsnorm_flow(float *out, const float *x, const float *weight, size_t n,
                                float eps)
{
    float squares = sum_squares((float *)x, NULL, n); /* without a delta it writes nothing */
    norm_rows(out, x, weight, 1.0f / sqrtf(squares / (float)n + eps), n);
}

ALWAYS_INLINE void add_rmsnorm_q8_flow(struct q8_block *out, float *x, const float *delta,
                                       const float *weight, size_t n, float eps)
{
    struct q8_rows row = q8_rows_start(out, n / Q8_VALUES, n / Q8_VALUES);
    alignas(64) float normed[CHUNK];
    float squares = delta ? sum_squares(x, delta, n) : sum_squares(x, NULL, n);
    float scale = 1.0f / sqrtf(squares / (float)n + eps);
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t part = n - i < CHUNK ? n - i : CHUNK;
        norm_rows(normed, x + i, weight + i, scale, part);
        quantize_chunk(&row, normed, part);
    }
}

/* One over the standard deviation of x about its mean. */
ALWAYS_INLINE float layernorm_scale(const float *x, float mean, size_t n, float eps)
{
    return 1.0f / sqrtf(sum_deviations(x, mean, n) / (float)n + eps);
}

ALWAYS_INLINE void layernorm_flow(float *out, const float *x, const float *weight,
                                  const float *bias, size_t n, float eps)
{
    float mean = sum_values((float *)x, NULL, n) / (float)n; /* without a delta it writes nothing */
    layernorm_rows(out, x, mean, layernorm_scale(x, mean, n, eps), weight, bias, n);
}

ALWAYS_INLINE void add_layernorm_q8_flow(struct q8_block *out, float *x, const float *delta,
                                         const float *weight, const float *bias, size_t n,
                                         float eps)
{
    struct q8_rows row = q8_rows_start(out, n / Q8_VALUES, n / Q8_VALUES);
    alignas(64) float normed[CHUNK];
    float mean = (delta ? sum_values(x, delta, n) : sum_values(x, NULL, n)) / (float)n;
    float scale = layernorm_scale(x, mean, n, eps);
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t part = n - i < CHUNK ? n - i : CHUNK;
        layernorm_rows(normed, x + i, mean, scale, weight + i, bias + i, part);
        quantize_chunk(&row, normed, part);
    }
}

/* activate: the same level's, on n values. */
ALWAYS_INLINE void activate_q8_flow(const struct activate_q8_args *a,
                                    void (*activate)(float *out, const float *gate, const float *up,
                                                     size_t n))
{
    struct q8_rows rows = q8_rows_start(a->out, a->n / Q8_VALUES, a->out_stride);
    alignas(64) float hidden[CHUNK];
    size_t n = a->n_rows * a->n;
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t part = n - i < CHUNK ? n - i : CHUNK;
        activate(hidden, a->gate + i, a->up ? a->up + i : NULL, part);
        quantize_chunk(&rows, hidden, part);
    }
}

#endif
