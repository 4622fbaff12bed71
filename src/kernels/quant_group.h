/* One reading of all quantised types: 32 consecutive values of a row.
 *
 *     w[i] = d * (scale[i / 16] * q[i]) + m
 *
 * q is signed where the type subtracts a constant, so m is zero there; scale is 1 except in Q6_K.
 * Dequantisation and the integer product of the reference are loops over these.
 */
#ifndef FIRSTLIGHT_KERNELS_QUANT_GROUP_H
#define FIRSTLIGHT_KERNELS_QUANT_GROUP_H

#include "kernels/half.h"
#include "kernels/quant_blocks.h"

#include <stddef.h>
#include <stdint.h>

#define GROUP_VALUES 32

struct quant_scales {
    float d;
    float m;
    int32_t scale[2];
};

struct quant_group {
    struct quant_scales s;
    int8_t q[GROUP_VALUES];
};

static inline struct quant_scales scales_plain(uint16_t d, uint16_t m)
{
    return (struct quant_scales){half_to_float(d), half_to_float(m), {1, 1}};
}

/* Of group j of a Q4_K or Q5_K block. The products of 11 by 6 bits are exact. */
static inline struct quant_scales scales_k(uint16_t d, uint16_t dmin, const uint8_t scales[12],
                                           size_t j)
{
    int scale, min;
    if (j < 4) {
        scale = scales[j] & 63;
        min = scales[j + 4] & 63;
    } else {
        scale = (scales[j + 4] & 15) | scales[j - 4] >> 6 << 4;
        min = scales[j + 4] >> 4 | scales[j] >> 6 << 4;
    }
    return (struct quant_scales){
        half_to_float(d) * (float)scale, -(half_to_float(dmin) * (float)min), {1, 1}};
}

/* The scales of group j of a block (j is 0 where a block is a group). */
#define DEFINE_SCALES(name, ...)                                                                   \
    static inline struct quant_scales scales_##name(const struct block_##name *b, size_t j)        \
    {                                                                                              \
        (void)j;                                                                                   \
        return __VA_ARGS__;                                                                        \
    }
DEFINE_SCALES(q4_0, scales_plain(b->d, 0))
DEFINE_SCALES(q4_1, scales_plain(b->d, b->m))
DEFINE_SCALES(q5_0, scales_plain(b->d, 0))
DEFINE_SCALES(q5_1, scales_plain(b->d, b->m))
DEFINE_SCALES(q8_0, scales_plain(b->d, 0))
DEFINE_SCALES(q4_k, scales_k(b->d, b->dmin, b->scales, j))
DEFINE_SCALES(q5_k, scales_k(b->d, b->dmin, b->scales, j))
DEFINE_SCALES(q6_k, (struct quant_scales){
                        half_to_float(b->d), 0.0f, {b->scales[2 * j], b->scales[2 * j + 1]}})
#undef DEFINE_SCALES

/* Values i and i + 16 from the nibbles of byte i, less `offset`. */
static inline void quants_nibbles(int8_t *q, const uint8_t *qs, int offset)
{
    for (int i = 0; i < 16; i++) {
        q[i] = (int8_t)((qs[i] & 15) - offset);
        q[i + 16] = (int8_t)((qs[i] >> 4) - offset);
    }
}

/* The same with bit 4 of value v from bit v of qh. */
static inline void quants_nibbles_qh(int8_t *q, const uint8_t *qs, const uint8_t *qh, int offset)
{
    quants_nibbles(q, qs, offset);
    for (int i = 0; i < GROUP_VALUES; i++)
        q[i] = (int8_t)(q[i] + ((qh[i / 8] >> i % 8 & 1) << 4));
}

static inline void quants_q4_0(int8_t *q, const struct block_q4_0 *b, size_t j)
{
    (void)j;
    quants_nibbles(q, b->qs, 8);
}

static inline void quants_q4_1(int8_t *q, const struct block_q4_1 *b, size_t j)
{
    (void)j;
    quants_nibbles(q, b->qs, 0);
}

static inline void quants_q5_0(int8_t *q, const struct block_q5_0 *b, size_t j)
{
    (void)j;
    quants_nibbles_qh(q, b->qs, b->qh, 16);
}

static inline void quants_q5_1(int8_t *q, const struct block_q5_1 *b, size_t j)
{
    (void)j;
    quants_nibbles_qh(q, b->qs, b->qh, 0);
}

static inline void quants_q8_0(int8_t *q, const struct block_q8_0 *b, size_t j)
{
    (void)j;
    memcpy(q, b->qs, sizeof b->qs);
}

static inline void quants_q4_k(int8_t *q, const struct block_q4_k *b, size_t j)
{
    const uint8_t *qs = b->qs + 32 * (j / 2);
    for (int i = 0; i < GROUP_VALUES; i++)
        q[i] = (int8_t)(qs[i] >> 4 * (j % 2) & 15);
}

static inline void quants_q5_k(int8_t *q, const struct block_q5_k *b, size_t j)
{
    const uint8_t *qs = b->qs + 32 * (j / 2);
    for (int i = 0; i < GROUP_VALUES; i++)
        q[i] = (int8_t)((qs[i] >> 4 * (j % 2) & 15) | (b->qh[i] >> j & 1) << 4);
}

static inline void quants_q6_k(int8_t *q, const struct block_q6_k *b, size_t j)
{
    size_t half = j / 4, s = j % 4;
    const uint8_t *ql = b->ql + 64 * half + 32 * (s % 2);
    const uint8_t *qh = b->qh + 32 * half;
    for (int i = 0; i < GROUP_VALUES; i++)
        q[i] = (int8_t)(((ql[i] >> 4 * (s / 2) & 15) | (qh[i] >> 2 * s & 3) << 4) - 32);
}

/* group_q4_0(&g, row, index) and so on: group `index` of a row. */
#define X(type, name, groups)                                                                      \
    static inline void group_##name(struct quant_group *g, const void *row, size_t index)          \
    {                                                                                              \
        const struct block_##name *b = (const struct block_##name *)row + index / (groups);        \
        g->s = scales_##name(b, index % (groups));                                                 \
        quants_##name(g->q, b, index % (groups));                                                  \
    }
QUANT_TYPE_MAP(X)
#undef X

#endif
