/* Reference: a span's softmax, then folded into the query's state. */
#include "kernels/kv_layout.h"
#include "kernels/variants.h"

#include <math.h>

/* Block that holds a position. */
static size_t block_offset(const struct attn_args *a, size_t position)
{
    return a->blocks[position / KV_BLOCK] * a->block_bytes;
}

/* Scores of the positions [first, first + n); returns the largest. */
static float attn_scores(float *scores, const struct attn_args *a, enum kv_type type,
                         const float *q, size_t first, size_t n)
{
    float max = -INFINITY;
    for (size_t j = 0; j < n; j++) {
        const void *k = a->keys + block_offset(a, first + j);
        float dot = 0.0f;
        for (size_t d = 0; d < a->head_dim; d++)
            dot += q[d] * kv_layout_load_key(type, k, a->head_dim, (first + j) % KV_BLOCK, d);
        scores[j] = dot;
        max = fmaxf(max, dot);
    }
    return max;
}

/* One dim of the span's numerator. */
static float weighted_sum(const struct attn_args *a, enum kv_type type, const float *p,
                          size_t first, size_t n, size_t dim)
{
    float sum = 0.0f;
    for (size_t j = 0; j < n; j++) {
        const void *v = a->values + block_offset(a, first + j);
        sum += p[j] * kv_layout_load_value(type, v, a->head_dim, (first + j) % KV_BLOCK, dim);
    }
    return sum;
}

/* Both sides were taken relative to their own maxima, so each shrinks by exp(own - new). The first
 * state shrinks by exp(-inf) = 0. */
static void merge_factors(float m, float later_m, float *max, float *factor, float *later_factor)
{
    *max = fmaxf(m, later_m);
    *factor = expf(m - *max);
    *later_factor = expf(later_m - *max);
}

static void attn_span(const struct attn_args *a, enum kv_type type, size_t i, size_t first)
{
    float p[ATTN_SPAN], l = 0.0f, max, shrink, later_shrink;
    size_t end = a->seen[i] < a->end ? a->seen[i] : a->end;
    end = end < first + ATTN_SPAN ? end : first + ATTN_SPAN;
    size_t from = a->window && a->seen[i] > a->window ? a->seen[i] - a->window : 0;
    first = from > first ? from : first;
    if (end <= first)
        return;
    size_t n = end - first;
    float m = attn_scores(p, a, type, a->q[i], first, n);
    for (size_t j = 0; j < n; j++) {
        p[j] = expf(p[j] - m);
        l += p[j];
    }
    merge_factors(a->m[i], m, &max, &shrink, &later_shrink);
    a->m[i] = max;
    a->l[i] = a->l[i] * shrink + l * later_shrink;
    for (size_t d = 0; d < a->head_dim; d++)
        a->acc[i][d] = a->acc[i][d] * shrink + weighted_sum(a, type, p, first, n, d) * later_shrink;
}

static void attn_ref(const struct attn_args *a, enum kv_type type)
{
    for (size_t i = 0; i < a->n_q; i++)
        for (size_t first = a->first; first < a->end; first += ATTN_SPAN)
            attn_span(a, type, i, first);
}

static void attn_f32_ref(const struct attn_args *a)
{
    attn_ref(a, KV_F32);
}

static void attn_f16_ref(const struct attn_args *a)
{
    attn_ref(a, KV_F16);
}

static void attn_bf16_ref(const struct attn_args *a)
{
    attn_ref(a, KV_BF16);
}

static void attn_q8_0_ref(const struct attn_args *a)
{
    attn_ref(a, KV_Q8_0);
}

static void attn_merge_ref(struct attn_state *to, const struct attn_state *later, size_t head_dim)
{
    float max, shrink, later_shrink;
    merge_factors(to->m, later->m, &max, &shrink, &later_shrink);
    to->m = max;
    to->l = to->l * shrink + later->l * later_shrink;
    for (size_t d = 0; d < head_dim; d++)
        to->acc[d] = to->acc[d] * shrink + later->acc[d] * later_shrink;
}

void attn_ref_fill(struct kernels *k)
{
    k->attn[KV_F32] = attn_f32_ref;
    k->attn[KV_F16] = attn_f16_ref;
    k->attn[KV_BF16] = attn_bf16_ref;
    k->attn[KV_Q8_0] = attn_q8_0_ref;
    k->attn_merge = attn_merge_ref;
}
