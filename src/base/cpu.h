/* CPU levels: what this processor can do and the operating system allows.
 *
 * A level's bit is set only if CPUID names the instructions and XCR0 says the kernel saves the
 * registers. The kernel table (kernels/kernels.h) is filled once at start from cpu_levels().
 */
#ifndef FIRSTLIGHT_BASE_CPU_H
#define FIRSTLIGHT_BASE_CPU_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum cpu_level {
    CPU_AVX2 = 1 << 0,        /* AVX2, FMA, F16C: the least this program runs on */
    CPU_AVX_VNNI = 1 << 1,    /* VEX-coded vpdpbusd */
    CPU_AVX512 = 1 << 2,      /* F, BW, DQ, VL */
    CPU_AVX512_VNNI = 1 << 3, /* vpdpbusd on 512 bits */
    CPU_AVX512_BF16 = 1 << 4, /* vdpbf16ps */
};
#define CPU_ALL 0x1fu

/* The levels of this machine, without any mask. */
uint32_t cpu_detect(void);

/* Parses --cpu-mask: names after a minus switch levels off ("-avx512,-avx_vnni"), a plain list
 * keeps only those ("avx2"), "c" keeps none (the C reference), or a number in 0x form is the mask.
 * Writes the mask to apply with &. STATUS_INVALID names the unknown word. */
enum status cpu_parse_mask(const char *text, uint32_t *mask, struct err *err);

/* "avx2 avx512 avx512_vnni" into out; returns out. "c" for none. */
const char *cpu_levels_text(uint32_t levels, char *out, size_t out_size);

/* The processor's name from CPUID, e.g. "AMD EPYC 9B45"; never NULL. */
const char *cpu_model_name(void);

/* Bytes of the first processor's data or unified cache of that level (1 ..); 0: none, or unknown.
 */
size_t cpu_cache_bytes(int level);

/* Processors this process may use: the affinity mask, bounded by its cgroups' quotas. >= 1. */
int cpu_usable_count(void);

#endif
