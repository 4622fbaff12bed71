#include "kernels/peak.h"

#include "base/cpu.h"
#include "kernels/x86/peak_x86.h"

static const struct peak *const rows[] = {
    &peak_int8_avx2, &peak_int8_avxvnni, &peak_int8_256_avx512vnni, &peak_int8_avx512vnni,
    &peak_f32_avx2,  &peak_f32_avx512,   &peak_bf16_avx512bf16,
};
#define N_ROWS (sizeof rows / sizeof rows[0])

const struct peak *peak_at(size_t i)
{
    return i < N_ROWS ? rows[i] : NULL;
}

bool peak_is_there(const struct peak *p, uint32_t levels)
{
    return (p->levels & levels) == p->levels;
}

const struct peak *peak_best(enum peak_kind kind, uint32_t levels)
{
    const struct peak *best = NULL;
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i]->kind == kind && peak_is_there(rows[i], levels))
            best = rows[i];
    return best;
}

static uint64_t read_ref(const void *data, size_t n_bytes)
{
    const uint64_t *words = data;
    uint64_t folded = 0;
    for (size_t i = 0; i < n_bytes / sizeof *words; i++)
        folded ^= words[i];
    return folded;
}

peak_read_fn *peak_reader(uint32_t levels)
{
    if (levels & CPU_AVX512)
        return peak_read_avx512;
    return levels & CPU_AVX2 ? peak_read_avx2 : read_ref;
}
