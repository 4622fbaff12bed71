/* Sixteen floats, for attention: the operations that attn_flow_avx2.h and attn_forms_avx2.h name
 * v_*. */
#ifndef FIRSTLIGHT_KERNELS_X86_ATTN_VEC_AVX512_H
#define FIRSTLIGHT_KERNELS_X86_ATTN_VEC_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef __m512 vec;
#define LANES 16

/* 24 of 32 registers hold sums: 12 queries of two vectors, or 6 of four. */
#define MAX_QUERIES          12
#define WIDE_QUERIES         6
#define TILE_SIZES           12, 8, 4, 3, 2, 1
#define EACH_TILE_SIZE(CASE) CASE(12) CASE(8) CASE(4) CASE(3) CASE(2) CASE(1)

/* gcc 12 re-associates sums and spills them; this keeps them where they are. */
#define KEEP(x) __asm__("" : "+v"(x))

ALWAYS_INLINE __mmask16 lanes_below(size_t n)
{
    return (__mmask16)((1u << n) - 1);
}

ALWAYS_INLINE vec v_zero(void)
{
    return _mm512_setzero_ps();
}

ALWAYS_INLINE vec v_set1(float x)
{
    return _mm512_set1_ps(x);
}

ALWAYS_INLINE float v_first(vec x)
{
    return _mm512_cvtss_f32(x);
}

ALWAYS_INLINE vec v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

ALWAYS_INLINE void v_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}

/* n <= LANES floats; the other lanes are zero. */
ALWAYS_INLINE vec v_load_some(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(lanes_below(n), p);
}

ALWAYS_INLINE void v_store_some(float *p, vec x, size_t n)
{
    _mm512_mask_storeu_ps(p, lanes_below(n), x);
}

ALWAYS_INLINE vec v_f16(const char *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* Of pairs of bfloat16, the first and the second ones. */
ALWAYS_INLINE vec v_bf16_first(const char *p)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}

ALWAYS_INLINE vec v_bf16_second(const char *p)
{
    __m512i high = _mm512_set1_epi32((int)0xffff0000u);
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_loadu_si512(p), high));
}

/* Of each four bytes the one `at`, a constant. */
ALWAYS_INLINE vec v_int8(const char *p, size_t at)
{
    __m512i fours = _mm512_slli_epi32(_mm512_loadu_si512(p), (unsigned)(24 - 8 * at));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(fours, 24));
}

ALWAYS_INLINE vec v_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

ALWAYS_INLINE vec v_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

ALWAYS_INLINE vec v_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

/* a * b + c */
ALWAYS_INLINE vec v_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

ALWAYS_INLINE vec v_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

ALWAYS_INLINE float v_max_of(vec x)
{
    return _mm512_reduce_max_ps(x);
}

ALWAYS_INLINE float v_sum_of(vec x)
{
    return _mm512_reduce_add_ps(x);
}

ALWAYS_INLINE __mmask16 lanes_before(int n)
{
    return lanes_below(n <= 0 ? 0 : n < LANES ? (size_t)n : LANES);
}

/* The first n lanes (none when negative), the others -infinity. */
ALWAYS_INLINE vec v_below(vec x, int n)
{
    return _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), lanes_before(n), x);
}

/* All but the first n lanes (none are left out when negative), those -infinity. */
ALWAYS_INLINE vec v_from(vec x, int n)
{
    return _mm512_mask_mov_ps(x, lanes_before(n), _mm512_set1_ps(-INFINITY));
}

/* exp(x) for x <= 0, -infinity included, within 2 ulp and |x| 2^-24 of rounding x log2(e) = n + f,
 * |f| <= 1/2; 2^f by a polynomial fitted to the least relative error (1e-7) with 2^0 = 1. */
ALWAYS_INLINE vec v_exp(vec x)
{
    vec t = _mm512_mul_ps(x, _mm512_set1_ps(1.44269504f));
    vec f = _mm512_reduce_ps(t, _MM_FROUND_TO_NEAREST_INT);
    vec p = _mm512_set1_ps(1.32647203e-3f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.67151392e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.55073395e-2f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.40222424e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.93147004e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, _mm512_sub_ps(t, f));
}

#endif
