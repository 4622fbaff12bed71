/* Where the median of a symmetric distribution lies, from few samples of it: the Hodges-Lehmann
 * estimate with the confidence interval of Wilcoxon's signed-rank test (Hollander, Wolfe, Chicken,
 * "Nonparametric Statistical Methods", 3rd edition, 3.2 and 3.3).
 *
 * The differences of pairs measured in random order are symmetric about their median. Nothing else
 * is assumed of them, so that a run in which the machine was busy elsewhere moves the interval
 * little, where it would ruin a mean.
 */
#ifndef FIRSTLIGHT_BENCH_RESULT_SIGNED_RANK_H
#define FIRSTLIGHT_BENCH_RESULT_SIGNED_RANK_H

#include <stdbool.h>
#include <stddef.h>

struct signed_rank {
    double estimate;  /* the median of the means of all pairs of samples */
    double low, high; /* holds the median with the confidence asked for; infinite where there are
                         too few samples for it (six for 95 percent) */
};

/* x: (n), all finite; n >= 1. confidence in (0, 1). False: no memory. */
bool signed_rank(const double *x, size_t n, double confidence, struct signed_rank *out);

#endif
