/* The last minute of histograms: what is in it, what has left it, how long it is. */
#include "observe/event_window.h"

#include "support/cmocka_all.h"

#include "base/mem.h"

#define SECOND INT64_C(1000000)
#define MS     1000

/* A window, the histograms it looks at, and the time. */
struct scene {
    struct event_window window;
    struct histogram histograms[EVENT_WINDOW_VIEWS];
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

static int64_t look(struct scene *s, struct histogram_view v[EVENT_WINDOW_VIEWS])
{
    for (int i = 0; i < EVENT_WINDOW_VIEWS; i++)
        histogram_read(&s->histograms[i], &v[i]);
    return event_window_slide(&s->window, s->now_us, v);
}

static void what_was_before_the_first_look_is_outside(void **state)
{
    struct scene *s = *state;
    struct histogram_view v[EVENT_WINDOW_VIEWS];
    histogram_add(&s->histograms[EVENT_WINDOW_TTFT], 5 * MS, 7);
    assert_int_equal(look(s, v), 0);
    assert_int_equal(v[EVENT_WINDOW_TTFT].count, 0);
    histogram_add(&s->histograms[EVENT_WINDOW_TTFT], 5 * MS, 2);
    histogram_add(&s->histograms[EVENT_WINDOW_STEP], 9 * MS, 1);
    s->now_us += SECOND;
    assert_int_equal(look(s, v), SECOND);
    assert_int_equal(v[EVENT_WINDOW_TTFT].count, 2);
    assert_int_equal(v[EVENT_WINDOW_TTFT].sum, 10 * MS);
    assert_int_equal(v[EVENT_WINDOW_STEP].count, 1);
    assert_int_equal(v[0].count, 0);
}

/* One value a second: the window holds as many as it has seconds, whenever somebody looks. */
static void the_window_is_as_long_as_it_says(void **state)
{
    struct scene *s = *state;
    struct histogram_view v[EVENT_WINDOW_VIEWS];
    look(s, v);
    for (int i = 1; i <= 1000; i++) {
        s->now_us += SECOND;
        histogram_add(&s->histograms[EVENT_WINDOW_ITL], i * MS, 1);
        int64_t us = look(s, v);
        assert_int_equal(us, (int64_t)v[EVENT_WINDOW_ITL].count * SECOND);
        assert_true(us <= LIMIT_LIVE_WINDOW_SECONDS * SECOND);
        assert_true(i < 60 ? us == i * SECOND : us > 55 * SECOND);
    }
    assert_true(histogram_quantile(&v[EVENT_WINDOW_ITL], 0.01) >
                800 * MS); /* the old ones have left */
}

static void a_long_pause_empties_it(void **state)
{
    struct scene *s = *state;
    struct histogram_view v[EVENT_WINDOW_VIEWS];
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

/* --- what is remembered --------------------------------------------------------------------- */

/* A request that had its first token so many seconds ago, after prefill_ms, and ended then. */
static void remember(struct scene *s, struct request_log *r, int ago_s, int prefill_ms)
{
    int64_t first = s->now_us - ago_s * SECOND, start = first - prefill_ms * MS;
    struct timeline t = {.at_us = {[TIMELINE_RECEIVED] = start,
                                   [TIMELINE_PARSED] = start,
                                   [TIMELINE_TOKENIZED] = start,
                                   [TIMELINE_QUEUED] = start,
                                   [TIMELINE_ADMITTED] = start,
                                   [TIMELINE_PREFILL_STARTED] = start,
                                   [TIMELINE_FIRST_TOKEN] = first,
                                   [TIMELINE_FIRST_CONTENT] = first}};
    struct request_log_entry *q = request_log_add(r, &t);
    q->streamed = true;
    q->added_us = first;
    int64_t us[METRICS_TTFT + 1];
    metrics_parts(&t, true, us);
    for (int i = 0; i <= EVENT_WINDOW_TTFT; i++)
        histogram_add(&s->histograms[i], us[i], 1);
}

static int64_t seeded_look(struct scene *s, const struct request_log *r,
                           struct histogram_view v[EVENT_WINDOW_VIEWS])
{
    for (int i = 0; i < EVENT_WINDOW_VIEWS; i++)
        histogram_read(&s->histograms[i], &v[i]);
    event_window_seed(&s->window, s->now_us, v, r);
    return event_window_slide(&s->window, s->now_us, v);
}

/* One a second for a hundred seconds: the first look finds those of the last minute, and they leave
 * the window as if somebody had looked all the time. */
static void the_first_look_finds_the_last_minute(void **state)
{
    struct scene *s = *state;
    struct histogram_view v[EVENT_WINDOW_VIEWS];
    struct request_log *r = mem_zalloc(sizeof *r);
    for (int ago = 100; ago > 0; ago--)
        remember(s, r, ago, ago <= 60 ? 5 : 900);
    request_log_add(r, &(struct timeline){0}); /* one without a first token */
    histogram_add(&s->histograms[EVENT_WINDOW_ITL], MS, 1000);
    assert_int_equal(seeded_look(s, r, v), 60 * SECOND);
    assert_int_equal(v[EVENT_WINDOW_TTFT].count,
                     59); /* a second before the window's begin is outside */
    assert_int_equal(v[METRICS_PREFILL].count, 59);
    assert_int_equal(v[METRICS_PREFILL].sum, 59 * 5 * MS);
    assert_int_equal(v[METRICS_QUEUE].count, 59);
    assert_int_equal(v[METRICS_QUEUE].sum, 0);
    assert_int_equal(v[EVENT_WINDOW_ITL].count, 0);
    for (int i = 1; i <= 70; i++) {
        s->now_us += SECOND;
        int64_t us = look(s, v);
        assert_in_range(us, 55 * SECOND + 1, 60 * SECOND);
        assert_true((int64_t)v[EVENT_WINDOW_TTFT].count ==
                    (us > i * SECOND ? us / SECOND - i - 1 : 0));
    }
    mem_free(r);
}

/* More in a minute than are remembered: the window is as long as they reach back. */
static void it_reaches_as_far_as_what_is_remembered(void **state)
{
    struct scene *s = *state;
    struct histogram_view v[EVENT_WINDOW_VIEWS];
    struct request_log *r = mem_zalloc(sizeof *r);
    for (int ago = 100; ago > 0; ago--)
        for (int i = 0; i < 20; i++)
            remember(s, r, ago, 5);
    assert_int_equal(seeded_look(s, r, v), 10 * SECOND); /* 256 of them are 12.8 s */
    assert_int_equal(v[EVENT_WINDOW_TTFT].count, 9 * 20);
    mem_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_before_the_first_look_is_outside, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_window_is_as_long_as_it_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_long_pause_empties_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_look_finds_the_last_minute, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_reaches_as_far_as_what_is_remembered, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
