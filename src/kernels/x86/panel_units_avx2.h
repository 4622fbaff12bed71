/* Products with AVX2 for types of 4 and 5 bits with one scale for a group.
 *
 * vpmaddwd, which widens the int16 sums, has a free factor: the group's scale in whole units of its
 * row (panel.h), so that no float multiplication by it is left. A pair's float operations, in the
 * order of K, all in units until the last division, which is exact:
 *
 *     acc = fma(fma(m, x.total, sum), x.scale, acc)
 *
 * A scale is off by 2^-14 of its row's largest at most. Where many tiles pass by a panel it is
 * expanded first, a part of K at a time that stays in cache:
 *
 *     group: 8 lines of quants, one a byte | scales[16], each twice as int16 | minima[16], float
 */
#ifndef FIRSTLIGHT_KERNELS_X86_PANEL_UNITS_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_PANEL_UNITS_AVX2_H

#include "kernels/x86/panel_tile_avx2.h"

#define PART_GROUPS    48 /* 30 KiB expanded */
#define EXPAND_TILES   3  /* so many tiles are worth it */
#define EXPANDED_SCALE (8 * PANEL_LINE)
#define EXPANDED_MIN   (9 * PANEL_LINE)
#define EXPANDED_GROUP (10 * PANEL_LINE)

static const struct panel_format expanded_4 = {PANEL_EXPANDED, 0, 4, 0, 0, 1, 0, EXPANDED_GROUP};
static const struct panel_format expanded_5 = {PANEL_EXPANDED, 0, 5, 0, 0, 1, 0, EXPANDED_GROUP};

ALWAYS_INLINE int has_units(const struct panel_format *f)
{
    return f->scales == PANEL_EXPANDED || f->head > 0;
}

/* A group's scales in units, one a lane; of packed groups. */
ALWAYS_INLINE __m256i whole_scales(const struct tile *t, size_t g, int v,
                                   const struct panel_format *f)
{
    __m256 d = weight_scale(t->w + chunk_offset(g, f), g % f->groups, v, f);
    return _mm256_cvtps_epi32(_mm256_mul_ps(d, _mm256_load_ps(t->units + 8 * v)));
}

/* As both int16 of their lanes. */
ALWAYS_INLINE __m256i scale_units(const struct tile *t, size_t g, int v,
                                  const struct panel_format *f)
{
    if (f->scales == PANEL_EXPANDED)
        return load256(t->w + chunk_offset(g, f) + EXPANDED_SCALE + 32 * v);
    return twice(whole_scales(t, g, v, f));
}

/* The minima, or what zero points take off, in units. */
ALWAYS_INLINE __m256 min_units(const struct tile *t, size_t g, int v, const struct panel_format *f)
{
    const uint8_t *chunk = t->w + chunk_offset(g, f);
    if (f->scales == PANEL_EXPANDED)
        return _mm256_load_ps((const float *)(const void *)(chunk + EXPANDED_MIN + 32 * v));
    if (f->scales == PANEL_D)
        return _mm256_mul_ps(_mm256_cvtepi32_ps(whole_scales(t, g, v, f)),
                             _mm256_set1_ps((float)-f->zero));
    __m256 units = _mm256_load_ps(t->units + 8 * v);
    if (f->scales == PANEL_K) /* stored negated */
        units = _mm256_sub_ps(_mm256_setzero_ps(), units);
    return _mm256_mul_ps(weight_min(chunk, g % f->groups, v, f), units);
}

ALWAYS_INLINE void fold_units(float acc[MOST_TOKENS][PANEL_ROWS], tile_sums sum,
                              const struct tile *t, size_t g, int tokens,
                              const struct panel_format *f)
{
    __m256 m[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) m[v] = min_units(t, g, v, f);
    UNROLL for (int j = 0; j < tokens; j++)
    {
        const struct q8_block *x = t->x + (size_t)j * t->x_stride + g;
        __m256 scale = _mm256_broadcast_ss(&x->scale), total = _mm256_cvtepi32_ps(x_total(x));
        UNROLL for (int v = 0; v < VECTORS; v++)
        {
            __m256 value = _mm256_fmadd_ps(m[v], total, _mm256_cvtepi32_ps(sum[v][j]));
            __m256 a = _mm256_load_ps(acc[j] + 8 * v);
            _mm256_store_ps(acc[j] + 8 * v, _mm256_fmadd_ps(value, scale, a));
        }
    }
}

ALWAYS_INLINE void load_sums(const struct tile *t, float acc[MOST_TOKENS][PANEL_ROWS], int tokens)
{
    size_t rows = t->n_rows < PANEL_ROWS ? t->n_rows : PANEL_ROWS;
    for (int j = 0; j < tokens; j++)
        memcpy(acc[j], t->out + (size_t)j * t->out_stride, rows * sizeof(float));
}

ALWAYS_INLINE void divide_sums(const struct tile *t, float acc[MOST_TOKENS][PANEL_ROWS], int tokens)
{
    UNROLL for (int j = 0; j < tokens; j++) UNROLL for (int v = 0; v < VECTORS; v++)
    {
        __m256 units = _mm256_load_ps(t->units + 8 * v);
        _mm256_store_ps(acc[j] + 8 * v, _mm256_div_ps(_mm256_load_ps(acc[j] + 8 * v), units));
    }
}

ALWAYS_INLINE void tile_run_units(const struct tile *args, int tokens, const struct panel_format *f,
                                  sum_group_fn *sum_group)
{
    _Alignas(32) float acc[MOST_TOKENS][PANEL_ROWS];
    struct tile t = *args;
    clear_sums(acc, tokens);
    if (t.go_on)
        load_sums(&t, acc, tokens);
    add_groups(acc, &t, tokens, f, sum_group, fold_units);
    if (t.units)
        divide_sums(&t, acc, tokens);
    store_sums(&t, acc, tokens);
}

/* Group g of t's panel. */
ALWAYS_INLINE void expand_group(uint8_t *out, const struct tile *t, size_t g,
                                const struct panel_format *f)
{
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        UNROLL for (int s = 0; s < 8; s++)
            _mm256_store_si256((__m256i *)(void *)(out + PANEL_LINE * s + 32 * v),
                               step_quants(t->w + quants_offset(g, f), v, s, f));
        _mm256_store_si256((__m256i *)(void *)(out + EXPANDED_SCALE + 32 * v),
                           scale_units(t, g, v, f));
        _mm256_store_ps((float *)(void *)(out + EXPANDED_MIN + 32 * v), min_units(t, g, v, f));
    }
}

typedef void expand_group_fn(uint8_t *out, const struct tile *t, size_t g);

/* One panel, part by part; `run` are tiles of expanded groups. */
static inline void matmul_expanded_panel(const struct matmul_q8_args *a, size_t n_tiles,
                                         expand_group_fn *expand, tile_fn *const *run)
{
    _Alignas(PANEL_LINE) uint8_t groups[PART_GROUPS * EXPANDED_GROUP];
    const struct tile panel = {.w = a->w, .units = a->w};
    for (size_t first = 0, end; first < a->n_groups; first = end) {
        end = first + PART_GROUPS < a->n_groups ? first + PART_GROUPS : a->n_groups;
        for (size_t g = first; g < end; g++)
            expand(groups + (g - first) * EXPANDED_GROUP, &panel, g);
        struct matmul_q8_args part = *a;
        part.x += first;
        part.n_groups = end - first;
        struct tile t = {
            .w = groups,
            .x_stride = a->x_stride,
            .n_groups = part.n_groups,
            .out_stride = a->out_stride,
            .n_rows = a->n_rows < PANEL_ROWS ? a->n_rows : PANEL_ROWS,
            .go_on = first > 0,
            .units = end == a->n_groups ? panel.units : NULL,
        };
        size_t bytes = a->panel_bytes * (end - first) / a->n_groups;
        const uint8_t *next = panel.w + a->panel_bytes * end / a->n_groups;
        tiles_run(&part, &t, n_tiles, run, next, bytes);
    }
}

/* tiles: of packed panels, for few tokens; run: of expanded ones. */
static inline void matmul_units(const struct matmul_q8_args *args, tile_fn *const *tiles,
                                expand_group_fn *expand, tile_fn *const *run)
{
    struct matmul_q8_args a = *args;
    size_t n_tiles = (a.n_tokens + MOST_TOKENS - 1) / MOST_TOKENS;
    if (n_tiles < EXPAND_TILES) {
        matmul_tiles(args, tiles, MOST_TOKENS, NULL, MOST_TOKENS);
        return;
    }
    while (a.n_rows > 0) {
        size_t n_rows = a.n_rows < PANEL_ROWS ? a.n_rows : PANEL_ROWS;
        matmul_expanded_panel(&a, n_tiles, expand, run);
        a.w = (const uint8_t *)a.w + a.panel_bytes;
        a.out += n_rows;
        a.n_rows -= n_rows;
    }
}

#endif
