#include "base/cpu.h"

#include "base/cgroup.h"
#include "base/mem.h"

#include <cpuid.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct level_row {
    enum cpu_level bit;
    const char *name;
};

static const struct level_row level_rows[] = {
    {CPU_AVX2, "avx2"},
    {CPU_AVX_VNNI, "avx_vnni"},
    {CPU_AVX512, "avx512"},
    {CPU_AVX512_VNNI, "avx512_vnni"},
    {CPU_AVX512_BF16, "avx512_bf16"},
};
#define LEVEL_COUNT (sizeof level_rows / sizeof level_rows[0])

/* XCR0: bits 1-2 are SSE and AVX state, bits 5-7 the AVX-512 state. */
#define XCR0_AVX    0x06u
#define XCR0_AVX512 0xe6u

static uint32_t read_xcr0(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static uint32_t detect_avx512(uint32_t b7, uint32_t c7, uint32_t a7_1)
{
    uint32_t need = bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL;
    if ((b7 & need) != need)
        return 0;
    uint32_t levels = CPU_AVX512;
    if (c7 & bit_AVX512VNNI)
        levels |= CPU_AVX512_VNNI;
    if (a7_1 & bit_AVX512BF16)
        levels |= CPU_AVX512_BF16;
    return levels;
}

uint32_t cpu_detect(void)
{
    uint32_t a, b, c, d, b7, c7, a7_1 = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    uint32_t xcr0 = read_xcr0();
    uint32_t need = bit_AVX | bit_FMA | bit_F16C;
    if ((xcr0 & XCR0_AVX) != XCR0_AVX || (c & need) != need)
        return 0;
    if (!__get_cpuid_count(7, 0, &a, &b7, &c7, &d) || !(b7 & bit_AVX2))
        return 0;
    if (a >= 1)
        __get_cpuid_count(7, 1, &a7_1, &b, &c, &d);
    uint32_t levels = CPU_AVX2;
    if (a7_1 & bit_AVXVNNI)
        levels |= CPU_AVX_VNNI;
    if ((xcr0 & XCR0_AVX512) == XCR0_AVX512)
        levels |= detect_avx512(b7, c7, a7_1);
    return levels;
}

static enum status find_level(const char *name, size_t len, uint32_t *bit, struct err *err)
{
    for (size_t i = 0; i < LEVEL_COUNT; i++) {
        if (strlen(level_rows[i].name) == len && memcmp(level_rows[i].name, name, len) == 0) {
            *bit = (uint32_t)level_rows[i].bit;
            return STATUS_OK;
        }
    }
    return err_param(err, STATUS_INVALID, "--cpu-mask",
                     "unknown CPU level \"%.*s\"; known are avx2, avx_vnni, avx512, avx512_vnni, "
                     "avx512_bf16, a minus sign before one switches it off, and \"c\"",
                     (int)len, name);
}

enum status cpu_parse_mask(const char *text, uint32_t *mask, struct err *err)
{
    if (strcmp(text, "c") == 0) {
        *mask = 0;
        return STATUS_OK;
    }
    if (strncmp(text, "0x", 2) == 0) {
        char *end;
        *mask = (uint32_t)strtoul(text, &end, 16);
        if (*end == '\0' && end > text + 2)
            return STATUS_OK;
    }
    uint32_t keep = 0, off = 0;
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ",");
        bool minus = *p == '-';
        uint32_t bit = 0;
        enum status st = find_level(p + minus, len - minus, &bit, err);
        if (st)
            return st;
        if (minus)
            off |= bit;
        else
            keep |= bit;
        p += len;
        if (*p == '\0')
            break;
    }
    *mask = (keep ? keep : CPU_ALL) & ~off;
    return STATUS_OK;
}

const char *cpu_levels_text(uint32_t levels, char *out, size_t out_size)
{
    size_t n = 0;
    snprintf(out, out_size, "c");
    for (size_t i = 0; i < LEVEL_COUNT && n < out_size; i++)
        if (levels & (uint32_t)level_rows[i].bit)
            n += (size_t)snprintf(out + n, out_size - n, "%s%s", n ? " " : "", level_rows[i].name);
    return out;
}

const char *cpu_model_name(void)
{
    static _Thread_local char name[49];
    uint32_t regs[12];
    for (uint32_t i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002 + i, &regs[i * 4], &regs[i * 4 + 1], &regs[i * 4 + 2],
                         &regs[i * 4 + 3]))
            return "unknown CPU";
    memcpy(name, regs, 48);
    size_t len = strlen(name);
    while (len && name[len - 1] == ' ')
        name[--len] = '\0';
    return name;
}

/* The first line of a file of the kernel's description of caches, without its end; false: none. */
static bool read_cache(int index, const char *name, char *line, int size)
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *f = fopen(path, "r");
    bool ok = f && fgets(line, size, f);
    if (f)
        fclose(f);
    if (ok)
        line[strcspn(line, "\n")] = '\0';
    return ok;
}

size_t cpu_cache_bytes(int level)
{
    char line[32];
    size_t bytes;
    for (int i = 0; read_cache(i, "level", line, sizeof line); i++) {
        if (atoi(line) != level || !read_cache(i, "type", line, sizeof line) ||
            strcmp(line, "Instruction") == 0)
            continue;
        if (read_cache(i, "size", line, sizeof line) && mem_parse_size(line, &bytes))
            return bytes;
    }
    return 0;
}

int cpu_usable_count(void)
{
    cpu_set_t set;
    int count = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        count = CPU_COUNT(&set);
    int quota = cgroup_processors();
    if (quota < count)
        count = quota;
    return count > 0 ? count : 1;
}
