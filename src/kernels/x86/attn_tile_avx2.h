/* What the steps of attention share: some queries and one span of positions; with eight floats a
 * vector, or sixteen where the file is compiled for AVX-512. */
#ifndef FIRSTLIGHT_KERNELS_X86_ATTN_TILE_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_ATTN_TILE_AVX2_H

#include "kernels/kv_layout.h"

#ifdef __AVX512F__
#include "kernels/x86/attn_vec_avx512.h"
#else
#include "kernels/x86/attn_vec_avx2.h"
#endif

/* In attn_args.scratch. */
struct attn_work {
    float *scores;  /* (ATTN_TILE, ATTN_SPAN) */
    float *weights; /* as many */
    float *q;       /* tile after tile, as pack_tile has it */
};

/* One tile in one span. */
struct attn_tile {
    const struct attn_args *a;
    const struct attn_work *w;
    const float *q;
    size_t i; /* its first query */
    uint32_t first;
    uint32_t n_positions;          /* that the query with the most sees here */
    uint32_t seen[ATTN_TILE];      /* per query */
    float factor[ATTN_TILE];       /* of what came before the span */
    float later_factor[ATTN_TILE]; /* of the span */
};

/* Keys or values of the block with the span's position j; clamped to the tile's last block, so that
 * it may be asked for one further. */
static inline const char *tile_block(const struct attn_tile *t, const char *head, uint32_t j)
{
    uint32_t last = t->n_positions - 1;
    return head + t->a->blocks[(t->first + (j < last ? j : last)) / KV_BLOCK] * t->a->block_bytes;
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
