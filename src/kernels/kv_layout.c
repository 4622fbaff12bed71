#include "kernels/kv_layout.h"

const char *const kv_layout_names[KV_TYPES + 1] = {
    [KV_F32] = "f32", [KV_F16] = "f16", [KV_BF16] = "bf16", [KV_Q8_0] = "q8_0"};

static const size_t element_bytes[KV_TYPES] = {
    [KV_F32] = 4, [KV_F16] = 2, [KV_BF16] = 2, [KV_Q8_0] = 1};

size_t kv_layout_bytes(enum kv_type type, size_t head_dim)
{
    size_t scales = type == KV_Q8_0 ? KV_BLOCK * KV_GROUPS(head_dim) * sizeof(float) : 0;
    return KV_BLOCK * kv_layout_width(head_dim) * element_bytes[type] + scales;
}

static float load(enum kv_type type, const void *block, size_t i)
{
    switch (type) {
    case KV_F32:
        return ((const float *)block)[i];
    case KV_F16:
        return half_to_float(((const uint16_t *)block)[i]);
    case KV_BF16:
        return bf16_to_float(((const uint16_t *)block)[i]);
    default:
        return (float)((const int8_t *)block)[i];
    }
}

static float scaled(enum kv_type type, const void *block, size_t scale, float x)
{
    return type == KV_Q8_0 ? ((const float *)block)[scale] * x : x;
}

float kv_layout_load_key(enum kv_type type, const void *block, size_t head_dim, size_t at,
                         size_t dim)
{
    float x = load(type, block, kv_layout_key(type, at, dim));
    return scaled(type, block, kv_layout_scale(head_dim, at, dim), x);
}

float kv_layout_load_value(enum kv_type type, const void *block, size_t head_dim, size_t at,
                           size_t dim)
{
    float x = load(type, block, kv_layout_value(type, head_dim, at, dim));
    return scaled(type, block, kv_layout_scale(head_dim, at, dim), x);
}
