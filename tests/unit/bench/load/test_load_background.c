/* Streams that run beside the measured requests. */
#include "unit/bench/scripted_target.h"

#include <stdio.h>

/* Background: a first chunk after 70 ms, then one each 10 ms, 1024 of them. */
static struct script_answer with_background(struct script *s, const struct work_item *item)
{
    if (script_is_background(item)) {
        assert_true(item->ignore_eos && item->stream);
        return (struct script_answer){ANSWER_OK, item->max_tokens, 70 * MS, 10 * MS, 0};
    }
    return script_usual(s, item);
}

static void the_clock_waits_for_every_background_stream(void **state)
{
    (void)state;
    script.answer = with_background;
    script_run(3, 6, 50 * MS,
               (struct load_options){.n_background = 4, .background_of = &script_background});
    int64_t start = SCRIPT_START + 70 * MS;
    assert_int_equal(result.start_us, start);
    assert_int_equal(result.end_us, start + 110 * MS);
    /* chunks at 10, 20, ... 110 ms after the first, of four streams; the last end counts */
    assert_int_equal(result.background_gap_ms.n, 4 * 11);
    assert_true(series_percentile(&result.background_gap_ms, 0) == 10);
    assert_true(series_percentile(&result.background_gap_ms, 100) == 10);
    assert_int_equal(script.n_cancels, 4);
    assert_int_equal(result.background_failed, 0);
}

static void only_gaps_that_end_in_the_run_count(void **state)
{
    (void)state;
    size_t expected = 0;
    script.answer = with_background;
    script.poll_late_us = 25 * MS; /* chunks come before the start is known, and after the end */
    script_run(3, 6, 0,
               (struct load_options){.n_background = 1, .background_of = &script_background});
    int64_t first = SCRIPT_START + 70 * MS;
    assert_int_equal(result.start_us, first + 25 * MS);
    assert_true(script_now_us >= result.end_us + 10 * MS);
    for (int64_t at = first + 10 * MS; at <= result.end_us; at += 10 * MS)
        expected += at >= result.start_us;
    assert_int_equal(result.background_gap_ms.n, expected);
}

static struct script_answer slow_to_start(struct script *s, const struct work_item *item)
{
    if (script_is_background(item))
        script_now_us += 20 * MS;
    return with_background(s, item);
}

static void what_was_before_the_clock_is_no_turn(void **state)
{
    (void)state;
    script.answer = slow_to_start;
    script_run(3, 6, 0,
               (struct load_options){.n_background = 3, .background_of = &script_background});
    assert_true(result.generator.turn_ms.n > 0);
    assert_true(series_percentile(&result.generator.turn_ms, 100) == 0);
}

/* Never asked for the same twice: a prefix cache would make the second life another load. */
static void check_prompt(struct script *s, const struct work_item *item)
{
    static char last[256];
    if (s->n_background_sent > 0)
        assert_string_not_equal(item->prompt, last);
    snprintf(last, sizeof last, "%s", item->prompt);
}

static struct script_answer short_background(struct script *s, const struct work_item *item)
{
    if (script_is_background(item)) {
        check_prompt(s, item);
        return (struct script_answer){ANSWER_OK, 3, 10 * MS, 10 * MS, 5 * MS};
    }
    return script_usual(s, item);
}

/* The run begins 10 ms into the stream's life of 35 ms. */
static struct script_answer together(struct script *s, const struct work_item *item)
{
    if (!script_is_background(item))
        return (struct script_answer){ANSWER_OK, 1, 25 * MS, 0, 0};
    return short_background(s, item);
}

static struct script_answer failing_together(struct script *s, const struct work_item *item)
{
    struct script_answer a = together(s, item);
    if (script_is_background(item))
        a.kind = ANSWER_FAILS;
    return a;
}

static void one_that_ends_with_the_run_is_not_started_again(void **state)
{
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        script_init(&script);
        script.answer = fails ? failing_together : together;
        script_run(1, 1, 0,
                   (struct load_options){.n_background = 1, .background_of = &script_background});
        assert_int_equal(script.n_background_sent, 1);
        assert_int_equal(script.n_cancels, 0);
        assert_int_equal(result.background_gap_ms.n, 2);
        assert_int_equal(result.background_failed, fails);
        load_fini(&result);
    }
}

static void one_that_ends_is_started_again(void **state)
{
    (void)state;
    script.answer = short_background; /* a life of 35 ms with two gaps */
    script_run(11, 1, 35 * MS,
               (struct load_options){.n_background = 1, .background_of = &script_background});
    /* From the first chunk, 10 ms into the first life, to 355 ms later: lives 1 to 10 whole (gaps
     * at 20 and 30 ms of each), and of the 11th, begun at 350, the end at 365 has seen one chunk.
     */
    assert_int_equal(result.end_us - result.start_us, 355 * MS);
    assert_int_equal(script.n_background_sent, 11);
    assert_int_equal(result.background_gap_ms.n, 20);
    assert_true(series_percentile(&result.background_gap_ms, 100) == 10); /* none between lives */
}

static struct script_answer second_refused(struct script *s, const struct work_item *item)
{
    if (script_is_background(item) && s->n_background_sent == 1)
        return script_refused(s, item);
    return with_background(s, item);
}

static void expect_no_start(const char *text)
{
    struct workload w = script_items(2, 1, 0);
    const struct load_options o = {.n_background = 3, .background_of = &script_background};
    struct err err = {0};
    assert_int_equal(load_run(&script.base, &w, &o, &result, &err), STATUS_UNAVAILABLE);
    assert_string_equal(err.text, text);
    assert_int_equal(script.n_sent, 0);
    assert_int_equal(script.n_flights, 0); /* the others are gone */
    mem_free(w.items);
}

static void one_that_fails_before_the_run_is_an_error(void **state)
{
    (void)state;
    script.answer = second_refused;
    expect_no_start("background stream 2 of 3 did not come up: refused");
}

static struct script_answer empty_background(struct script *s, const struct work_item *item)
{
    (void)item;
    return (struct script_answer){ANSWER_OK, s->n_background_sent == 2 ? 0 : 9, 10 * MS, 0, 5 * MS};
}

static void one_without_content_is_an_error(void **state)
{
    (void)state;
    script.answer = empty_background;
    expect_no_start("background stream 3 of 3 did not come up: its answer had no content");
}

static struct script_answer failing_background(struct script *s, const struct work_item *item)
{
    if (script_is_background(item) && s->n_background_sent == 1)
        return (struct script_answer){ANSWER_FAILS, 5, 10 * MS, 10 * MS, 5 * MS};
    return with_background(s, item);
}

static void one_that_fails_before_the_others_come_up_is_an_error(void **state)
{
    (void)state;
    script.answer = failing_background; /* at 55 ms, before the others' first chunk at 70 */
    expect_no_start("background stream 2 of 3 did not come up: the script says so");
}

static struct script_answer late_failing_background(struct script *s, const struct work_item *item)
{
    if (script_is_background(item) && s->n_background_sent == 1)
        return (struct script_answer){ANSWER_FAILS, 5, 60 * MS, 10 * MS, 5 * MS};
    return with_background(s, item);
}

static void one_that_fails_during_the_run_is_counted_and_stays_down(void **state)
{
    (void)state;
    script.answer = late_failing_background; /* it ends at 105 ms, the run begins at 70 */
    script_run(20, 4, 30 * MS,
               (struct load_options){.n_background = 3, .background_of = &script_background});
    assert_int_equal(result.background_failed, 1);
    assert_int_equal(script.n_background_sent, 3);
    assert_int_equal(script.n_cancels, 2);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(result.records[i].state, RECORD_OK);
}

static void the_flag_ends_the_wait_for_background_streams(void **state)
{
    (void)state;
    script.answer = with_background;
    script.stop_at_us = SCRIPT_START + 30 * MS;
    script_run(3, 1, 0,
               (struct load_options){.n_background = 2, .background_of = &script_background});
    assert_true(result.interrupted);
    assert_int_equal(script.n_sent, 0);
    assert_int_equal(script.n_cancels, 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, script_begin, script_close)
    const struct CMUnitTest tests[] = {
        TEST(the_clock_waits_for_every_background_stream),
        TEST(only_gaps_that_end_in_the_run_count),
        TEST(what_was_before_the_clock_is_no_turn),
        TEST(one_that_ends_with_the_run_is_not_started_again),
        TEST(one_that_ends_is_started_again),
        TEST(one_that_fails_before_the_run_is_an_error),
        TEST(one_without_content_is_an_error),
        TEST(one_that_fails_before_the_others_come_up_is_an_error),
        TEST(one_that_fails_during_the_run_is_counted_and_stays_down),
        TEST(the_flag_ends_the_wait_for_background_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
