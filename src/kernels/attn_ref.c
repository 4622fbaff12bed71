/* Reference: one span of cached positions folded into a query's running softmax. */
#include "kernels/half.h"
#include "kernels/variants.h"

#include <math.h>

static float kv_value(enum kv_type type, const void *rows, size_t i)
{
    return type == KV_F32 ? ((const float *)rows)[i] : half_to_float(((const uint16_t *)rows)[i]);
}

/* Scores of the first n positions; returns the largest. */
static float attn_scores(float *scores, const struct attn_args *a, enum kv_type type,
                         const float *q, size_t n)
{
    float max = -INFINITY;
    for (size_t j = 0; j < n; j++) {
        float dot = 0.0f;
        for (size_t d = 0; d < a->head_dim; d++)
            dot += q[d] * kv_value(type, a->k, j * a->head_dim + d);
        scores[j] = dot;
        max = fmaxf(max, dot);
    }
    return max;
}

/* The sum and the numerator so far were taken relative to the old maximum, so both shrink by
 * exp(old - new) before the span's terms join. The first span shrinks zeros by exp(-inf) = 0. */
static void attn_query(const struct attn_args *a, enum kv_type type, size_t i)
{
    float scores[KV_BLOCK];
    size_t n = a->visible[i];
    float max = fmaxf(a->m[i], attn_scores(scores, a, type, a->q[i], n));
    float shrink = expf(a->m[i] - max);
    a->m[i] = max;
    a->l[i] *= shrink;
    for (size_t d = 0; d < a->head_dim; d++)
        a->acc[i][d] *= shrink;
    for (size_t j = 0; j < n; j++) {
        float p = expf(scores[j] - max);
        a->l[i] += p;
        for (size_t d = 0; d < a->head_dim; d++)
            a->acc[i][d] += p * kv_value(type, a->v, j * a->head_dim + d);
    }
}

static void attn_ref(const struct attn_args *a, enum kv_type type)
{
    for (size_t i = 0; i < a->n_q; i++) {
        if (a->visible[i] > 0)
            attn_query(a, type, i);
    }
}

static void attn_f32_ref(const struct attn_args *a)
{
    attn_ref(a, KV_F32);
}

static void attn_f16_ref(const struct attn_args *a)
{
    attn_ref(a, KV_F16);
}

void attn_ref_fill(struct kernels *k)
{
    k->attn[KV_F32] = attn_f32_ref;
    k->attn[KV_F16] = attn_f16_ref;
}
