/* Tests of what sampling asks of a row of logits. */
#ifndef FIRSTLIGHT_TESTS_KERNELS_CHECK_SAMPLE_H
#define FIRSTLIGHT_TESTS_KERNELS_CHECK_SAMPLE_H

#include "kernels/check_vector.h"

static const size_t row_sizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 511, 512, 513, 1100, 49152, 50257};

/* Maxima are exact. Few different values: ties, zeros of both signs, the largest there are. */
static void check_group_max(const struct kernels *k, size_t n)
{
    static const float odd[] = {0.0f, -0.0f, FLT_MAX, -FLT_MAX, 1e-42f};
    struct guarded x = floats_make(n, false), out = floats_make(GROUPS(n), true);
    struct guarded want = floats_make(GROUPS(n), true);
    float *xs = x.data, *wants = want.data;
    for (size_t g = 0; g < GROUPS(n); g++)
        wants[g] = -FLT_MAX;
    for (size_t i = 0; i < n; i++) {
        xs[i] = random_u32() % 8 ? 20.0f * random_float() - 10.0f : odd[random_u32() % COUNT(odd)];
        size_t group = i / 512 * 16 + i % 16;
        wants[group] = fmaxf(wants[group], xs[i]);
    }
    assert_true(k->group_max(out.data, xs, n));
    for (size_t g = 0; g < GROUPS(n); g++)
        assert_true(((float *)out.data)[g] == wants[g]);
    guarded_free(&x);
    guarded_free(&out);
    guarded_free(&want);
}

/* One value that is not finite, anywhere, is seen. */
static void check_group_max_odd(const struct kernels *k, size_t n)
{
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    struct guarded x = floats_make(n, false), out = floats_make(GROUPS(n), true);
    float *xs = x.data;
    random_floats(xs, n, 1e30f);
    for (size_t c = 0; c < 200; c++) {
        size_t at = c < 2 ? c * (n - 1) : random_u32() % n;
        float before = xs[at];
        xs[at] = bad[c % COUNT(bad)];
        assert_false(k->group_max(out.data, xs, n));
        xs[at] = before;
    }
    assert_true(k->group_max(out.data, xs, n));
    guarded_free(&x);
    guarded_free(&out);
}

static void test_group_max(void **state)
{
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (size_t i = 0; i < COUNT(row_sizes); i++) {
            check_group_max(&level.k, row_sizes[i]);
            check_group_max_odd(&level.k, row_sizes[i]);
        }
    }
}

/* Each exp within 2 ulp of that of the rounded argument; chains of n / 16 + 12 additions. */
static void check_exp_sum(const struct kernels *k, size_t n, float range, float scale,
                          struct worst *worst)
{
    struct guarded x = floats_make(n, false), out = floats_make(n, true);
    const float *xs = x.data;
    float max = -INFINITY;
    double sum = 0.0;
    random_floats(x.data, n, range);
    for (size_t i = 0; i < n; i++)
        max = fmaxf(max, xs[i]);
    float got = k->exp_sum(out.data, xs, n, max, scale);
    for (size_t i = 0; i < n; i++) {
        float argument = (xs[i] - max) * scale;
        double want = exp((double)argument);
        check_error(worst, (double)((float *)out.data)[i], want, 4 * EPS * want + (double)FLT_MIN);
        sum += want;
    }
    check_error(worst, (double)got, sum, ((double)n / 16.0 + 16.0) * EPS * sum);
    assert_true(k->exp_sum(x.data, x.data, n, max, scale) == got); /* in place */
    assert_memory_equal(x.data, out.data, n * sizeof(float));
    guarded_free(&x);
    guarded_free(&out);
}

/* Chains of n / 16 + 12 additions again; what equals the floor is not above it. */
static void check_sum_above(const struct kernels *k, size_t n, struct worst *worst)
{
    struct guarded x = floats_make(n, false);
    float *xs = x.data;
    for (size_t i = 0; i < n; i++)
        xs[i] = random_u32() % 4 ? fabsf(random_float()) : (float)(random_u32() % 4) / 4;
    for (int c = 0; c < 6; c++) {
        float floor = c == 5 ? nextafterf(0.25f, 0) : 0.25f * (float)c;
        double want = 0.0;
        for (size_t i = 0; i < n; i++)
            want += xs[i] > floor ? (double)xs[i] : 0.0;
        check_error(worst, (double)k->sum_above(xs, n, floor), want,
                    ((double)n / 16.0 + 16.0) * EPS * want);
    }
    assert_true(k->sum_above(xs, 0, 0) == 0.0f);
    guarded_free(&x);
}

static void test_sum_above(void **state)
{
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        struct worst worst = {0};
        for (size_t i = 0; i < COUNT(row_sizes); i++)
            check_sum_above(&level.k, row_sizes[i], &worst);
        check_report(level.name, "sum_above", "", worst);
    }
}

static void test_exp_sum(void **state)
{
    static const float ranges[] = {1.0f, 0.0f, 40.0f, 60.0f, 1e5f, 1e30f, 3e38f};
    static const float scales[] = {1.0f, 0.5f, 1.25f, 1e5f};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        struct worst worst = {0};
        for (size_t c = 0; c < COUNT(ranges) * COUNT(scales) * COUNT(vector_sizes); c++)
            check_exp_sum(&level.k, vector_sizes[c / COUNT(scales) / COUNT(ranges)],
                          ranges[c / COUNT(scales) % COUNT(ranges)], scales[c % COUNT(scales)],
                          &worst);
        check_exp_sum(&level.k, 100000, 30.0f, 1.0f, &worst);
        check_report(level.name, "exp_sum", "", worst);
    }
}

#endif
