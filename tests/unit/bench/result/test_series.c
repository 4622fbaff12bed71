/* Percentiles against numpy 2's (default method), computed once. */
#include "support/near.h"

#include "bench/result/series.h"

#define NEAR(x, y) assert_near((x), (y), 1e-12)

static const double samples[] = {12.5, 3.25, 99, 7, 7, 1e-3, 41.125, 18, 250.5, 0.5, 64};
#define N (sizeof samples / sizeof samples[0])

static struct series made(void)
{
    struct series s = {0};
    for (size_t i = 0; i < N; i++)
        series_add(&s, samples[i]);
    return s;
}

static void percentiles_are_numpys(void **state)
{
    static const double expected[][2] = {{0, 0.001}, {1, 0.0509},  {25, 5.125},  {50, 12.5},
                                         {90, 99},   {95, 174.75}, {99, 235.35}, {100, 250.5}};
    struct series s = made();
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        NEAR(series_percentile(&s, expected[i][0]), expected[i][1]);
    NEAR(series_mean(&s), 45.716);
    NEAR(series_sd(&s), 71.31116125187492);
    series_fini(&s);
}

static void two_samples_are_interpolated(void **state)
{
    struct series s = {0};
    (void)state;
    series_add(&s, 3);
    series_add(&s, 1);
    NEAR(series_percentile(&s, 10), 1.2);
    NEAR(series_percentile(&s, 50), 2);
    NEAR(series_percentile(&s, 75), 2.5);
    NEAR(series_percentile(&s, 99), 2.98);
    series_fini(&s);
}

static void samples_keep_their_order_until_sorted(void **state)
{
    struct series s = made();
    (void)state;
    series_mean(&s);
    series_sd(&s);
    for (size_t i = 0; i < N; i++)
        NEAR(s.v[i], samples[i]);
    series_percentile(&s, 50);
    for (size_t i = 1; i < N; i++)
        assert_true(s.v[i - 1] <= s.v[i]);
    series_add(&s, -1); /* sorted again at the next percentile */
    NEAR(series_percentile(&s, 0), -1);
    series_fini(&s);
}

static void empty_and_one(void **state)
{
    struct series s = {0};
    (void)state;
    struct spread none = series_spread(&s);
    assert_int_equal(none.n, 0);
    assert_true(isnan(none.mean) && isnan(none.sd) && isnan(none.min) && isnan(none.p50) &&
                isnan(none.p90) && isnan(none.p95) && isnan(none.p99) && isnan(none.max));
    series_add(&s, NAN);
    assert_int_equal(s.n, 0);
    series_add(&s, 4);
    struct spread one = series_spread(&s);
    assert_int_equal(one.n, 1);
    NEAR(one.sd, 0);
    NEAR(one.min, 4);
    NEAR(one.p99, 4);
    series_fini(&s);
}

static void infinite_samples_sort_last(void **state)
{
    struct series s = {0};
    (void)state;
    series_add(&s, INFINITY);
    series_add(&s, 1);
    series_add(&s, INFINITY);
    NEAR(series_percentile(&s, 0), 1);
    assert_true(isinf(series_percentile(&s, 75)));
    assert_true(isinf(series_percentile(&s, 50)));
    series_fini(&s);
}

static void many_are_all_kept(void **state)
{
    struct series s = {0}, more = {0};
    (void)state;
    for (int i = 999; i >= 0; i--)
        series_add(&s, i);
    for (int i = 1000; i <= 10000; i++)
        series_add(&more, i);
    series_add_all(&s, &more);
    assert_int_equal(s.n, 10001);
    for (int p = 0; p <= 100; p++)
        NEAR(series_percentile(&s, p), 100.0 * p);
    more.failed = true; /* an incomplete series makes an incomplete one */
    series_add_all(&s, &more);
    assert_true(s.failed);
    assert_int_equal(s.n, 10001);
    series_add(&s, 1);
    assert_int_equal(s.n, 10001);
    assert_true(isnan(series_percentile(&s, 50)) && isnan(series_mean(&s)) && isnan(series_sd(&s)));
    series_fini(&s);
    series_fini(&more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_are_numpys),
        cmocka_unit_test(two_samples_are_interpolated),
        cmocka_unit_test(samples_keep_their_order_until_sorted),
        cmocka_unit_test(empty_and_one),
        cmocka_unit_test(infinite_samples_sort_last),
        cmocka_unit_test(many_are_all_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
