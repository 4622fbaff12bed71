/* Samples of one quantity, all of them kept, so that percentiles are exact. */
#ifndef FIRSTLIGHT_BENCH_RESULT_SERIES_H
#define FIRSTLIGHT_BENCH_RESULT_SERIES_H

#include <stdbool.h>
#include <stddef.h>

#define SERIES_HUGE 1e15 /* a larger value is no measurement */

struct series {
    double *v; /* (n); in the order they came until the first percentile sorts them */
    size_t n, cap;
    bool failed; /* memory was short once: the samples are not complete; sticks, and every figure
                    of them is NAN */
};

/* NAN is no sample and is not added. */
void series_add(struct series *s, double x);
void series_add_all(struct series *s, const struct series *more);
void series_sort(struct series *s);
/* p in [0, 100], linear between the closest ranks (numpy's default, as `vllm bench serve` has it).
 * Sorts. NAN when empty. */
double series_percentile(struct series *s, double p);
double series_median(const struct series *s); /* leaves the order alone; NAN when empty */
double series_mean(const struct series *s);   /* NAN when empty */
double series_sd(const struct series *s); /* of the population, as numpy's std; NAN when empty */
void series_fini(struct series *s);

/* What tables and results show of a series. All NAN when n == 0. */
struct spread {
    size_t n;
    double mean, sd, min, p50, p90, p95, p99, max;
};
struct spread series_spread(struct series *s);

#endif
