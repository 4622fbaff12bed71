/* Helpers over eight floats: tails, sums in a fixed order, exp. Needs AVX2 and FMA. */
#ifndef FIRSTLIGHT_KERNELS_X86_VEC_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_VEC_AVX2_H

#include "kernels/kernels.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Where the blocks go, one after the other: `row_blocks` of a row, then the next row's. */
struct q8_rows {
    struct q8_block *at;
    size_t left; /* in this row */
    size_t row_blocks;
    size_t gap; /* blocks from a row's end to the next one's start */
};

static inline struct q8_block *q8_rows_next(struct q8_rows *r)
{
    struct q8_block *block = r->at++;
    if (--r->left == 0) {
        r->at += r->gap;
        r->left = r->row_blocks;
    }
    return block;
}

static inline struct q8_rows q8_rows_start(struct q8_block *out, size_t row_blocks, size_t stride)
{
    return (struct q8_rows){out, row_blocks, row_blocks, stride - row_blocks};
}

#define Q8_PAIR (2 * Q8_VALUES) /* values of the blocks that are quantised together */

/* head: {scale, sums} in its lower half; q: the block's bytes */
ALWAYS_INLINE void put_block(struct q8_block *out, __m128i head, __m256i q)
{
    _mm_storel_epi64((__m128i *)out, head);
    _mm256_storeu_si256((__m256i *)out->q, q);
}

/* n < 8 floats; the other lanes are zero. */
ALWAYS_INLINE __m256 load_tail(const float *x, size_t n)
{
    float lanes[8] = {0};
    memcpy(lanes, x, n * sizeof *x);
    return _mm256_loadu_ps(lanes);
}

ALWAYS_INLINE void store_tail(float *out, __m256 v, size_t n)
{
    float lanes[8];
    _mm256_storeu_ps(lanes, v);
    memcpy(out, lanes, n * sizeof *out);
}

ALWAYS_INLINE __m256 half_to_float8(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

ALWAYS_INLINE float sum8(__m256 v)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

ALWAYS_INLINE float max8(__m256 v)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* exp(x) within 1 ulp; below -87.33 (where results would be subnormal) 0, above 88.37 about 2.4e38,
 * NaN for NaN. x = n ln2 + r with |r| <= ln2 / 2; ln2 in two parts so that r is exact enough; e^r
 * by the polynomial of Cephes' expf (Moshier, netlib.org/cephes); 2^n added to the exponent. */
ALWAYS_INLINE __m256 exp8(__m256 x)
{
    const __m256 low = _mm256_set1_ps(-87.33654f), high = _mm256_set1_ps(88.37626f);
    __m256 c = _mm256_min_ps(high, _mm256_max_ps(low, x)); /* in this order NaN passes */
    __m256 n = _mm256_round_ps(_mm256_mul_ps(c, _mm256_set1_ps(1.44269504f)),
                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375f), c);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4f), r);
    __m256 p = _mm256_set1_ps(1.9875691500e-4f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
    p = _mm256_add_ps(_mm256_fmadd_ps(_mm256_mul_ps(r, r), p, r), _mm256_set1_ps(1.0f));
    __m256i power = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    __m256 y = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), power));
    return _mm256_andnot_ps(_mm256_cmp_ps(x, low, _CMP_LT_OQ), y);
}

#endif
