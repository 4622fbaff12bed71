/* Packing, row by row: a row's bytes are spread over its lane of the panel's lines. Plain C moves
 * about a byte a cycle, and a panel stays in L1 while it fills. */
#include "kernels/panel.h"

#include "kernels/half.h"
#include "kernels/quant_group.h"

#include <math.h>
#include <string.h>

#define NIBBLES 0x0f0f0f0fu
#define PAIRS   0x03030303u
#define ONES    0x01010101u

static inline uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Lane r of line s. */
static inline void put32(uint8_t *group, size_t s, size_t r, uint32_t v)
{
    memcpy(group + PANEL_LINE * s + 4 * r, &v, sizeof v);
}

static inline void put16(uint8_t *at, size_t r, uint16_t v)
{
    memcpy(at + 2 * r, &v, sizeof v);
}

static inline uint8_t *group_at(uint8_t *chunk, const struct panel_format *f, size_t in)
{
    return chunk + f->header + in * f->group;
}

/* Bit 4s + j to bit 8j + s. */
static uint32_t transpose_bits(uint32_t v)
{
    uint32_t out = 0;
    for (int j = 0; j < 4; j++) {
        uint32_t x = v >> j & 0x11111111u;
        x = (x | x >> 3) & 0x03030303u;
        x = (x | x >> 6) & 0x000f000fu;
        x = (x | x >> 12) & 0xffu;
        out |= x << 8 * j;
    }
    return out;
}

/* In the file too a byte has values i and i + 16. */
static inline void pack_nibbles(uint8_t *group, size_t r, const uint8_t *qs)
{
    for (size_t s = 0; s < 4; s++)
        put32(group, s, r, load32(qs + 4 * s));
}

static inline void pack_q4_0(uint8_t *chunk, size_t in, size_t r, const struct block_q4_0 *b)
{
    put16(chunk + PANEL_D_AT(in), r, b->d);
    pack_nibbles(group_at(chunk, &panel_q4_0, in), r, b->qs);
}

static inline void pack_q4_1(uint8_t *chunk, size_t in, size_t r, const struct block_q4_1 *b)
{
    put16(chunk + PANEL_D_AT(in), r, b->d);
    put16(chunk + PANEL_M_AT(in), r, b->m);
    pack_nibbles(group_at(chunk, &panel_q4_1, in), r, b->qs);
}

static inline void pack_q5_0(uint8_t *chunk, size_t in, size_t r, const struct block_q5_0 *b)
{
    uint8_t *group = group_at(chunk, &panel_q5_0, in);
    put16(chunk + PANEL_D_AT(in), r, b->d);
    pack_nibbles(group, r, b->qs);
    put32(group, 4, r, transpose_bits(load32(b->qh)));
}

static inline void pack_q5_1(uint8_t *chunk, size_t in, size_t r, const struct block_q5_1 *b)
{
    uint8_t *group = group_at(chunk, &panel_q5_1, in);
    put16(chunk + PANEL_D_AT(in), r, b->d);
    put16(chunk + PANEL_M_AT(in), r, b->m);
    pack_nibbles(group, r, b->qs);
    put32(group, 4, r, transpose_bits(load32(b->qh)));
}

static inline void pack_q8_0(uint8_t *chunk, size_t in, size_t r, const struct block_q8_0 *b)
{
    uint8_t *group = group_at(chunk, &panel_q8_0, in);
    put16(chunk + PANEL_D_AT(in), r, b->d);
    for (size_t s = 0; s < 8; s++)
        put32(group, s, r, load32((const uint8_t *)b->qs + 4 * s) ^ 0x80808080u);
}

static inline void pack_iq4_nl(uint8_t *chunk, size_t in, size_t r, const struct block_iq4_nl *b)
{
    put16(chunk + PANEL_D_AT(in), r, b->d);
    pack_nibbles(group_at(chunk, &panel_iq4_nl, in), r, b->qs);
}

/* The pairs of bits of half h of a group: four times four bytes in the file, one lane here. */
static inline uint32_t gather_pairs(const uint8_t *bytes, size_t h, size_t shift)
{
    uint32_t out = 0;
    for (size_t t = 0; t < 4; t++)
        out |= (load32(bytes + 16 * h + 4 * t) >> shift & PAIRS) << 2 * t;
    return out;
}

/* Bit `bit` of 32 bytes, bit t of byte j from byte 4t + j. */
static inline uint32_t gather_bits(const uint8_t *bytes, size_t bit)
{
    uint32_t out = 0;
    for (size_t t = 0; t < 8; t++)
        out |= (load32(bytes + 4 * t) >> bit & ONES) << t;
    return out;
}

static void pack_q2_k(uint8_t *chunk, size_t r, const struct block_q2_k *b)
{
    put16(chunk, r, b->d);
    put16(chunk + PANEL_DMIN_AT, r, b->dmin);
    for (size_t i = 0; i < 16; i++) {
        size_t in = i / 2, h = i % 2;
        chunk[PANEL_HALF_AT(in, h) + r] = b->scales[i];
        put32(group_at(chunk, &panel_q2_k, in), h, r,
              gather_pairs(b->qs + 32 * (in / 4), h, 2 * (in % 4)));
    }
}

/* A half whose scale is negative has all its bits turned over: v becomes 7 - v. */
static void pack_q3_k(uint8_t *chunk, size_t r, const struct block_q3_k *b)
{
    put16(chunk, r, b->d);
    for (size_t in = 0; in < 8; in++) {
        uint8_t *group = group_at(chunk, &panel_q3_k, in);
        uint32_t high = gather_bits(b->hmask, in);
        for (size_t h = 0; h < 2; h++) {
            int scale = scale_q3_k(b->scales, 2 * in + h);
            uint32_t mirror = scale < 0 ? UINT32_MAX : 0;
            uint32_t low = gather_pairs(b->qs + 32 * (in / 4), h, 2 * (in % 4));
            chunk[PANEL_HALF_AT(in, h) + r] = (uint8_t)scale;
            put32(group, h, r, low ^ mirror);
            high ^= mirror & NIBBLES << 4 * h;
        }
        put32(group, 2, r, high);
    }
}

/* quant_blocks.h draws the twelve bytes. */
static void pack_k_scales(uint8_t *chunk, size_t r, const uint8_t *s)
{
    for (size_t j = 0; j < 4; j++) {
        chunk[PANEL_SCALE_AT(j) + r] = s[j] & 63;
        chunk[PANEL_MIN_AT(j) + r] = s[j + 4] & 63;
        chunk[PANEL_SCALE_AT(j + 4) + r] = (uint8_t)((s[j + 8] & 15) | s[j] >> 6 << 4);
        chunk[PANEL_MIN_AT(j + 4) + r] = (uint8_t)(s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
    }
}

/* Groups 2p and 2p + 1 share bytes in the file; here a byte's nibbles are of one group. */
static void pack_k_nibbles(uint8_t *even, uint8_t *odd, size_t r, const uint8_t *qs)
{
    for (size_t s = 0; s < 4; s++) {
        uint32_t a = load32(qs + 4 * s), b = load32(qs + 16 + 4 * s);
        put32(even, s, r, (a & NIBBLES) | (b & NIBBLES) << 4);
        put32(odd, s, r, (a >> 4 & NIBBLES) | (b & ~NIBBLES));
    }
}

static void pack_q4_k(uint8_t *chunk, size_t r, const struct block_q4_k *b)
{
    put16(chunk, r, b->d);
    put16(chunk + PANEL_DMIN_AT, r, b->dmin);
    pack_k_scales(chunk, r, b->scales);
    for (size_t in = 0; in < 8; in += 2)
        pack_k_nibbles(group_at(chunk, &panel_q4_k, in), group_at(chunk, &panel_q4_k, in + 1), r,
                       b->qs + 16 * in);
}

static void pack_q5_k(uint8_t *chunk, size_t r, const struct block_q5_k *b)
{
    put16(chunk, r, b->d);
    put16(chunk + PANEL_DMIN_AT, r, b->dmin);
    pack_k_scales(chunk, r, b->scales);
    for (size_t in = 0; in < 8; in++) {
        uint8_t *group = group_at(chunk, &panel_q5_k, in);
        put32(group, 4, r, gather_bits(b->qh, in));
        if (in % 2 == 0)
            pack_k_nibbles(group, group + panel_q5_k.group, r, b->qs + 16 * in);
    }
}

static void pack_q6_k(uint8_t *chunk, size_t r, const struct block_q6_k *b)
{
    put16(chunk, r, b->d);
    for (size_t in = 0; in < 8; in++) {
        uint8_t *group = group_at(chunk, &panel_q6_k, in);
        const uint8_t *ql = b->ql + 64 * (in / 4) + 32 * (in % 2), *qh = b->qh + 32 * (in / 4);
        size_t nibble = 4 * (in % 4 / 2);
        for (size_t t = 0; t < 4; t++) {
            uint32_t first = load32(ql + 4 * t) >> nibble & NIBBLES;
            put32(group, t, r, first | (load32(ql + 16 + 4 * t) >> nibble & NIBBLES) << 4);
        }
        for (size_t h = 0; h < 2; h++) {
            put32(group, 4 + h, r, gather_pairs(qh, h, 2 * (in % 4)));
            chunk[PANEL_HALF_AT(in, h) + r] = (uint8_t)b->scales[2 * in + h];
        }
    }
}

static void pack_iq4_xs(uint8_t *chunk, size_t r, const struct block_iq4_xs *b)
{
    put16(chunk, r, b->d);
    for (size_t in = 0; in < 8; in++) {
        chunk[PANEL_SCALE_AT(in) + r] = (uint8_t)scale_iq4_xs(b, in);
        pack_nibbles(group_at(chunk, &panel_iq4_xs, in), r, b->qs + 16 * in);
    }
}

/* Types whose block is a group: chunks of two. */
#define DEFINE_PACK_ROW_32(name)                                                                   \
    static void pack_row_##name(uint8_t *panel, size_t r, const void *row, size_t k)               \
    {                                                                                              \
        const struct block_##name *b = row;                                                        \
        for (size_t g = 0; g < k / PANEL_VALUES; g++)                                              \
            pack_##name(panel + panel_chunk_at(&panel_##name, g), g % 2, r, b + g);                \
    }
DEFINE_PACK_ROW_32(q4_0)
DEFINE_PACK_ROW_32(q4_1)
DEFINE_PACK_ROW_32(q5_0)
DEFINE_PACK_ROW_32(q5_1)
DEFINE_PACK_ROW_32(q8_0)
DEFINE_PACK_ROW_32(iq4_nl)
#undef DEFINE_PACK_ROW_32

#define DEFINE_PACK_ROW_256(name)                                                                  \
    static void pack_row_##name(uint8_t *panel, size_t r, const void *row, size_t k)               \
    {                                                                                              \
        const struct block_##name *b = row;                                                        \
        for (size_t c = 0; c < k / 256; c++)                                                       \
            pack_##name(panel + panel_chunk_at(&panel_##name, 8 * c), r, b + c);                   \
    }
DEFINE_PACK_ROW_256(q2_k)
DEFINE_PACK_ROW_256(q3_k)
DEFINE_PACK_ROW_256(q4_k)
DEFINE_PACK_ROW_256(q5_k)
DEFINE_PACK_ROW_256(q6_k)
DEFINE_PACK_ROW_256(iq4_xs)
#undef DEFINE_PACK_ROW_256

static const struct {
    const struct panel_format *format;
    void (*pack_row)(uint8_t *panel, size_t r, const void *row, size_t k);
} types[TENSOR_TYPES] = {
#define X(type, name, groups) [TENSOR_##type] = {&panel_##name, pack_row_##name},
    QUANT_TYPE_MAP(X)
#undef X
};

const struct panel_format *panel_format_of(enum tensor_type type)
{
    return types[type].format;
}

size_t panel_bytes(enum tensor_type type, size_t k)
{
    const struct panel_format *f = types[type].format;
    size_t values = f->groups * PANEL_VALUES;
    return f->head + (k + values - 1) / values * panel_chunk_bytes(f);
}

static float half_at(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return half_to_float(h);
}

/* The scale of group g of row r. */
static float scale_of(const struct panel_format *f, const uint8_t *panel, size_t g, size_t r)
{
    const uint8_t *chunk = panel + panel_chunk_at(f, g);
    size_t in = g % f->groups;
    if (f->scales == PANEL_D || f->scales == PANEL_DM)
        return half_at(chunk + PANEL_D_AT(in) + 2 * r);
    return half_at(chunk + 2 * r) * (float)chunk[PANEL_SCALE_AT(in) + r];
}

static void put_units(const struct panel_format *f, uint8_t *panel, size_t r, size_t k)
{
    float largest = 0.0f, units = 1.0f;
    for (size_t g = 0; g < k / PANEL_VALUES; g++) {
        float scale = fabsf(scale_of(f, panel, g, r));
        if (!(scale <= largest)) /* so that NaN stays */
            largest = scale;
    }
    int exponent;
    frexpf(largest, &exponent);
    if (!isfinite(largest))
        units = NAN;
    else if (largest > 0.0f)
        units = ldexpf(1.0f, PANEL_UNIT_BITS - exponent);
    memcpy(panel + sizeof units * r, &units, sizeof units);
}

void panel_pack(enum tensor_type type, void *out, const void *rows, size_t row_bytes, size_t n_rows,
                size_t k)
{
    for (size_t r = 0; r < n_rows; r++)
        types[type].pack_row(out, r, (const uint8_t *)rows + r * row_bytes, k);
    for (size_t r = 0; r < n_rows && types[type].format->head; r++)
        put_units(types[type].format, out, r, k);
}
