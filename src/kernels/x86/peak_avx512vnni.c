/* Peaks of AVX-512 VNNI, in whole and in half registers: where the wide ones make the processor
 * slower, or are taken in two halves, the half ones show it. */
#include "base/cpu.h"
#include "kernels/x86/peak_x86.h"

static uint64_t run_256(size_t rounds)
{
    __m256i acc[PEAK_CHAINS], x = _mm256_set1_epi8(1);
    PEAK_KEEP(x);
    PEAK_ROUNDS(acc, rounds, _mm256_setzero_si256(), _mm256_dpbusd_epi32(acc[i], x, x),
                _mm256_add_epi32)
    return peak_sum_i32x8(acc[0]);
}

static uint64_t run_512(size_t rounds)
{
    __m512i acc[PEAK_CHAINS], x = _mm512_set1_epi8(1);
    PEAK_KEEP(x);
    PEAK_ROUNDS(acc, rounds, _mm512_setzero_si512(), _mm512_dpbusd_epi32(acc[i], x, x),
                _mm512_add_epi32)
    return peak_sum_i32x8(_mm512_castsi512_si256(acc[0])) +
           peak_sum_i32x8(_mm512_extracti64x4_epi64(acc[0], 1));
}

const struct peak peak_int8_256_avx512vnni = {
    .name = "avx512_vnni_256",
    .kind = PEAK_INT8,
    .levels = CPU_AVX512 | CPU_AVX512_VNNI,
    .macs = PEAK_CHAINS * 32,
    .run = run_256,
};

const struct peak peak_int8_avx512vnni = {
    .name = "avx512_vnni",
    .kind = PEAK_INT8,
    .levels = CPU_AVX512 | CPU_AVX512_VNNI,
    .macs = PEAK_CHAINS * 64,
    .run = run_512,
};
