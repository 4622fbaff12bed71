/* The cost model: learns what steps cost from steps alone, whatever else the machine does. */
#include "support/cmocka_all.h"
#include "support/random.h"

#include "engine/cost.h"

#include <math.h>

/* A machine: microseconds as a function of the step. */
struct machine {
    double base, token, pair, decode, read;
};
static const struct machine laptop = {900, 500, 0.06, 350, 0.9};

static double true_us(const struct machine *m, const struct cost_step *s)
{
    return m->base + m->token * s->n_prefill + m->pair * (double)s->prefill_before +
           m->decode * s->n_decode + m->read * (double)s->decode_before;
}

/* Steps as a server has them: decodes, prompts of all lengths, and both. */
static struct cost_step random_step(struct random *r)
{
    struct cost_step s = {0};
    uint32_t kind = random_below(r, 3);
    if (kind != 0)
        for (uint32_t n = 1 + random_below(r, 32); n > 0; n--)
            cost_add_decode(&s, random_below(r, 2000));
    if (kind != 1)
        cost_add_chunk(&s, 1 + random_below(r, 512), random_below(r, 4) * 500);
    return s;
}

static void watch(struct cost *c, struct random *r, const struct machine *m, int n, double noise)
{
    for (int i = 0; i < n; i++) {
        struct cost_step s = random_step(r);
        double factor = 1 + noise * (2 * random_unit(r) - 1);
        cost_observe(c, &s, (int64_t)(true_us(m, &s) * factor));
    }
}

static double mean_error(const struct cost *c, struct random *r, const struct machine *m)
{
    double sum = 0;
    for (int i = 0; i < 200; i++) {
        struct cost_step s = random_step(r);
        sum += fabs((double)cost_predict_us(c, &s) / true_us(m, &s) - 1);
    }
    return sum / 200;
}

static void learns_a_machine_from_few_steps(void **state)
{
    struct random r = {1};
    struct cost c;
    (void)state;
    cost_init(&c);
    watch(&c, &r, &laptop, 30, 0.02);
    assert_true(mean_error(&c, &r, &laptop) < 0.10);
    watch(&c, &r, &laptop, 300, 0.1);
    assert_true(mean_error(&c, &r, &laptop) < 0.06);
    assert_true(c.error < 0.15);
    assert_int_equal(c.n, 330);
}

static void follows_a_machine_that_slows_down(void **state)
{
    struct random r = {2};
    struct machine slow = {1800, 1000, 0.12, 700, 1.8};
    struct cost c;
    (void)state;
    cost_init(&c);
    watch(&c, &r, &laptop, 1000, 0.05);
    watch(&c, &r, &slow, 100, 0.05);
    assert_true(mean_error(&c, &r, &slow) < 0.15);
}

static void an_interrupted_step_says_little(void **state)
{
    struct random r = {3};
    struct cost c;
    (void)state;
    cost_init(&c);
    watch(&c, &r, &laptop, 300, 0.05);
    for (int i = 0; i < 10; i++) {
        struct cost_step s = random_step(&r);
        cost_observe(&c, &s, (int64_t)(20 * true_us(&laptop, &s)));
        watch(&c, &r, &laptop, 20, 0.05);
    }
    assert_true(mean_error(&c, &r, &laptop) < 0.15);
}

/* Thousands of steps of one kind must not make the model forget, or go wild about, the others. */
static void long_decoding_leaves_the_rest_known(void **state)
{
    struct random r = {4};
    struct cost c;
    (void)state;
    cost_init(&c);
    watch(&c, &r, &laptop, 300, 0.05);
    for (int i = 0; i < 20000; i++) {
        struct cost_step s = {0};
        for (uint32_t n = 1 + random_below(&r, 4); n > 0; n--)
            cost_add_decode(&s, 300);
        cost_observe(&c, &s, (int64_t)(true_us(&laptop, &s) * (0.95 + 0.1 * random_unit(&r))));
    }
    assert_true(mean_error(&c, &r, &laptop) < 0.25);
    for (int i = 0; i < COST_WEIGHTS; i++)
        assert_true(isfinite(c.w[i]) && isfinite(c.p[i][i]) && c.p[i][i] >= 0);
}

static void more_work_is_never_predicted_to_cost_less(void **state)
{
    struct random r = {5};
    (void)state;
    for (int seed = 0; seed < 50; seed++) {
        struct cost c;
        cost_init(&c);
        watch(&c, &r, &laptop, 5 + seed, 0.9); /* so noisy that weights come out below 0 */
        for (int i = 0; i < 100; i++) {
            struct cost_step s = random_step(&r), more = s;
            cost_add_chunk(&more, 1 + random_below(&r, 100), random_below(&r, 1000));
            cost_add_decode(&more, random_below(&r, 1000));
            assert_true(cost_predict_us(&c, &s) >= 0);
            assert_true(cost_predict_us(&c, &more) >= cost_predict_us(&c, &s));
        }
    }
}

/* A twentieth of the steps takes half as long again: a budget divided by `late` holds for the rest,
 * and is not wasted once the machine is calm. */
static void a_promise_is_kept_by_the_late_steps(void **state)
{
    struct random r = {7};
    struct cost c;
    uint32_t n = 0, late = 0;
    (void)state;
    cost_init(&c);
    watch(&c, &r, &laptop, 300, 0.02);
    for (int i = 0; i < 4000; i++) {
        struct cost_step s = random_step(&r);
        double us = true_us(&laptop, &s) * (0.8 + 0.4 * random_unit(&r));
        if (i >= 2000 && s.n_prefill > 0 && s.n_decode > 0) {
            n++;
            late += us > (double)cost_predict_us(&c, &s) * c.late;
        }
        cost_observe(&c, &s, (int64_t)us);
    }
    assert_true(n > 400 && late < n / 8);
    assert_in_range(cost_within_us(&c, 100000), 66000, 95000);
    watch(&c, &r, &laptop, 5000, 0);
    assert_in_range(cost_within_us(&c, 100000), 97000, 100000);
}

static void fits_as_many_tokens_as_the_budget_allows(void **state)
{
    struct random r = {6};
    struct cost c;
    (void)state;
    cost_init(&c);
    watch(&c, &r, &laptop, 300, 0.02);
    for (int i = 0; i < 500; i++) {
        struct cost_step s = random_step(&r), with;
        uint32_t n_past = random_below(&r, 2000), max = 1 + random_below(&r, 512);
        int64_t budget = cost_predict_us(&c, &s) + (int64_t)random_below(&r, 300000) - 1000;
        uint32_t n = cost_fit(&c, &s, n_past, max, budget);
        assert_true(n <= max);
        with = s;
        cost_add_chunk(&with, n, n_past);
        assert_true(n == 0 || cost_predict_us(&c, &with) <= budget);
        with = s;
        cost_add_chunk(&with, n + 1, n_past);
        assert_true(n == max || cost_predict_us(&c, &with) > budget);
    }
}

static void counts_pairs_of_a_chunk(void **state)
{
    struct cost_step s = {0};
    (void)state;
    cost_add_chunk(&s, 4, 10); /* 10 + 11 + 12 + 13 */
    assert_int_equal(s.prefill_before, 46);
    cost_add_chunk(&s, 0, 99);
    assert_int_equal(s.prefill_before, 46);
    assert_int_equal(s.n_prefill, 4);
    cost_add_decode(&s, 7);
    assert_int_equal(s.decode_before, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learns_a_machine_from_few_steps),
        cmocka_unit_test(follows_a_machine_that_slows_down),
        cmocka_unit_test(an_interrupted_step_says_little),
        cmocka_unit_test(long_decoding_leaves_the_rest_known),
        cmocka_unit_test(more_work_is_never_predicted_to_cost_less),
        cmocka_unit_test(a_promise_is_kept_by_the_late_steps),
        cmocka_unit_test(fits_as_many_tokens_as_the_budget_allows),
        cmocka_unit_test(counts_pairs_of_a_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
