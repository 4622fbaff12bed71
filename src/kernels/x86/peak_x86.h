/* The rows of peak.c, and how their loops are made. Private to kernels/.
 *
 * A round is one step of each of PEAK_CHAINS accumulators, which do not depend on each other:
 * twelve cover a latency of six at two a cycle, and with both operands they fit in sixteen
 * registers. */
#ifndef FIRSTLIGHT_KERNELS_X86_PEAK_X86_H
#define FIRSTLIGHT_KERNELS_X86_PEAK_X86_H

#include "kernels/peak.h"

#include <immintrin.h>

extern const struct peak peak_int8_avx2;
extern const struct peak peak_f32_avx2;
extern const struct peak peak_int8_avxvnni;
extern const struct peak peak_f32_avx512;
extern const struct peak peak_int8_256_avx512vnni;
extern const struct peak peak_int8_avx512vnni;
extern const struct peak peak_bf16_avx512bf16;

peak_read_fn peak_read_avx2, peak_read_avx512;

#define PEAK_CHAINS 12

/* The compiler must take v as changed here: it can neither leave a step out nor fold two. */
#define PEAK_KEEP(v) __asm__ volatile("" : "+v"(v))

/* Before arrays are split into registers, which is too early for -O3's own unrolling. Every loop
 * over them has it: one that does not keeps them in memory. */
#define PEAK_UNROLL _Pragma("GCC unroll 16")

/* acc[i] = step, which names i, so many rounds from zero; then acc[0] is the sum of all. Nothing
 * may take acc's address: it would live in memory. */
#define PEAK_ROUNDS(acc, rounds, zero, step, add)                                                  \
    PEAK_UNROLL                                                                                    \
    for (int i = 0; i < PEAK_CHAINS; i++)                                                          \
        (acc)[i] = zero;                                                                           \
    for (size_t round = 0; round < (rounds); round++) {                                            \
        PEAK_UNROLL                                                                                \
        for (int i = 0; i < PEAK_CHAINS; i++) {                                                    \
            (acc)[i] = (step);                                                                     \
            PEAK_KEEP((acc)[i]);                                                                   \
        }                                                                                          \
    }                                                                                              \
    PEAK_UNROLL                                                                                    \
    for (int i = 1; i < PEAK_CHAINS; i++)                                                          \
        (acc)[0] = add((acc)[0], (acc)[i]);

static inline uint64_t peak_sum_i32x8(__m256i v)
{
    uint32_t lanes[8];
    uint64_t sum = 0;
    _mm256_storeu_si256((__m256i *)lanes, v);
    for (int i = 0; i < 8; i++)
        sum += lanes[i];
    return sum;
}

static inline uint64_t peak_sum_f32x8(__m256 v)
{
    float lanes[8];
    uint64_t sum = 0;
    _mm256_storeu_ps(lanes, v);
    for (int i = 0; i < 8; i++)
        sum += (uint64_t)lanes[i];
    return sum;
}

static inline uint64_t peak_xor_u64x4(__m256i v)
{
    uint64_t words[4];
    _mm256_storeu_si256((__m256i *)words, v);
    return words[0] ^ words[1] ^ words[2] ^ words[3];
}

#endif
