/* Peak of AVX-VNNI: vpdpbusd as processors without AVX-512 have it. */
#include "base/cpu.h"
#include "kernels/x86/peak_x86.h"

static uint64_t run(size_t rounds)
{
    __m256i acc[PEAK_CHAINS], x = _mm256_set1_epi8(1);
    PEAK_KEEP(x);
    PEAK_ROUNDS(acc, rounds, _mm256_setzero_si256(), _mm256_dpbusd_avx_epi32(acc[i], x, x),
                _mm256_add_epi32)
    return peak_sum_i32x8(acc[0]);
}

const struct peak peak_int8_avxvnni = {
    .name = "avx_vnni",
    .kind = PEAK_INT8,
    .levels = CPU_AVX2 | CPU_AVX_VNNI,
    .macs = PEAK_CHAINS * 32,
    .run = run,
};
