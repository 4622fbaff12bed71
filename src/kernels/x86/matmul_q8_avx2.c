/* Packed weights times int8 activations with AVX2: tiles of a panel and five tokens.
 *
 * vpmaddubsw adds two products of an unsigned and a signed byte into int16. |x| <= 127, so
 *
 *     4 bits  2 * 15 * 127 =  3810   8 steps fit 32767: the whole group is summed in int16
 *     5 bits  2 * 31 * 127 =  7874   4 steps; 2 and 3 bits have a scale for each half: 4 steps
 *     6 bits  2 * 63 * 127 = 16002   2 steps
 *     8 bits  2 * 128 * 127 = 32512  1 step, on magnitudes; the weight's sign moves to x. So are
 *                                    the signed bytes that the IQ4 types' places stand for.
 *
 * before vpmaddwd widens them, with the halves' or, in whole units, the group's scales as its other
 * operand. Sums are exact, whichever way they are computed; the float operations and their order
 * are in panel_tile_avx2.h and panel_units_avx2.h.
 */
#include "kernels/variants.h"
#include "kernels/x86/panel_units_avx2.h"

#define TOKENS 5

ALWAYS_INLINE int is_signed(const struct panel_format *f)
{
    return f->bits == 8 || f->table;
}

ALWAYS_INLINE int int16_steps(const struct panel_format *f)
{
    return is_signed(f) ? 1 : f->bits == 4 ? 8 : f->bits == 6 ? 2 : 4;
}

/* Step n in the order of computation: both nibbles of a line one after the other, unless the halves
 * have different scales. */
ALWAYS_INLINE int step_at(int n, const struct panel_format *f)
{
    return f->bits == 4 || f->bits == 5 ? n / 2 + n % 2 * 4 : n;
}

ALWAYS_INLINE __m256i multiply(__m256i w, __m256i x, const struct panel_format *f)
{
    if (!is_signed(f))
        return _mm256_maddubs_epi16(w, x);
    __m256i value = f->table ? look_up_iq4(w) : _mm256_xor_si256(w, _mm256_set1_epi8(-128));
    return _mm256_maddubs_epi16(_mm256_abs_epi8(value), _mm256_sign_epi8(x, value));
}

/* part = the int16 sums of int16_steps() steps from n on. */
ALWAYS_INLINE void sum_part(tile_sums part, const struct tile *t, size_t g, int n, int tokens,
                            const struct panel_format *f)
{
    UNROLL for (int i = 0; i < int16_steps(f); i++)
    {
        int s = step_at(n + i, f);
        __m256i w[VECTORS];
        UNROLL for (int v = 0; v < VECTORS; v++) w[v] =
            step_quants(t->w + quants_offset(g, f), v, s, f);
        UNROLL for (int j = 0; j < tokens; j++)
        {
            __m256i x = broadcast_word((t->x + (size_t)j * t->x_stride + g)->q + 4 * s);
            UNROLL for (int v = 0; v < VECTORS; v++)
            {
                __m256i p = multiply(w[v], x, f);
                part[v][j] = i == 0 ? p : _mm256_add_epi16(part[v][j], p);
                KEEP_ORDER(part[v][j]);
            }
        }
    }
}

/* What the zero point adds to a sum. */
ALWAYS_INLINE __m256i zero_part(const uint8_t *chunk, size_t in, int v, const struct q8_block *x,
                                const struct panel_format *f)
{
    if (has_half_scales(f))
        return dot_sums(half_zeros(chunk, in, v, f), x);
    return _mm256_slli_epi32(x_total(x), __builtin_ctz((unsigned)f->zero));
}

ALWAYS_INLINE void sum_group_avx2(tile_sums sum, const struct tile *t, size_t g, int tokens,
                                  const struct panel_format *f)
{
    const uint8_t *chunk = t->w + chunk_offset(g, f);
    size_t in = g % f->groups;
    UNROLL for (int n = 0; n < 8; n += int16_steps(f))
    {
        tile_sums part;
        sum_part(part, t, g, n, tokens, f);
        UNROLL for (int v = 0; v < VECTORS; v++)
        {
            __m256i by = _mm256_set1_epi16(1);
            if (has_units(f))
                by = scale_units(t, g, v, f);
            if (has_half_scales(f))
                by = twice(half_scales(chunk, in, v, f).of[n / 4]);
            UNROLL for (int j = 0; j < tokens; j++)
            {
                __m256i wide = _mm256_madd_epi16(part[v][j], by);
                sum[v][j] = n == 0 ? wide : _mm256_add_epi32(sum[v][j], wide);
            }
        }
    }
    if (f->zero == 0 || is_signed(f) || has_units(f)) /* then fold_units does it */
        return;
    UNROLL for (int v = 0; v < VECTORS; v++) UNROLL for (int j = 0; j < tokens; j++) sum[v][j] =
        _mm256_sub_epi32(sum[v][j], zero_part(chunk, in, v, t->x + (size_t)j * t->x_stride + g, f));
}

/* A type's tiles and its entry. */
ALWAYS_INLINE void run(const struct tile *t, int tokens, const struct panel_format *f)
{
    if (has_units(f))
        tile_run_units(t, tokens, f, sum_group_avx2);
    else
        tile_run(t, tokens, f, sum_group_avx2);
}

#define TILE(name, tokens)                                                                         \
    static void tile_##name##_##tokens##_avx2(const struct tile *t)                                \
    {                                                                                              \
        run(t, tokens, &panel_##name);                                                             \
    }
#define TILE_EXPANDED(bits, tokens)                                                                \
    static void tile_expanded_##bits##_##tokens##_avx2(const struct tile *t)                       \
    {                                                                                              \
        run(t, tokens, &expanded_##bits);                                                          \
    }
#define EACH_TILE(X, name)           X(name, 1) X(name, 2) X(name, 3) X(name, 4) X(name, 5)
#define ENTRY(name, tokens)          tile_##name##_##tokens##_avx2,
#define ENTRY_EXPANDED(bits, tokens) tile_expanded_##bits##_##tokens##_avx2,

EACH_TILE(TILE_EXPANDED, 4)
EACH_TILE(TILE_EXPANDED, 5)
static tile_fn *const tiles_expanded_4[TOKENS] = {EACH_TILE(ENTRY_EXPANDED, 4)};
static tile_fn *const tiles_expanded_5[TOKENS] = {EACH_TILE(ENTRY_EXPANDED, 5)};

#define X(type, name, groups)                                                                      \
    EACH_TILE(TILE, name)                                                                          \
    static void expand_##name##_avx2(uint8_t *out, const struct tile *t, size_t g)                 \
    {                                                                                              \
        expand_group(out, t, g, &panel_##name);                                                    \
    }                                                                                              \
    static void matmul_q8_##name##_avx2(const struct matmul_q8_args *a)                            \
    {                                                                                              \
        static tile_fn *const tiles[TOKENS] = {EACH_TILE(ENTRY, name)};                            \
        if (has_units(&panel_##name))                                                              \
            matmul_units(a, tiles, expand_##name##_avx2,                                           \
                         panel_##name.bits == 4 ? tiles_expanded_4 : tiles_expanded_5);            \
        else                                                                                       \
            matmul_tiles(a, tiles, TOKENS, NULL, TOKENS);                                          \
    }
QUANT_TYPE_MAP(X)
#undef X

void matmul_q8_avx2_fill(struct kernels *k)
{
#define X(type, name, groups) k->matmul_q8[TENSOR_##type] = matmul_q8_##name##_avx2;
    QUANT_TYPE_MAP(X)
#undef X
}
