/* The steps of vector_flow_avx2.h with sixteen floats to a vector. A tail is a mask; only a tail,
 * since loads wait for masked stores instead of taking their values over. */
#ifndef FIRSTLIGHT_KERNELS_X86_VECTOR_STEPS_AVX512_H
#define FIRSTLIGHT_KERNELS_X86_VECTOR_STEPS_AVX512_H

#include "kernels/variants.h"
#include "kernels/x86/vec_avx512.h"

#include <stdbool.h>

/* --- int8 blocks, two at a time ------------------------------------------------------------- */

/* Magnitudes are in the order of their bits, and NaN is above infinity: an integer maximum keeps
 * it, a float one would pass it over. */
ALWAYS_INLINE __m512i magnitude_bits(__m512 x)
{
    return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX));
}

/* The largest magnitude of x[0], x[1] in the lower half's lanes, of x[2], x[3] in the upper's. */
ALWAYS_INLINE __m512 max_magnitudes(const __m512 x[4])
{
    __m512i a = _mm512_max_epi32(magnitude_bits(x[0]), magnitude_bits(x[1]));
    __m512i b = _mm512_max_epi32(magnitude_bits(x[2]), magnitude_bits(x[3]));
    __m512i m =
        _mm512_max_epi32(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xee));
    m = _mm512_max_epi32(m, _mm512_shuffle_i32x4(m, m, 0xb1));
    m = _mm512_max_epi32(m, _mm512_shuffle_epi32(m, (_MM_PERM_ENUM)0x4e));
    return _mm512_castsi512_ps(_mm512_max_epi32(m, _mm512_shuffle_epi32(m, (_MM_PERM_ENUM)0xb1)));
}

/* {127 / a, 127 / b, a / 127, b / 127} in one division; 0 where the block counts as zero. */
ALWAYS_INLINE __m128 inverses_and_scales(__m512 max)
{
    __m128 all = _mm512_castps512_ps128(_mm512_set1_ps(127.0f));
    __m128 m = _mm_unpacklo_ps(_mm512_castps512_ps128(max), _mm512_extractf32x4_ps(max, 2));
    __m128 q = _mm_div_ps(_mm_blend_ps(m, all, 0x3), _mm_blend_ps(m, all, 0xc));
    return _mm_maskz_mov_ps(_mm_cmp_ps_mask(m, _mm_set1_ps(QUANTIZE_TINY), _CMP_NLT_UQ), q);
}

/* Four vectors of int32 to bytes, never -128 (which NaN would be). The packs work within 128-bit
 * lanes, so quadruples come out as those of x[0..3] in turn, and are put in order at the end. */
ALWAYS_INLINE __m512i pack_q8(const __m512i x[4])
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i bytes =
        _mm512_packs_epi16(_mm512_packs_epi32(x[0], x[1]), _mm512_packs_epi32(x[2], x[3]));
    bytes = _mm512_max_epi8(bytes, _mm512_set1_epi8(-127));
    return _mm512_permutexvar_epi32(order, bytes);
}

/* Of each block {first, total} as a word, from sums of 16 bytes as unsigned ones. */
ALWAYS_INLINE __m128i sum_words(__m512i bytes)
{
    const __m512i gather = _mm512_castsi128_si512(_mm_setr_epi32(0, 8, 4, 12));
    __m512i biased = _mm512_xor_si512(bytes, _mm512_set1_epi8(INT8_MIN));
    __m512i sums = _mm512_sad_epu8(biased, _mm512_setzero_si512());
    sums = _mm512_add_epi64(sums, _mm512_shuffle_epi32(sums, (_MM_PERM_ENUM)0x4e));
    __m128i first = _mm512_castsi512_si128(_mm512_permutexvar_epi32(gather, sums));
    first = _mm_sub_epi32(first, _mm_set1_epi32(16 * 128)); /* then the second halves' */
    __m128i total = _mm_add_epi32(first, _mm_shuffle_epi32(first, 0x4e));
    return _mm_blend_epi16(first, _mm_slli_epi32(total, 16), 0xaa);
}

typedef __m512 pair[4]; /* two blocks */

/* A pair of blocks from x on; the second is zero when n is one block. */
ALWAYS_INLINE void load_pair(__m512 v[4], const float *x, size_t n)
{
    bool both = n >= Q8_PAIR;
    v[0] = _mm512_loadu_ps(x);
    v[1] = _mm512_loadu_ps(x + 16);
    v[2] = both ? _mm512_loadu_ps(x + 32) : _mm512_setzero_ps();
    v[3] = both ? _mm512_loadu_ps(x + 48) : _mm512_setzero_ps();
}

ALWAYS_INLINE void quantize_pair(struct q8_rows *out, const __m512 x[4], const float factors[4],
                                 bool both)
{
    __m512 a = _mm512_set1_ps(factors[0]), b = _mm512_set1_ps(factors[1]);
    const __m512i q[4] = {
        _mm512_cvtps_epi32(_mm512_mul_ps(x[0], a)), _mm512_cvtps_epi32(_mm512_mul_ps(x[1], a)),
        _mm512_cvtps_epi32(_mm512_mul_ps(x[2], b)), _mm512_cvtps_epi32(_mm512_mul_ps(x[3], b))};
    __m512i bytes = pack_q8(q);
    __m128i scales = _mm_loadl_epi64((const __m128i *)(factors + 2));
    __m128i heads = _mm_unpacklo_epi32(scales, sum_words(bytes)); /* scale, sums, scale, sums */
    put_block(q8_rows_next(out), heads, _mm512_castsi512_si256(bytes));
    if (both)
        put_block(q8_rows_next(out), _mm_unpackhi_epi64(heads, heads),
                  _mm512_extracti64x4_epi64(bytes, 1));
}

/* --- rmsnorm -------------------------------------------------------------------------------- */

/* The first lanes of x, which delta is added to before where there is one. */
ALWAYS_INLINE __m512 residual16(float *x, const float *delta, size_t lanes)
{
    if (!delta)
        return load16(x, lanes);
    __m512 v = _mm512_add_ps(load16(x, lanes), load16(delta, lanes));
    store16(x, v, lanes);
    return v;
}

ALWAYS_INLINE float sum_all(const __m512 acc[4])
{
    __m512 sum = _mm512_add_ps(_mm512_add_ps(acc[0], acc[1]), _mm512_add_ps(acc[2], acc[3]));
    return sum8(_mm256_add_ps(_mm512_castps512_ps256(sum), _mm512_extractf32x8_ps(sum, 1)));
}

ALWAYS_INLINE __m512 add_value(__m512 acc, __m512 v)
{
    return _mm512_add_ps(acc, v);
}

ALWAYS_INLINE __m512 add_square(__m512 acc, __m512 v)
{
    return _mm512_fmadd_ps(v, v, acc);
}

/* Four accumulators take sixteens in turn, the rest goes to the first. */
ALWAYS_INLINE float fold(float *x, const float *delta, size_t n, __m512 (*add)(__m512, __m512))
{
    __m512 acc[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                     _mm512_setzero_ps()};
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++) {
            size_t at = i + 16 * j;
            acc[j] = add(acc[j], residual16(x + at, delta ? delta + at : NULL, 16));
        }
    }
    for (; i < n; i += 16)
        acc[0] = add(acc[0], residual16(x + i, delta ? delta + i : NULL, n - i));
    return sum_all(acc);
}

ALWAYS_INLINE float sum_squares(float *x, const float *delta, size_t n)
{
    return fold(x, delta, n, add_square);
}

ALWAYS_INLINE void norm_rows(float *out, const float *x, const float *weight, float scale, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        __m512 v = _mm512_mul_ps(load16(x + i, n - i), _mm512_set1_ps(scale));
        store16(out + i, _mm512_mul_ps(v, load16(weight + i, n - i)), n - i);
    }
}

/* --- layernorm ------------------------------------------------------------------------------ */

ALWAYS_INLINE float sum_values(float *x, const float *delta, size_t n)
{
    return fold(x, delta, n, add_value);
}

/* What lies behind the tail is no deviation. */
ALWAYS_INLINE __m512 deviation16(const float *x, __m512 mean, size_t lanes)
{
    if (lanes >= 16)
        return _mm512_sub_ps(_mm512_loadu_ps(x), mean);
    return _mm512_maskz_sub_ps(mask16(lanes), load16(x, lanes), mean);
}

ALWAYS_INLINE float sum_deviations(const float *x, float mean, size_t n)
{
    __m512 m = _mm512_set1_ps(mean);
    __m512 acc[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                     _mm512_setzero_ps()};
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++)
            acc[j] = add_square(acc[j], deviation16(x + i + 16 * j, m, 16));
    }
    for (; i < n; i += 16)
        acc[0] = add_square(acc[0], deviation16(x + i, m, n - i));
    return sum_all(acc);
}

ALWAYS_INLINE void layernorm_rows(float *out, const float *x, float mean, float scale,
                                  const float *weight, const float *bias, size_t n)
{
    __m512 m = _mm512_set1_ps(mean), s = _mm512_set1_ps(scale);
    for (size_t i = 0; i < n; i += 16) {
        __m512 v = _mm512_mul_ps(_mm512_sub_ps(load16(x + i, n - i), m), s);
        v = _mm512_fmadd_ps(v, load16(weight + i, n - i), load16(bias + i, n - i));
        store16(out + i, v, n - i);
    }
}

#endif
