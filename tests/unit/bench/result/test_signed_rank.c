/* Intervals of signed ranks: against a table, and how often they hold the truth. */
#include "bench/result/random.h"
#include "bench/result/signed_rank.h"
#include "support/cmocka_all.h"
#include "support/sanitized.h"

#include <math.h>

#define MOST 100

/* Darwin's fifteen differences of crossed and self-fertilised maize, in eighths of an inch. The
 * expected figures were counted out over all 2^15 signs by another program. */
static void of_a_textbook(void **state)
{
    (void)state;
    const double x[] = {49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48};
    struct signed_rank r;
    assert_true(signed_rank(x, 15, 0.95, &r));
    assert_true(r.estimate == 25);
    assert_true(r.low == 4 && r.high == 41.5);
}

/* Five samples lie on one side by chance once in sixteen: too often for 95 percent. */
static void too_few(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4, 5, 6};
    struct signed_rank r;
    assert_true(signed_rank(x, 5, 0.95, &r));
    assert_true(r.estimate == 3 && isinf(r.low) && isinf(r.high));
    assert_true(signed_rank(x, 6, 0.95, &r));
    assert_true(r.low == 1 && r.high == 6);
    assert_true(signed_rank(x, 1, 0.95, &r));
    assert_true(r.estimate == 1 && isinf(r.high));
}

/* One run that was disturbed moves a mean by 100 and this by next to nothing. */
static void an_outlier(void **state)
{
    (void)state;
    double x[20];
    struct signed_rank r;
    for (size_t i = 0; i < 20; i++)
        x[i] = 5 + 0.01 * (double)i;
    x[7] = 2000;
    assert_true(signed_rank(x, 20, 0.95, &r));
    assert_true(r.low > 5 && r.high < 5.2);
}

/* Normal, and with the tails of a machine that is shared. */
static double draw(struct random *r)
{
    double x = random_normal(r);
    return random_unit(r) < 0.1 ? 10 * x : x;
}

/* Of n samples about 3: how many of 400 intervals miss it. */
static size_t misses(size_t n, double confidence)
{
    struct random random;
    size_t missed = 0;
    random_init(&random, 1, n);
    for (size_t i = 0; i < 400; i++) {
        double x[MOST];
        struct signed_rank r;
        for (size_t k = 0; k < n; k++)
            x[k] = 3 + draw(&random);
        assert_true(signed_rank(x, n, confidence, &r));
        missed += r.low > 3 || r.high < 3;
    }
    return missed;
}

static void holds_the_median(void **state)
{
    (void)state;
    if (SANITIZED)
        return; /* many times the same path */
    assert_in_range(misses(8, 0.95), 5, 32);
    assert_in_range(misses(20, 0.95), 8, 32);
    assert_in_range(misses(MOST, 0.95), 8, 32);
    assert_in_range(misses(20, 0.8), 55, 105);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_a_textbook),
        cmocka_unit_test(too_few),
        cmocka_unit_test(an_outlier),
        cmocka_unit_test(holds_the_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
