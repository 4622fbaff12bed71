/* Attention over q8_0 with AVX-512 VNNI, in integers.
 *
 *     scores     queries become int8 with a scale per 32 dims, as activations do; vpdpbusd adds the
 *                products of four dims, and a group's sum is an integer
 *     values     a span's weights, which are at most 1, times the values' scales become int16 in
 *                units of 1/32767 of the largest scale that the query sees there, for each 32 dims.
 *                vpdpwssd adds the products of two positions; the whole span is one integer, below
 *                2^31 as 32767 * 127 * ATTN_SPAN is
 *
 * Integer sums have no order, so only a query's own numbers matter to its bits.
 */
#include "kernels/variants.h"
#include "kernels/x86/attn_tile_avx2.h"
#include "kernels/x86/vector_steps_avx512.h"
/* with those steps: */
#include "kernels/x86/vector_flow_avx2.h"

#include <float.h>
#include <stdalign.h>
#include <string.h>

#define WEIGHT_MAX 32767.0f

/* 32 dims of a query. Keys are summed as bytes from 0 on, 128 above themselves. */
struct query_group {
    float scale;
    int32_t start; /* -128 * (q[0] + ... + q[31]) */
    int8_t q[KV_GROUP];
    char unused[24]; /* to the end of the line */
};
#define GROUP_WORDS  (sizeof(struct query_group) / sizeof(float))
#define PIECE_GROUPS (Q_PIECE / GROUP_WORDS)
_Static_assert(Q_PIECE % GROUP_WORDS == 0 && GROUP_WORDS <= KV_GROUP, "fits pieces and scratch");

/* In 32-bit units. */
ALWAYS_INLINE size_t packed_dims(size_t head_dim)
{
    return KV_GROUPS(head_dim) * GROUP_WORDS;
}

/* Where group g of row r lies in a tile of n. */
ALWAYS_INLINE size_t group_at(size_t g, size_t r, size_t n)
{
    return (g / PIECE_GROUPS * n + r) * Q_PIECE + g % PIECE_GROUPS * GROUP_WORDS;
}

static void pack_query(float *tile, const float *q, size_t head_dim, size_t r, size_t n)
{
    for (size_t d = 0; d < head_dim; d += Q8_PAIR) {
        size_t left = head_dim - d < Q8_PAIR ? head_dim - d : Q8_PAIR, groups = KV_GROUPS(left);
        alignas(64) float padded[Q8_PAIR];
        struct q8_block blocks[2];
        for (size_t i = 0; i < Q8_PAIR; i += LANES)
            v_store(padded + i, i < left ? load16(q + d + i, left - i) : v_zero());
        quantize_flow(blocks, padded, groups * KV_GROUP);
        for (size_t g = 0; g < groups; g++) {
            struct query_group *to = (void *)(tile + group_at(d / KV_GROUP + g, r, n));
            to->scale = blocks[g].scale;
            to->start = -128 * blocks[g].total;
            memcpy(to->q, blocks[g].q, KV_GROUP);
        }
    }
}

ALWAYS_INLINE void pack_tile(float *out, const struct attn_args *a, size_t i, size_t n)
{
    for (size_t r = 0; r < n; r++)
        pack_query(out, a->q[i + r], a->head_dim, r, n);
}

ALWAYS_INLINE void put_weights(const struct attn_work *w, size_t row, size_t j, vec p)
{
    v_store(w->scores + row * ATTN_SPAN + j, p);
}

/* Four more dims of a block's sums. q: those of the first query. */
ALWAYS_INLINE void score_four(__m512i sum[][2], const char *k, const int8_t *q, size_t n)
{
    __m512i y[2];
    for (size_t v = 0; v < 2; v++)
        y[v] = _mm512_xor_si512(_mm512_loadu_si512(k + 64 * v), _mm512_set1_epi8(INT8_MIN));
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++) {
        __m512i x = broadcast_word(q + r * Q_PIECE * sizeof(float));
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t v = 0; v < 2; v++) {
            sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], y[v], x);
            KEEP(sum[r][v]);
        }
    }
}

/* What group g adds to the scores of a block. */
ALWAYS_INLINE void score_group(const struct attn_tile *t, const char *k, const char *next,
                               uint32_t j, size_t g, size_t n)
{
    size_t head_dim = t->a->head_dim, dim = g * KV_GROUP, left = head_dim - dim;
    size_t fours = (left < KV_GROUP ? left + 3 : KV_GROUP) / 4, at = dim * KV_BLOCK;
    const struct query_group *q[MAX_QUERIES];
    __m512i sum[MAX_QUERIES][2];
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++) {
        q[r] = (const void *)(t->q + group_at(g, r, n));
        sum[r][0] = sum[r][1] = _mm512_set1_epi32(q[r]->start);
    }
    for (size_t i = 0; i < fours; i++, at += 4 * KV_BLOCK) {
        fetch_ahead(next + at, 4 * KV_BLOCK, n);
        score_four(sum, k + at, q[0]->q + 4 * i, n);
    }
    fetch_ahead(group_scales(next, head_dim, dim), KV_BLOCK * sizeof(float), n);
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++) {
        float *scores = t->w->scores + r * ATTN_SPAN + j;
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t v = 0; v < 2; v++) {
            vec scale = v_load(group_scales(k, head_dim, dim) + v * LANES);
            vec s = v_mul(_mm512_cvtepi32_ps(sum[r][v]), scale), by = v_set1(q[r]->scale);
            s = g == 0 ? v_mul(s, by) : v_fma(s, by, v_load(scores + v * LANES));
            v_store(scores + v * LANES, s);
        }
    }
}

ALWAYS_INLINE void score_block(const struct attn_tile *t, enum kv_type type, uint32_t j, size_t n)
{
    const char *k = tile_block(t, t->a->keys, j), *next = after_keys(t, j);
    (void)type;
    score_group(t, k, next, j, 0, n);
    for (size_t g = 1; g < KV_GROUPS(t->a->head_dim); g++)
        score_group(t, k, next, j, g, n);
}

/* Row r's int16 weights for the dims of a group; there are two groups at a time. */
ALWAYS_INLINE int16_t *weights_row(const struct attn_work *w, size_t r, size_t group)
{
    return (int16_t *)(void *)(w->weights + r * ATTN_SPAN) + group % 2 * ATTN_SPAN;
}

/* The scales of the values' group g, block by block of the span, and the largest of those that
 * every row of the tile sees in vectors [first, end), as bits: no scale is below 0, NaN is above
 * all. */
struct span_scales {
    const float *of[ATTN_SPAN / KV_BLOCK];
    uint32_t first, end;
    __m512i most;
};

ALWAYS_INLINE vec scales_at(const struct span_scales *s, uint32_t j)
{
    return v_load(s->of[j / KV_BLOCK] + j % KV_BLOCK);
}

ALWAYS_INLINE struct span_scales span_scales(const struct attn_tile *t, size_t g, size_t n)
{
    struct span_scales s = {.first = t->begin, .end = t->n_positions, .most = {0}};
    for (uint32_t j = t->begin; j < t->n_positions; j += KV_BLOCK)
        s.of[j / KV_BLOCK] =
            group_scales(tile_block(t, t->a->values, j), t->a->head_dim, g * KV_GROUP);
    for (size_t r = 0; r < n; r++) {
        s.first = t->from[r] > s.first ? t->from[r] : s.first;
        s.end = t->seen[r] < s.end ? t->seen[r] : s.end;
    }
    s.first = (s.first + LANES - 1) / LANES * LANES;
    s.end = s.end / LANES * LANES;
    for (uint32_t j = s.first; j < s.end; j += LANES)
        s.most = _mm512_max_epu32(s.most, _mm512_castps_si512(scales_at(&s, j)));
    return s;
}

/* The largest of `most` and the scales of the positions [from, end), if there are any. */
ALWAYS_INLINE __m512i most_of(__m512i most, const struct span_scales *s, uint32_t from,
                              uint32_t end)
{
    for (uint32_t j = from / LANES * LANES; from < end && j < end; j += LANES) {
        __mmask16 in =
            lanes_before((int)end - (int)j) & (__mmask16)~lanes_before((int)from - (int)j);
        most = _mm512_mask_max_epu32(most, in, most, _mm512_castps_si512(scales_at(s, j)));
    }
    return most;
}

/* Of what row r sees, and of nothing else: its bits depend on it. */
ALWAYS_INLINE float max_scale(const struct attn_tile *t, size_t r, const struct span_scales *s)
{
    uint32_t from = t->from[r], seen = t->seen[r], bits;
    __m512i most = s->most;
    if (s->first >= s->end) {
        most = most_of(_mm512_setzero_si512(), s, from, seen);
    } else {
        most = most_of(most, s, from, s->first);
        most = most_of(most, s, s->end, seen);
    }
    bits = _mm512_reduce_max_epu32(most);
    float max;
    memcpy(&max, &bits, sizeof max);
    return max;
}

/* Row r's weights, which are at most 1, times the values' scales in units of the returned. What is
 * not finite makes every numerator so; what the row does not see weighs 0 whatever its scale. */
ALWAYS_INLINE float weigh(const struct attn_tile *t, size_t r, size_t g,
                          const struct span_scales *scales)
{
    const float *p = t->w->scores + r * ATTN_SPAN;
    int16_t *out = weights_row(t->w, r, g);
    float max = max_scale(t, r, scales);
    bool usable = max >= QUANTIZE_TINY && max <= FLT_MAX;
    vec factor = v_set1(usable ? WEIGHT_MAX / max : 0.0f);
    for (uint32_t j = t->begin; j < t->n_positions; j += LANES) {
        vec x = v_mul(v_load(p + j), v_mul(scales_at(scales, j), factor));
        __m256i q =
            _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x)); /* NaN becomes INT32_MIN, then 0 */
        _mm256_storeu_si256((__m256i *)(void *)(out + j), q);
    }
    return max < QUANTIZE_TINY ? 0.0f : max / WEIGHT_MAX;
}

/* Two more positions: the even or the odd bytes of four. j: the first of the two. */
ALWAYS_INLINE void add_pair(__m512i acc[][4], const struct attn_tile *t, const char *v, uint32_t j,
                            bool odd, size_t g, size_t n, size_t vectors)
{
    __m512i y[4];
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t i = 0; i < vectors; i++) {
        y[i] = _mm512_loadu_si512(v + 64 * i);
        y[i] = _mm512_srai_epi16(odd ? y[i] : _mm512_slli_epi16(y[i], 8), 8);
    }
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++) {
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t i = 0; i < vectors; i++) {
            __m512i x = broadcast_word(weights_row(t->w, r, g + i / 2) + j);
            acc[r][i] = _mm512_dpwssd_epi32(acc[r][i], y[i], x);
            KEEP(acc[r][i]);
        }
    }
}

/* One block's positions, four at a time; those behind the last weigh nothing. */
ALWAYS_INLINE void add_block(__m512i acc[][4], const struct attn_tile *t, uint32_t first,
                             size_t dim, size_t n, size_t vectors)
{
    size_t row_bytes = 4 * kv_layout_width(t->a->head_dim), g = dim / KV_GROUP;
    const char *block = tile_block(t, t->a->values, first), *next = after_values(t, first);
    const char *v = block + 4 * dim, *ahead = next + 4 * dim;
    uint32_t left = t->n_positions - first, end = first + (left < KV_BLOCK ? left : KV_BLOCK);
    for (uint32_t j = first; j < end; j += 4, v += row_bytes, ahead += row_bytes) {
        fetch_ahead(ahead, 64 * vectors, n);
        add_pair(acc, t, v, j, false, g, n, vectors);
        add_pair(acc, t, v, j + 2, true, g, n, vectors);
    }
    fetch_ahead(group_scales(next, t->a->head_dim, dim),
                (vectors + 1) / 2 * KV_BLOCK * sizeof(float), n);
}

ALWAYS_INLINE void add_values(const struct attn_tile *t, enum kv_type type, size_t dim, size_t n,
                              size_t vectors)
{
    __m512i acc[MAX_QUERIES][4];
    float worth[MAX_QUERIES][2];
    (void)type;
    for (size_t i = 0; i < vectors; i += 2) {
        size_t g = dim / KV_GROUP + i / 2;
        struct span_scales scales = span_scales(t, g, n);
        for (size_t r = 0; r < n; r++)
            worth[r][i / 2] = weigh(t, r, g, &scales);
    }
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t i = 0; i < vectors; i++)
            acc[r][i] = _mm512_setzero_si512();
    for (uint32_t first = t->begin; first < t->n_positions; first += KV_BLOCK)
        add_block(acc, t, first, dim, n, vectors);
#pragma GCC unroll 16 /* or the sums live in memory */
    for (size_t r = 0; r < n; r++)
#pragma GCC unroll 16 /* or the sums live in memory */
        for (size_t i = 0; i < vectors; i++)
            fold_numerators(t, r, dim + i * LANES,
                            v_mul(_mm512_cvtepi32_ps(acc[r][i]), v_set1(worth[r][i / 2])));
}

#define ATTN_OWN_STEPS
#include "kernels/x86/attn_flow_avx2.h"

static void attn_q8_0_avx512vnni(const struct attn_args *a)
{
    attend(a, KV_Q8_0);
}

void attn_avx512vnni_fill(struct kernels *k)
{
    k->attn[KV_Q8_0] = attn_q8_0_avx512vnni;
}
