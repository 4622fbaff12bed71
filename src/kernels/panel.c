/* Packing, row by row: a row's bytes are spread over its lane of the panel's lines. Plain C moves
 * about a byte a cycle, and a panel stays in L1 while it fills. */
#include "kernels/panel.h"

#include "kernels/quant_blocks.h"

#include <string.h>

#define NIBBLES 0x0f0f0f0fu

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
        uint32_t bits = 0;
        for (size_t t = 0; t < 8; t++)
            bits |= (load32(b->qh + 4 * t) >> in & 0x01010101u) << t;
        put32(group, 4, r, bits);
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
        size_t nibble = 4 * (in % 4 / 2), pair = 2 * (in % 4);
        uint32_t high[2] = {0, 0};
        for (size_t t = 0; t < 4; t++) {
            uint32_t first = load32(ql + 4 * t) >> nibble & NIBBLES;
            put32(group, t, r, first | (load32(ql + 16 + 4 * t) >> nibble & NIBBLES) << 4);
            for (size_t h = 0; h < 2; h++)
                high[h] |= (load32(qh + 16 * h + 4 * t) >> pair & 0x03030303u) << 2 * t;
        }
        for (size_t h = 0; h < 2; h++) {
            put32(group, 4 + h, r, high[h]);
            chunk[PANEL_HALF_AT(in, h) + r] = (uint8_t)b->scales[2 * in + h];
        }
    }
}

/* Types whose block is a group: chunks of two. */
#define DEFINE_PACK_ROW_32(name)                                                                   \
    static void pack_row_##name(uint8_t *panel, size_t r, const void *row, size_t k)               \
    {                                                                                              \
        const struct block_##name *b = row;                                                        \
        for (size_t g = 0; g < k / PANEL_VALUES; g++)                                              \
            pack_##name(panel + g / 2 * panel_chunk_bytes(&panel_##name), g % 2, r, b + g);        \
    }
DEFINE_PACK_ROW_32(q4_0)
DEFINE_PACK_ROW_32(q4_1)
DEFINE_PACK_ROW_32(q5_0)
DEFINE_PACK_ROW_32(q5_1)
DEFINE_PACK_ROW_32(q8_0)
#undef DEFINE_PACK_ROW_32

#define DEFINE_PACK_ROW_256(name)                                                                  \
    static void pack_row_##name(uint8_t *panel, size_t r, const void *row, size_t k)               \
    {                                                                                              \
        const struct block_##name *b = row;                                                        \
        for (size_t c = 0; c < k / 256; c++)                                                       \
            pack_##name(panel + c * panel_chunk_bytes(&panel_##name), r, b + c);                   \
    }
DEFINE_PACK_ROW_256(q4_k)
DEFINE_PACK_ROW_256(q5_k)
DEFINE_PACK_ROW_256(q6_k)
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
    return (k + values - 1) / values * panel_chunk_bytes(f);
}

void panel_pack(enum tensor_type type, void *out, const void *rows, size_t row_bytes, size_t n_rows,
                size_t k)
{
    for (size_t r = 0; r < n_rows; r++)
        types[type].pack_row(out, r, (const uint8_t *)rows + r * row_bytes, k);
}
