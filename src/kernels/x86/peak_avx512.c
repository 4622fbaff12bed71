/* Peaks of AVX-512 without its extensions. */
#include "base/cpu.h"
#include "kernels/x86/peak_x86.h"

static uint64_t run_f32(size_t rounds)
{
    __m512 acc[PEAK_CHAINS], x = _mm512_set1_ps(1.0f);
    PEAK_KEEP(x);
    PEAK_ROUNDS(acc, rounds, _mm512_setzero_ps(), _mm512_fmadd_ps(x, x, acc[i]), _mm512_add_ps)
    return peak_sum_f32x8(_mm512_castps512_ps256(acc[0])) +
           peak_sum_f32x8(_mm512_extractf32x8_ps(acc[0], 1));
}

const struct peak peak_f32_avx512 = {
    .name = "avx512",
    .kind = PEAK_F32,
    .levels = CPU_AVX512,
    .macs = PEAK_CHAINS * 16,
    .run = run_f32,
};

uint64_t peak_read_avx512(const void *data, size_t n_bytes)
{
    const __m512i *at = data, *end = at + n_bytes / sizeof *at;
    __m512i acc[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        acc[i] = _mm512_setzero_si512();
    for (; at < end; at += 8) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            acc[i] = _mm512_xor_si512(acc[i], _mm512_load_si512(at + i));
    }
#pragma GCC unroll 8
    for (int i = 1; i < 8; i++)
        acc[0] = _mm512_xor_si512(acc[0], acc[i]);
    return peak_xor_u64x4(_mm512_castsi512_si256(acc[0])) ^
           peak_xor_u64x4(_mm512_extracti64x4_epi64(acc[0], 1));
}
