#include "kernels/kv_store.h"
#include "kernels/variants.h"

static void to_f16(uint16_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = half_from_float(x[i]);
}

static void to_bf16(uint16_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_from_float(x[i]);
}

static void kv_store_f32_ref(const struct kv_store_args *a)
{
    kv_store_f32(a);
}

static void kv_store_f16_ref(const struct kv_store_args *a)
{
    kv_store_f16(a, to_f16);
}

static void kv_store_bf16_ref(const struct kv_store_args *a)
{
    kv_store_bf16(a, to_bf16);
}

static void kv_store_q8_0_ref(const struct kv_store_args *a)
{
    kv_store_q8_0(a);
}

void kv_store_ref_fill(struct kernels *k)
{
    k->kv_store[KV_F32] = kv_store_f32_ref;
    k->kv_store[KV_F16] = kv_store_f16_ref;
    k->kv_store[KV_BF16] = kv_store_bf16_ref;
    k->kv_store[KV_Q8_0] = kv_store_q8_0_ref;
}
