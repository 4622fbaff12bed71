/* Activations with AVX-512. */
#include "kernels/variants.h"
#include "kernels/x86/vector_steps_avx512.h"
/* with those steps: */
#include "kernels/x86/vector_flow_avx2.h"

ALWAYS_INLINE __m512 silu16(__m512 x)
{
    __m512 e = exp16(_mm512_xor_ps(x, _mm512_set1_ps(-0.0f)));
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

ALWAYS_INLINE __m512 gelu_tanh16(__m512 x)
{
    __m512 f = _mm512_fmadd_ps(_mm512_set1_ps(-GELU_CUBIC), _mm512_mul_ps(x, x),
                               _mm512_set1_ps(-GELU_LINEAR));
    __m512 e = exp16(_mm512_mul_ps(x, f));
    return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), e));
}

/* max(x, 0) less |x| times the tail beyond |x|. */
ALWAYS_INLINE __m512 gelu_erf16(__m512 x)
{
    static const float terms[] = GELU_ERF_TERMS;
    const __m512 one = _mm512_set1_ps(1.0f);
    __m512 a = _mm512_abs_ps(x);
    __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(a, _mm512_set1_ps(GELU_ERF_P), one));
    __m512 e = exp16(_mm512_mul_ps(_mm512_mul_ps(a, _mm512_set1_ps(-0.5f)), a));
    __m512 p = _mm512_set1_ps(terms[8]);
#pragma GCC unroll 8
    for (int i = 7; i >= 0; i--)
        p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(terms[i]));
    __m512 tail = _mm512_mul_ps(_mm512_mul_ps(p, t), e);
    return _mm512_fnmadd_ps(a, tail, _mm512_max_ps(_mm512_setzero_ps(), x));
}

ALWAYS_INLINE void activate_flow(float *out, const float *gate, const float *up, size_t n,
                                 __m512 (*f)(__m512 x))
{
    size_t i = 0;
    for (; i < n && up; i += 16) {
        __m512 v = f(load16(gate + i, n - i));
        store16(out + i, _mm512_mul_ps(v, load16(up + i, n - i)), n - i);
    }
    for (; i < n; i += 16)
        store16(out + i, f(load16(gate + i, n - i)), n - i);
}

static void silu_avx512(float *out, const float *gate, const float *up, size_t n)
{
    activate_flow(out, gate, up, n, silu16);
}

static void silu_q8_avx512(const struct activate_q8_args *a)
{
    activate_q8_flow(a, silu_avx512);
}

static void gelu_tanh_avx512(float *out, const float *gate, const float *up, size_t n)
{
    activate_flow(out, gate, up, n, gelu_tanh16);
}

static void gelu_tanh_q8_avx512(const struct activate_q8_args *a)
{
    activate_q8_flow(a, gelu_tanh_avx512);
}

static void gelu_erf_avx512(float *out, const float *gate, const float *up, size_t n)
{
    activate_flow(out, gate, up, n, gelu_erf16);
}

static void gelu_erf_q8_avx512(const struct activate_q8_args *a)
{
    activate_q8_flow(a, gelu_erf_avx512);
}

void activate_avx512_fill(struct kernels *k)
{
    k->activate[ACTIVATION_SILU] = silu_avx512;
    k->activate[ACTIVATION_GELU_TANH] = gelu_tanh_avx512;
    k->activate[ACTIVATION_GELU_ERF] = gelu_erf_avx512;
    k->activate_q8[ACTIVATION_SILU] = silu_q8_avx512;
    k->activate_q8[ACTIVATION_GELU_TANH] = gelu_tanh_q8_avx512;
    k->activate_q8[ACTIVATION_GELU_ERF] = gelu_erf_q8_avx512;
}
