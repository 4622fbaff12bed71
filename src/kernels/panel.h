/* Packed weights: what the products with int8 activations read, at every CPU level.
 *
 * A panel is 16 rows of a matrix as one stream of bytes, read from front to back; panels of a
 * matrix lie back to back. A panel is cut along K into chunks of 2 groups of 32 values (8 groups
 * for the types whose blocks have 256). A chunk is its scales, then its groups' quants:
 *
 *     | head | chunk 0: scales | group 0 | group 1 | chunk 1: scales | group 2 | group 3 | ...
 *
 * Types of 4 and 5 bits, but those with a table, begin with a head, units[16]: floats, the largest
 * powers of two with which each scale of a row (d, or d * scale) stays below 2^PANEL_UNIT_BITS. A
 * kernel may multiply scales by them and round. NaN where a scale is not finite.
 *
 * Quants are interleaved so that a lane of 32 bits holds four neighbouring values of one row, and
 * 16 lanes are one line of 64 bytes. Line s of a group has the values 4s .. 4s + 3 in its low
 * nibbles and 16 + 4s .. 16 + 4s + 3 in its high ones:
 *
 *     line s = 0..3   | row 0: 4 bytes | row 1 | ... | row 15 |
 *                     byte j = v[4s + j] | v[16 + 4s + j] << 4
 *
 *     5 bits: one more line; bit t of byte j of a lane is bit 4 of its row's v[4t + j], t = 0..7
 *     6 bits: two more; bits 2t, 2t + 1 of byte j are bits 4, 5 of v[4t + j], and in the second of
 *             v[16 + 4t + j], t = 0..3
 *     8 bits: eight lines instead, line t has v[4t] .. v[4t + 3]
 *     2 bits: two lines instead; in line h bits 2t, 2t + 1 of byte j are v[16h + 4t + j], t = 0..3
 *     3 bits: one more; bit t of byte j is bit 2 of v[4t + j], t = 0..7
 *
 * All quants are unsigned: Q8_0's are the file's plus 128. Each row's values equal the file's:
 *
 *     Q4_0  Q5_0  Q8_0   d[2][16]                                    w = d * (v - 8, 16, 128)
 *     Q4_1  Q5_1         d[2][16]  m[2][16]                          w = d * v + m
 *     Q4_K  Q5_K         d[16]  dmin[16]  scale[8][16]  min[8][16]   w = d * scale * v - dmin * min
 *     Q6_K               d[16]  unused[16]  scale[8][2][16]          w = d * scale[half] * (v - 32)
 *     Q3_K               likewise                                    w = d * |scale[half]| (v - z)
 *     Q2_K               d[16]  dmin[16]  both[8][2][16]             w = d * scale * v - dmin * min
 *     IQ4_NL             d[2][16]                                    w = d * quant_iq4[v]
 *     IQ4_XS             d[16]  unused[16]  scale[8][16]             w = d * scale * quant_iq4[v]
 *
 * d, m, dmin are binary16; scale and min are bytes, signed in Q6_K, Q3_K and IQ4_XS; half 0 is
 * values 0..15. In Q2_K they are the low and the high nibble of a byte.
 *
 * Where a scale of Q3_K is negative, the half's quants are mirrored: v is 7 less the file's, and
 * zero is z = 3 instead of 4. So |scale| * v is at most 224: a kernel multiplies a byte by its
 * scale before it sums the group, and one float operation serves both halves. All lines are 64-byte
 * aligned when the panel is. Rows past a matrix's last and the second group of an odd last chunk
 * are zero bytes, so they add nothing whatever they meet.
 */
#ifndef FIRSTLIGHT_KERNELS_PANEL_H
#define FIRSTLIGHT_KERNELS_PANEL_H

#include "weights/tensor.h"

#include <stddef.h>
#include <stdint.h>

#define PANEL_ROWS   16
#define PANEL_LINE   64
#define PANEL_VALUES 32 /* of a group */

#define PANEL_UNIT_BITS 14

enum panel_scales {
    PANEL_D,        /* d */
    PANEL_DM,       /* d, m */
    PANEL_K,        /* d, dmin, 6-bit scales and minima */
    PANEL_GROUPS,   /* d, a signed scale for each group */
    PANEL_HALVES,   /* d, a signed scale for each 16 values */
    PANEL_MIRRORED, /* the same, its sign in the quants */
    PANEL_NIBBLES,  /* d, dmin, a 4-bit scale and minimum for each 16 values */
    PANEL_EXPANDED  /* never stored: a kernel's own, for a part of a panel */
};

/* How a type is packed; constants that kernels fold. */
struct panel_format {
    enum panel_scales scales;
    int zero;        /* the quant that stands for zero */
    int bits;        /* of a quant: 2, 3, 4, 5, 6 or 8 */
    int table;       /* quants are places in quant_iq4, whose values plus 128 are what is summed */
    uint32_t head;   /* bytes before the first chunk */
    uint32_t groups; /* in a chunk */
    uint32_t header; /* bytes of scales in a chunk */
    uint32_t group;  /* bytes of quants in a group */
};

static const struct panel_format panel_q4_0 = {PANEL_D, 8, 4, 0, 64, 2, 64, 256};
static const struct panel_format panel_q4_1 = {PANEL_DM, 0, 4, 0, 64, 2, 128, 256};
static const struct panel_format panel_q5_0 = {PANEL_D, 16, 5, 0, 64, 2, 64, 320};
static const struct panel_format panel_q5_1 = {PANEL_DM, 0, 5, 0, 64, 2, 128, 320};
static const struct panel_format panel_q8_0 = {PANEL_D, 128, 8, 0, 0, 2, 64, 512};
static const struct panel_format panel_q2_k = {PANEL_NIBBLES, 0, 2, 0, 0, 8, 320, 128};
static const struct panel_format panel_q3_k = {PANEL_MIRRORED, 4, 3, 0, 0, 8, 320, 192};
static const struct panel_format panel_q4_k = {PANEL_K, 0, 4, 0, 64, 8, 320, 256};
static const struct panel_format panel_q5_k = {PANEL_K, 0, 5, 0, 64, 8, 320, 320};
static const struct panel_format panel_q6_k = {PANEL_HALVES, 32, 6, 0, 0, 8, 320, 384};
static const struct panel_format panel_iq4_nl = {PANEL_D, 128, 4, 1, 0, 2, 64, 256};
static const struct panel_format panel_iq4_xs = {PANEL_GROUPS, 128, 4, 1, 0, 8, 192, 256};

/* Where a chunk's scales of group `in` of it begin, from the chunk's start. */
#define PANEL_D_AT(in)       (32 * (size_t)(in))
#define PANEL_M_AT(in)       (64 + 32 * (size_t)(in))
#define PANEL_DMIN_AT        32
#define PANEL_SCALE_AT(in)   (64 + 16 * (size_t)(in))
#define PANEL_MIN_AT(in)     (192 + 16 * (size_t)(in))
#define PANEL_HALF_AT(in, h) (64 + 32 * (size_t)(in) + 16 * (size_t)(h))

static inline size_t panel_chunk_bytes(const struct panel_format *f)
{
    return f->header + f->groups * f->group;
}

/* Where the chunk of group g begins. */
static inline size_t panel_chunk_at(const struct panel_format *f, size_t g)
{
    return f->head + g / f->groups * panel_chunk_bytes(f);
}

/* The format of a quantised type; NULL for floats. */
const struct panel_format *panel_format_of(enum tensor_type type);

/* Bytes of one panel of rows of k values; k a multiple of the type's block. */
size_t panel_bytes(enum tensor_type type, size_t k);

/* Packs n_rows <= PANEL_ROWS rows, row_bytes apart, as they lie in the file. `out` is
 * panel_bytes(type, k) zeroed bytes. */
void panel_pack(enum tensor_type type, void *out, const void *rows, size_t row_bytes, size_t n_rows,
                size_t k);

#endif
