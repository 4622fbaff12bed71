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

#define GROUP_VALUES     32
#define GROUPS_PER_SUPER 8 /* in a block of 256 */

struct quant_group {
    float d;
    float m;
    int32_t scale[2];
    int8_t q[GROUP_VALUES];
};

/* Values i and i + 16 from the nibbles of byte i, less `offset`. */
static inline void group_nibbles(struct quant_group *g, const uint8_t *qs, int offset)
{
    for (int i = 0; i < 16; i++) {
        g->q[i] = (int8_t)((qs[i] & 15) - offset);
        g->q[i + 16] = (int8_t)((qs[i] >> 4) - offset);
    }
}

/* The same with bit 4 of value v from bit v of qh. */
static inline void group_nibbles_qh(struct quant_group *g, const uint8_t *qs, const uint8_t *qh,
                                    int offset)
{
    uint32_t high =
        (uint32_t)qh[0] | (uint32_t)qh[1] << 8 | (uint32_t)qh[2] << 16 | (uint32_t)qh[3] << 24;
    group_nibbles(g, qs, offset);
    for (int i = 0; i < GROUP_VALUES; i++)
        g->q[i] = (int8_t)(g->q[i] + (int)((high >> i & 1) << 4));
}

static inline void group_head(struct quant_group *g, uint16_t d, uint16_t m)
{
    g->d = half_to_float(d);
    g->m = half_to_float(m);
    g->scale[0] = g->scale[1] = 1;
}

static inline void group_q4_0(struct quant_group *g, const void *row, size_t index)
{
    const struct block_q4_0 *b = (const struct block_q4_0 *)row + index;
    group_head(g, b->d, 0);
    group_nibbles(g, b->qs, 8);
}

static inline void group_q4_1(struct quant_group *g, const void *row, size_t index)
{
    const struct block_q4_1 *b = (const struct block_q4_1 *)row + index;
    group_head(g, b->d, b->m);
    group_nibbles(g, b->qs, 0);
}

static inline void group_q5_0(struct quant_group *g, const void *row, size_t index)
{
    const struct block_q5_0 *b = (const struct block_q5_0 *)row + index;
    group_head(g, b->d, 0);
    group_nibbles_qh(g, b->qs, b->qh, 16);
}

static inline void group_q5_1(struct quant_group *g, const void *row, size_t index)
{
    const struct block_q5_1 *b = (const struct block_q5_1 *)row + index;
    group_head(g, b->d, b->m);
    group_nibbles_qh(g, b->qs, b->qh, 0);
}

static inline void group_q8_0(struct quant_group *g, const void *row, size_t index)
{
    const struct block_q8_0 *b = (const struct block_q8_0 *)row + index;
    group_head(g, b->d, 0);
    memcpy(g->q, b->qs, sizeof g->q);
}

/* d and m of group j of a Q4_K or Q5_K block. The products of 11 by 6 bits are exact. */
static inline void group_head_k(struct quant_group *g, uint16_t d, uint16_t dmin,
                                const uint8_t scales[12], size_t j)
{
    int scale, min;
    if (j < 4) {
        scale = scales[j] & 63;
        min = scales[j + 4] & 63;
    } else {
        scale = (scales[j + 4] & 15) | scales[j - 4] >> 6 << 4;
        min = scales[j + 4] >> 4 | scales[j] >> 6 << 4;
    }
    g->d = half_to_float(d) * (float)scale;
    g->m = -(half_to_float(dmin) * (float)min);
    g->scale[0] = g->scale[1] = 1;
}

static inline void group_q4_k(struct quant_group *g, const void *row, size_t index)
{
    const struct block_q4_k *b = (const struct block_q4_k *)row + index / GROUPS_PER_SUPER;
    size_t j = index % GROUPS_PER_SUPER;
    const uint8_t *qs = b->qs + 32 * (j / 2);
    group_head_k(g, b->d, b->dmin, b->scales, j);
    for (int i = 0; i < GROUP_VALUES; i++)
        g->q[i] = (int8_t)(qs[i] >> 4 * (j % 2) & 15);
}

static inline void group_q5_k(struct quant_group *g, const void *row, size_t index)
{
    const struct block_q5_k *b = (const struct block_q5_k *)row + index / GROUPS_PER_SUPER;
    size_t j = index % GROUPS_PER_SUPER;
    const uint8_t *qs = b->qs + 32 * (j / 2);
    group_head_k(g, b->d, b->dmin, b->scales, j);
    for (int i = 0; i < GROUP_VALUES; i++)
        g->q[i] = (int8_t)((qs[i] >> 4 * (j % 2) & 15) | (b->qh[i] >> j & 1) << 4);
}

static inline void group_q6_k(struct quant_group *g, const void *row, size_t index)
{
    const struct block_q6_k *b = (const struct block_q6_k *)row + index / GROUPS_PER_SUPER;
    size_t j = index % GROUPS_PER_SUPER, half = j / 4, s = j % 4;
    const uint8_t *ql = b->ql + 64 * half + 32 * (s % 2);
    const uint8_t *qh = b->qh + 32 * half;
    group_head(g, b->d, 0);
    g->scale[0] = b->scales[2 * j];
    g->scale[1] = b->scales[2 * j + 1];
    for (int i = 0; i < GROUP_VALUES; i++)
        g->q[i] = (int8_t)(((ql[i] >> 4 * (s / 2) & 15) | (qh[i] >> 2 * s & 3) << 4) - 32);
}

static inline void group_to_float(float *out, const struct quant_group *g)
{
    for (int i = 0; i < GROUP_VALUES; i++)
        out[i] = g->d * (float)(g->scale[i / 16] * g->q[i]) + g->m;
}

#endif
