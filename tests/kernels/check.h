/* What the kernel tests share: levels, random numbers, guarded buffers, errors against bounds.
 *
 * An error is always reported as a share of its bound: 1 would fail. Bounds are worst-case rounding
 * errors (Higham, Accuracy and Stability of Numerical Algorithms, ch. 3), derived beside each test;
 * EPS is the unit roundoff of binary32.
 */
#ifndef FIRSTLIGHT_TESTS_KERNELS_CHECK_H
#define FIRSTLIGHT_TESTS_KERNELS_CHECK_H

#include "base/cpu.h"
#include "base/mem.h"
#include "kernels/kernels.h"
#include "support/cmocka_all.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPS          0x1p-24
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MIN_OF(a, b) ((a) < (b) ? (a) : (b))

/* The rungs of the ladder, each with those it stands on; those the machine has are tested. */
static const uint32_t check_levels[] = {
    0,
    CPU_AVX2,
    CPU_AVX2 | CPU_AVX_VNNI,
    CPU_AVX2 | CPU_AVX512,
    CPU_AVX2 | CPU_AVX512 | CPU_AVX512_VNNI,
    CPU_ALL,
};

struct check_level {
    struct kernels k;
    char name[128];
};

/* The levels of this machine, asked once: in a virtual machine CPUID is a trip to the host, of tens
 * of microseconds. */
static inline uint32_t check_machine_levels(void)
{
    static bool asked;
    static uint32_t levels;
    if (!asked)
        levels = cpu_detect();
    asked = true;
    return levels;
}

/* The next level to test from *i on; false at the end. CPU_ALL stands for all the machine has. */
static inline bool check_next_level(size_t *i, struct check_level *level)
{
    uint32_t have = check_machine_levels();
    for (; *i < COUNT(check_levels); ++*i) {
        uint32_t want = check_levels[*i] == CPU_ALL ? have : check_levels[*i];
        if ((want & have) != want)
            continue;
        kernels_fill(&level->k, want);
        cpu_levels_text(want, level->name, sizeof level->name);
        ++*i;
        return true;
    }
    return false;
}

#define FOR_EACH_LEVEL(level)                                                                      \
    for (size_t level_index = 0; check_next_level(&level_index, &(level));)

/* xorshift64*: the tests' own numbers, the same in every run. */
static uint64_t check_seed = 0x9e3779b97f4a7c15u;

static inline uint32_t random_u32(void)
{
    check_seed ^= check_seed >> 12;
    check_seed ^= check_seed << 25;
    check_seed ^= check_seed >> 27;
    return (uint32_t)(check_seed * 0x2545f4914f6cdd1du >> 32);
}

/* In [-1, 1). */
static inline float random_float(void)
{
    return (float)((double)random_u32() * 0x1p-31 - 1.0);
}

static inline void random_floats(float *out, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        out[i] = scale * random_float();
}

/* A buffer at `shift` bytes past a 64-byte boundary, between guard bytes, all of it GUARD_BYTE at
 * first. Sanitizers see reads past `size`: the allocation ends there when the back guard is off. */
#define GUARD_BYTE  0xa5
#define GUARD_BYTES 64u

struct guarded {
    unsigned char *base;
    void *data;
    size_t size;
    size_t back; /* guard bytes behind */
};

static inline struct guarded guarded_make(size_t size, size_t shift, bool written)
{
    struct guarded g = {.size = size, .back = written ? GUARD_BYTES : 0};
    g.base = mem_aligned(GUARD_BYTES + shift + size + g.back);
    assert_non_null(g.base);
    memset(g.base, GUARD_BYTE, GUARD_BYTES + shift + size + g.back);
    g.data = g.base + GUARD_BYTES + shift;
    return g;
}

static inline void guarded_free(struct guarded *g)
{
    unsigned char *end = (unsigned char *)g->data + g->size;
    for (unsigned char *p = g->base; p < (unsigned char *)g->data; p++)
        assert_int_equal(*p, GUARD_BYTE);
    for (size_t i = 0; i < g->back; i++)
        assert_int_equal(end[i], GUARD_BYTE);
    mem_free(g->base);
}

/* The largest error of an entry, as a share of the bound. */
struct worst {
    double share;
};

static inline void check_error(struct worst *w, double got, double want, double bound)
{
    double error = fabs(got - want);
    double share = error == 0.0 ? 0.0 : error / bound;
    if (!(share <= 1.0))
        fail_msg("got %.9g, want %.9g: error %.3g, bound %.3g", got, want, error, bound);
    w->share = fmax(w->share, share);
}

static inline void check_report(const char *level, const char *op, const char *type, struct worst w)
{
    printf("    %-28s %-12s %-5s max error %.3f of the bound\n", level, op, type, w.share);
}

#endif
