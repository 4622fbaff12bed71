/* The plain loops compiled with AVX2, which vectorises the roundings to bfloat16 and int8. */
#include "kernels/kv_store.h"
#include "kernels/variants.h"

#include <immintrin.h>

static void to_f16(uint16_t *out, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i v = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(out + i), v);
    }
    for (; i < n; i++)
        out[i] = half_from_float(x[i]);
}

static void to_bf16(uint16_t *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = bf16_from_float(x[i]);
}

static void kv_store_f16_avx2(const struct kv_store_args *a)
{
    kv_store_f16(a, to_f16);
}

static void kv_store_bf16_avx2(const struct kv_store_args *a)
{
    kv_store_bf16(a, to_bf16);
}

static void kv_store_q8_0_avx2(const struct kv_store_args *a)
{
    kv_store_q8_0(a);
}

void kv_store_avx2_fill(struct kernels *k)
{
    k->kv_store[KV_F16] = kv_store_f16_avx2;
    k->kv_store[KV_BF16] = kv_store_bf16_avx2;
    k->kv_store[KV_Q8_0] = kv_store_q8_0_avx2;
}
