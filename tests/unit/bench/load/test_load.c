/* The load generator against a scripted target on a virtual clock. */
#include "unit/bench/scripted_target.h"

#include "support/random.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static void each_item_is_sent_when_due(void **state)
{
    (void)state;
    script_run(10, 3, 20 * MS, (struct load_options){0});
    assert_int_equal(result.start_us, SCRIPT_START);
    for (uint32_t i = 0; i < 10; i++) {
        const struct record *r = &result.records[i];
        int64_t due = SCRIPT_START + i * 20 * MS;
        assert_int_equal(r->state, RECORD_OK);
        assert_int_equal(r->due_us, due);
        assert_int_equal(r->sent_us, due);
        assert_int_equal(r->first_us, due + 5 * MS);
        assert_int_equal(r->n_chunks, 3);
        assert_int_equal(r->end_us, due + 7 * MS);
    }
    assert_int_equal(script.max_in_flight, 1);
    assert_int_equal(result.submit_wall_us, 180 * MS);
    assert_int_equal(result.end_us, SCRIPT_START + 187 * MS);
    assert_int_equal(result.generator.lag_ms.n, 10);
    assert_true(series_percentile(&result.generator.lag_ms, 100) == 0);
    assert_false(result.generator.bottleneck);
    assert_string_equal(result.generator.why, "");
    assert_false(result.interrupted);
    /* It sleeps from event to event: 3 chunks and an end at the third's time, and the due moments;
     * a sleep is cut at most once in 100 ms. */
    assert_true(script.n_polls <= 10 * 4 + 2);
}

static void the_clock_starts_with_the_first_due_moment(void **state)
{
    (void)state;
    struct workload w = script_items(2, 1, 0);
    struct load_options o = {0};
    w.items[0].due_us = w.items[1].due_us = 3000 * MS;
    assert_int_equal(load_run(&script.base, &w, &o, &result, NULL), STATUS_OK);
    assert_int_equal(result.start_us, SCRIPT_START + 3000 * MS);
    assert_int_equal(result.records[1].sent_us, SCRIPT_START + 3000 * MS);
    assert_int_equal(result.end_us, SCRIPT_START + 3005 * MS);
    assert_int_equal(result.submit_wall_us, 0);
    assert_true(script.n_polls <= 3000 / 100 + 4);
    mem_free(w.items);
}

static void a_burst_has_no_bound_unless_asked(void **state)
{
    (void)state;
    script_run(500, 2, 0, (struct load_options){0});
    assert_int_equal(script.max_in_flight, 500);
    for (uint32_t i = 0; i < 500; i++)
        assert_int_equal(result.records[i].sent_us, SCRIPT_START);
    assert_int_equal(result.submit_wall_us, 0);
}

/* Durations 10, 30, 20 ms in turn, three places. */
static struct script_answer in_turn(struct script *s, const struct work_item *item)
{
    static const int64_t durations[] = {10 * MS, 30 * MS, 20 * MS};
    (void)item;
    return (struct script_answer){ANSWER_OK, 1, 1 * MS, 0, durations[s->n_sent % 3] - 1 * MS};
}

static void a_bounded_item_is_due_when_a_place_became_free(void **state)
{
    (void)state;
    script.answer = in_turn;
    script_run(7, 1, 0, (struct load_options){.max_concurrency = 3});
    static const int64_t due_ms[] = {0, 0, 0, 10, 20, 20, 30};
    /* 0, 1, 2 end at 10, 30, 20; 3 (10 ms from 10) and 2 free places at 20; 1 at 30 */
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(result.records[i].due_us, SCRIPT_START + due_ms[i] * MS);
        assert_int_equal(result.records[i].sent_us, result.records[i].due_us);
    }
    assert_int_equal(script.max_in_flight, 3);
}

static void places_are_taken_in_the_order_they_became_free(void **state)
{
    (void)state;
    script.answer = in_turn;
    script.poll_late_us = 50 * MS; /* several ends are found by one poll */
    script_run(6, 1, 0, (struct load_options){.max_concurrency = 3});
    for (uint32_t i = 3; i < 6; i++) /* 0, 2, 1 ended in this order */
        assert_int_equal(result.records[i].due_us, result.records[i == 3   ? 0
                                                                  : i == 4 ? 2
                                                                           : 1]
                                                       .end_us);
    assert_true(result.records[3].sent_us > result.records[3].due_us);
    assert_true(series_percentile(&result.generator.lag_ms, 100) > 20); /* its own fault, shown */
}

static void planned_later_than_a_place_is_free_is_due_as_planned(void **state)
{
    (void)state;
    script_run(5, 1, 20 * MS, (struct load_options){.max_concurrency = 1});
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(result.records[i].due_us, SCRIPT_START + i * 20 * MS);
}

static void a_target_that_refuses_all_costs_no_time(void **state)
{
    (void)state;
    script.answer = script_refused;
    script_run(300, 8, 0, (struct load_options){.max_concurrency = 2});
    for (uint32_t i = 0; i < 300; i++) {
        assert_int_equal(result.records[i].state, RECORD_FAILED);
        assert_string_equal(result.records[i].error, "refused");
    }
    assert_int_equal(script_now_us, SCRIPT_START);
    assert_int_equal(script.n_sent, 300);
    assert_false(result.generator.bottleneck);
}

/* The first ten are answered; what runs then breaks off, and nothing is answered any more. */
static struct script_answer dies(struct script *s, const struct work_item *item)
{
    if (s->n_sent < 10)
        return script_usual(s, item);
    return (struct script_answer){s->n_sent < 14 ? ANSWER_FAILS : ANSWER_REFUSED, 2, 1 * MS, 1 * MS,
                                  1 * MS};
}

static void a_target_that_dies_leaves_every_record_ended(void **state)
{
    (void)state;
    script.answer = dies;
    script_run(50, 4, 1 * MS, (struct load_options){.max_concurrency = 4});
    for (uint32_t i = 0; i < 50; i++) {
        assert_int_equal(result.records[i].state, i < 10 ? RECORD_OK : RECORD_FAILED);
        assert_true((result.records[i].error[0] == 0) == (i < 10));
        assert_int_equal(result.records[i].n_chunks, i < 10 ? 4 : i < 14 ? 2 : 0); /* kept */
    }
    assert_false(result.interrupted);
}

static struct script_answer never_ends(struct script *s, const struct work_item *item)
{
    (void)s;
    (void)item;
    return (struct script_answer){ANSWER_NEVER_ENDS, 2, 1 * MS, 1 * MS, 1 * MS};
}

static void the_flag_cancels_what_runs_and_sends_nothing_more(void **state)
{
    (void)state;
    script.answer = never_ends;
    script.stop_at_us = SCRIPT_START + 950 * MS;
    script_run(40, 4, 100 * MS, (struct load_options){.max_concurrency = 6});
    assert_true(result.interrupted);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(result.records[i].state, i < 6 ? RECORD_CANCELLED : RECORD_UNSENT);
    assert_int_equal(result.records[0].n_chunks, 2); /* partial results stay */
    assert_int_equal(script.n_cancels, 6);
    assert_true(script_now_us <= script.stop_at_us + 100 * MS);
    assert_int_equal(result.end_us, result.records[5].end_us);
}

static void a_flag_set_before_stops_all_of_it(void **state)
{
    (void)state;
    atomic_store(&script.stop, true);
    script_run(3, 1, 0, (struct load_options){0});
    assert_true(result.interrupted);
    assert_int_equal(script.n_sent, 0);
    assert_int_equal(result.end_us, result.start_us);
}

static void no_items_are_an_error(void **state)
{
    (void)state;
    struct workload w = {0};
    struct load_options o = {0};
    struct err err = {0};
    assert_int_equal(load_run(&script.base, &w, &o, &result, &err), STATUS_INVALID);
    assert_string_equal(err.text, "the workload has no requests");
}

/* --- the generator's own figures ------------------------------------------------------------ */

static void requests_that_leave_late_make_it_the_bottleneck(void **state)
{
    (void)state;
    script.send_cost_us = 20 * MS;
    script_run(20, 2, 10 * MS, (struct load_options){0});
    assert_true(result.generator.bottleneck);
    assert_non_null(strstr(result.generator.why, "requests left late"));
    assert_true(series_percentile(&result.generator.lag_ms, 0) == 20);
    assert_true(series_percentile(&result.generator.turn_ms, 100) == 20);
}

static struct script_answer slow(struct script *s, const struct work_item *item)
{
    (void)s;
    (void)item;
    return (struct script_answer){ANSWER_OK, 1, 1000 * MS, 0, 0};
}

static void a_lag_that_is_small_beside_the_ttft_is_none(void **state)
{
    (void)state;
    script.send_cost_us = 20 * MS;
    script.answer = slow;
    script_run(20, 1, 30 * MS, (struct load_options){0});
    assert_true(series_percentile(&result.generator.lag_ms, 0) == 20);
    assert_false(result.generator.bottleneck);
}

static void a_small_lag_is_none_even_beside_a_small_ttft(void **state)
{
    (void)state;
    script.send_cost_us = 2 * MS; /* 40 % of the TTFT */
    script_run(20, 2, 10 * MS, (struct load_options){0});
    assert_true(series_percentile(&result.generator.lag_ms, 0) == 2);
    assert_false(result.generator.bottleneck);
}

static void dawdle(void *arg, uint32_t ended, uint32_t failed, uint32_t n)
{
    (void)arg;
    (void)ended;
    (void)failed;
    (void)n;
    script_now_us += 8 * MS;
}

static void looking_late_makes_it_the_bottleneck(void **state)
{
    (void)state;
    script.answer = in_turn;
    script_run(3, 1, 0, (struct load_options){.progress = dawdle});
    assert_true(series_percentile(&result.generator.lag_ms, 100) == 0);
    assert_true(series_percentile(&result.generator.turn_ms, 100) == 8);
    assert_true(result.generator.bottleneck);
    assert_non_null(strstr(result.generator.why, "looked at late"));
}

static void taking_long_in_a_poll_makes_it_the_bottleneck(void **state)
{
    (void)state;
    script.take_cost_us = 8 * MS;
    script_run(3, 1, 500 * MS, (struct load_options){0}); /* a chunk and an end, 5 ms after */
    assert_true(series_percentile(&result.generator.lag_ms, 100) == 0);
    assert_true(series_percentile(&result.generator.turn_ms, 100) == 16);
    assert_true(result.generator.bottleneck);
    assert_non_null(strstr(result.generator.why, "looked at late"));
}

/* Real processor time, virtual wall time. */
static void burn(struct script *s)
{
    struct timespec t;
    double begun;
    (void)s;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    begun = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < begun + 0.002);
}

static void a_busy_thread_makes_it_the_bottleneck(void **state)
{
    (void)state;
    script.on_poll = burn; /* 2 ms of processor a poll, and a poll each 1 ms or less */
    script_run(1, 200, 0, (struct load_options){0});
    assert_true(result.generator.cpu_share == 1);
    assert_true(result.generator.bottleneck);
    assert_string_equal(result.generator.why, "its thread used 100 % of a processor");
}

static void a_short_run_may_be_busy(void **state)
{
    (void)state;
    script.on_poll = burn;
    script_run(1, 20, 0, (struct load_options){0});
    assert_true(result.generator.cpu_share > LOAD_BUSY);
    assert_false(result.generator.bottleneck);
}

struct seen {
    uint32_t calls, ended, failed;
};

static void see(void *arg, uint32_t ended, uint32_t failed, uint32_t n)
{
    struct seen *seen = arg;
    assert_true(seen->calls == 0 ? ended == 0 : ended > seen->ended); /* the start is told too */
    assert_true(failed >= seen->failed && failed <= ended && ended <= n);
    *seen = (struct seen){seen->calls + 1, ended, failed};
}

static void progress_counts_up_to_all(void **state)
{
    (void)state;
    struct seen seen = {0};
    script.answer = dies;
    script_run(50, 4, 1 * MS, (struct load_options){.progress = see, .arg = &seen});
    assert_int_equal(seen.ended, 50);
    assert_int_equal(seen.failed, 40);
    assert_true(seen.calls > 10);
}

/* --- any script ----------------------------------------------------------------------------- */

static struct random dice;

static int64_t up_to(int64_t us)
{
    return random_below(&dice, (uint32_t)us + 1);
}

static struct script_answer any(struct script *s, const struct work_item *item)
{
    struct script_answer a = {.n_chunks = random_below(&dice, 6),
                              .first_us = up_to(40 * MS),
                              .gap_us = up_to(5 * MS),
                              .end_us = up_to(3 * MS)};
    (void)s;
    if (script_is_background(item))
        return (struct script_answer){ANSWER_OK, 2 + a.n_chunks, a.first_us, a.gap_us, a.end_us};
    a.kind = random_below(&dice, 8);
    if (a.kind > ANSWER_REFUSED)
        a.kind = ANSWER_OK;
    return a;
}

static void check_any(const struct workload *w, const struct load_options *o)
{
    int64_t last_end = result.start_us, last_sent = result.start_us;
    uint32_t sent = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const struct record *r = &result.records[i];
        sent += r->state != RECORD_UNSENT;
        if (r->state == RECORD_UNSENT) {
            assert_true(result.interrupted);
            continue;
        }
        assert_true(record_has_ended(r));
        assert_true(r->state != RECORD_CANCELLED || result.interrupted);
        assert_true(r->due_us >= result.start_us + w->items[i].due_us - w->items[0].due_us);
        assert_true(r->sent_us >= r->due_us && r->end_us >= r->sent_us);
        last_end = r->end_us > last_end ? r->end_us : last_end;
        last_sent = r->sent_us > last_sent ? r->sent_us : last_sent;
    }
    assert_int_equal(sent, script.n_sent); /* each once */
    assert_int_equal(result.generator.lag_ms.n, sent);
    assert_int_equal(result.end_us, last_end);
    assert_int_equal(result.submit_wall_us, last_sent - result.start_us);
    assert_true(o->max_concurrency == 0 || script.max_in_flight <= o->max_concurrency);
    assert_int_equal(script.n_flights, 0);
}

static void one_of_any(uint32_t seed)
{
    struct err err = {0};
    script_init(&script);
    dice = (struct random){seed};
    script.answer = any;
    script.send_cost_us = random_below(&dice, 3) ? 0 : up_to(2 * MS);
    script.poll_late_us = random_below(&dice, 3) ? 0 : up_to(8 * MS);
    script.stop_at_us = random_below(&dice, 4) ? 0 : SCRIPT_START + up_to(300 * MS);
    struct workload w = script_items(1 + random_below(&dice, 60), 8, 0);
    int64_t spread = up_to(20 * MS);
    for (uint32_t i = 1; i < w.n; i++)
        w.items[i].due_us = w.items[i - 1].due_us + up_to(spread);
    struct load_options o = {.max_concurrency = random_below(&dice, 9),
                             .n_background = random_below(&dice, 3),
                             .background_of = &script_background,
                             .stop = &script.stop};
    if (load_run(&script.base, &w, &o, &result, &err) != STATUS_OK)
        fail_msg("seed %u: %s", seed, err.text);
    check_any(&w, &o);
    load_fini(&result);
    mem_free(w.items);
}

static void any_script_keeps_the_rules(void **state)
{
    (void)state;
    for (uint32_t seed = 1; seed <= 2000; seed++)
        one_of_any(seed);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, script_begin, script_close)
    const struct CMUnitTest tests[] = {
        TEST(each_item_is_sent_when_due),
        TEST(the_clock_starts_with_the_first_due_moment),
        TEST(a_burst_has_no_bound_unless_asked),
        TEST(a_bounded_item_is_due_when_a_place_became_free),
        TEST(places_are_taken_in_the_order_they_became_free),
        TEST(planned_later_than_a_place_is_free_is_due_as_planned),
        TEST(a_target_that_refuses_all_costs_no_time),
        TEST(a_target_that_dies_leaves_every_record_ended),
        TEST(the_flag_cancels_what_runs_and_sends_nothing_more),
        TEST(a_flag_set_before_stops_all_of_it),
        TEST(no_items_are_an_error),
        TEST(requests_that_leave_late_make_it_the_bottleneck),
        TEST(a_lag_that_is_small_beside_the_ttft_is_none),
        TEST(a_small_lag_is_none_even_beside_a_small_ttft),
        TEST(looking_late_makes_it_the_bottleneck),
        TEST(taking_long_in_a_poll_makes_it_the_bottleneck),
        TEST(a_busy_thread_makes_it_the_bottleneck),
        TEST(a_short_run_may_be_busy),
        TEST(progress_counts_up_to_all),
        TEST(any_script_keeps_the_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
