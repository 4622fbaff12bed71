/* A seeded generator: the same seed gives the same workload on every machine. */
#ifndef FIRSTLIGHT_BENCH_RESULT_RANDOM_H
#define FIRSTLIGHT_BENCH_RESULT_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t state;
};

/* `stream` tells apart what is drawn from one seed (prompts, arrivals, each run of them). */
void random_init(struct random *r, uint64_t seed, uint64_t stream);
/* A seed of a seed and a salt; of salt 0 the seed itself. */
uint64_t random_salted(uint64_t seed, uint64_t salt);
uint64_t random_next(struct random *r);
uint32_t random_below(struct random *r, uint32_t n); /* [0, n), n >= 1 */
double random_unit(struct random *r);                /* (0, 1) */
double random_normal(struct random *r);              /* mean 0, variance 1 */
/* shape, scale > 0 (Marsaglia and Tsang 2000). shape 1 is the exponential distribution. */
double random_gamma(struct random *r, double shape, double scale);

#endif
