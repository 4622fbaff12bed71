/* Attention over bfloat16 with AVX-512 BF16: vdpbf16ps adds the products of a pair to a float, as
 * fast as an fma adds one. Queries and weights become bfloat16 too. Keys are stored as pairs of
 * dims, values as pairs of positions (kv_layout.h), queries are packed as pairs of dims. */
#include "kernels/variants.h"
#include "kernels/x86/attn_tile_avx2.h"
#include "kernels/x86/vec_avx512.h"

#include <string.h>

/* In 32-bit units: pairs. */
ALWAYS_INLINE size_t packed_dims(size_t head_dim)
{
    return (head_dim + 1) / 2;
}

ALWAYS_INLINE __m256i to_bf16(vec x)
{
    return (__m256i)_mm512_cvtneps_pbh(x);
}

/* An odd dim's partner is 0. */
ALWAYS_INLINE void pack_tile(float *out, const struct attn_args *a, size_t i, size_t n)
{
    for (size_t r = 0; r < n; r++) {
        for (size_t d = 0; d < a->head_dim; d += LANES) {
            size_t left = a->head_dim - d, pair = d / 2;
            __m256i pairs = to_bf16(v_load_some(a->q[i + r] + d, left < LANES ? left : LANES));
            float *piece = out + (pair / Q_PIECE * n + r) * Q_PIECE;
            _mm256_storeu_si256((__m256i *)(void *)(piece + pair % Q_PIECE), pairs);
        }
    }
}

/* Row r's weights as pairs of positions. */
ALWAYS_INLINE uint16_t *weights_row(const struct attn_work *w, size_t r)
{
    return (uint16_t *)(void *)w->weights + r * ATTN_SPAN;
}

ALWAYS_INLINE void put_weights(const struct attn_work *w, size_t row, size_t j, vec p)
{
    _mm256_storeu_si256((__m256i *)(void *)(weights_row(w, row) + j), to_bf16(p));
}

/* One more pair of dims of the scores of a block. q: the pair of the first query. */
ALWAYS_INLINE void score_pair(vec acc[][2], const char *k, const char *next, const float *q,
                              size_t n)
{
    __m512bh y[2] = {(__m512bh)_mm512_loadu_si512(k), (__m512bh)_mm512_loadu_si512(k + 64)};
    fetch_ahead(next, sizeof y, n);
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++) {
        __m512bh x = (__m512bh)broadcast_word(q + r * Q_PIECE);
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t v = 0; v < 2; v++) {
            acc[r][v] = _mm512_dpbf16_ps(acc[r][v], y[v], x);
            KEEP(acc[r][v]);
        }
    }
}

ALWAYS_INLINE void score_block(const struct attn_tile *t, enum kv_type type, uint32_t j, size_t n)
{
    const char *k = tile_block(t, t->a->keys, j), *next = after_keys(t, j);
    size_t pairs = packed_dims(t->a->head_dim);
    vec acc[MAX_QUERIES][2];
    (void)type;
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
        acc[r][0] = acc[r][1] = v_zero();
    for (size_t p = 0; p < pairs;) {
        const float *q = t->q + p * n;
        size_t end = pairs - p < Q_PIECE ? pairs : p + Q_PIECE;
        for (; p < end; p++, q++)
            score_pair(acc, k + p * 4 * KV_BLOCK, next + p * 4 * KV_BLOCK, q, n);
    }
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t v = 0; v < 2; v++)
            v_store(t->w->scores + r * ATTN_SPAN + j + v * LANES, acc[r][v]);
}

/* One more pair of positions; of the last one the second may not be there: what is stored in its
 * place could be NaN, which no weight of 0 makes harmless. */
ALWAYS_INLINE void add_pair(vec acc[][4], const struct attn_tile *t, const char *v,
                            const char *next, uint32_t j, __mmask32 there, size_t n, size_t vectors)
{
    __m512bh y[4];
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t i = 0; i < vectors; i++)
        y[i] = (__m512bh)_mm512_maskz_loadu_epi16(there, v + 64 * i);
    fetch_ahead(next, 64 * vectors, n);
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++) {
        __m512bh x = (__m512bh)broadcast_word(weights_row(t->w, r) + j);
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t i = 0; i < vectors; i++) {
            acc[r][i] = _mm512_dpbf16_ps(acc[r][i], y[i], x);
            KEEP(acc[r][i]);
        }
    }
}

ALWAYS_INLINE void add_values(const struct attn_tile *t, enum kv_type type, size_t dim, size_t n,
                              size_t vectors)
{
    size_t row_bytes = 4 * kv_layout_width(t->a->head_dim);
    vec acc[MAX_QUERIES][4];
    (void)type;
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t i = 0; i < vectors; i++)
            acc[r][i] = v_zero();
    for (uint32_t first = t->begin; first < t->n_positions; first += KV_BLOCK) {
        const char *v = tile_block(t, t->a->values, first) + 4 * dim;
        const char *next = after_values(t, first) + 4 * dim;
        uint32_t left = t->n_positions - first, end = first + (left < KV_BLOCK ? left : KV_BLOCK);
        uint32_t j = first;
        for (; j + 2 <= end; j += 2, v += row_bytes, next += row_bytes)
            add_pair(acc, t, v, next, j, 0xffffffffu, n, vectors);
        if (j < end)
            add_pair(acc, t, v, next, j, 0x55555555u, n, vectors);
    }
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t i = 0; i < vectors; i++)
            fold_numerators(t, r, dim + i * LANES, acc[r][i]);
}

#define ATTN_OWN_STEPS
#include "kernels/x86/attn_flow_avx2.h"

static void attn_bf16_avx512bf16(const struct attn_args *a)
{
    attend(a, KV_BF16);
}

void attn_avx512bf16_fill(struct kernels *k)
{
    k->attn[KV_BF16] = attn_bf16_avx512bf16;
}
