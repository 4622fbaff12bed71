/* A small seeded generator for property tests: the same seed gives the same test. */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_RANDOM_H
#define FIRSTLIGHT_TESTS_SUPPORT_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

/* xorshift64* (Marsaglia 2003, Vigna 2016). */
static inline uint64_t random_next(struct random *r)
{
    if (r->state == 0)
        r->state = 0x9e3779b97f4a7c15u;
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1du;
}

/* [0, n) */
static inline uint32_t random_below(struct random *r, uint32_t n)
{
    return (uint32_t)((random_next(r) >> 32) * n >> 32);
}

/* [0, 1) */
static inline double random_unit(struct random *r)
{
    return (double)(random_next(r) >> 11) * 0x1p-53;
}

#endif
