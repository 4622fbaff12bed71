#include "bench/result/random.h"

#include <math.h>

#define STEP 0x9e3779b97f4a7c15u /* 2^64 / the golden ratio */

/* SplitMix64's output function (Steele, Lea, Flood 2014). */
static uint64_t random_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void random_init(struct random *r, uint64_t seed, uint64_t stream)
{
    r->state = random_mix(random_mix(seed + STEP) ^ random_mix(stream * STEP + 1));
}

uint64_t random_salted(uint64_t seed, uint64_t salt)
{
    return salt == 0 ? seed : random_mix(seed ^ random_mix(salt));
}

uint64_t random_next(struct random *r)
{
    return random_mix(r->state += STEP);
}

uint32_t random_below(struct random *r, uint32_t n)
{
    return (uint32_t)((random_next(r) >> 32) * n >> 32);
}

/* 52 bits and a half: neither end is ever reached, also after rounding. */
double random_unit(struct random *r)
{
    return ((double)(random_next(r) >> 12) + 0.5) * 0x1p-52;
}

/* Box and Muller 1958; the second value of the pair is not kept, so that the state is one word. */
double random_normal(struct random *r)
{
    double radius = sqrt(-2 * log(random_unit(r)));
    return radius * cos(2 * M_PI * random_unit(r));
}

/* Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; shape >= 1. */
static double unit_gamma(struct random *r, double shape)
{
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = random_normal(r), v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        if (log(random_unit(r)) < 0.5 * x * x + d - d * v + d * log(v))
            return d * v;
    }
}

double random_gamma(struct random *r, double shape, double scale)
{
    if (shape >= 1)
        return scale * unit_gamma(r, shape);
    double power = pow(random_unit(r), 1 / shape); /* section 6 of the paper */
    return scale * power * unit_gamma(r, shape + 1);
}
