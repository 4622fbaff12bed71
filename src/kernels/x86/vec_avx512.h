/* Helpers over sixteen floats: tails as masks, exp. Needs AVX-512 F. */
#ifndef FIRSTLIGHT_KERNELS_X86_VEC_AVX512_H
#define FIRSTLIGHT_KERNELS_X86_VEC_AVX512_H

#include "kernels/x86/vec_avx2.h"

ALWAYS_INLINE __mmask16 mask16(size_t n) /* n < 16 */
{
    return (__mmask16)((1u << n) - 1);
}

/* The first n floats, all sixteen from 16 on; other lanes are zero. */
ALWAYS_INLINE __m512 load16(const float *x, size_t n)
{
    return n >= 16 ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(mask16(n), x);
}

ALWAYS_INLINE void store16(float *out, __m512 v, size_t n)
{
    if (n >= 16)
        _mm512_storeu_ps(out, v);
    else
        _mm512_mask_storeu_ps(out, mask16(n), v);
}

/* Four bytes from p on, in every lane. */
ALWAYS_INLINE __m512i broadcast_word(const void *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm512_set1_epi32(word);
}

/* exp(x) within 1 ulp for x in [-105, 90]; NaN for NaN. The same parts and polynomial as exp8's;
 * the power of two is applied by vscalefps, which rounds to subnormals and overflows. */
ALWAYS_INLINE __m512 exp16_in_range(__m512 x)
{
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)),
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
    p = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), p, r), _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

/* Of any x: 0 below -104, infinity above 88.73. */
ALWAYS_INLINE __m512 exp16(__m512 x)
{
    __m512 c = _mm512_max_ps(_mm512_set1_ps(-105.0f), x); /* in this order NaN passes */
    return exp16_in_range(_mm512_min_ps(_mm512_set1_ps(90.0f), c));
}

#endif
