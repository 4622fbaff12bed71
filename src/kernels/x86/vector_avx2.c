/* The operations on single vectors with AVX2. */
#include "kernels/half.h"
#include "kernels/variants.h"
#include "kernels/x86/vector_flow_avx2.h"

#include <math.h>
#include <stdbool.h>

/* --- rope ----------------------------------------------------------------------------------- */

/* {a, b, a, b, ..}: a c - b s in the even lanes, b c + a s in the odd. */
ALWAYS_INLINE void turn_neighbours(float *x, __m256 c, __m256 s, __m256 scale)
{
    __m256 v = _mm256_loadu_ps(x);
    __m256 crossed = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), s);
    _mm256_storeu_ps(x, _mm256_mul_ps(_mm256_fmaddsub_ps(v, c, crossed), scale));
}

ALWAYS_INLINE void turn_halves(float *x, float *y, __m256 c, __m256 s, __m256 scale)
{
    __m256 a = _mm256_loadu_ps(x), b = _mm256_loadu_ps(y);
    __m256 low = _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s));
    __m256 high = _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s));
    _mm256_storeu_ps(x, _mm256_mul_ps(low, scale));
    _mm256_storeu_ps(y, _mm256_mul_ps(high, scale));
}

/* The vectors' arithmetic on one pair. */
ALWAYS_INLINE void turn_pair(float *x, float *y, const float *cs, float scale)
{
    float a = *x, b = *y;
    *x = fmaf(a, cs[0], -(b * cs[1])) * scale;
    *y = fmaf(b, cs[0], a * cs[1]) * scale;
}

static void rope_neighbours(const struct rope_args *r)
{
    __m256 scale = _mm256_set1_ps(r->scale);
    size_t i = 0;
    for (; i + 8 <= r->n_rot; i += 8) {
        __m256 cs = _mm256_loadu_ps(r->cos_sin + i);
        __m256 c = _mm256_moveldup_ps(cs), s = _mm256_movehdup_ps(cs);
        for (size_t h = 0; h < r->n_heads; h++)
            turn_neighbours(r->heads + h * r->head_dim + i, c, s, scale);
    }
    for (; i < r->n_rot; i += 2) {
        for (size_t h = 0; h < r->n_heads; h++) {
            float *x = r->heads + h * r->head_dim + i;
            turn_pair(x, x + 1, r->cos_sin + i, r->scale);
        }
    }
}

static void rope_halves(const struct rope_args *r)
{
    __m256 scale = _mm256_set1_ps(r->scale);
    size_t half = r->n_rot / 2, i = 0;
    for (; i + 8 <= half; i += 8) {
        const float *at = r->cos_sin + 2 * i;
        __m256 cs0 = _mm256_loadu_ps(at), cs1 = _mm256_loadu_ps(at + 8);
        __m256 low = _mm256_permute2f128_ps(cs0, cs1, 0x20);
        __m256 high = _mm256_permute2f128_ps(cs0, cs1, 0x31);
        __m256 c = _mm256_shuffle_ps(low, high, 0x88), s = _mm256_shuffle_ps(low, high, 0xdd);
        for (size_t h = 0; h < r->n_heads; h++) {
            float *x = r->heads + h * r->head_dim + i;
            turn_halves(x, x + half, c, s, scale);
        }
    }
    for (; i < half; i++) {
        for (size_t h = 0; h < r->n_heads; h++) {
            float *x = r->heads + h * r->head_dim + i;
            turn_pair(x, x + half, r->cos_sin + 2 * i, r->scale);
        }
    }
}

static void rope_avx2(const struct rope_args *r)
{
    if (r->style == ROPE_NEIGHBOURS)
        rope_neighbours(r);
    else
        rope_halves(r);
    if (r->scale == 1.0f)
        return;
    for (size_t h = 0; h < r->n_heads; h++)
        for (size_t i = r->n_rot; i < r->head_dim; i++)
            r->heads[h * r->head_dim + i] *= r->scale;
}

/* --- add ------------------------------------------------------------------------------------ */

static void add_avx2(float *out, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(out + i), _mm256_loadu_ps(x + i)));
    for (; i < n; i++)
        out[i] += x[i];
}

/* --- the entries ---------------------------------------------------------------------------- */

static void quantize_q8_avx2(struct q8_block *out, const float *x, size_t n)
{
    quantize_flow(out, x, n);
}

static void rmsnorm_avx2(float *out, const float *x, const float *weight, size_t n, float eps)
{
    rmsnorm_flow(out, x, weight, n, eps);
}

static void add_rmsnorm_q8_avx2(struct q8_block *out, float *x, const float *delta,
                                const float *weight, size_t n, float eps)
{
    add_rmsnorm_q8_flow(out, x, delta, weight, n, eps);
}

static void layernorm_avx2(float *out, const float *x, const float *weight, const float *bias,
                           size_t n, float eps)
{
    layernorm_flow(out, x, weight, bias, n, eps);
}

static void add_layernorm_q8_avx2(struct q8_block *out, float *x, const float *delta,
                                  const float *weight, const float *bias, size_t n, float eps)
{
    add_layernorm_q8_flow(out, x, delta, weight, bias, n, eps);
}

void vector_avx2_fill(struct kernels *k)
{
    k->quantize_q8 = quantize_q8_avx2;
    k->rmsnorm = rmsnorm_avx2;
    k->add_rmsnorm_q8 = add_rmsnorm_q8_avx2;
    k->layernorm = layernorm_avx2;
    k->add_layernorm_q8 = add_layernorm_q8_avx2;
    k->rope = rope_avx2;
    k->add = add_avx2;
}
