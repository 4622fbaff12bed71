/* How a block of cached keys or values of one head lies in memory, so that attention reads it
 * without turning it round.
 *
 * W is head_dim rounded up to 16, P the KV_BLOCK positions of the block:
 *
 *            keys: lanes are positions            values: lanes are dims
 *     f32    float    [head_dim][P]               float    [P][W]
 *     f16    binary16 [head_dim][P]               binary16 [P][W]
 *     bf16   bfloat16 [(head_dim + 1) / 2][P][2]  bfloat16 [P / 2][W][2]
 *     q8_0   int8     [head_dim][P], then         int8     [P][W], then
 *            float    [(head_dim + 31) / 32][P]   float    [P][(head_dim + 31) / 32]
 *
 *     bf16 keys            position 0   1   2 ..     bf16 values        dim 0    1    2 ..
 *       dims 0, 1                 ab  ab  ab           positions 0, 1       ab   ab   ab
 *       dims 2, 3                 ab  ab  ab           positions 2, 3       ab   ab   ab
 *
 * since vdpbf16ps adds the products of pairs. An odd head_dim's last pair of keys ends in zeros.
 * q8_0 has one scale per position and 32 dims: x ~= scale * q. Positions that were not stored hold
 * anything, also beside a stored one in a pair; lanes from head_dim to W are never used.
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

/* Where q8_0's scales begin, in floats from the block's start. */
static inline size_t kv_layout_scales(size_t head_dim)
{
    return KV_BLOCK * kv_layout_width(head_dim) / sizeof(float);
}

/* Indices, in the type's elements, of one dim of one position. */
static inline size_t kv_layout_key(enum kv_type type, size_t at, size_t dim)
{
    return type == KV_BF16 ? (dim / 2 * KV_BLOCK + at) * 2 + dim % 2 : dim * KV_BLOCK + at;
}

static inline size_t kv_layout_value(enum kv_type type, size_t head_dim, size_t at, size_t dim)
{
    size_t width = kv_layout_width(head_dim);
    return type == KV_BF16 ? (at / 2 * width + dim) * 2 + at % 2 : at * width + dim;
}

/* One cached number, for the reference and the tests. */
float kv_layout_load_key(enum kv_type type, const void *block, size_t head_dim, size_t at,
                         size_t dim);
float kv_layout_load_value(enum kv_type type, const void *block, size_t head_dim, size_t at,
                           size_t dim);

#endif
