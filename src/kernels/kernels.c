#include "kernels/kernels.h"

#include "base/cpu.h"
#include "kernels/variants.h"

/* AVX2 is the first rung and the others stand on it; a later one overwrites what it does better. */
static void fill_x86(struct kernels *k, uint32_t levels)
{
    if (!(levels & CPU_AVX2))
        return;
    dequantize_avx2_fill(k);
    matmul_f32_avx2_fill(k);
    matmul_q8_avx2_fill(k);
    vector_avx2_fill(k);
    activate_avx2_fill(k);
    attn_avx2_fill(k);
    sample_avx2_fill(k);
    kv_store_avx2_fill(k);
    if (levels & CPU_AVX_VNNI)
        matmul_q8_avxvnni_fill(k);
    if (levels & CPU_AVX512) {
        vector_avx512_fill(k);
        activate_avx512_fill(k);
        sample_avx512_fill(k);
        attn_avx512_fill(k);
    }
    if ((levels & CPU_AVX512) && (levels & CPU_AVX512_BF16))
        attn_avx512bf16_fill(k);
    if ((levels & CPU_AVX512) && (levels & CPU_AVX512_VNNI)) {
        matmul_q8_avx512vnni_fill(k);
        attn_avx512vnni_fill(k);
    }
}

void kernels_fill(struct kernels *k, uint32_t levels)
{
    *k = (struct kernels){.levels = levels};
    dequantize_ref_fill(k);
    matmul_ref_fill(k);
    vector_ref_fill(k);
    attn_ref_fill(k);
    sample_ref_fill(k);
    kv_store_ref_fill(k);
    fill_x86(k, levels);
}
