#include "base/histogram.h"

#include "support/cmocka_all.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

static struct histogram_view view_of(const struct histogram *h)
{
    struct histogram_view v;
    histogram_read(h, &v);
    return v;
}

/* --- bounds --------------------------------------------------------------------------------- */

static void bounds_go_from_a_tenth_of_a_millisecond_to_minutes(void **state)
{
    (void)state;
    assert_int_equal(histogram_bound(0), 100);
    assert_int_equal(histogram_bound(12), 1000);
    assert_int_equal(histogram_bound(HISTOGRAM_BOUNDS - 1), 680 * 1000000);
    for (uint32_t i = 1; i < HISTOGRAM_BOUNDS; i++) {
        double ratio = (double)histogram_bound(i) / (double)histogram_bound(i - 1);
        assert_true(ratio > 1.15 && ratio < 1.26);
    }
}

/* Every second bound, from the first to the last, is what is scraped. */
static void the_last_bound_is_one_of_the_coarse_series(void **state)
{
    (void)state;
    assert_int_equal((HISTOGRAM_BOUNDS - 1) % HISTOGRAM_STEP, 0);
    assert_int_equal(histogram_bound(HISTOGRAM_STEP), 150);
}

static void a_bound_belongs_to_its_bucket(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        struct histogram h = {0};
        histogram_add(&h, histogram_bound(i), 1);
        histogram_add(&h, histogram_bound(i) + 1, 1);
        struct histogram_view v = view_of(&h);
        assert_int_equal(v.buckets[i], 1);
        assert_int_equal(v.buckets[i + 1], 1);
        assert_int_equal(v.count, 2);
    }
}

static void small_and_large_values_have_a_place(void **state)
{
    (void)state;
    struct histogram h = {0};
    histogram_add(&h, 0, 1);
    histogram_add(&h, -5, 1);
    histogram_add(&h, INT64_C(1) << 40, 3);
    struct histogram_view v = view_of(&h);
    assert_int_equal(v.buckets[0], 2);
    assert_int_equal(v.buckets[HISTOGRAM_BOUNDS], 3);
    assert_int_equal(v.sum, 3 * (UINT64_C(1) << 40));
    assert_int_equal(v.count, 5);
}

/* --- quantiles ------------------------------------------------------------------------------ */

static void nothing_has_no_quantile(void **state)
{
    (void)state;
    struct histogram_view v = {0};
    assert_true(histogram_quantile(&v, 0.5) == 0);
}

static void quantiles_are_within_a_bucket_of_the_truth(void **state)
{
    (void)state;
    struct histogram h = {0};
    for (int64_t us = 1; us <= 1000000; us += 10) /* uniform up to a second */
        histogram_add(&h, us, 1);
    struct histogram_view v = view_of(&h);
    static const double qs[] = {0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 1};
    for (size_t i = 0; i < sizeof qs / sizeof *qs; i++) {
        double truth = qs[i] * 1e6;
        assert_true(histogram_quantile(&v, qs[i]) > truth * 0.98);
        assert_true(histogram_quantile(&v, qs[i]) < truth * 1.02);
    }
}

static void a_quantile_is_interpolated(void **state)
{
    (void)state;
    struct histogram h = {0};
    histogram_add(&h, 1100, 4); /* (1000, 1200] */
    struct histogram_view v = view_of(&h);
    assert_true(histogram_quantile(&v, 0.25) == 1050);
    assert_true(histogram_quantile(&v, 0.5) == 1100);
    assert_true(histogram_quantile(&v, 1) == 1200);
}

static void above_all_bounds_is_the_last_one(void **state)
{
    (void)state;
    struct histogram h = {0};
    histogram_add(&h, INT64_C(1) << 40, 1);
    struct histogram_view v = view_of(&h);
    assert_true(histogram_quantile(&v, 0.5) == 680e6);
}

static void a_view_less_an_earlier_one_is_what_came_between(void **state)
{
    (void)state;
    struct histogram h = {0};
    histogram_add(&h, 500, 2);
    struct histogram_view before = view_of(&h);
    histogram_add(&h, 2000, 3);
    struct histogram_view v = view_of(&h);
    histogram_subtract(&v, &before);
    assert_int_equal(v.count, 3);
    assert_int_equal(v.sum, 6000);
    assert_true(histogram_quantile(&v, 0.01) > 1800);
}

/* --- threads -------------------------------------------------------------------------------- */

#define VALUES 200000

struct shared {
    struct histogram h;
    atomic_bool done;
};

static void *write_values(void *arg)
{
    struct shared *s = arg;
    for (int i = 0; i < VALUES; i++)
        histogram_add(&s->h, i % 5000, 1);
    atomic_store(&s->done, true);
    return NULL;
}

/* Under ThreadSanitizer this is the test of the memory orders. */
static void others_may_look_while_one_writes(void **state)
{
    (void)state;
    static struct shared s;
    pthread_t writer;
    uint64_t last = 0;
    assert_int_equal(pthread_create(&writer, NULL, write_values, &s), 0);
    while (!atomic_load(&s.done)) {
        struct histogram_view v = view_of(&s.h);
        assert_true(v.count >= last && v.count <= VALUES);
        last = v.count;
    }
    pthread_join(writer, NULL);
    assert_int_equal(view_of(&s.h).count, VALUES);
    assert_int_equal(view_of(&s.h).sum, UINT64_C(4999) * 5000 / 2 * (VALUES / 5000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_go_from_a_tenth_of_a_millisecond_to_minutes),
        cmocka_unit_test(the_last_bound_is_one_of_the_coarse_series),
        cmocka_unit_test(a_bound_belongs_to_its_bucket),
        cmocka_unit_test(small_and_large_values_have_a_place),
        cmocka_unit_test(nothing_has_no_quantile),
        cmocka_unit_test(quantiles_are_within_a_bucket_of_the_truth),
        cmocka_unit_test(a_quantile_is_interpolated),
        cmocka_unit_test(above_all_bounds_is_the_last_one),
        cmocka_unit_test(a_view_less_an_earlier_one_is_what_came_between),
        cmocka_unit_test(others_may_look_while_one_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
