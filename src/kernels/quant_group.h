/* One reading of all quantised types: 32 consecutive values of a row.
 *
 *     w[i] = d * (scale[i / 16] * q[i]) + m[i / 16]
 *
 * q is signed where the type subtracts a constant or has a table, so m is zero there; scale is 1
 * where a float scale, of the block or made of the group's, says all.
 * Dequantisation and the integer product of the reference are loops over these.
 */
#ifndef FIRSTLIGHT_KERNELS_QUANT_GROUP_H
#define FIRSTLIGHT_KERNELS_QUANT_GROUP_H

#include "kernels/half.h"
#include "kernels/quant_blocks.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GROUP_VALUES 32

struct quant_scales {
    float d;
    float m[2];
    int32_t scale[2];
};

struct quant_group {
    struct quant_scales s;
    int8_t q[GROUP_VALUES];
};

static inline struct quant_scales scales_plain(uint16_t d, uint16_t m)
{
    float min = half_to_float(m);
    return (struct quant_scales){half_to_float(d), {min, min}, {1, 1}};
}

/* A group with one integer scale, or one for each half. */
static inline struct quant_scales scales_integer(uint16_t d, int first, int second)
{
    return (struct quant_scales){half_to_float(d), {0.0f, 0.0f}, {first, second}};
}

/* Of group j of a Q2_K block. */
static inline struct quant_scales scales_nibbles(uint16_t d, uint16_t dmin, const uint8_t *s)
{
    struct quant_scales out = scales_integer(d, s[0] & 15, s[1] & 15);
    for (int h = 0; h < 2; h++)
        out.m[h] = -(half_to_float(dmin) * (float)(s[h] >> 4));
    return out;
}

/* Scale n of a Q3_K block. */
static inline int scale_q3_k(const uint8_t scales[12], size_t n)
{
    return ((scales[n % 8] >> 4 * (n / 8) & 15) | (scales[8 + n % 4] >> 2 * (n / 4) & 3) << 4) - 32;
}

/* The scale of group j of an IQ4_XS block. */
static inline int scale_iq4_xs(const struct block_iq4_xs *b, size_t j)
{
    return ((b->scales_l[j / 2] >> 4 * (j % 2) & 15) | (b->scales_h >> 2 * j & 3) << 4) - 32;
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
    float m = -(half_to_float(dmin) * (float)min);
    return (struct quant_scales){half_to_float(d) * (float)scale, {m, m}, {1, 1}};
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
DEFINE_SCALES(q6_k, scales_integer(b->d, b->scales[2 * j], b->scales[2 * j + 1]))
DEFINE_SCALES(q2_k, scales_nibbles(b->d, b->dmin, b->scales + 2 * j))
DEFINE_SCALES(q3_k,
              scales_integer(b->d, scale_q3_k(b->scales, 2 * j), scale_q3_k(b->scales, 2 * j + 1)))
DEFINE_SCALES(iq4_nl, scales_plain(b->d, 0))
DEFINE_SCALES(iq4_xs, scales_integer(b->d, scale_iq4_xs(b, j), scale_iq4_xs(b, j)))
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

static inline void quants_q2_k(int8_t *q, const struct block_q2_k *b, size_t j)
{
    const uint8_t *qs = b->qs + 32 * (j / 4);
    for (int i = 0; i < GROUP_VALUES; i++)
        q[i] = (int8_t)(qs[i] >> 2 * (j % 4) & 3);
}

static inline void quants_q3_k(int8_t *q, const struct block_q3_k *b, size_t j)
{
    const uint8_t *qs = b->qs + 32 * (j / 4);
    for (int i = 0; i < GROUP_VALUES; i++)
        q[i] = (int8_t)(((qs[i] >> 2 * (j % 4) & 3) | (b->hmask[i] >> j & 1) << 2) - 4);
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

static inline void quants_iq4(int8_t *q, const uint8_t *qs)
{
    quants_nibbles(q, qs, 0);
    for (int i = 0; i < GROUP_VALUES; i++)
        q[i] = quant_iq4[q[i]];
}

static inline void quants_iq4_nl(int8_t *q, const struct block_iq4_nl *b, size_t j)
{
    (void)j;
    quants_iq4(q, b->qs);
}

static inline void quants_iq4_xs(int8_t *q, const struct block_iq4_xs *b, size_t j)
{
    quants_iq4(q, b->qs + 16 * j);
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
