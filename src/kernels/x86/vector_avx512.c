/* The operations on single vectors with AVX-512. */
#include "kernels/variants.h"
#include "kernels/x86/vector_steps_avx512.h"
/* with those steps: */
#include "kernels/x86/vector_flow_avx2.h"

/* --- rope ----------------------------------------------------------------------------------- */

/* {a, b, a, b, ..}: a c - b s in the even lanes, b c + a s in the odd. */
ALWAYS_INLINE void turn_neighbours(float *x, __m512 c, __m512 s, __m512 scale, size_t lanes)
{
    __m512 v = load16(x, lanes);
    __m512 crossed = _mm512_mul_ps(_mm512_permute_ps(v, 0xb1), s);
    store16(x, _mm512_mul_ps(_mm512_fmaddsub_ps(v, c, crossed), scale), lanes);
}

ALWAYS_INLINE void turn_halves(float *x, float *y, __m512 c, __m512 s, __m512 scale, size_t lanes)
{
    __m512 a = load16(x, lanes), b = load16(y, lanes);
    __m512 low = _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s));
    __m512 high = _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s));
    store16(x, _mm512_mul_ps(low, scale), lanes);
    store16(y, _mm512_mul_ps(high, scale), lanes);
}

static void rope_neighbours(const struct rope_args *r)
{
    __m512 scale = _mm512_set1_ps(r->scale);
    for (size_t i = 0; i < r->n_rot; i += 16) {
        size_t lanes = r->n_rot - i;
        __m512 cs = load16(r->cos_sin + i, lanes);
        __m512 c = _mm512_moveldup_ps(cs), s = _mm512_movehdup_ps(cs);
        for (size_t h = 0; h < r->n_heads; h++)
            turn_neighbours(r->heads + h * r->head_dim + i, c, s, scale, lanes);
    }
}

static void rope_halves(const struct rope_args *r)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    __m512 scale = _mm512_set1_ps(r->scale);
    size_t half = r->n_rot / 2;
    for (size_t i = 0; i < half; i += 16) {
        const float *at = r->cos_sin + 2 * i;
        size_t left = 2 * (half - i);
        __m512 low = load16(at, left);
        __m512 high = left > 16 ? load16(at + 16, left - 16) : low;
        __m512 c = _mm512_permutex2var_ps(low, even, high),
               s = _mm512_permutex2var_ps(low, odd, high);
        for (size_t h = 0; h < r->n_heads; h++) {
            float *x = r->heads + h * r->head_dim + i;
            turn_halves(x, x + half, c, s, scale, half - i);
        }
    }
}

static void rope_avx512(const struct rope_args *r)
{
    if (r->style == ROPE_NEIGHBOURS)
        rope_neighbours(r);
    else
        rope_halves(r);
    if (r->scale == 1.0f)
        return;
    for (size_t h = 0; h < r->n_heads; h++) {
        for (size_t i = r->n_rot; i < r->head_dim; i += 16) {
            float *x = r->heads + h * r->head_dim + i;
            size_t lanes = r->head_dim - i;
            store16(x, _mm512_mul_ps(load16(x, lanes), _mm512_set1_ps(r->scale)), lanes);
        }
    }
}

static void add_avx512(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        residual16(out + i, x + i, n - i);
}

/* --- the entries ---------------------------------------------------------------------------- */

static void quantize_q8_avx512(struct q8_block *out, const float *x, size_t n)
{
    quantize_flow(out, x, n);
}

static void rmsnorm_avx512(float *out, const float *x, const float *weight, size_t n, float eps)
{
    rmsnorm_flow(out, x, weight, n, eps);
}

static void add_rmsnorm_q8_avx512(struct q8_block *out, float *x, const float *delta,
                                  const float *weight, size_t n, float eps)
{
    add_rmsnorm_q8_flow(out, x, delta, weight, n, eps);
}

static void layernorm_avx512(float *out, const float *x, const float *weight, const float *bias,
                             size_t n, float eps)
{
    layernorm_flow(out, x, weight, bias, n, eps);
}

static void add_layernorm_q8_avx512(struct q8_block *out, float *x, const float *delta,
                                    const float *weight, const float *bias, size_t n, float eps)
{
    add_layernorm_q8_flow(out, x, delta, weight, bias, n, eps);
}

void vector_avx512_fill(struct kernels *k)
{
    k->quantize_q8 = quantize_q8_avx512;
    k->rmsnorm = rmsnorm_avx512;
    k->add_rmsnorm_q8 = add_rmsnorm_q8_avx512;
    k->layernorm = layernorm_avx512;
    k->add_layernorm_q8 = add_layernorm_q8_avx512;
    k->rope = rope_avx512;
    k->add = add_avx512;
}
