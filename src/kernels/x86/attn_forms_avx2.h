/* The steps of attn_flow_avx2.h in float arithmetic, for every type of cache. Cached numbers become
 * floats in registers on their way to the multipliers; the conversions run beside those.
 * */
#ifndef FIRSTLIGHT_KERNELS_X86_ATTN_FORMS_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_ATTN_FORMS_AVX2_H

#include "kernels/x86/attn_tile_avx2.h"

#include <string.h>

ALWAYS_INLINE size_t packed_dims(size_t head_dim)
{
    return head_dim;
}

ALWAYS_INLINE void pack_tile(float *out, const struct attn_args *a, size_t i, size_t n)
{
    for (size_t d = 0; d < a->head_dim; d += Q_PIECE, out += n * Q_PIECE) {
        size_t left = a->head_dim - d, dims = left < Q_PIECE ? left : Q_PIECE;
        for (size_t r = 0; r < n; r++)
            memcpy(out + r * Q_PIECE, a->q[i + r] + d, dims * sizeof *out);
    }
}

ALWAYS_INLINE void put_weights(const struct attn_work *w, size_t row, size_t j, vec p)
{
    v_store(w->scores + row * ATTN_SPAN + j, p);
}

/* LANES cached numbers as floats from element i on; of bf16's pairs from i on the first or the
 * second ones; q8_0's times their scales, of which there are one a lane or one for all. */
ALWAYS_INLINE vec load_cached(enum kv_type type, const char *block, size_t i, int second, vec scale)
{
    switch (type) {
    case KV_F32:
        return v_load((const float *)(const void *)block + i);
    case KV_F16:
        return v_f16(block + 2 * i);
    case KV_BF16:
        return second ? v_bf16_second(block + 4 * i) : v_bf16_first(block + 4 * i);
    default:
        return v_mul(v_int8(block + i), scale);
    }
}

ALWAYS_INLINE vec load_key(enum kv_type type, const char *k, size_t head_dim, size_t d, int second,
                           size_t lane)
{
    const float *scales = (const float *)(const void *)k + kv_layout_scales(head_dim);
    vec scale = v_zero();
    if (type == KV_Q8_0)
        scale = v_load(scales + d / KV_GROUP * KV_BLOCK + lane);
    size_t row = type == KV_BF16 ? d / 2 : d;
    return load_cached(type, k, row * KV_BLOCK + lane, second, scale);
}

ALWAYS_INLINE vec load_value(enum kv_type type, const char *v, size_t head_dim, size_t at,
                             int second, size_t dim)
{
    const float *scales = (const float *)(const void *)v + kv_layout_scales(head_dim);
    vec scale = v_zero();
    if (type == KV_Q8_0)
        scale = v_set1(scales[at * KV_GROUPS(head_dim) + dim / KV_GROUP]);
    size_t row = type == KV_BF16 ? at / 2 : at;
    return load_cached(type, v, row * kv_layout_width(head_dim) + dim, second, scale);
}

/* Bytes of what load_cached takes a lane from. */
ALWAYS_INLINE size_t element_bytes(enum kv_type type)
{
    return type == KV_Q8_0 ? 1 : type == KV_F16 ? 2 : 4;
}

/* One more dim of the scores of 2 * LANES positions from `lane` on. q: the dim of the first query.
 */
ALWAYS_INLINE void score_dim(vec acc[][2], const struct attn_tile *t, enum kv_type type,
                             const char *k, const float *q, size_t d, int second, size_t lane,
                             size_t n)
{
    vec y[2];
    for (size_t v = 0; v < 2; v++)
        y[v] = load_key(type, k, t->a->head_dim, d, second, lane + v * LANES);
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++) {
        vec x = v_set1(q[r * Q_PIECE]);
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t v = 0; v < 2; v++) {
            acc[r][v] = v_fma(x, y[v], acc[r][v]);
            KEEP(acc[r][v]);
        }
    }
}

/* The dims d .. d + 1 of what is read next, if so few queries share it. */
ALWAYS_INLINE void fetch_keys(enum kv_type type, const char *next, size_t d, size_t lane, size_t n)
{
    size_t bytes = element_bytes(type);
    for (size_t row = d; n <= FETCH_QUERIES && row < d + 2; row += type == KV_BF16 ? 2 : 1)
        for (size_t v = 0; v < 2; v++)
            _mm_prefetch(next + ((type == KV_BF16 ? row / 2 : row) * KV_BLOCK + lane + v * LANES) *
                                    bytes,
                         _MM_HINT_T1);
}

/* Scores of the positions j + lane .. of the span, in one block. */
ALWAYS_INLINE void score_lanes(const struct attn_tile *t, enum kv_type type, uint32_t j,
                               size_t lane, size_t n)
{
    const char *k = tile_block(t, t->a->keys, j), *next = after_keys(t, j);
    size_t head_dim = t->a->head_dim;
    vec acc[MAX_QUERIES][2];
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
        acc[r][0] = acc[r][1] = v_zero();
    for (size_t d = 0; d < head_dim;) {
        const float *q = t->q + d * n;
        size_t end = head_dim - d < Q_PIECE ? head_dim : d + Q_PIECE;
        for (; d + 2 <= end; d += 2, q += 2) {
            fetch_keys(type, next, d, lane, n);
            score_dim(acc, t, type, k, q, d, 0, lane, n);
            score_dim(acc, t, type, k, q + 1, d + 1, 1, lane, n);
        }
        if (d < end)
            score_dim(acc, t, type, k, q, d++, 0, lane, n);
    }
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t v = 0; v < 2; v++)
            v_store(t->w->scores + r * ATTN_SPAN + j + lane + v * LANES, acc[r][v]);
}

ALWAYS_INLINE void score_block(const struct attn_tile *t, enum kv_type type, uint32_t j, size_t n)
{
    for (size_t lane = 0; lane < KV_BLOCK; lane += 2 * LANES)
        score_lanes(t, type, j, lane, n);
}

/* One more position of the numerators of `vectors` vectors of dims. */
ALWAYS_INLINE void add_position(vec acc[][4], const struct attn_tile *t, enum kv_type type,
                                const char *v, uint32_t j, int second, size_t dim, size_t n,
                                size_t vectors)
{
    vec y[4];
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t i = 0; i < vectors; i++)
        y[i] = load_value(type, v, t->a->head_dim, j % KV_BLOCK, second, dim + i * LANES);
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++) {
        vec x = v_set1(t->w->scores[r * ATTN_SPAN + j]);
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t i = 0; i < vectors; i++) {
            acc[r][i] = v_fma(x, y[i], acc[r][i]);
            KEEP(acc[r][i]);
        }
    }
}

/* The positions j .. j + 1 of what is read next, if so few queries share it. */
ALWAYS_INLINE void fetch_values(const struct attn_tile *t, enum kv_type type, const char *next,
                                uint32_t j, size_t dim, size_t n, size_t vectors)
{
    size_t width = kv_layout_width(t->a->head_dim), bytes = element_bytes(type);
    for (size_t row = j; n <= FETCH_QUERIES && row < j + 2; row += type == KV_BF16 ? 2 : 1)
        for (size_t i = 0; i < vectors * LANES * bytes; i += 64)
            _mm_prefetch(next + ((type == KV_BF16 ? row / 2 : row) * width + dim) * bytes + i,
                         _MM_HINT_T1);
}

ALWAYS_INLINE void add_values(const struct attn_tile *t, enum kv_type type, size_t dim, size_t n,
                              size_t vectors)
{
    vec acc[MAX_QUERIES][4];
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t i = 0; i < vectors; i++)
            acc[r][i] = v_zero();
    for (uint32_t first = t->begin; first < t->n_positions; first += KV_BLOCK) {
        const char *v = tile_block(t, t->a->values, first), *next = after_values(t, first);
        uint32_t left = t->n_positions - first, end = first + (left < KV_BLOCK ? left : KV_BLOCK);
        uint32_t j = first;
        for (; j + 2 <= end; j += 2) {
            fetch_values(t, type, next, j % KV_BLOCK, dim, n, vectors);
            add_position(acc, t, type, v, j, 0, dim, n, vectors);
            add_position(acc, t, type, v, j + 1, 1, dim, n, vectors);
        }
        if (j < end)
            add_position(acc, t, type, v, j, 0, dim, n, vectors);
    }
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t i = 0; i < vectors; i++)
            fold_numerators(t, r, dim + i * LANES, acc[r][i]);
}

#endif
