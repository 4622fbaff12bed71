/* Attention over spans, tile by tile, in steps of which attn_forms_avx2.h has one form, and a file
 * that defines ATTN_OWN_STEPS its own:
 *
 *     pack_tile      queries i .. i + n - 1 as score_block reads them
 *     score_block    scores (n, ATTN_SPAN) of one block of positions
 *     put_weights    LANES softmax weights of one query, as add_values reads them
 *     add_values     the span's numerators for some vectors of dims, folded into acc
 *
 * A tile is n queries. Its span of ATTN_SPAN positions:
 *
 *     scores     lanes are positions: a score is one lane's chain of sums over the dims
 *     softmax    per query; what it must not see is at -infinity
 *     values     lanes are dims: a numerator is one lane's chain of sums over the positions
 *
 * No sum of products crosses lanes, and a chain's order depends on dims and positions only, so a
 * query's bits do not depend on n. Positions that a query does not see but a neighbour does add
 * zeros to its sums.
 */
#ifndef FIRSTLIGHT_KERNELS_X86_ATTN_FLOW_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_ATTN_FLOW_AVX2_H

#ifdef ATTN_OWN_STEPS
#include "kernels/x86/attn_tile_avx2.h"
#else
#include "kernels/x86/attn_forms_avx2.h"
#endif

#include <float.h>
#include <math.h>

/* Weights of one query relative to their maximum; returns their sum. A query that sees nothing has
 * the maximum -infinity and only zeros. */
static float softmax(const struct attn_tile *t, size_t row, float *max)
{
    float *s = t->w->scores + row * ATTN_SPAN;
    uint32_t from = t->from[row], seen = t->seen[row], n = t->n_positions;
    vec most = v_set1(-INFINITY), sum = v_zero();
    for (uint32_t j = t->begin; j < n; j += LANES) {
        vec x = v_load(s + j);
        if (j + LANES > seen || j < from) {
            x = v_from(v_below(x, (int)seen - (int)j), (int)from - (int)j);
            v_store(s + j, x);
        }
        most = v_max(most, x);
    }
    *max = v_max_of(most);
    vec shift = v_set1(fmaxf(*max, -FLT_MAX));
    for (uint32_t j = t->begin; j < n; j += LANES) {
        vec p = v_exp(v_sub(v_load(s + j), shift));
        sum = v_add(sum, p);
        put_weights(t->w, row, j, p);
    }
    return v_sum_of(sum);
}

/* Both sides were taken relative to their own maxima, so each shrinks by exp(own - new); the first
 * state by exp(-inf) = 0. */
ALWAYS_INLINE void merge_factors(vec m, vec later_m, vec *max, vec *factor, vec *later_factor)
{
    *max = v_max(m, later_m);
    vec shift = v_max(*max, v_set1(-FLT_MAX));
    *factor = v_exp(v_sub(m, shift));
    *later_factor = v_exp(v_sub(later_m, shift));
}

/* Scores to weights; the queries' m and l brought up to date. */
static void tile_softmax(struct attn_tile *t, size_t n)
{
    const struct attn_args *a = t->a;
    float later_m[MAX_QUERIES + LANES], later_l[MAX_QUERIES + LANES];
    for (size_t r = 0; r < n; r++)
        later_l[r] = softmax(t, r, &later_m[r]);
    for (size_t r = 0; r < n; r += LANES) {
        size_t lanes = n - r < LANES ? n - r : LANES;
        vec max, factor, later_factor;
        vec m = v_load_some(a->m + t->i + r, lanes), l = v_load_some(a->l + t->i + r, lanes);
        merge_factors(m, v_load_some(later_m + r, lanes), &max, &factor, &later_factor);
        l = v_fma(v_load_some(later_l + r, lanes), later_factor, v_mul(l, factor));
        v_store_some(a->m + t->i + r, max, lanes);
        v_store_some(a->l + t->i + r, l, lanes);
        v_store_some(t->factor + r, factor, lanes);
        v_store_some(t->later_factor + r, later_factor, lanes);
    }
}

/* All dims of n queries: as many vectors at a time as there are registers. */
ALWAYS_INLINE void tile_values(const struct attn_tile *t, enum kv_type type, size_t n)
{
    size_t dim = 0, dims = t->a->head_dim, wide = n <= WIDE_QUERIES ? 4 : 2;
    for (; dim + wide * LANES <= dims; dim += wide * LANES)
        add_values(t, type, dim, n, wide);
    for (; dim < dims; dim += LANES)
        add_values(t, type, dim, n, 1);
}

/* A position as one of the span's, 0 .. ATTN_SPAN. */
static inline uint32_t in_span(const struct attn_tile *t, uint32_t position)
{
    uint32_t at = position > t->first ? position - t->first : 0;
    return at < ATTN_SPAN ? at : ATTN_SPAN;
}

/* What the tile's n queries see here. False: nothing. */
static inline bool tile_sees(struct attn_tile *t, size_t n)
{
    const struct attn_args *a = t->a;
    uint32_t begin = ATTN_SPAN, end = 0;
    for (size_t r = 0; r < n; r++) {
        uint32_t see = a->seen[t->i + r];
        uint32_t from = in_span(t, a->window && see > a->window ? see - a->window : 0);
        see = in_span(t, see < a->end ? see : a->end);
        begin = from < see && from < begin ? from : begin;
        end = from < see && see > end ? see : end;
        t->from[r] = from;
        t->seen[r] = see;
    }
    t->begin = begin / KV_BLOCK * KV_BLOCK;
    t->n_positions = end;
    return begin < end;
}

ALWAYS_INLINE void attend_tile(struct attn_tile *t, enum kv_type type, size_t n)
{
    if (!tile_sees(t, n))
        return;
    for (uint32_t j = t->begin; j < t->n_positions; j += KV_BLOCK)
        score_block(t, type, j, n);
    tile_softmax(t, n);
    tile_values(t, type, n);
}

/* The largest tile that n queries fill. */
static size_t tile_size(size_t n)
{
    static const unsigned char sizes[] = {TILE_SIZES};
    size_t i = 0;
    while (sizes[i] > n)
        i++;
    return sizes[i];
}

ALWAYS_INLINE void attend(const struct attn_args *a, enum kv_type type)
{
    struct attn_work w = {a->scratch, a->scratch + ATTN_TILE * ATTN_SPAN,
                          a->scratch + 2 * ATTN_TILE * ATTN_SPAN};
    size_t dims = (packed_dims(a->head_dim) + Q_PIECE - 1) / Q_PIECE * Q_PIECE;
    for (size_t i = 0, n; i < a->n_q; i += n) {
        n = tile_size(a->n_q - i);
        pack_tile(w.q + i * dims, a, i, n);
    }
    for (uint32_t first = a->first; first < a->end; first += ATTN_SPAN) {
        for (size_t i = 0, n; i < a->n_q; i += n) {
            struct attn_tile t = {.a = a, .w = &w, .q = w.q + i * dims, .i = i, .first = first};
            n = tile_size(a->n_q - i);
            switch (n) {
#define CASE(size)                                                                                 \
    case size:                                                                                     \
        attend_tile(&t, type, size);                                                               \
        break;
                EACH_TILE_SIZE(CASE)
#undef CASE
            }
        }
    }
}

ALWAYS_INLINE void merge(struct attn_state *to, const struct attn_state *later, size_t head_dim)
{
    vec max, factor, later_factor;
    merge_factors(v_set1(to->m), v_set1(later->m), &max, &factor, &later_factor);
    to->m = v_first(max);
    to->l = v_first(v_fma(v_set1(later->l), later_factor, v_mul(v_set1(to->l), factor)));
    for (size_t d = 0; d < head_dim; d += LANES) {
        size_t lanes = head_dim - d < LANES ? head_dim - d : LANES;
        vec acc = v_mul(v_load_some(to->acc + d, lanes), factor);
        acc = v_fma(v_load_some(later->acc + d, lanes), later_factor, acc);
        v_store_some(to->acc + d, acc, lanes);
    }
}

#endif
