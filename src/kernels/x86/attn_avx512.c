/* Attention (see struct attn_args) with AVX-512. */
#include "kernels/variants.h"
#include "kernels/x86/attn_flow_avx2.h"

static void attn_f32_avx512(const struct attn_args *a)
{
    attend(a, KV_F32);
}

static void attn_f16_avx512(const struct attn_args *a)
{
    attend(a, KV_F16);
}

static void attn_bf16_avx512(const struct attn_args *a)
{
    attend(a, KV_BF16);
}

static void attn_q8_0_avx512(const struct attn_args *a)
{
    attend(a, KV_Q8_0);
}

static void attn_merge_avx512(struct attn_state *to, const struct attn_state *later,
                              size_t head_dim)
{
    merge(to, later, head_dim);
}

void attn_avx512_fill(struct kernels *k)
{
    k->attn[KV_F32] = attn_f32_avx512;
    k->attn[KV_F16] = attn_f16_avx512;
    k->attn[KV_BF16] = attn_bf16_avx512;
    k->attn[KV_Q8_0] = attn_q8_0_avx512;
    k->attn_merge = attn_merge_avx512;
}
