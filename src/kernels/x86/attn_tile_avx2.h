/* What the steps of attention share: some queries and one span of positions; with eight floats a
 * vector, or sixteen where the file is compiled for AVX-512. */
#ifndef FIRSTLIGHT_KERNELS_X86_ATTN_TILE_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_ATTN_TILE_AVX2_H

#include "kernels/kv_layout.h"

#include <stdbool.h>

#ifdef __AVX512F__
#include "kernels/x86/attn_vec_avx512.h"
#else
#include "kernels/x86/attn_vec_avx2.h"
#endif

/* A query's numbers, 32 bits each, are kept in pieces of this many, so that a tile's rows are a
 * constant apart: one register addresses them all. */
#define Q_PIECE 64

/* With so few queries the cache comes from memory as fast as that goes: it is fetched ahead. */
#define FETCH_QUERIES 4

/* Into L2: what n queries read there is more than L1 holds. */
ALWAYS_INLINE void fetch_ahead(const void *at, size_t bytes, size_t n)
{
    for (size_t i = 0; n <= FETCH_QUERIES && i < bytes; i += 64)
        _mm_prefetch((const char *)at + i, _MM_HINT_T1);
}

/* q8_0's scales of a dim's group in a block, by position. */
ALWAYS_INLINE const float *group_scales(const char *block, size_t head_dim, size_t dim)
{
    return (const float *)(const void *)block + kv_layout_scale(head_dim, 0, dim);
}

/* In attn_args.scratch. */
struct attn_work {
    float *scores;  /* (ATTN_TILE, ATTN_SPAN) */
    float *weights; /* as many */
    float *q;       /* tile after tile: (pieces, n, Q_PIECE) */
};

/* One tile in one span. */
struct attn_tile {
    const struct attn_args *a;
    const struct attn_work *w;
    const float *q;
    size_t i; /* its first query */
    uint32_t first;
    uint32_t begin;                /* the block with the first position that a query sees here */
    uint32_t n_positions;          /* that the query with the most sees here */
    uint32_t from[ATTN_TILE];      /* per query: it sees none before this one */
    uint32_t seen[ATTN_TILE];      /* per query: and none from this one on */
    float factor[ATTN_TILE];       /* of what came before the span */
    float later_factor[ATTN_TILE]; /* of the span */
};

/* Keys or values of the block with the span's position j. */
static inline const char *tile_block(const struct attn_tile *t, const char *head, uint32_t j)
{
    return head + t->a->blocks[(t->first + j) / KV_BLOCK] * t->a->block_bytes;
}

/* What is read after the keys of position j's block, and after its values. */
static inline const char *after_keys(const struct attn_tile *t, uint32_t j)
{
    bool more = j + KV_BLOCK < t->n_positions;
    return more ? tile_block(t, t->a->keys, j + KV_BLOCK) : tile_block(t, t->a->values, t->begin);
}

static inline const char *after_values(const struct attn_tile *t, uint32_t j)
{
    if (j + KV_BLOCK < t->n_positions)
        return tile_block(t, t->a->values, j + KV_BLOCK);
    bool more = t->first + ATTN_SPAN < t->a->end;
    return tile_block(t, t->a->keys, more ? ATTN_SPAN : 0);
}

/* The span's numerators of one query's dims from `dim` on, folded into acc. */
ALWAYS_INLINE void fold_numerators(const struct attn_tile *t, size_t r, size_t dim, vec sum)
{
    float *acc = t->a->acc[t->i + r] + dim;
    size_t left = t->a->head_dim - dim, lanes = left < LANES ? left : LANES;
    vec old = v_mul(v_load_some(acc, lanes), v_set1(t->factor[r]));
    v_store_some(acc, v_fma(sum, v_set1(t->later_factor[r]), old), lanes);
}

#endif
