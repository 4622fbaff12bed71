/* The steps of vector_flow_avx2.h with eight floats to a vector. */
#ifndef FIRSTLIGHT_KERNELS_X86_VECTOR_STEPS_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_VECTOR_STEPS_AVX2_H

#include "kernels/variants.h"
#include "kernels/x86/vec_avx2.h"

#include <math.h>
#include <stdbool.h>

/* --- int8 blocks, two at a time ------------------------------------------------------------- */

/* Magnitudes are in the order of their bits, and NaN is above infinity: an integer maximum keeps
 * it, a float one would pass it over. */
ALWAYS_INLINE __m256i max_bits(const __m256 x[4])
{
    __m256i most = _mm256_setzero_si256(), sign = _mm256_set1_epi32(INT32_MAX);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(x[i]), sign));
    return most;
}

/* The largest magnitude of x[0 .. 3] in the lower half's lanes, of x[4 .. 7] in the upper's. */
ALWAYS_INLINE __m256 max_magnitudes(const __m256 x[8])
{
    __m256i a = max_bits(x), b = max_bits(x + 4);
    __m256i m = _mm256_max_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                 _mm256_permute2x128_si256(a, b, 0x31));
    m = _mm256_max_epi32(m, _mm256_shuffle_epi32(m, 0x4e));
    return _mm256_castsi256_ps(_mm256_max_epi32(m, _mm256_shuffle_epi32(m, 0xb1)));
}

/* {127 / a, 127 / b, a / 127, b / 127} in one division; 0 where the block counts as zero. */
ALWAYS_INLINE __m128 inverses_and_scales(__m256 max)
{
    __m128 all = _mm_set1_ps(127.0f);
    __m128 m = _mm_unpacklo_ps(_mm256_castps256_ps128(max), _mm256_extractf128_ps(max, 1));
    __m128 q = _mm_div_ps(_mm_blend_ps(m, all, 0x3), _mm_blend_ps(m, all, 0xc));
    return _mm_and_ps(q, _mm_cmp_ps(m, _mm_set1_ps(QUANTIZE_TINY), _CMP_NLT_UQ));
}

/* 32 floats to bytes, ties to even, never -128 (which NaN would be). The packs work within 128-bit
 * halves, so quadruples come out as 0 2 4 6 1 3 5 7 and are put in order at the end. */
ALWAYS_INLINE __m256i round_q8(const __m256 x[4], __m256 inverse)
{
    __m256i a = _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(x[0], inverse)),
                                   _mm256_cvtps_epi32(_mm256_mul_ps(x[1], inverse)));
    __m256i b = _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(x[2], inverse)),
                                   _mm256_cvtps_epi32(_mm256_mul_ps(x[3], inverse)));
    __m256i bytes = _mm256_max_epi8(_mm256_packs_epi16(a, b), _mm256_set1_epi8(-127));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Sums of 16 bytes and 16 bytes, as 16 lower bits of two 64-bit lanes; each 2048 too many. */
ALWAYS_INLINE __m128i sum_halves(__m256i bytes)
{
    __m256i biased = _mm256_xor_si256(bytes, _mm256_set1_epi8(INT8_MIN));
    __m256i sums = _mm256_sad_epu8(biased, _mm256_setzero_si256());
    __m128i first = _mm256_castsi256_si128(sums), second = _mm256_extracti128_si256(sums, 1);
    return _mm_add_epi64(_mm_unpacklo_epi64(first, second), _mm_unpackhi_epi64(first, second));
}

/* {first a, first b, second a, second b} to {first, total} of both blocks, each a word. */
ALWAYS_INLINE __m128i sum_words(__m256i a, __m256i b)
{
    __m128 halves = _mm_shuffle_ps(_mm_castsi128_ps(sum_halves(a)), _mm_castsi128_ps(sum_halves(b)),
                                   _MM_SHUFFLE(2, 0, 2, 0)); /* first, second; of a, of b */
    __m128i first = _mm_shuffle_epi32(_mm_castps_si128(halves), _MM_SHUFFLE(3, 1, 2, 0));
    first = _mm_sub_epi32(first, _mm_set1_epi32(16 * 128));
    __m128i total = _mm_add_epi32(first, _mm_shuffle_epi32(first, 0x4e));
    return _mm_blend_epi16(first, _mm_slli_epi32(total, 16), 0xaa);
}

typedef __m256 pair[8]; /* two blocks */

/* A pair of blocks from x on; the second is zero when n is one block. */
ALWAYS_INLINE void load_pair(__m256 v[8], const float *x, size_t n)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++)
        v[i] = i < 4 || n >= Q8_PAIR ? _mm256_loadu_ps(x + 8 * i) : _mm256_setzero_ps();
}

ALWAYS_INLINE void quantize_pair(struct q8_rows *out, const __m256 x[8], const float factors[4],
                                 bool both)
{
    __m256i a = round_q8(x, _mm256_set1_ps(factors[0]));
    __m256i b = round_q8(x + 4, _mm256_set1_ps(factors[1]));
    __m128i scales = _mm_loadl_epi64((const __m128i *)(factors + 2));
    __m128i heads = _mm_unpacklo_epi32(scales, sum_words(a, b)); /* scale, sums, scale, sums */
    put_block(q8_rows_next(out), heads, a);
    if (both)
        put_block(q8_rows_next(out), _mm_unpackhi_epi64(heads, heads), b);
}

/* --- rmsnorm -------------------------------------------------------------------------------- */

/* x, which delta is added to before where there is one. */
ALWAYS_INLINE __m256 residual8(float *x, const float *delta)
{
    __m256 v = _mm256_loadu_ps(x);
    if (delta) {
        v = _mm256_add_ps(v, _mm256_loadu_ps(delta));
        _mm256_storeu_ps(x, v);
    }
    return v;
}

ALWAYS_INLINE float sum_all(const __m256 acc[4])
{
    return sum8(_mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3])));
}

ALWAYS_INLINE __m256 add_value(__m256 acc, __m256 v)
{
    return _mm256_add_ps(acc, v);
}

ALWAYS_INLINE __m256 add_square(__m256 acc, __m256 v)
{
    return _mm256_fmadd_ps(v, v, acc);
}

/* Four accumulators take eights in turn, the rest goes to the first. With a delta n is a multiple
 * of 8. */
ALWAYS_INLINE float fold(float *x, const float *delta, size_t n, __m256 (*add)(__m256, __m256))
{
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++) {
            size_t at = i + 8 * j;
            acc[j] = add(acc[j], residual8(x + at, delta ? delta + at : NULL));
        }
    }
    for (; i < n; i += 8) {
        bool whole = n - i >= 8;
        acc[0] = add(acc[0],
                     whole ? residual8(x + i, delta ? delta + i : NULL) : load_tail(x + i, n - i));
    }
    return sum_all(acc);
}

ALWAYS_INLINE float sum_squares(float *x, const float *delta, size_t n)
{
    return fold(x, delta, n, add_square);
}

ALWAYS_INLINE void norm_rows(float *out, const float *x, const float *weight, float scale, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(scale));
        _mm256_storeu_ps(out + i, _mm256_mul_ps(v, _mm256_loadu_ps(weight + i)));
    }
    for (; i < n; i++)
        out[i] = x[i] * scale * weight[i];
}

/* --- layernorm ------------------------------------------------------------------------------ */

ALWAYS_INLINE float sum_values(float *x, const float *delta, size_t n)
{
    return fold(x, delta, n, add_value);
}

ALWAYS_INLINE float sum_deviations(const float *x, float mean, size_t n)
{
    __m256 m = _mm256_set1_ps(mean);
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++)
            acc[j] = add_square(acc[j], _mm256_sub_ps(_mm256_loadu_ps(x + i + 8 * j), m));
    }
    for (; i + 8 <= n; i += 8)
        acc[0] = add_square(acc[0], _mm256_sub_ps(_mm256_loadu_ps(x + i), m));
    float rest = 0.0f;
    for (; i < n; i++)
        rest = fmaf(x[i] - mean, x[i] - mean, rest);
    return rest + sum_all(acc);
}

ALWAYS_INLINE void layernorm_rows(float *out, const float *x, float mean, float scale,
                                  const float *weight, const float *bias, size_t n)
{
    __m256 m = _mm256_set1_ps(mean), s = _mm256_set1_ps(scale);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x + i), m), s);
        _mm256_storeu_ps(
            out + i, _mm256_fmadd_ps(v, _mm256_loadu_ps(weight + i), _mm256_loadu_ps(bias + i)));
    }
    for (; i < n; i++)
        out[i] = fmaf((x[i] - mean) * scale, weight[i], bias[i]);
}

#endif
