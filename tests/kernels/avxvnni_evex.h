/* The AVX-VNNI products on a processor that has AVX-512 VNNI instead: the same source, its one
 * instruction in the other coding. So the tests see them where AVX-VNNI is missing, as on Zen 4. */
#ifndef FIRSTLIGHT_TESTS_KERNELS_AVXVNNI_EVEX_H
#define FIRSTLIGHT_TESTS_KERNELS_AVXVNNI_EVEX_H

#include "kernels/variants.h"

#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")
#define _mm256_dpbusd_avx_epi32 _mm256_dpbusd_epi32
#define matmul_q8_avxvnni_fill  avxvnni_evex_fill
static void avxvnni_evex_fill(struct kernels *k);
#include "../../src/kernels/x86/matmul_q8_avxvnni.c"
#undef matmul_q8_avxvnni_fill
#undef _mm256_dpbusd_avx_epi32
#undef TOKENS
#undef TILE
#undef EACH_TILE
#undef ENTRY
#pragma GCC pop_options

#endif
