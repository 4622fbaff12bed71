#include "bench/result/permutation.h"

#include "base/err.h"
#include "base/mem.h"
#include "bench/result/random.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define MOST_EXACT 200000.0
/* Random arrangements instead: as many as cost so many additions, within these bounds. */
#define RANDOM_MOST  100000
#define RANDOM_LEAST 10000
#define RANDOM_COST  1000000000
/* Two sums of the same values in another order differ by rounding. */
#define ROUNDING 1e-9

struct test {
    const struct permutation *d;
    size_t n;         /* repeats of both groups */
    double *standard; /* (n, n_metrics) values with mean 0 and a sum of squares of 1 */
    double *observed; /* (n_metrics) how much "before" differs from the rest */
    size_t *order;    /* (n_metrics) by `observed`, the least first */
    size_t *chosen;   /* (n) repeats of an arrangement; the first n_before are "before" */
    double *sums;     /* (n_metrics) */
    size_t *as_much;  /* (n_metrics) arrangements that differ as much as the observed one */
    size_t n_arrangements;
};

/* How many ways there are to take k of n. */
static double permutation_choose(size_t n, size_t k)
{
    double ways = 1;
    for (size_t i = 1; i <= k; i++)
        ways = ways * (double)(n - k + i) / (double)i;
    return round(ways);
}

double permutation_least_p(size_t n_before, size_t n_after)
{
    /* With groups of one size an arrangement and its mirror image differ alike. */
    return (n_before == n_after ? 2 : 1) / permutation_choose(n_before + n_after, n_before);
}

static void standardize(struct test *t, size_t metric)
{
    const double *v = t->d->values + metric * t->n;
    double mean = 0, squares = 0, most = 0;
    for (size_t i = 0; i < t->n; i++)
        mean += v[i] / (double)t->n;
    for (size_t i = 0; i < t->n; i++) {
        squares += (v[i] - mean) * (v[i] - mean);
        most = fmax(most, fabs(v[i]));
    }
    /* Equal values differ by nothing but the rounding of their mean. */
    bool constant = squares <= ROUNDING * ROUNDING * most * most * (double)t->n;
    for (size_t i = 0; i < t->n; i++)
        t->standard[i * t->d->n_metrics + metric] = constant ? 0 : (v[i] - mean) / sqrt(squares);
}

/* Of the arrangement in `chosen`: the sum of "before", which is 0 where the groups have one mean
 * and the larger, the more of the spread lies between them. */
static void add_up(struct test *t)
{
    size_t n_metrics = t->d->n_metrics;
    memset(t->sums, 0, n_metrics * sizeof *t->sums);
    for (size_t i = 0; i < t->d->n_before; i++) {
        const double *row = t->standard + t->chosen[i] * n_metrics;
        for (size_t k = 0; k < n_metrics; k++)
            t->sums[k] += row[k];
    }
}

/* Counts it for each metric whose own, or a weaker metric's, difference is as large as observed. */
static void permutation_count(struct test *t)
{
    double most = 0;
    add_up(t);
    t->n_arrangements++;
    for (size_t i = 0; i < t->d->n_metrics; i++) {
        size_t metric = t->order[i];
        most = fmax(most, fabs(t->sums[metric]));
        t->as_much[metric] += most >= t->observed[metric] - ROUNDING;
    }
}

static void observe(struct test *t)
{
    for (size_t i = 0; i < t->n; i++)
        t->chosen[i] = i;
    add_up(t);
    for (size_t k = 0; k < t->d->n_metrics; k++) {
        size_t at = k;
        t->observed[k] = fabs(t->sums[k]);
        for (; at > 0 && t->observed[t->order[at - 1]] > t->observed[k]; at--)
            t->order[at] = t->order[at - 1];
        t->order[at] = k;
    }
}

/* The next subset of n_before repeats, in lexical order. False: that was the last. */
static bool next_subset(struct test *t)
{
    size_t k = t->d->n_before, i = k;
    while (i > 0 && t->chosen[i - 1] == t->n - k + i - 1)
        i--;
    if (i == 0)
        return false;
    t->chosen[i - 1]++;
    for (; i < k; i++)
        t->chosen[i] = t->chosen[i - 1] + 1;
    return true;
}

/* The observed arrangement counts as one of them, so that no p is 0. */
static void count_random(struct test *t)
{
    struct random r;
    size_t most = RANDOM_COST / (t->n * t->d->n_metrics + 1);
    most = most > RANDOM_MOST ? RANDOM_MOST : most < RANDOM_LEAST ? RANDOM_LEAST : most;
    random_init(&r, 0, 0);
    permutation_count(t);
    for (size_t draw = 1; draw < most; draw++) {
        for (size_t i = 0; i < t->d->n_before; i++) {
            size_t other = i + random_below(&r, (uint32_t)(t->n - i)), kept = t->chosen[i];
            t->chosen[i] = t->chosen[other];
            t->chosen[other] = kept;
        }
        permutation_count(t);
    }
}

static void count_all(struct test *t)
{
    do
        permutation_count(t);
    while (next_subset(t));
}

/* No metric gets a smaller p than one that differs more. */
static void set_p(const struct test *t, double *p)
{
    double least = 0;
    for (size_t i = t->d->n_metrics; i-- > 0;) {
        size_t metric = t->order[i];
        least = fmax(least, (double)t->as_much[metric] / (double)t->n_arrangements);
        p[metric] = least;
    }
}

bool permutation_test(const struct permutation *d, double *p)
{
    size_t n = d->n_before + d->n_after, k = d->n_metrics ? d->n_metrics : 1;
    REQUIRE(d->n_before > 0 && d->n_after > 0 && n <= PERMUTATION_REPEATS);
    struct test t = {.d = d,
                     .n = n,
                     .standard = mem_array(n * k, sizeof(double)),
                     .observed = mem_array(k, sizeof(double)),
                     .order = mem_array(k, sizeof(size_t)),
                     .chosen = mem_array(n, sizeof(size_t)),
                     .sums = mem_array(k, sizeof(double)),
                     .as_much = mem_array(k, sizeof(size_t))};
    bool ok = t.standard && t.observed && t.order && t.chosen && t.sums && t.as_much;
    if (ok) {
        for (size_t i = 0; i < d->n_metrics; i++)
            standardize(&t, i);
        observe(&t);
        if (permutation_choose(n, d->n_before) <= MOST_EXACT)
            count_all(&t);
        else
            count_random(&t);
        set_p(&t, p);
    }
    mem_free(t.standard);
    mem_free(t.observed);
    mem_free(t.order);
    mem_free(t.chosen);
    mem_free(t.sums);
    mem_free(t.as_much);
    return ok;
}
