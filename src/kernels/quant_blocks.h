/* The quantised weight blocks of GGUF files, as bytes. Rows are blocks back to back; nothing is
 * aligned, hence the packed structs. 16-bit scales are binary16, little endian.
 *
 * Blocks of 32 values. v = value number; a nibble byte i holds values i (low) and i + 16 (high):
 *
 *   Q4_0  | d:2 | qs:16 |                  w = d * (q - 8)
 *   Q4_1  | d:2 | m:2 | qs:16 |            w = d * q + m
 *   Q5_0  | d:2 | qh:4 | qs:16 |           w = d * (q - 16)   bit v of qh is bit 4 of value v
 *   Q5_1  | d:2 | m:2 | qh:4 | qs:16 |     w = d * q + m      likewise
 *   Q8_0  | d:2 | qs:32 |                  w = d * q          q signed
 *   IQ4_NL  as Q4_0                        w = d * quant_iq4[q]
 *
 * Blocks of 256 values, seen as 8 groups of 32:
 *
 *   Q2_K  | scales:16 | qs:64 | d:2 | dmin:2 |
 *         w = d * (scales[v / 16] & 15) * q - dmin * (scales[v / 16] >> 4).
 *         Group 4h + s (h = 0, 1): its value i is at bit 2s of qs[32h + i]
 *
 *   Q3_K  | hmask:32 | qs:64 | scales:12 | d:2 |
 *         w = d * (scale[v / 16] - 32) * (q - 4). Group 4h + s: the low 2 bits of its value i as in
 *         Q2_K, bit 2 is bit 4h + s of hmask[i]. Scale n has its low 4 bits in nibble n / 8 of
 *         scales[n % 8] and its high 2 at bit 2(n / 4) of scales[8 + n % 4]
 *
 *   Q4_K  | d:2 | dmin:2 | scales:12 | qs:128 |
 *   Q5_K  | d:2 | dmin:2 | scales:12 | qh:32 | qs:128 |
 *         w = d * scale[group] * q - dmin * min[group]
 *         qs: bytes 32p .. 32p + 31 hold group 2p in the low and group 2p + 1 in the high nibbles;
 *         bit `group` of qh[i] is bit 4 of the group's value i. The 6-bit scales and minima:
 *
 *           byte      0 .. 3                4 .. 7              8 .. 11
 *           bits 0-5  scale[0..3]           min[0..3]           0-3: scale[4..7] low
 *           bits 6-7  scale[4..7] high      min[4..7] high      4-7: min[4..7] low
 *
 *   Q6_K  | ql:128 | qh:64 | scales:16 | d:2 |
 *         w = d * scale[v / 16] * (q - 32), scales signed bytes. Group 4h + s (h = 0, 1):
 *         its value i has its low 4 bits in nibble s / 2 of ql[64h + 32(s % 2) + i]
 *         and its high 2 bits at bit 2s of qh[32h + i].
 *
 *   IQ4_XS  | d:2 | scales_h:2 | scales_l:4 | qs:128 |
 *         w = d * (scale[group] - 32) * quant_iq4[q]. Scale g has its low 4 bits in nibble g % 2 of
 *         scales_l[g / 2] and its high 2 at bit 2g of scales_h; qs: 16 bytes a group, as in Q4_0.
 */
#ifndef FIRSTLIGHT_KERNELS_QUANT_BLOCKS_H
#define FIRSTLIGHT_KERNELS_QUANT_BLOCKS_H

#include <stdint.h>

#define PACKED __attribute__((packed))

struct block_q4_0 {
    uint16_t d;
    uint8_t qs[16];
} PACKED;

struct block_q4_1 {
    uint16_t d;
    uint16_t m;
    uint8_t qs[16];
} PACKED;

struct block_q5_0 {
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
} PACKED;

struct block_q5_1 {
    uint16_t d;
    uint16_t m;
    uint8_t qh[4];
    uint8_t qs[16];
} PACKED;

struct block_q8_0 {
    uint16_t d;
    int8_t qs[32];
} PACKED;

struct block_iq4_nl {
    uint16_t d;
    uint8_t qs[16];
} PACKED;

struct block_q2_k {
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d;
    uint16_t dmin;
} PACKED;

struct block_q3_k {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint16_t d;
} PACKED;

struct block_q4_k {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qs[128];
} PACKED;

struct block_q5_k {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
} PACKED;

struct block_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
} PACKED;

struct block_iq4_xs {
    uint16_t d;
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128];
} PACKED;

#undef PACKED

_Static_assert(sizeof(struct block_q4_0) == 18, "as in the file");
_Static_assert(sizeof(struct block_q4_1) == 20, "as in the file");
_Static_assert(sizeof(struct block_q5_0) == 22, "as in the file");
_Static_assert(sizeof(struct block_q5_1) == 24, "as in the file");
_Static_assert(sizeof(struct block_q8_0) == 34, "as in the file");
_Static_assert(sizeof(struct block_iq4_nl) == 18, "as in the file");
_Static_assert(sizeof(struct block_q2_k) == 84, "as in the file");
_Static_assert(sizeof(struct block_q3_k) == 110, "as in the file");
_Static_assert(sizeof(struct block_q4_k) == 144, "as in the file");
_Static_assert(sizeof(struct block_q5_k) == 176, "as in the file");
_Static_assert(sizeof(struct block_q6_k) == 210, "as in the file");
_Static_assert(sizeof(struct block_iq4_xs) == 136, "as in the file");

/* What the 16 quants of the IQ4 types stand for: steps that grow with the magnitude. */
#define QUANT_IQ4 -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
static const int8_t quant_iq4[16] = {QUANT_IQ4};

/* Every quantised type: its tensor type, the name of its block and functions, groups in a block. */
#define QUANT_TYPE_MAP(X)                                                                          \
    X(Q4_0, q4_0, 1)                                                                               \
    X(Q4_1, q4_1, 1)                                                                               \
    X(Q5_0, q5_0, 1)                                                                               \
    X(Q5_1, q5_1, 1)                                                                               \
    X(Q8_0, q8_0, 1)                                                                               \
    X(Q2_K, q2_k, 8)                                                                               \
    X(Q3_K, q3_k, 8)                                                                               \
    X(Q4_K, q4_k, 8)                                                                               \
    X(Q5_K, q5_k, 8)                                                                               \
    X(Q6_K, q6_k, 8)                                                                               \
    X(IQ4_NL, iq4_nl, 1)                                                                           \
    X(IQ4_XS, iq4_xs, 8)

/* The types that are floats already. */
#define FLOAT_TYPE_MAP(X)                                                                          \
    X(F32, f32, 0)                                                                                 \
    X(F16, f16, 0)                                                                                 \
    X(BF16, bf16, 0)

#endif
