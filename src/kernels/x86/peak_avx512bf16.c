/* Peak of AVX-512 BF16. */
#include "base/cpu.h"
#include "kernels/x86/peak_x86.h"

static uint64_t run(size_t rounds)
{
    __m512 acc[PEAK_CHAINS];
    __m512i ones = _mm512_set1_epi16(0x3f80); /* 1.0 */
    PEAK_KEEP(ones);
    PEAK_ROUNDS(acc, rounds, _mm512_setzero_ps(),
                _mm512_dpbf16_ps(acc[i], (__m512bh)ones, (__m512bh)ones), _mm512_add_ps)
    return peak_sum_f32x8(_mm512_castps512_ps256(acc[0])) +
           peak_sum_f32x8(_mm512_extractf32x8_ps(acc[0], 1));
}

const struct peak peak_bf16_avx512bf16 = {
    .name = "avx512_bf16",
    .kind = PEAK_BF16,
    .levels = CPU_AVX512 | CPU_AVX512_BF16,
    .macs = PEAK_CHAINS * 32,
    .run = run,
};
