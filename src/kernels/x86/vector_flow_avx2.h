/* What norms and SwiGLU share whatever the width of a vector: rows go into int8 blocks through a
 * chunk that stays in L1, in steps which vector_steps_avx2.h has, and a file that defines
 * VECTOR_OWN_STEPS its own:
 *
 *     pair             vectors of two blocks
 *     load_pair        from x on, n values left; the second block is zero when n is one block
 *     max_magnitudes, inverses_and_scales, quantize_pair
 *     sum_squares      of x, which delta is added to before where there is one
 *     norm_rows        out = x * scale * weight
 */
#ifndef FIRSTLIGHT_KERNELS_X86_VECTOR_FLOW_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_VECTOR_FLOW_AVX2_H

#ifdef VECTOR_OWN_STEPS
#include "kernels/x86/vec_avx2.h"
#else
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

/* swiglu: the same level's, on n values. */
ALWAYS_INLINE void swiglu_q8_flow(const struct swiglu_q8_args *a,
                                  void (*swiglu)(float *out, const float *gate, const float *up,
                                                 size_t n))
{
    struct q8_rows rows = q8_rows_start(a->out, a->n / Q8_VALUES, a->out_stride);
    alignas(64) float hidden[CHUNK];
    size_t n = a->n_rows * a->n;
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t part = n - i < CHUNK ? n - i : CHUNK;
        swiglu(hidden, a->gate + i, a->up + i, part);
        quantize_chunk(&rows, hidden, part);
    }
}

#endif
