/* The last minute of histograms: what is in it, what has left it, how long it is. */
#include "serve/live_window.h"

#include "support/cmocka_all.h"

#include "base/mem.h"

#define SECOND INT64_C(1000000)
#define MS     1000

/* A window, the histograms it looks at, and the time. */
struct scene {
    struct live_window window;
    struct histogram histograms[LIVE_VIEWS];
    int64_t now_us;
};

static int set_up(void **state)
{
    struct scene *s = mem_zalloc(sizeof *s);
    *state = s;
    s->now_us = 1000 * SECOND;
    return s ? 0 : -1;
}

static int tear_down(void **state)
{
    mem_free(*state);
    return 0;
}

static int64_t look(struct scene *s, struct histogram_view v[LIVE_VIEWS])
{
    for (int i = 0; i < LIVE_VIEWS; i++)
        histogram_read(&s->histograms[i], &v[i]);
    return live_window_slide(&s->window, s->now_us, v);
}

static void what_was_before_the_first_look_is_outside(void **state)
{
    struct scene *s = *state;
    struct histogram_view v[LIVE_VIEWS];
    histogram_add(&s->histograms[LIVE_TTFT], 5 * MS, 7);
    assert_int_equal(look(s, v), 0);
    assert_int_equal(v[LIVE_TTFT].count, 0);
    histogram_add(&s->histograms[LIVE_TTFT], 5 * MS, 2);
    histogram_add(&s->histograms[LIVE_STEP], 9 * MS, 1);
    s->now_us += SECOND;
    assert_int_equal(look(s, v), SECOND);
    assert_int_equal(v[LIVE_TTFT].count, 2);
    assert_int_equal(v[LIVE_TTFT].sum, 10 * MS);
    assert_int_equal(v[LIVE_STEP].count, 1);
    assert_int_equal(v[0].count, 0);
}

/* One value a second: the window holds as many as it has seconds, whenever somebody looks. */
static void the_window_is_as_long_as_it_says(void **state)
{
    struct scene *s = *state;
    struct histogram_view v[LIVE_VIEWS];
    look(s, v);
    for (int i = 1; i <= 1000; i++) {
        s->now_us += SECOND;
        histogram_add(&s->histograms[LIVE_ITL], i * MS, 1);
        int64_t us = look(s, v);
        assert_int_equal(us, (int64_t)v[LIVE_ITL].count * SECOND);
        assert_true(us <= LIMIT_LIVE_WINDOW_SECONDS * SECOND);
        assert_true(i < 60 ? us == i * SECOND : us > 55 * SECOND);
    }
    assert_true(histogram_quantile(&v[LIVE_ITL], 0.01) > 800 * MS); /* the old ones have left */
}

static void a_long_pause_empties_it(void **state)
{
    struct scene *s = *state;
    struct histogram_view v[LIVE_VIEWS];
    look(s, v);
    histogram_add(&s->histograms[0], 3 * MS, 4);
    s->now_us += 600 * SECOND;
    assert_int_equal(look(s, v), 0);
    assert_int_equal(v[0].count, 0);
    s->now_us += SECOND / 2;
    histogram_add(&s->histograms[0], 3 * MS, 1);
    assert_int_equal(look(s, v), SECOND / 2);
    assert_int_equal(v[0].count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_before_the_first_look_is_outside, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_window_is_as_long_as_it_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_pause_empties_it, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
