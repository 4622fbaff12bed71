/* The max-T permutation test against p values counted by hand. */
#include "bench/result/permutation.h"
#include "bench/result/random.h"
#include "support/cmocka_all.h"

#include <math.h>
#include <string.h>

static void expect_p(const double *values, size_t n_before, size_t n_after, double p)
{
    const struct permutation d = {n_before, n_after, 1, values};
    double found;
    assert_true(permutation_test(&d, &found));
    if (fabs(found - p) > 1e-9)
        fail_msg("p is %.6f, not %.6f", found, p);
}

/* Of the 20 ways to deal six values out to three and three. */
static void single_metrics(void **state)
{
    (void)state;
    expect_p((double[]){1, 2, 3, 4, 5, 6}, 3, 3, 2.0 / 20);
    expect_p((double[]){4, 5, 6, 1, 2, 3}, 3, 3, 2.0 / 20);
    expect_p((double[]){1, 2, 4, 3, 5, 6}, 3, 3, 4.0 / 20);
    expect_p((double[]){7, 7, 7, 7, 7, 7}, 3, 3, 1);
    expect_p((double[]){0.1, 0.1, 0.1, 0.1}, 2, 2, 1);
    expect_p((double[]){1, 6, 1, 6}, 2, 2, 1);
    /* Groups of two sizes have no mirror image. */
    expect_p((double[]){1, 2, 3, 4, 100}, 1, 4, 2.0 / 5);
    expect_p((double[]){100, 1, 2, 3, 4}, 1, 4, 1.0 / 5);
    expect_p((double[]){5, 1}, 1, 1, 1);
}

static void least_p(void **state)
{
    (void)state;
    assert_true(fabs(permutation_least_p(3, 3) - 2.0 / 20) < 1e-12);
    assert_true(fabs(permutation_least_p(5, 5) - 2.0 / 252) < 1e-12);
    assert_true(fabs(permutation_least_p(5, 6) - 1.0 / 462) < 1e-12);
    assert_true(permutation_least_p(1000, 1000) < 1e-100);
}

/* Another metric makes p larger, unless it says the same; the stronger one never has the larger p.
 */
static void several_metrics(void **state)
{
    (void)state;
    const double same[] = {1, 2, 4, 3, 5, 6, 10, 20, 40, 30, 50, 60};
    const double other[] = {1, 2, 4, 3, 5, 6, 9, 1, 5, 2, 8, 3};
    double p[2];
    assert_true(permutation_test(&(struct permutation){3, 3, 2, same}, p));
    assert_true(fabs(p[0] - 4.0 / 20) < 1e-9 && fabs(p[1] - 4.0 / 20) < 1e-9);
    assert_true(permutation_test(&(struct permutation){3, 3, 2, other}, p));
    assert_true(p[0] > 4.0 / 20 && p[0] <= p[1]);
    assert_true(permutation_test(&(struct permutation){3, 3, 0, same}, p));
}

/* A difference far beyond the others is not hidden by how many they are. */
static void many_metrics(void **state)
{
    (void)state;
    enum { METRICS = 50, N = 10 };
    double values[METRICS * N], p[METRICS];
    struct random r;
    random_init(&r, 1, 1);
    for (size_t i = 0; i < METRICS * N; i++)
        values[i] = random_normal(&r);
    for (size_t i = 0; i < N; i++)
        values[7 * N + i] = (i < 5 ? 0 : 100) + 0.001 * (double)i;
    assert_true(permutation_test(&(struct permutation){5, 5, METRICS, values}, p));
    assert_true(fabs(p[7] - 2.0 / 252) < 1e-9);
    for (size_t i = 0; i < METRICS; i++)
        assert_true(i == 7 || p[i] > 0.05);
}

/* More arrangements than are counted one by one: random ones, the same each time. */
static void random_arrangements(void **state)
{
    (void)state;
    enum { N = 40 };
    double values[N], p, again;
    struct random r;
    random_init(&r, 2, 2);
    for (size_t i = 0; i < N; i++)
        values[i] = random_normal(&r) + (i < 20 ? 0 : 0.8);
    const struct permutation d = {20, 20, 1, values};
    assert_true(permutation_test(&d, &p) && permutation_test(&d, &again));
    assert_true(p == again && p > 0);
    /* Student's t of the same values, by hand: the two agree for normal values. */
    double mean[2] = {0}, squares = 0;
    for (size_t i = 0; i < N; i++)
        mean[i / 20] += values[i] / 20;
    for (size_t i = 0; i < N; i++)
        squares += (values[i] - mean[i / 20]) * (values[i] - mean[i / 20]);
    double t = (mean[1] - mean[0]) / sqrt(squares / 38 * 2 / 20);
    double normal = erfc(fabs(t) / sqrt(2)); /* a little too small with 38 degrees of freedom */
    assert_true(p > normal * 0.8 && p < normal * 2.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_metrics),      cmocka_unit_test(least_p),
        cmocka_unit_test(several_metrics),     cmocka_unit_test(many_metrics),
        cmocka_unit_test(random_arrangements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
