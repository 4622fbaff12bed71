/* What sampling asks of a row of logits, with AVX-512: a tail is a mask. */
#include "kernels/variants.h"
#include "kernels/x86/vec_avx512.h"

#include <float.h>

#define WIDTH  16
#define CHAINS 4

/* The first `left` lanes, all when there are more. */
ALWAYS_INLINE __mmask16 first_lanes(size_t left)
{
    return left >= WIDTH ? 0xffff : (__mmask16)((1u << left) - 1);
}

/* As in the AVX2 variant: NaN in *odd says that something was not finite. */
ALWAYS_INLINE void take_max(__m512 v, __m512 *max, __m512 *odd)
{
    *max = _mm512_max_ps(*max, v);
    *odd = _mm512_fmadd_ps(v, _mm512_setzero_ps(), *odd);
}

ALWAYS_INLINE void store_max(float *out, const __m512 max[CHAINS])
{
    __m512 a = _mm512_max_ps(max[0], max[1]), b = _mm512_max_ps(max[2], max[3]);
    _mm512_storeu_ps(out, _mm512_max_ps(a, b));
}

static bool group_max_avx512(float *out, const float *x, size_t n)
{
    const __m512 least = _mm512_set1_ps(-FLT_MAX);
    __m512 odd[CHAINS] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                          _mm512_setzero_ps()};
    size_t i = 0;
    for (; i + GROUP_SPAN <= n; i += GROUP_SPAN, out += GROUP_LANES) {
        __m512 max[CHAINS] = {least, least, least, least};
        for (size_t j = 0; j < GROUP_SPAN; j += CHAINS * WIDTH)
            for (size_t c = 0; c < CHAINS; c++)
                take_max(_mm512_loadu_ps(x + i + j + c * WIDTH), &max[c], &odd[c]);
        store_max(out, max);
    }
    if (i < n) {
        __m512 max[CHAINS] = {least, least, least, least};
        for (; i < n; i += WIDTH)
            take_max(_mm512_mask_loadu_ps(least, first_lanes(n - i), x + i), &max[0], &odd[0]);
        store_max(out, max);
    }
    __m512 sum = _mm512_add_ps(_mm512_add_ps(odd[0], odd[1]), _mm512_add_ps(odd[2], odd[3]));
    return _mm512_cmp_ps_mask(sum, sum, _CMP_UNORD_Q) == 0;
}

/* exp(x) for x <= 0 within 1 ulp, 0 below -87.33 as exp8 has it. */
ALWAYS_INLINE __m512 exp16_below(__m512 x)
{
    __mmask16 above = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-87.33654f), _CMP_NLT_UQ); /* and NaN */
    return _mm512_maskz_mov_ps(above, exp16_in_range(x));
}

ALWAYS_INLINE __m512 exp_of(__m512 x, __m512 max, __m512 scale)
{
    return exp16_below(_mm512_mul_ps(_mm512_sub_ps(x, max), scale));
}

static float exp_sum_avx512(float *out, const float *x, size_t n, float max, float scale)
{
    const __m512 shift = _mm512_set1_ps(max), factor = _mm512_set1_ps(scale);
    __m512 acc[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    size_t i = 0;
    for (; i + 2 * WIDTH <= n; i += 2 * WIDTH) {
        for (size_t c = 0; c < 2; c++) {
            __m512 e = exp_of(_mm512_loadu_ps(x + i + c * WIDTH), shift, factor);
            _mm512_storeu_ps(out + i + c * WIDTH, e);
            acc[c] = _mm512_add_ps(acc[c], e);
        }
    }
    for (size_t c = 0; i < n; i += WIDTH, c++) {
        __mmask16 lanes = first_lanes(n - i);
        __m512 e = exp_of(_mm512_maskz_loadu_ps(lanes, x + i), shift, factor);
        _mm512_mask_storeu_ps(out + i, lanes, e);
        acc[c] = _mm512_mask_add_ps(acc[c], lanes, acc[c], e);
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(acc[0], acc[1]));
}

ALWAYS_INLINE __m512 add_above(__m512 acc, __m512 v, __m512 floor)
{
    return _mm512_mask_add_ps(acc, _mm512_cmp_ps_mask(v, floor, _CMP_GT_OQ), acc, v);
}

static float sum_above_avx512(const float *x, size_t n, float floor)
{
    __m512 acc[CHAINS] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                          _mm512_setzero_ps()};
    const __m512 bound = _mm512_set1_ps(floor);
    size_t i = 0;
    for (; i + CHAINS * WIDTH <= n; i += CHAINS * WIDTH)
        for (size_t c = 0; c < CHAINS; c++)
            acc[c] = add_above(acc[c], _mm512_loadu_ps(x + i + c * WIDTH), bound);
    for (; i < n; i += WIDTH)
        acc[0] = add_above(acc[0], _mm512_maskz_loadu_ps(first_lanes(n - i), x + i), bound);
    __m512 a = _mm512_add_ps(acc[0], acc[1]), b = _mm512_add_ps(acc[2], acc[3]);
    return _mm512_reduce_add_ps(_mm512_add_ps(a, b));
}

void sample_avx512_fill(struct kernels *k)
{
    k->group_max = group_max_avx512;
    k->exp_sum = exp_sum_avx512;
    k->sum_above = sum_above_avx512;
}
