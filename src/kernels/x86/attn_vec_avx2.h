/* Eight floats, for attention: the operations that attn_flow_avx2.h and attn_forms_avx2.h name v_*.
 */
#ifndef FIRSTLIGHT_KERNELS_X86_ATTN_VEC_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_ATTN_VEC_AVX2_H

#include "kernels/x86/vec_avx2.h"

#include <math.h>

typedef __m256 vec;
#define LANES 8

/* 12 of 16 registers hold sums: 6 queries of two vectors; or 2 of four, which are 8. */
#define MAX_QUERIES          6
#define WIDE_QUERIES         2
#define TILE_SIZES           6, 4, 3, 2, 1
#define EACH_TILE_SIZE(CASE) CASE(6) CASE(4) CASE(3) CASE(2) CASE(1)

/* gcc 12 re-associates sums and spills them; this keeps them where they are. */
#define KEEP(x) __asm__("" : "+x"(x))

ALWAYS_INLINE vec v_zero(void)
{
    return _mm256_setzero_ps();
}

ALWAYS_INLINE vec v_set1(float x)
{
    return _mm256_set1_ps(x);
}

ALWAYS_INLINE float v_first(vec x)
{
    return _mm256_cvtss_f32(x);
}

ALWAYS_INLINE vec v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

ALWAYS_INLINE void v_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}

/* All bits of the first n lanes; n may be negative. */
ALWAYS_INLINE __m256i lanes_below(int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* n <= LANES floats; the other lanes are zero. */
ALWAYS_INLINE vec v_load_some(const float *p, size_t n)
{
    return n == LANES ? v_load(p) : _mm256_maskload_ps(p, lanes_below((int)n));
}

ALWAYS_INLINE void v_store_some(float *p, vec x, size_t n)
{
    if (n == LANES)
        v_store(p, x);
    else
        _mm256_maskstore_ps(p, lanes_below((int)n), x);
}

ALWAYS_INLINE vec v_f16(const char *p)
{
    return half_to_float8(p);
}

/* Of pairs of bfloat16, the first and the second ones. */
ALWAYS_INLINE vec v_bf16_first(const char *p)
{
    __m256i pairs = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

ALWAYS_INLINE vec v_bf16_second(const char *p)
{
    __m256i pairs = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(pairs, 16), 16));
}

/* Of each four bytes the one `at`, a constant. */
ALWAYS_INLINE vec v_int8(const char *p, size_t at)
{
    __m256i fours = _mm256_loadu_si256((const __m256i *)(const void *)p);
    fours = _mm256_slli_epi32(fours, (int)(24 - 8 * at));
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(fours, 24));
}

ALWAYS_INLINE vec v_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

ALWAYS_INLINE vec v_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

ALWAYS_INLINE vec v_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

/* a * b + c */
ALWAYS_INLINE vec v_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

ALWAYS_INLINE vec v_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}

ALWAYS_INLINE float v_max_of(vec x)
{
    return max8(x);
}

ALWAYS_INLINE float v_sum_of(vec x)
{
    return sum8(x);
}

/* The first n lanes (none when negative), the others -infinity. */
ALWAYS_INLINE vec v_below(vec x, int n)
{
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), x, _mm256_castsi256_ps(lanes_below(n)));
}

/* All but the first n lanes (none are left out when negative), those -infinity. */
ALWAYS_INLINE vec v_from(vec x, int n)
{
    return _mm256_blendv_ps(x, _mm256_set1_ps(-INFINITY), _mm256_castsi256_ps(lanes_below(n)));
}

/* exp(x) for x <= 0; exp(-infinity) is 0, exp(0) is 1. */
ALWAYS_INLINE vec v_exp(vec x)
{
    return exp8(x);
}

#endif
