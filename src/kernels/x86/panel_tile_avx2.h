/* What the AVX2 and AVX-VNNI products share: a tile is one panel (panel.h), its 16 rows two vectors
 * of 8, by a few tokens. Integer sums take the registers; the float ones lie in L1 and are touched
 * once per group.
 */
#ifndef FIRSTLIGHT_KERNELS_X86_PANEL_TILE_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_PANEL_TILE_AVX2_H

#include "kernels/quant_blocks.h"
#include "kernels/x86/panel_tiles_x86.h"

#include <immintrin.h>
#include <string.h>

#define VECTORS     2
#define MOST_TOKENS 5

typedef __m256i tile_sums[VECTORS][MOST_TOKENS];

ALWAYS_INLINE __m256i load256(const uint8_t *p)
{
    return _mm256_load_si256((const __m256i *)p);
}

/* The bits `mask` of the bytes, after they moved right by `right` (left if negative). */
ALWAYS_INLINE __m256i bits_of(const uint8_t *p, int right, int mask)
{
    __m256i v = load256(p);
    v = right < 0 ? _mm256_slli_epi16(v, -right) : _mm256_srli_epi16(v, right);
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* Values 4s .. 4s + 3 of the rows of vector v, unsigned; of a type with a table, its places. */
ALWAYS_INLINE __m256i step_quants(const uint8_t *group, int v, int s, const struct panel_format *f)
{
    group += 32 * v;
    if (f->bits == 8 || f->scales == PANEL_EXPANDED)
        return load256(group + PANEL_LINE * s);
    if (f->bits < 4) {
        __m256i q = bits_of(group + PANEL_LINE * (s / 4), 2 * (s % 4), 3);
        return f->bits == 2 ? q : _mm256_or_si256(q, bits_of(group + PANEL_LINE * 2, s - 2, 4));
    }
    __m256i q = bits_of(group + PANEL_LINE * (s % 4), s / 4 * 4, 15);
    if (f->bits == 4)
        return q;
    int line = f->bits == 5 ? 4 : 4 + s / 4, bit = f->bits == 5 ? s : 2 * (s % 4);
    return _mm256_or_si256(q,
                           bits_of(group + PANEL_LINE * line, bit - 4, f->bits == 5 ? 0x10 : 0x30));
}

/* What the places stand for, signed. */
ALWAYS_INLINE __m256i look_up_iq4(__m256i places)
{
    return _mm256_shuffle_epi8(_mm256_setr_epi8(QUANT_IQ4, QUANT_IQ4), places);
}

/* The same plus 128. */
ALWAYS_INLINE __m256i look_up_iq4_unsigned(__m256i places)
{
    const __m256i table = _mm256_setr_epi8(QUANT_IQ4, QUANT_IQ4);
    return _mm256_shuffle_epi8(_mm256_xor_si256(table, _mm256_set1_epi8(-128)), places);
}

ALWAYS_INLINE __m256i broadcast_word(const void *p)
{
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm256_set1_epi32(word);
}

ALWAYS_INLINE __m256i x_total(const struct q8_block *x)
{
    return _mm256_srai_epi32(broadcast_word(&x->first), 16);
}

/* The sum of x over one half of the group. */
ALWAYS_INLINE __m256i x_half_total(const struct q8_block *x, int half)
{
    __m256i word = broadcast_word(&x->first);
    __m256i first = _mm256_srai_epi32(_mm256_slli_epi32(word, 16), 16);
    return half == 0 ? first : _mm256_sub_epi32(_mm256_srai_epi32(word, 16), first);
}

ALWAYS_INLINE __m256 halves_to_float(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)p));
}

ALWAYS_INLINE __m256i signed_bytes(const uint8_t *p)
{
    return _mm256_cvtepi8_epi32(_mm_loadu_si64(p));
}

ALWAYS_INLINE __m256i unsigned_bytes(const uint8_t *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadu_si64(p));
}

/* d of group `in` of a chunk, times the group's scale; scales of halves are left out. */
ALWAYS_INLINE __m256 weight_scale(const uint8_t *chunk, size_t in, int v,
                                  const struct panel_format *f)
{
    if (f->scales == PANEL_D || f->scales == PANEL_DM)
        return halves_to_float(chunk + PANEL_D_AT(in) + 16 * v);
    __m256 d = halves_to_float(chunk + 16 * v);
    const uint8_t *scale = chunk + PANEL_SCALE_AT(in) + 8 * v;
    if (f->scales == PANEL_K)
        d = _mm256_mul_ps(d, _mm256_cvtepi32_ps(unsigned_bytes(scale)));
    if (f->scales == PANEL_GROUPS)
        d = _mm256_mul_ps(d, _mm256_cvtepi32_ps(signed_bytes(scale)));
    return d;
}

ALWAYS_INLINE int has_min(const struct panel_format *f)
{
    return f->scales == PANEL_DM || f->scales == PANEL_K || f->scales == PANEL_NIBBLES;
}

/* The minimum, negated for K types; minima of halves are left out. */
ALWAYS_INLINE __m256 weight_min(const uint8_t *chunk, size_t in, int v,
                                const struct panel_format *f)
{
    if (f->scales == PANEL_DM)
        return halves_to_float(chunk + PANEL_M_AT(in) + 16 * v);
    __m256 m = halves_to_float(chunk + PANEL_DMIN_AT + 16 * v);
    if (f->scales == PANEL_K)
        m = _mm256_mul_ps(m, _mm256_cvtepi32_ps(unsigned_bytes(chunk + PANEL_MIN_AT(in) + 8 * v)));
    return m;
}

/* A number for each half of the group: one as both int16 of a lane, or a factor for q8_block's
 * sums. */
struct halves {
    __m256i of[2];
};

ALWAYS_INLINE __m256i twice(__m256i v)
{
    return _mm256_or_si256(_mm256_slli_epi32(v, 16),
                           _mm256_and_si256(v, _mm256_set1_epi32(0xffff)));
}

ALWAYS_INLINE int has_half_scales(const struct panel_format *f)
{
    return f->scales == PANEL_HALVES || f->scales == PANEL_MIRRORED || f->scales == PANEL_NIBBLES;
}

/* The scales of the halves; without a sign where the quants are mirrored for it. */
ALWAYS_INLINE struct halves half_scales(const uint8_t *chunk, size_t in, int v,
                                        const struct panel_format *f)
{
    struct halves s;
    UNROLL for (int h = 0; h < 2; h++)
    {
        const uint8_t *p = chunk + PANEL_HALF_AT(in, h) + 8 * v;
        if (f->scales == PANEL_NIBBLES)
            s.of[h] = _mm256_and_si256(unsigned_bytes(p), _mm256_set1_epi32(15));
        else if (f->scales == PANEL_MIRRORED)
            s.of[h] = _mm256_abs_epi32(signed_bytes(p));
        else
            s.of[h] = signed_bytes(p);
    }
    return s;
}

/* What the halves' zeros weigh: zero * s, or where mirrored zero * |s|, less |s| if s < 0. */
ALWAYS_INLINE struct halves half_zeros(const uint8_t *chunk, size_t in, int v,
                                       const struct panel_format *f)
{
    struct halves z = half_scales(chunk, in, v, f);
    UNROLL for (int h = 0; h < 2; h++)
    {
        z.of[h] = _mm256_slli_epi32(z.of[h], __builtin_ctz((unsigned)f->zero));
        if (f->scales == PANEL_MIRRORED) {
            __m256i s = signed_bytes(chunk + PANEL_HALF_AT(in, h) + 8 * v);
            z.of[h] = _mm256_add_epi32(z.of[h], _mm256_min_epi32(s, _mm256_setzero_si256()));
        }
    }
    return z;
}

ALWAYS_INLINE struct halves half_minima(const uint8_t *chunk, size_t in, int v)
{
    struct halves m;
    UNROLL for (int h = 0; h < 2; h++) m.of[h] =
        _mm256_srli_epi32(unsigned_bytes(chunk + PANEL_HALF_AT(in, h) + 8 * v), 4);
    return m;
}

/* of[0] * the sum of x over the first half + of[1] * that over the second, that is
 * (of[0] - of[1]) * first + of[1] * total. */
ALWAYS_INLINE __m256i dot_sums(struct halves by, const struct q8_block *x)
{
    __m256i first = _mm256_sub_epi16(by.of[0], by.of[1]);
    __m256i pair = _mm256_blend_epi16(first, _mm256_slli_epi32(by.of[1], 16), 0xaa);
    return _mm256_madd_epi16(pair, broadcast_word(&x->first));
}

/* acc += the sums times the scales of weights and activations, and the minimum's part. */
ALWAYS_INLINE void fold(float acc[MOST_TOKENS][PANEL_ROWS], tile_sums sum, const struct tile *t,
                        size_t g, int tokens, const struct panel_format *f)
{
    const uint8_t *chunk = t->w + chunk_offset(g, f);
    size_t in = g % f->groups;
    __m256 d[VECTORS], m[VECTORS];
    struct halves minima[VECTORS] = {0};
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        d[v] = weight_scale(chunk, in, v, f);
        m[v] = has_min(f) ? weight_min(chunk, in, v, f) : _mm256_setzero_ps();
        if (f->scales == PANEL_NIBBLES)
            minima[v] = half_minima(chunk, in, v);
    }
    UNROLL for (int j = 0; j < tokens; j++)
    {
        const struct q8_block *x = t->x + (size_t)j * t->x_stride + g;
        __m256 scale = _mm256_broadcast_ss(&x->scale), total = _mm256_cvtepi32_ps(x_total(x));
        UNROLL for (int v = 0; v < VECTORS; v++)
        {
            __m256 a = _mm256_load_ps(acc[j] + 8 * v), value = _mm256_cvtepi32_ps(sum[v][j]);
            if (f->scales == PANEL_NIBBLES)
                total = _mm256_cvtepi32_ps(dot_sums(minima[v], x));
            if (has_min(f)) {
                value = _mm256_mul_ps(value, d[v]);
                value = f->scales == PANEL_DM ? _mm256_fmadd_ps(m[v], total, value)
                                              : _mm256_fnmadd_ps(m[v], total, value);
                a = _mm256_fmadd_ps(value, scale, a);
            } else {
                a = _mm256_fmadd_ps(value, _mm256_mul_ps(d[v], scale), a);
            }
            _mm256_store_ps(acc[j] + 8 * v, a);
        }
    }
}

/* The exact integer sums of group g, zero points and the halves' scales included. */
typedef void sum_group_fn(tile_sums sum, const struct tile *t, size_t g, int tokens,
                          const struct panel_format *f);

/* Loops over constants, not memset and memcpy: gcc makes `rep stos` and calls of those. */
ALWAYS_INLINE void clear_sums(float acc[MOST_TOKENS][PANEL_ROWS], int tokens)
{
    UNROLL for (int j = 0; j < tokens; j++) UNROLL for (int v = 0; v < VECTORS; v++)
        _mm256_store_ps(acc[j] + 8 * v, _mm256_setzero_ps());
}

ALWAYS_INLINE void store_sums(const struct tile *t, float acc[MOST_TOKENS][PANEL_ROWS], int tokens)
{
    UNROLL for (int j = 0; j < tokens; j++)
    {
        float *out = t->out + (size_t)j * t->out_stride;
        if (t->n_rows < PANEL_ROWS)
            memcpy(out, acc[j], t->n_rows * sizeof *out);
        else
            UNROLL for (int v = 0; v < VECTORS; v++)
                _mm256_storeu_ps(out + 8 * v, _mm256_load_ps(acc[j] + 8 * v));
    }
}

/* acc += what group g adds to it. */
typedef void fold_fn(float acc[MOST_TOKENS][PANEL_ROWS], tile_sums sum, const struct tile *t,
                     size_t g, int tokens, const struct panel_format *f);

ALWAYS_INLINE void add_groups(float acc[MOST_TOKENS][PANEL_ROWS], struct tile *t, int tokens,
                              const struct panel_format *f, sum_group_fn *sum_group,
                              fold_fn *fold_group)
{
    for (size_t g = 0; g < t->n_groups; g++) {
        tile_sums sum;
        tile_fetch(t->ahead, t->ahead_step);
        t->ahead += t->ahead_step;
        sum_group(sum, t, g, tokens, f);
        fold_group(acc, sum, t, g, tokens, f);
        /* gcc would keep some of acc in registers, and spill sums for it */
        __asm__ volatile("" : : "r"(acc) : "memory");
    }
}

ALWAYS_INLINE void tile_run(const struct tile *args, int tokens, const struct panel_format *f,
                            sum_group_fn *sum_group)
{
    _Alignas(32) float acc[MOST_TOKENS][PANEL_ROWS];
    struct tile t = *args;
    clear_sums(acc, tokens);
    add_groups(acc, &t, tokens, f, sum_group, fold);
    store_sums(&t, acc, tokens);
}

#endif
