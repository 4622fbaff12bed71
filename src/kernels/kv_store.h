/* Storing one position's key and value, over a conversion to 16 bits that the including file
 * brings: plain loops, compiled for each level that has something better than plain C.
 */
#ifndef FIRSTLIGHT_KERNELS_KV_STORE_H
#define FIRSTLIGHT_KERNELS_KV_STORE_H

#include "kernels/kv_layout.h"

#include <string.h>

#define KV_PIECE 64 /* dims converted at a time */

typedef void kv_convert_fn(uint16_t *out, const float *x, size_t n);

static inline size_t kv_piece(size_t head_dim, size_t d)
{
    return head_dim - d < KV_PIECE ? head_dim - d : KV_PIECE;
}

static inline void kv_store_f32(const struct kv_store_args *a)
{
    float *k = (float *)a->k + a->at;
    for (size_t d = 0; d < a->head_dim; d++)
        k[d * KV_BLOCK] = a->key[d];
    memcpy((float *)a->v + a->at * kv_layout_width(a->head_dim), a->value,
           a->head_dim * sizeof(float));
}

static inline void kv_store_f16(const struct kv_store_args *a, kv_convert_fn *convert)
{
    uint16_t *k = (uint16_t *)a->k + a->at, half[KV_PIECE];
    for (size_t d = 0; d < a->head_dim; d += KV_PIECE) {
        size_t n = kv_piece(a->head_dim, d);
        convert(half, a->key + d, n);
        for (size_t i = 0; i < n; i++)
            k[(d + i) * KV_BLOCK] = half[i];
    }
    convert((uint16_t *)a->v + a->at * kv_layout_width(a->head_dim), a->value, a->head_dim);
}

/* Halves of pairs are written alone: the other half may be another worker's position. */
static inline void kv_store_bf16(const struct kv_store_args *a, kv_convert_fn *convert)
{
    uint16_t half[KV_PIECE];
    uint16_t *v = (uint16_t *)a->v + kv_layout_value(KV_BF16, a->head_dim, a->at, 0);
    for (size_t d = 0; d < a->head_dim; d += KV_PIECE) {
        size_t n = kv_piece(a->head_dim, d);
        char *k = (char *)((uint16_t *)a->k + kv_layout_key(KV_BF16, a->at, d));
        convert(half, a->key + d, n);
        if (n % 2)
            half[n] = 0;
        for (size_t i = 0; i < n; i += 2)
            memcpy(k + i / 2 * KV_BLOCK * 4, half + i, 4);
        convert(half, a->value + d, n);
        for (size_t i = 0; i < n; i++)
            v[(d + i) * 2] = half[i];
    }
}

/* n <= KV_GROUP values as scale * q. What is not finite goes into the scale, as in quantize_q8; the
 * largest is found on the bits, where NaN is above infinity. */
static inline float kv_quantize(int8_t *q, const float *x, size_t n)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t b = float_bits(x[i]) & 0x7fffffffu;
        bits = b > bits ? b : bits;
    }
    float max = float_from_bits(bits);
    if (bits >= 0x7f800000u || max < 0x1p-100f) {
        memset(q, 0, n);
        return bits >= 0x7f800000u ? max : 0.0f;
    }
    float inverse = 127.0f / max;
    for (size_t i = 0; i < n; i++) /* adding 1.5 * 2^23 rounds to an integer in the low bits */
        q[i] = (int8_t)float_bits(x[i] * inverse + 0x1.8p23f);
    return max / 127.0f;
}

/* Bytes of values are written alone, as bf16's halves are. */
static inline void kv_store_q8_0(const struct kv_store_args *a)
{
    int8_t *k = (int8_t *)a->k + kv_layout_key(KV_Q8_0, a->at, 0), q[KV_GROUP] = {0};
    int8_t *v = (int8_t *)a->v + kv_layout_value(KV_Q8_0, a->head_dim, a->at, 0);
    for (size_t d = 0; d < a->head_dim; d += KV_GROUP) {
        size_t n = a->head_dim - d < KV_GROUP ? a->head_dim - d : KV_GROUP;
        size_t scale = kv_layout_scale(a->head_dim, a->at, d);
        ((float *)a->k)[scale] = kv_quantize(q, a->key + d, n);
        for (size_t i = 0; i < n; i += 4)
            memcpy(k + (d + i) * KV_BLOCK, q + i, 4);
        ((float *)a->v)[scale] = kv_quantize(q, a->value + d, n);
        for (size_t i = 0; i < n; i++)
            v[(d + i) * 4] = q[i];
    }
}

#endif
