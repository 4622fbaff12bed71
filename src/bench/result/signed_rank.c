#include "bench/result/signed_rank.h"

#include "base/err.h"
#include "base/mem.h"
#include "bench/result/series.h"

#include <math.h>

/* Up to so many samples the distribution of the rank sum is counted out; beyond, it is normal to
 * within what an interval shows. */
#define EXACT 40

/* The quantile of the standard normal distribution, by bisection of its distribution function. */
static double normal_quantile(double p)
{
    double low = -40, high = 40;
    while (high - low > 1e-9) {
        double mid = (low + high) / 2;
        if (0.5 * erfc(-mid / sqrt(2)) < p)
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* The sum of the ranks of the positive differences of n: the most k with P(sum < k) <= tail, where
 * each difference is positive with probability one half. */
static size_t exact_rank(size_t n, double tail)
{
    double ways[EXACT * (EXACT + 1) / 2 + 1] = {1}, below = 0;
    size_t most = n * (n + 1) / 2, k = 0;
    for (size_t rank = 1; rank <= n; rank++)
        for (size_t sum = most + 1; sum-- > rank;)
            ways[sum] += ways[sum - rank];
    while (k < most && (below + ways[k]) * pow(0.5, (double)n) <= tail)
        below += ways[k++];
    return k;
}

static size_t normal_rank(size_t n, double tail)
{
    double m = (double)n, mean = m * (m + 1) / 4, sd = sqrt(m * (m + 1) * (2 * m + 1) / 24);
    return (size_t)fmax(0, floor(mean + normal_quantile(tail) * sd));
}

bool signed_rank(const double *x, size_t n, double confidence, struct signed_rank *out)
{
    struct series means = {0};
    double tail = (1 - confidence) / 2;
    REQUIRE(n > 0);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i; k < n; k++)
            series_add(&means, (x[i] + x[k]) / 2);
    series_sort(&means);
    size_t rank = n <= EXACT ? exact_rank(n, tail) : normal_rank(n, tail);
    *out = (struct signed_rank){.estimate = NAN, .low = -INFINITY, .high = INFINITY};
    bool ok = !means.failed;
    if (ok)
        out->estimate = series_percentile(&means, 50);
    if (ok && rank > 0) {
        out->low = means.v[rank - 1];
        out->high = means.v[means.n - rank];
    }
    series_fini(&means);
    return ok;
}
