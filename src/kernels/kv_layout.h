/* How a block of cached keys or values of one head lies in memory, so that attention reads it
 * without turning it round.
 *
 * W is head_dim rounded up to 16, P the KV_BLOCK positions of the block:
 *
 *            keys: lanes are positions            values: lanes are dims
 *     f32    float    [head_dim][P]               float    [P][W]
 *     f16    binary16 [head_dim][P]               binary16 [P][W]
 *     bf16   bfloat16 [(head_dim + 1) / 2][P][2]  bfloat16 [P / 2][W][2]
 *     q8_0   int8     [(head_dim + 3) / 4][P][4]  int8     [P / 4][W][4]
 *            and float [(head_dim + 31) / 32][P], the scales of both
 *
 *     bf16 keys            position 0   1   2 ..     bf16 values        dim 0    1    2 ..
 *       dims 0, 1                 ab  ab  ab           positions 0, 1       ab   ab   ab
 *       dims 2, 3                 ab  ab  ab           positions 2, 3       ab   ab   ab
 *
 *     q8_0 keys            position 0    1    2 ..   q8_0 values        dim 0    1    2 ..
 *       dims 0 .. 3               abcd abcd abcd       positions 0 .. 3     acbd acbd acbd
 *
 * since vdpbf16ps adds the products of pairs, vpdpbusd those of four bytes, and vpdpwssd those of
 * pairs of int16, which the even and the odd bytes of four become. An odd head_dim's last pair of
 * bf16 keys ends in zeros. q8_0 has one scale per position and 32 dims: x ~= scale * q. Positions
 * that were not stored hold anything, also beside a stored one in a pair or four; so do dims from
 * head_dim to the end of four. Lanes from head_dim to W are never used.
 */
#ifndef FIRSTLIGHT_KERNELS_KV_LAYOUT_H
#define FIRSTLIGHT_KERNELS_KV_LAYOUT_H

#include "kernels/half.h"
#include "kernels/kernels.h"

#define KV_GROUP      32 /* dims of one q8_0 scale */
#define KV_GROUPS(hd) (((size_t)(hd) + KV_GROUP - 1) / KV_GROUP)

/* By enum kv_type; NULL at the end. */
extern const char *const kv_layout_names[KV_TYPES + 1];

/* W */
static inline size_t kv_layout_width(size_t head_dim)
{
    return (head_dim + 15) / 16 * 16;
}

/* A block's keys, or its values: a multiple of 64. */
size_t kv_layout_bytes(enum kv_type type, size_t head_dim);

/* Index of q8_0's scale of one dim of one position, in floats from the block's start. */
static inline size_t kv_layout_scale(size_t head_dim, size_t at, size_t dim)
{
    size_t first = KV_BLOCK * kv_layout_width(head_dim) / sizeof(float);
    return first + dim / KV_GROUP * KV_BLOCK + at;
}

/* Where among the four bytes of its dim the value of position `at` lies: 0, 2, 1, 3. */
#define KV_BYTE_OF(at) (((at) % 2) * 2 + ((at) % 4) / 2)

/* Indices, in the type's elements, of one dim of one position. */
static inline size_t kv_layout_key(enum kv_type type, size_t at, size_t dim)
{
    switch (type) {
    case KV_BF16:
        return (dim / 2 * KV_BLOCK + at) * 2 + dim % 2;
    case KV_Q8_0:
        return (dim / 4 * KV_BLOCK + at) * 4 + dim % 4;
    default:
        return dim * KV_BLOCK + at;
    }
}

static inline size_t kv_layout_value(enum kv_type type, size_t head_dim, size_t at, size_t dim)
{
    size_t width = kv_layout_width(head_dim);
    switch (type) {
    case KV_BF16:
        return (at / 2 * width + dim) * 2 + at % 2;
    case KV_Q8_0:
        return (at / 4 * width + dim) * 4 + KV_BYTE_OF(at);
    default:
        return at * width + dim;
    }
}

/* One cached number, for the reference and the tests. */
float kv_layout_load_key(enum kv_type type, const void *block, size_t head_dim, size_t at,
                         size_t dim);
float kv_layout_load_value(enum kv_type type, const void *block, size_t head_dim, size_t at,
                           size_t dim);

#endif
