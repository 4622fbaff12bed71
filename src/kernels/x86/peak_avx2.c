/* Peaks of AVX2: what its bytes take without VNNI is three instructions for 32 multiply-adds. */
#include "base/cpu.h"
#include "kernels/x86/peak_x86.h"

static inline __m256i step_int8(__m256i acc, __m256i *bytes, __m256i words)
{
    PEAK_KEEP(*bytes); /* else every product is the same one */
    __m256i pairs = _mm256_maddubs_epi16(*bytes, *bytes);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, words));
}

static uint64_t run_int8(size_t rounds)
{
    __m256i acc[PEAK_CHAINS], bytes = _mm256_set1_epi8(1), words = _mm256_set1_epi16(1);
    PEAK_KEEP(words);
    PEAK_ROUNDS(acc, rounds, _mm256_setzero_si256(), step_int8(acc[i], &bytes, words),
                _mm256_add_epi32)
    return peak_sum_i32x8(acc[0]);
}

static uint64_t run_f32(size_t rounds)
{
    __m256 acc[PEAK_CHAINS], x = _mm256_set1_ps(1.0f);
    PEAK_KEEP(x);
    PEAK_ROUNDS(acc, rounds, _mm256_setzero_ps(), _mm256_fmadd_ps(x, x, acc[i]), _mm256_add_ps)
    return peak_sum_f32x8(acc[0]);
}

const struct peak peak_int8_avx2 = {
    .name = "avx2",
    .kind = PEAK_INT8,
    .levels = CPU_AVX2,
    .macs = PEAK_CHAINS * 32,
    .run = run_int8,
};

const struct peak peak_f32_avx2 = {
    .name = "avx2",
    .kind = PEAK_F32,
    .levels = CPU_AVX2,
    .macs = PEAK_CHAINS * 8,
    .run = run_f32,
};

uint64_t peak_read_avx2(const void *data, size_t n_bytes)
{
    const __m256i *at = data, *end = at + n_bytes / sizeof *at;
    __m256i acc[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        acc[i] = _mm256_setzero_si256();
    for (; at < end; at += 8) {
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            acc[i] = _mm256_xor_si256(acc[i], _mm256_load_si256(at + i));
    }
#pragma GCC unroll 8
    for (int i = 1; i < 8; i++)
        acc[0] = _mm256_xor_si256(acc[0], acc[i]);
    return peak_xor_u64x4(acc[0]);
}
