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
 *
 * Blocks of 256 values, seen as 8 groups of 32:
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

#undef PACKED

_Static_assert(sizeof(struct block_q4_0) == 18, "as in the file");
_Static_assert(sizeof(struct block_q4_1) == 20, "as in the file");
_Static_assert(sizeof(struct block_q5_0) == 22, "as in the file");
_Static_assert(sizeof(struct block_q5_1) == 24, "as in the file");
_Static_assert(sizeof(struct block_q8_0) == 34, "as in the file");
_Static_assert(sizeof(struct block_q4_k) == 144, "as in the file");
_Static_assert(sizeof(struct block_q5_k) == 176, "as in the file");
_Static_assert(sizeof(struct block_q6_k) == 210, "as in the file");

/* Every quantised type: its tensor type, the name of its block and functions, groups in a block. */
#define QUANT_TYPE_MAP(X)                                                                          \
    X(Q4_0, q4_0, 1)                                                                               \
    X(Q4_1, q4_1, 1)                                                                               \
    X(Q5_0, q5_0, 1)                                                                               \
    X(Q5_1, q5_1, 1)                                                                               \
    X(Q8_0, q8_0, 1)                                                                               \
    X(Q4_K, q4_k, 8)                                                                               \
    X(Q5_K, q5_k, 8)                                                                               \
    X(Q6_K, q6_k, 8)

/* The types that are floats already. */
#define FLOAT_TYPE_MAP(X)                                                                          \
    X(F32, f32, 0)                                                                                 \
    X(F16, f16, 0)                                                                                 \
    X(BF16, bf16, 0)

#endif
