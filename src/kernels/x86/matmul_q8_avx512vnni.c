/* Packed weights times int8 activations with AVX-512 VNNI: a line of a panel is one vector. A tile
 * is two panels by six tokens: 12 integer sums, 12 float ones, 2 vectors of weights, a broadcast.
 * Up to ten tokens are one tile with a panel.
 *
 * vpdpbusd adds four products of unsigned and signed bytes to an int32 lane without saturation
 * (255 * 127 * 32 fits), so a group is eight of them whatever the type. Multiplications of all
 * kinds share two ports; unpacking, conversions and the start of a sum at -zero * total run beside
 * them. A pair's float operations, in the order of K:
 *
 *     no minimum   acc = fma(sum, d * x.scale, acc)
 *     minimum      acc = fma(fma(m, x.total, sum * d), x.scale, acc)
 *     Q6_K         the first for each half of the group, with d * scale[half]
 *
 * Q2_K's and Q3_K's scales multiply the quants before the sum, as both stay below 256: one pass and
 * one float operation for both halves. What the halves' zero points or minima weigh is one product
 * of pairs of int16 with the block's two sums.
 */
#include "kernels/quant_blocks.h"
#include "kernels/variants.h"
#include "kernels/x86/panel_tiles_x86.h"
#include "kernels/x86/vec_avx512.h"

#include <immintrin.h>
#include <string.h>

#define TOKENS     6
#define ONE_TOKENS 10 /* against one panel, whose stream two tiles would read in turns */

/* Bytes moved right (left if negative); what crosses over is masked away later. */
ALWAYS_INLINE __m512i moved(const uint8_t *line, int right)
{
    __m512i v = _mm512_load_si512(line);
    return right < 0 ? _mm512_slli_epi16(v, (unsigned)-right)
                     : _mm512_srli_epi16(v, (unsigned)right);
}

/* low | (high & mask) */
ALWAYS_INLINE __m512i joined(__m512i low, __m512i high, int mask)
{
    return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8((char)mask), 0xf8);
}

/* Values 4s .. 4s + 3 of each row, unsigned. */
ALWAYS_INLINE __m512i step_quants(const uint8_t *group, int s, const struct panel_format *f)
{
    if (f->bits == 8)
        return _mm512_load_si512(group + PANEL_LINE * s);
    if (f->bits < 4) {
        __m512i v = moved(group + PANEL_LINE * (s / 4), 2 * (s % 4));
        v = _mm512_and_si512(v, _mm512_set1_epi8(3));
        return f->bits == 2 ? v : joined(v, moved(group + PANEL_LINE * 2, s - 2), 4);
    }
    __m512i v = moved(group + PANEL_LINE * (s % 4), s / 4 * 4);
    v = _mm512_and_si512(v, _mm512_set1_epi8(15));
    if (f->table) {
        const __m512i table = _mm512_broadcast_i32x4(_mm_setr_epi8(QUANT_IQ4));
        return _mm512_shuffle_epi8(_mm512_xor_si512(table, _mm512_set1_epi8(-128)), v);
    }
    if (f->bits == 5)
        v = joined(v, moved(group + PANEL_LINE * 4, s - 4), 0x10);
    if (f->bits == 6)
        v = joined(v, moved(group + PANEL_LINE * (4 + s / 4), 2 * (s % 4) - 4), 0x30);
    return v;
}

/* Types whose scaled quants still are bytes. No product carries into the upper byte of an int16. */
ALWAYS_INLINE int scales_quants(const struct panel_format *f)
{
    return f->scales == PANEL_MIRRORED || f->scales == PANEL_NIBBLES;
}

/* The sum of x over the whole group (half < 0) or over one half of it. */
ALWAYS_INLINE __m512i x_total(const struct q8_block *x, int half)
{
    __m512i word = broadcast_word(&x->first);
    __m512i total = _mm512_srai_epi32(word, 16);
    if (half < 0)
        return total;
    __m512i first = _mm512_srai_epi32(_mm512_slli_epi32(word, 16), 16);
    return half == 0 ? first : _mm512_sub_epi32(total, first);
}

ALWAYS_INLINE __m512 halves_to_float(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)p));
}

ALWAYS_INLINE __m512i signed_bytes(const uint8_t *p)
{
    return _mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *)p));
}

ALWAYS_INLINE __m512i unsigned_bytes(const uint8_t *p)
{
    return _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)p));
}

/* The scale of group `in` of a chunk, or of one half of it. */
ALWAYS_INLINE __m512 weight_scale(const uint8_t *chunk, size_t in, int half,
                                  const struct panel_format *f)
{
    if (f->scales == PANEL_D || f->scales == PANEL_DM)
        return halves_to_float(chunk + PANEL_D_AT(in));
    if (scales_quants(f))
        return halves_to_float(chunk);
    __m512i scale = f->scales == PANEL_K        ? unsigned_bytes(chunk + PANEL_SCALE_AT(in))
                    : f->scales == PANEL_GROUPS ? signed_bytes(chunk + PANEL_SCALE_AT(in))
                                                : signed_bytes(chunk + PANEL_HALF_AT(in, half));
    return _mm512_mul_ps(halves_to_float(chunk), _mm512_cvtepi32_ps(scale));
}

ALWAYS_INLINE int has_min(const struct panel_format *f)
{
    return f->scales == PANEL_DM || f->scales == PANEL_K || f->scales == PANEL_NIBBLES;
}

/* The minimum, negated for K types; minima of halves are left out. */
ALWAYS_INLINE __m512 weight_min(const uint8_t *chunk, size_t in, const struct panel_format *f)
{
    if (f->scales == PANEL_DM)
        return halves_to_float(chunk + PANEL_M_AT(in));
    __m512 m = halves_to_float(chunk + PANEL_DMIN_AT);
    if (f->scales == PANEL_K)
        m = _mm512_mul_ps(m, _mm512_cvtepi32_ps(unsigned_bytes(chunk + PANEL_MIN_AT(in))));
    return m;
}

/* The scale of a half as both int16 of a lane, without a sign if the quants are mirrored for it. */
ALWAYS_INLINE __m512i half_scale(const uint8_t *chunk, size_t in, int half,
                                 const struct panel_format *f)
{
    const uint8_t *p = chunk + PANEL_HALF_AT(in, half);
    __m512i s = f->scales == PANEL_NIBBLES
                    ? _mm512_and_si512(unsigned_bytes(p), _mm512_set1_epi32(15))
                    : _mm512_abs_epi32(signed_bytes(p));
    return _mm512_or_si512(s, _mm512_slli_epi32(s, 16));
}

/* What a half's sum of x is multiplied with beside the quants: its minimum, or what its zero
 * weighs: -zero * |s|, plus |s| if s < 0. */
ALWAYS_INLINE __m512i half_factor(const uint8_t *chunk, size_t in, int half,
                                  const struct panel_format *f)
{
    const uint8_t *p = chunk + PANEL_HALF_AT(in, half);
    if (f->scales == PANEL_NIBBLES)
        return _mm512_srli_epi32(unsigned_bytes(p), 4);
    __m512i s = signed_bytes(p), zero = _mm512_set1_epi32(-f->zero);
    __m512i above =
        _mm512_max_epi32(_mm512_sub_epi32(_mm512_setzero_si512(), s), _mm512_setzero_si512());
    return _mm512_add_epi32(_mm512_mullo_epi32(_mm512_abs_epi32(s), zero), above);
}

/* Both halves' factors a and b as int16 for q8_block's sums: (a - b) * first + b * total. */
ALWAYS_INLINE __m512i half_factors(const uint8_t *chunk, size_t in, const struct panel_format *f)
{
    __m512i a = half_factor(chunk, in, 0, f), b = half_factor(chunk, in, 1, f);
    return _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_sub_epi16(a, b), _mm512_slli_epi32(b, 16));
}

ALWAYS_INLINE __m512i dot_sums(__m512i factors, const struct q8_block *x)
{
    return _mm512_madd_epi16(factors, broadcast_word(&x->first));
}

/* Where the sum starts: at what the zero point takes off it. */
ALWAYS_INLINE __m512i sum_start(const struct q8_block *x, __m512i factors, int half,
                                const struct panel_format *f)
{
    if (f->scales == PANEL_MIRRORED)
        return dot_sums(factors, x);
    __m512i start = _mm512_setzero_si512();
    if (f->zero)
        start = _mm512_sub_epi32(
            start, _mm512_slli_epi32(x_total(x, half), (unsigned)__builtin_ctz((unsigned)f->zero)));
    return start;
}

/* sum[i][j] = the integer sum of panel i and token j over steps `step` .. `end` - 1 of a group. */
ALWAYS_INLINE void sum_steps(__m512i sum[2][ONE_TOKENS], const struct tile *t, size_t g, int half,
                             int panels, int tokens, const struct panel_format *f)
{
    const uint8_t *group = t->w + quants_offset(g, f), *chunk = t->w + chunk_offset(g, f);
    size_t in = g % f->groups;
    UNROLL for (int i = 0; i < panels; i++)
    {
        __m512i factors = _mm512_setzero_si512();
        if (f->scales == PANEL_MIRRORED)
            factors = half_factors(chunk + (size_t)i * t->panel_bytes, in, f);
        UNROLL for (int j = 0; j < tokens; j++) sum[i][j] =
            sum_start(t->x + j * t->x_stride + g, factors, half, f);
    }
    UNROLL for (int n = 0; n < 8; n++)
    {
        int s = f->bits == 4 || f->bits == 5 ? n / 2 + n % 2 * 4 : n;
        if (half >= 0 && s / 4 != half)
            continue;
        __m512i w[2];
        UNROLL for (int i = 0; i < panels; i++)
        {
            w[i] = step_quants(group + (size_t)i * t->panel_bytes, s, f);
            if (scales_quants(f))
                w[i] = _mm512_mullo_epi16(
                    w[i], half_scale(chunk + (size_t)i * t->panel_bytes, in, s / 4, f));
        }
        UNROLL for (int j = 0; j < tokens; j++)
        {
            __m512i x = broadcast_word((t->x + j * t->x_stride + g)->q + 4 * s);
            UNROLL for (int i = 0; i < panels; i++)
            {
                sum[i][j] = _mm512_dpbusd_epi32(sum[i][j], w[i], x);
                KEEP_ORDER(sum[i][j]);
            }
        }
        KEEP_LOADS();
    }
}

/* Folds a group's, or half's, integer sums into the float ones. */
ALWAYS_INLINE void add_group(__m512 acc[2][ONE_TOKENS], const struct tile *t, size_t g, int half,
                             int panels, int tokens, const struct panel_format *f)
{
    __m512i sum[2][ONE_TOKENS], minima[2];
    __m512 d[2], m[2];
    const uint8_t *chunk = t->w + chunk_offset(g, f);
    sum_steps(sum, t, g, half, panels, tokens, f);
    UNROLL for (int i = 0; i < panels; i++)
    {
        const uint8_t *scales = chunk + (size_t)i * t->panel_bytes;
        d[i] = weight_scale(scales, g % f->groups, half, f);
        m[i] = has_min(f) ? weight_min(scales, g % f->groups, f) : _mm512_setzero_ps();
        minima[i] = f->scales == PANEL_NIBBLES ? half_factors(scales, g % f->groups, f)
                                               : _mm512_setzero_si512();
    }
    UNROLL for (int j = 0; j < tokens; j++)
    {
        const struct q8_block *x = t->x + j * t->x_stride + g;
        UNROLL for (int i = 0; i < panels; i++)
        {
            __m512 v = _mm512_cvtepi32_ps(sum[i][j]), scale = _mm512_set1_ps(x->scale);
            if (!has_min(f)) {
                acc[i][j] = _mm512_fmadd_ps(v, _mm512_mul_ps(d[i], scale), acc[i][j]);
                continue;
            }
            __m512 total = _mm512_cvtepi32_ps(f->scales == PANEL_NIBBLES ? dot_sums(minima[i], x)
                                                                         : x_total(x, -1));
            v = _mm512_mul_ps(v, d[i]);
            v = f->scales == PANEL_DM ? _mm512_fmadd_ps(m[i], total, v)
                                      : _mm512_fnmadd_ps(m[i], total, v);
            acc[i][j] = _mm512_fmadd_ps(v, scale, acc[i][j]);
        }
        KEEP_LOADS();
    }
}

ALWAYS_INLINE void tile_run(const struct tile *args, int panels, int tokens,
                            const struct panel_format *f)
{
    struct tile t = *args;
    __m512 acc[2][ONE_TOKENS];
    UNROLL for (int i = 0; i < panels; i++) UNROLL for (int j = 0; j < tokens; j++) acc[i][j] =
        _mm512_setzero_ps();
    for (size_t g = 0; g < t.n_groups; g++) {
        tile_fetch(t.ahead, t.ahead_step);
        t.ahead += t.ahead_step;
        if (f->scales == PANEL_HALVES) {
            add_group(acc, &t, g, 0, panels, tokens, f);
            add_group(acc, &t, g, 1, panels, tokens, f);
        } else {
            add_group(acc, &t, g, -1, panels, tokens, f);
        }
    }
    UNROLL for (int i = 0; i < panels; i++)
    {
        size_t rows = t.n_rows - (size_t)i * PANEL_ROWS;
        __mmask16 mask = (__mmask16)(rows < PANEL_ROWS ? (1u << rows) - 1 : 0xffffu);
        UNROLL for (int j = 0; j < tokens; j++) _mm512_mask_storeu_ps(
            t.out + (size_t)j * t.out_stride + PANEL_ROWS * i, mask, acc[i][j]);
    }
}

/* A type's tiles and its entry. */
#define TILE(name, panels, tokens)                                                                 \
    static void tile_##name##_##panels##x##tokens##_avx512vnni(const struct tile *t)               \
    {                                                                                              \
        tile_run(t, panels, tokens, &panel_##name);                                                \
    }
#define EACH_TILE(X, name, panels)                                                                 \
    X(name, panels, 1)                                                                             \
    X(name, panels, 2) X(name, panels, 3) X(name, panels, 4) X(name, panels, 5) X(name, panels, 6)
#define MORE_TILES(X, name)                                                                        \
    X(name, 1, 7)                                                                                  \
    X(name, 1, 8) X(name, 1, 9) X(name, 1, 10)
#define ENTRY(name, panels, tokens) tile_##name##_##panels##x##tokens##_avx512vnni,
#define X(type, name, groups)                                                                      \
    EACH_TILE(TILE, name, 1)                                                                       \
    MORE_TILES(TILE, name)                                                                         \
    EACH_TILE(TILE, name, 2)                                                                       \
    static void matmul_q8_##name##_avx512vnni(const struct matmul_q8_args *a)                      \
    {                                                                                              \
        static tile_fn *const one[ONE_TOKENS] = {EACH_TILE(ENTRY, name, 1)                         \
                                                     MORE_TILES(ENTRY, name)};                     \
        static tile_fn *const two[TOKENS] = {EACH_TILE(ENTRY, name, 2)};                           \
        matmul_tiles(a, one, ONE_TOKENS, two, TOKENS);                                             \
    }
QUANT_TYPE_MAP(X)
#undef X

void matmul_q8_avx512vnni_fill(struct kernels *k)
{
#define X(type, name, groups) k->matmul_q8[TENSOR_##type] = matmul_q8_##name##_avx512vnni;
    QUANT_TYPE_MAP(X)
#undef X
}
