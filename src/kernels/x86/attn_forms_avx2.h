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

/* How many dims of keys, or positions of values, lie side by side in a lane. */
ALWAYS_INLINE size_t lane_parts(enum kv_type type)
{
    return type == KV_Q8_0 ? 4 : type == KV_BF16 ? 2 : 1;
}

/* LANES cached numbers as floats: of each lane from i on its part `part`; q8_0's without their
 * scales. */
ALWAYS_INLINE vec load_cached(enum kv_type type, const char *block, size_t i, int part)
{
    switch (type) {
    case KV_F32:
        return v_load((const float *)(const void *)block + i);
    case KV_F16:
        return v_f16(block + 2 * i);
    case KV_BF16:
        return part ? v_bf16_second(block + 4 * i) : v_bf16_first(block + 4 * i);
    default:
        return v_int8(block + 4 * i, part);
    }
}

/* part: d % lane_parts, a constant. */
ALWAYS_INLINE vec load_key(enum kv_type type, const char *k, size_t head_dim, size_t d, size_t part,
                           size_t lane)
{
    vec x = load_cached(type, k, d / lane_parts(type) * KV_BLOCK + lane, part);
    return type == KV_Q8_0 ? v_mul(x, v_load(group_scales(k, head_dim, d) + lane)) : x;
}

/* part: at % lane_parts, a constant. */
ALWAYS_INLINE vec load_value(enum kv_type type, const char *v, size_t head_dim, size_t at,
                             size_t part, size_t dim)
{
    size_t row = at / lane_parts(type), width = kv_layout_width(head_dim);
    if (type != KV_Q8_0)
        return load_cached(type, v, row * width + dim, part);
    vec x = load_cached(type, v, row * width + dim, KV_BYTE_OF(part));
    return v_mul(x, v_set1(group_scales(v, head_dim, dim)[at]));
}

/* Bytes of what load_cached takes a lane from. */
ALWAYS_INLINE size_t lane_bytes(enum kv_type type)
{
    return type == KV_F16 ? 2 : 4;
}

/* One more dim of the scores of 2 * LANES positions from `lane` on. q: the dim of the first query.
 */
ALWAYS_INLINE void score_dim(vec acc[][2], const struct attn_tile *t, enum kv_type type,
                             const char *k, const float *q, size_t d, size_t part, size_t lane,
                             size_t n)
{
    vec y[2];
    for (size_t v = 0; v < 2; v++)
        y[v] = load_key(type, k, t->a->head_dim, d, part, lane + v * LANES);
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

/* The dims d .. d + 3 of what is read next. */
ALWAYS_INLINE void fetch_keys(enum kv_type type, const char *next, size_t d, size_t lane, size_t n)
{
    size_t row = d / lane_parts(type), end = row + 4 / lane_parts(type), bytes = lane_bytes(type);
    for (; row < end; row++)
        fetch_ahead(next + (row * KV_BLOCK + lane) * bytes, 2 * LANES * bytes, n);
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
        for (; d < end; d += 4, q += 4) {
            fetch_keys(type, next, d, lane, n);
#pragma GCC unroll 4
            for (size_t i = 0; i < 4; i++)
                if (d + i < end)
                    score_dim(acc, t, type, k, q + i, d + i, i % lane_parts(type), lane, n);
        }
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
                                const char *v, uint32_t j, size_t part, size_t dim, size_t n,
                                size_t vectors)
{
    vec y[4];
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t i = 0; i < vectors; i++)
        y[i] = load_value(type, v, t->a->head_dim, j % KV_BLOCK, part, dim + i * LANES);
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

/* The positions j .. j + 3 of what is read next. */
ALWAYS_INLINE void fetch_values(const struct attn_tile *t, enum kv_type type, const char *next,
                                uint32_t j, size_t dim, size_t n, size_t vectors)
{
    size_t width = kv_layout_width(t->a->head_dim), bytes = lane_bytes(type);
    size_t row = j / lane_parts(type), end = row + 4 / lane_parts(type);
    for (; row < end; row++)
        fetch_ahead(next + (row * width + dim) * bytes, vectors * LANES * bytes, n);
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
        for (uint32_t j = first; j < end; j += 4) {
            fetch_values(t, type, next, j % KV_BLOCK, dim, n, vectors);
#pragma GCC unroll 4
            for (uint32_t i = 0; i < 4; i++)
                if (j + i < end)
                    add_position(acc, t, type, v, j + i, i % lane_parts(type), dim, n, vectors);
        }
    }
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t i = 0; i < vectors; i++)
            fold_numerators(t, r, dim + i * LANES, acc[r][i]);
}

#endif
