/* Packed weights times int8 activations with AVX-VNNI, on processors without AVX-512: tiles of a
 * panel and five tokens.
 *
 * vpdpbusd adds four products of unsigned and signed bytes to an int32 lane without saturation
 * (255 * 127 * 32 fits), so every type is summed alike; a sum starts at -zero * total. A scale for
 * each half multiplies Q2_K's and Q3_K's quants before the sum, as they stay below 256; in Q6_K it
 * multiplies the halves' sums.
 */
#include "kernels/variants.h"
#include "kernels/x86/panel_tile_avx2.h"

#define TOKENS 5

/* Types whose scaled quants still are bytes. No product carries into the upper byte of an int16. */
ALWAYS_INLINE int scales_quants(const struct panel_format *f)
{
    return f->scales == PANEL_MIRRORED || f->scales == PANEL_NIBBLES;
}

/* What is multiplied in step s of group g, unsigned. */
ALWAYS_INLINE __m256i step_weights(const struct tile *t, size_t g, int v, int s,
                                   const struct panel_format *f)
{
    __m256i w = step_quants(t->w + quants_offset(g, f), v, s, f);
    if (f->table)
        return look_up_iq4_unsigned(w);
    if (!scales_quants(f))
        return w;
    const uint8_t *chunk = t->w + chunk_offset(g, f);
    return _mm256_mullo_epi16(w, twice(half_scales(chunk, g % f->groups, v, f).of[s / 4]));
}

/* Where the sum of a whole group (half < 0), or of a half, starts. */
ALWAYS_INLINE __m256i sum_start(const struct tile *t, size_t g, int v, int half,
                                const struct q8_block *x, const struct panel_format *f)
{
    __m256i zero = _mm256_setzero_si256();
    if (!f->zero)
        return zero;
    if (f->scales == PANEL_MIRRORED)
        return _mm256_sub_epi32(
            zero, dot_sums(half_zeros(t->w + chunk_offset(g, f), g % f->groups, v, f), x));
    __m256i total = half < 0 ? x_total(x) : x_half_total(x, half);
    return _mm256_sub_epi32(zero, _mm256_slli_epi32(total, __builtin_ctz((unsigned)f->zero)));
}

/* The sums of a whole group (half < 0) or of one half of it. */
ALWAYS_INLINE void sum_steps(tile_sums sum, const struct tile *t, size_t g, int half, int tokens,
                             const struct panel_format *f)
{
    UNROLL for (int j = 0; j < tokens; j++)
    {
        const struct q8_block *x = t->x + (size_t)j * t->x_stride + g;
        UNROLL for (int v = 0; v < VECTORS; v++) sum[v][j] = sum_start(t, g, v, half, x, f);
    }
    UNROLL for (int n = 0; n < 8; n++)
    {
        int s = f->bits == 4 || f->bits == 5 ? n / 2 + n % 2 * 4 : n;
        if (half >= 0 && s / 4 != half)
            continue;
        __m256i w[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) w[v] = step_weights(t, g, v, s, f);
        UNROLL for (int j = 0; j < tokens; j++)
        {
            __m256i x = broadcast_word((t->x + (size_t)j * t->x_stride + g)->q + 4 * s);
            UNROLL for (int v = 0; v < VECTORS; v++)
            {
                sum[v][j] = _mm256_dpbusd_avx_epi32(sum[v][j], w[v], x);
                KEEP_ORDER(sum[v][j]);
            }
        }
    }
}

/* Q6_K: the halves' sums times their scales, the first kept in memory while the second is summed.
 */
ALWAYS_INLINE void sum_halves(tile_sums sum, const struct tile *t, size_t g, int tokens,
                              const struct panel_format *f)
{
    const uint8_t *chunk = t->w + chunk_offset(g, f);
    size_t in = g % f->groups;
    tile_sums first;
    for (int half = 0; half < 2; half++) {
        sum_steps(sum, t, g, half, tokens, f);
        UNROLL for (int v = 0; v < VECTORS; v++)
        {
            __m256i scale = half_scales(chunk, in, v, f).of[half];
            UNROLL for (int j = 0; j < tokens; j++)
            {
                sum[v][j] = _mm256_mullo_epi32(sum[v][j], scale);
                if (half == 0)
                    first[v][j] = sum[v][j];
                else
                    sum[v][j] = _mm256_add_epi32(sum[v][j], first[v][j]);
            }
        }
    }
}

ALWAYS_INLINE void sum_group_avxvnni(tile_sums sum, const struct tile *t, size_t g, int tokens,
                                     const struct panel_format *f)
{
    if (f->scales == PANEL_HALVES)
        sum_halves(sum, t, g, tokens, f);
    else
        sum_steps(sum, t, g, -1, tokens, f);
}

/* A type's tiles and its entry. */
#define TILE(name, tokens)                                                                         \
    static void tile_##name##_##tokens##_avxvnni(const struct tile *t)                             \
    {                                                                                              \
        tile_run(t, tokens, &panel_##name, sum_group_avxvnni);                                     \
    }
#define EACH_TILE(X, name)  X(name, 1) X(name, 2) X(name, 3) X(name, 4) X(name, 5)
#define ENTRY(name, tokens) tile_##name##_##tokens##_avxvnni,
#define X(type, name, groups)                                                                      \
    EACH_TILE(TILE, name)                                                                          \
    static void matmul_q8_##name##_avxvnni(const struct matmul_q8_args *a)                         \
    {                                                                                              \
        static tile_fn *const tiles[TOKENS] = {EACH_TILE(ENTRY, name)};                            \
        matmul_tiles(a, tiles, TOKENS, NULL, TOKENS);                                              \
    }
QUANT_TYPE_MAP(X)
#undef X

void matmul_q8_avxvnni_fill(struct kernels *k)
{
#define X(type, name, groups) k->matmul_q8[TENSOR_##type] = matmul_q8_##name##_avxvnni;
    QUANT_TYPE_MAP(X)
#undef X
}
