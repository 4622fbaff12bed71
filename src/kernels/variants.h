/* The files that implement kernels, one function each: it overwrites its entries of the table.
 * Private to kernels/: others see the table only. */
#ifndef FIRSTLIGHT_KERNELS_VARIANTS_H
#define FIRSTLIGHT_KERNELS_VARIANTS_H

#include "kernels/kernels.h"
#include "kernels/quant_blocks.h"

/* A block whose largest magnitude lies below this counts as zero: 127 / max would overflow. */
#define QUANTIZE_TINY 0x1p-100f

/* gelu_tanh(x) = x / (1 + exp(-x (GELU_LINEAR + GELU_CUBIC x^2))): 2 sqrt(2 / pi), and that times
 * 0.044715. */
#define GELU_LINEAR 1.59576912f
#define GELU_CUBIC  0.0713548163f

/* The polynomial in t = 1 / (1 + GELU_ERF_P a) whose product with t exp(-a^2 / 2) is the normal
 * distribution's tail beyond a >= 0, to 3.2e-8 of it: the form of Abramowitz & Stegun 26.2.17,
 * fitted anew (Lawson's algorithm on 0 <= a <= 15). From the constant term on. */
#define GELU_ERF_P 0.35f
#define GELU_ERF_TERMS                                                                             \
    {                                                                                              \
        0.139621258f, 0.139864326f, 0.119815551f, 0.105574571f, -0.0232632589f, 0.159392044f,      \
            -0.255901068f, 0.144060403f, -0.029163843f                                             \
    }

/* Dequantisation serves the float products too, so its functions are named here:
 * void dequantize_q4_0_ref(float *out, const void *row, size_t n) and so on. */
#define X(type, name, groups)                                                                      \
    void dequantize_##name##_ref(float *out, const void *row, size_t n);                           \
    void dequantize_##name##_avx2(float *out, const void *row, size_t n);
FLOAT_TYPE_MAP(X)
QUANT_TYPE_MAP(X)
#undef X

/* C references: every entry. */
void dequantize_ref_fill(struct kernels *k);
void matmul_ref_fill(struct kernels *k);
void vector_ref_fill(struct kernels *k);
void attn_ref_fill(struct kernels *k);
void sample_ref_fill(struct kernels *k);
void kv_store_ref_fill(struct kernels *k);

/* x86 with AVX2, FMA and F16C. */
void dequantize_avx2_fill(struct kernels *k);
void matmul_f32_avx2_fill(struct kernels *k);
void matmul_q8_avx2_fill(struct kernels *k);
void vector_avx2_fill(struct kernels *k);
void activate_avx2_fill(struct kernels *k);
void attn_avx2_fill(struct kernels *k);
void sample_avx2_fill(struct kernels *k);
void kv_store_avx2_fill(struct kernels *k);

/* x86 with AVX-512 (F, BW, DQ, VL). */
void attn_avx512_fill(struct kernels *k);

/* The same and its BF16. */
void attn_avx512bf16_fill(struct kernels *k);

/* x86 with AVX2 and AVX-VNNI. */
void matmul_q8_avxvnni_fill(struct kernels *k);

/* x86 with AVX-512 (F, BW, DQ, VL), and with its VNNI. */
void sample_avx512_fill(struct kernels *k);
void vector_avx512_fill(struct kernels *k);
void activate_avx512_fill(struct kernels *k);
void matmul_q8_avx512vnni_fill(struct kernels *k);
void attn_avx512vnni_fill(struct kernels *k);

#endif
