/* Whether two groups of repeats differ in any of several metrics.
 *
 * The max-T permutation test with step-down (Westfall and Young, "Resampling-based multiple
 * testing", 1993, algorithm 2.8 for a common arrangement). If nothing differs, which repeats are
 * called "before" and which "after" is arbitrary: so the observed difference is compared with that
 * of all other ways to deal the same repeats out to two groups of these sizes.
 *
 * It is exact for any distribution, which suits few samples: nothing is assumed to be normal. A
 * metric's p counts the arrangements in which this metric or any weaker one differs as much, so the
 * chance that any metric at all gets p <= alpha, while nothing differs, is at most alpha: the
 * correction for the number of metrics is in it, and metrics that move together cost nothing twice.
 */
#ifndef FIRSTLIGHT_BENCH_RESULT_PERMUTATION_H
#define FIRSTLIGHT_BENCH_RESULT_PERMUTATION_H

#include <stdbool.h>
#include <stddef.h>

/* More repeats than that (of both groups) are not compared. */
#define PERMUTATION_REPEATS 2000

struct permutation {
    size_t n_before, n_after; /* repeats, at least 1 each */
    size_t n_metrics;
    const double *values; /* (n_metrics, n_before + n_after), before's first; all finite */
};

/* p: (n_metrics), in (0, 1]. Where there are more than 200,000 arrangements random ones stand
 * for all of them, at least 10,000 and the same in every call. False: no memory. */
bool permutation_test(const struct permutation *d, double *p);

/* The least p that groups of these sizes can give. */
double permutation_least_p(size_t n_before, size_t n_after);

#endif
