/* Activations with AVX2. */
#include "kernels/variants.h"
#include "kernels/x86/vector_flow_avx2.h"

#include <math.h>

/* x / (1 + exp(y)); exp8 ends below infinity. */
ALWAYS_INLINE __m256 share8(__m256 x, __m256 y)
{
    __m256 beyond = _mm256_cmp_ps(y, _mm256_set1_ps(88.37f), _CMP_GT_OQ);
    __m256 e = _mm256_blendv_ps(exp8(y), _mm256_set1_ps(INFINITY), beyond);
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

ALWAYS_INLINE __m256 silu8(__m256 x)
{
    return share8(x, _mm256_xor_ps(x, _mm256_set1_ps(-0.0f)));
}

ALWAYS_INLINE __m256 gelu_tanh8(__m256 x)
{
    __m256 f = _mm256_fmadd_ps(_mm256_set1_ps(-GELU_CUBIC), _mm256_mul_ps(x, x),
                               _mm256_set1_ps(-GELU_LINEAR));
    return share8(x, _mm256_mul_ps(x, f));
}

/* max(x, 0) less |x| times the tail beyond |x|. */
ALWAYS_INLINE __m256 gelu_erf8(__m256 x)
{
    static const float terms[] = GELU_ERF_TERMS;
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 a = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
    __m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(a, _mm256_set1_ps(GELU_ERF_P), one));
    __m256 e = exp8(_mm256_mul_ps(_mm256_mul_ps(a, _mm256_set1_ps(-0.5f)), a));
    __m256 p = _mm256_set1_ps(terms[8]);
#pragma GCC unroll 8
    for (int i = 7; i >= 0; i--)
        p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(terms[i]));
    __m256 tail = _mm256_mul_ps(_mm256_mul_ps(p, t), e);
    return _mm256_fnmadd_ps(a, tail, _mm256_max_ps(_mm256_setzero_ps(), x));
}

ALWAYS_INLINE void activate_flow(float *out, const float *gate, const float *up, size_t n,
                                 __m256 (*f)(__m256 x))
{
    size_t i = 0;
    for (; i + 8 <= n && up; i += 8)
        _mm256_storeu_ps(out + i,
                         _mm256_mul_ps(f(_mm256_loadu_ps(gate + i)), _mm256_loadu_ps(up + i)));
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, f(_mm256_loadu_ps(gate + i)));
    if (i == n)
        return;
    __m256 v = f(load_tail(gate + i, n - i));
    store_tail(out + i, up ? _mm256_mul_ps(v, load_tail(up + i, n - i)) : v, n - i);
}

static void silu_avx2(float *out, const float *gate, const float *up, size_t n)
{
    activate_flow(out, gate, up, n, silu8);
}

static void silu_q8_avx2(const struct activate_q8_args *a)
{
    activate_q8_flow(a, silu_avx2);
}

static void gelu_tanh_avx2(float *out, const float *gate, const float *up, size_t n)
{
    activate_flow(out, gate, up, n, gelu_tanh8);
}

static void gelu_tanh_q8_avx2(const struct activate_q8_args *a)
{
    activate_q8_flow(a, gelu_tanh_avx2);
}

static void gelu_erf_avx2(float *out, const float *gate, const float *up, size_t n)
{
    activate_flow(out, gate, up, n, gelu_erf8);
}

static void gelu_erf_q8_avx2(const struct activate_q8_args *a)
{
    activate_q8_flow(a, gelu_erf_avx2);
}

void activate_avx2_fill(struct kernels *k)
{
    k->activate[ACTIVATION_SILU] = silu_avx2;
    k->activate[ACTIVATION_GELU_TANH] = gelu_tanh_avx2;
    k->activate[ACTIVATION_GELU_ERF] = gelu_erf_avx2;
    k->activate_q8[ACTIVATION_SILU] = silu_q8_avx2;
    k->activate_q8[ACTIVATION_GELU_TANH] = gelu_tanh_q8_avx2;
    k->activate_q8[ACTIVATION_GELU_ERF] = gelu_erf_q8_avx2;
}
