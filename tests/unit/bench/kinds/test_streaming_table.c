/* The table of `bench streaming`, line by line, from runs whose figures are known. */
#include "bench/kinds/streaming_table.h"
#include "unit/bench/bench_runs.h"

static const struct streaming_setup in_process = {
    .model = "tiny",
    .engine = "cpu on a machine",
    .in_process = true,
    .max_batch = 64,
    .prefill_batch = 16,
    .repeat_runs = 1,
};

/* The table of what the test has made of `m`; to be freed by buf_fini. */
static struct buf table_of(struct measurement *m, const struct streaming_setup *setup,
                           const struct goodput *goodput)
{
    struct buf out = {0};
    pool(m, goodput);
    assert_true(streaming_table(&out, m, setup, goodput));
    return out;
}

static void lines_come_in_the_agreed_order(void **state)
{
    (void)state;
    static const char *const labels[] = {"model",
                                         "device and engine",
                                         "paged attention",
                                         "batch settings",
                                         "requests",
                                         "prompt tokens",
                                         "completion tokens",
                                         "submit wall",
                                         "add_request",
                                         "queue wait",
                                         "prefill->first",
                                         "TTFT",
                                         "TPOT",
                                         "ITL",
                                         "latency",
                                         "throughput",
                                         "goodput",
                                         "generator",
                                         "client minus server"};
    struct measurement m;
    make_measurement(&m, 1, 3, 10000, true);
    struct buf table = table_of(&m, &in_process, NULL);
    const char *p = buf_str(&table);
    for (size_t i = 0; i < sizeof labels / sizeof labels[0]; i++) {
        const char *found = strstr(p, labels[i]);
        if (!found)
            fail_msg("%s is not behind %s", labels[i], i > 0 ? labels[i - 1] : "the start");
        p = found;
    }
    buf_fini(&table);
    measure_fini(&m);
}

static void every_figure_is_the_records(void **state)
{
    (void)state;
    struct measurement m;
    make_measurement(&m, 1, 3, 10000, true); /* TTFT 10, 20, 30 ms */
    struct buf table = table_of(&m, &in_process, NULL);
    const char *t = buf_str(&table);
    expect_words(t, "model", "tiny");
    expect_words(t, "device and engine", "cpu on a machine");
    expect_words(t, "paged attention", "on, blocks of 32 positions");
    expect_words(t, "batch settings", "64 requests, 16 prompts a step");
    expect_words(t, "requests", "3: 3 completed, 0 failed");
    expect_words(t, "prompt tokens", "9");
    expect_words(t, "completion tokens", "27");
    expect_words(t, "submit wall", "2.50 ms");
    expect_words(t, "add_request latency", "1.00 1.00 1.00");
    expect_words(t, "queue wait", "10.0 14.5 14.9"); /* 5, 10, 15 */
    expect_words(t, "prefill->first token", "3.00 3.00 3.00");
    expect_words(t, "TTFT", "20.0 29.0 29.8");
    expect_words(t, "TPOT", "1.00 1.00 1.00"); /* 8 ms after the first, 8 more tokens */
    expect_words(t, "ITL", "1.00 1.00 1.00");
    expect_words(t, "latency", "28.0 37.0 37.8");
    expect_words(t, "throughput", "27.0 tokens/s, 3.00 requests/s");
    expect_words(t, "goodput", "n/a (no --goodput)");
    expect_words(t, "generator",
                 "sent 0.50 ms late, stamps 0.25 ms late (p99), 3 % of a processor");
    expect_words(t, "client minus server TTFT", "0.50 0.50 0.50");
    assert_null(strstr(t, "background"));
    assert_null(strstr(t, "BOTTLENECK"));
    assert_null(strstr(t, "repeats"));
    buf_fini(&table);
    measure_fini(&m);
}

static void what_a_server_does_not_tell_is_not_known(void **state)
{
    (void)state;
    struct measurement m;
    make_measurement(&m, 1, 3, 10000, false);
    for (uint32_t i = 0; i < 3; i++)
        m.runs[0].records[i].prompt_tokens = 0;
    const struct streaming_setup server = {.model = "m", .engine = "http://x"};
    struct buf table = table_of(&m, &server, NULL);
    const char *t = buf_str(&table);
    expect_words(t, "paged attention", "n/a");
    expect_words(t, "batch settings", "n/a");
    expect_words(t, "prompt tokens", "n/a");
    expect_words(t, "add_request latency", "n/a n/a n/a");
    expect_words(t, "queue wait", "n/a n/a n/a");
    expect_words(t, "prefill->first token", "n/a n/a n/a");
    expect_words(t, "client minus server TTFT", "n/a n/a n/a");
    expect_words(t, "TTFT", "20.0 29.0 29.8"); /* the client's own clock */
    buf_fini(&table);
    measure_fini(&m);
}

static void what_flatters_or_slanders_is_told(void **state)
{
    (void)state;
    struct measurement m;
    make_measurement(&m, 1, 3, 10000, true);
    m.runs[0].records[0].cached_tokens = 2; /* of 3 */
    m.runs[0].records[1].uncounted = m.runs[0].records[2].uncounted = true;
    struct buf table = table_of(&m, &in_process, NULL);
    expect_words(buf_str(&table), "prompt tokens", "9 (2 from a prefix cache)");
    expect_words(buf_str(&table), "completion tokens",
                 "27 (2 answers by their chunks: the server counted no tokens)");
    buf_fini(&table);
    measure_fini(&m);
}

static void batch_settings_say_what_bounds_a_step(void **state)
{
    (void)state;
    struct measurement m;
    make_measurement(&m, 1, 1, 10000, true);
    struct streaming_setup setup = in_process;
    setup.prefill_tokens = 256;
    struct buf table = table_of(&m, &setup, NULL);
    expect_words(buf_str(&table), "batch settings",
                 "64 requests, 16 prompts a step, 256 prompt tokens a step");
    buf_clear(&table);
    setup.sync = true;
    assert_true(streaming_table(&table, &m, &setup, NULL));
    expect_words(buf_str(&table), "batch settings", "one request at a time");
    buf_fini(&table);
    measure_fini(&m);
}

static void what_went_wrong_is_counted(void **state)
{
    (void)state;
    struct measurement m;
    make_measurement(&m, 1, 5, 10000, true);
    struct record *r = m.runs[0].records;
    r[1].state = RECORD_FAILED;
    r[2].state = RECORD_CANCELLED;
    r[3].first_us = 0;
    r[3].n_chunks = 0;
    m.runs[0].background_failed = 2;
    m.runs[0].generator.bottleneck = true;
    snprintf(m.runs[0].generator.why, sizeof m.runs[0].generator.why, "it slept");
    struct buf table = table_of(&m, &in_process, NULL);
    const char *t = buf_str(&table);
    expect_words(t, "requests", "5: 3 completed, 1 failed, 1 cancelled, 1 without content");
    expect_words(t, "background gaps", "2 background streams failed");
    assert_non_null(strstr(t, "THE BOTTLENECK WAS THE GENERATOR: it slept"));
    expect_words(t, "TTFT", "30.0 48.0 49.6"); /* 10 and 50 ms have one */
    buf_fini(&table);
    measure_fini(&m);
}

static void nothing_completed_is_no_figure(void **state)
{
    (void)state;
    struct measurement m;
    make_measurement(&m, 1, 2, 10000, true);
    for (uint32_t i = 0; i < 2; i++)
        m.runs[0].records[i].state = RECORD_FAILED;
    struct buf table = table_of(&m, &in_process, NULL);
    const char *t = buf_str(&table);
    expect_words(t, "requests", "2: 0 completed, 2 failed");
    expect_words(t, "completion tokens", "0");
    expect_words(t, "TTFT", "n/a n/a n/a");
    expect_words(t, "latency", "n/a n/a n/a");
    buf_fini(&table);
    measure_fini(&m);
}

static void goodput_names_its_objectives(void **state)
{
    (void)state;
    struct measurement m;
    const struct goodput goodput = {.ttft_ms = 20, .tpot_ms = 50};
    make_measurement(&m, 1, 4, 10000, true); /* 10 and 20 of 10 .. 40 ms */
    struct buf table = table_of(&m, &in_process, &goodput);
    expect_words(buf_str(&table), "goodput", "2.00 requests/s, 2 of 4 with ttft<=20 tpot<=50 ms");
    buf_fini(&table);
    measure_fini(&m);
}

static void background_gaps_stand_apart(void **state)
{
    (void)state;
    struct measurement m;
    make_measurement(&m, 1, 1, 10000, true);
    for (int i = 1; i <= 3; i++)
        series_add(&m.runs[0].background_gap_ms, 100.0 * i);
    struct buf table = table_of(&m, &in_process, NULL);
    expect_words(buf_str(&table), "background gaps", "200.0 290.0 298.0");
    expect_words(buf_str(&table), "ITL", "1.00 1.00 1.00");
    buf_fini(&table);
    measure_fini(&m);
}

static void repeats_show_the_spread_of_their_medians(void **state)
{
    (void)state;
    struct measurement m;
    make_measurement(&m, 3, 3, 10000, true); /* medians of 20, 40, 60 ms */
    struct buf table = table_of(&m, &in_process, NULL);
    const char *t = strstr(buf_str(&table), "3 repeats:");
    assert_non_null(t);
    expect_words(t, "TTFT", "40.0 (20.0 to 60.0) ms");
    expect_words(t, "TPOT", "1.00 (1.00 to 1.00) ms");
    expect_words(t, "latency", "48.0 (28.0 to 68.0) ms");
    expect_words(t, "throughput", "27.0 (27.0 to 27.0) tokens/s");
    expect_words(buf_str(&table), "requests", "9 in 3 runs: 9 completed, 0 failed");
    expect_words(buf_str(&table), "submit wall", "2.50 ms (mean of the repeats)");
    buf_fini(&table);
    measure_fini(&m);
}

static void an_interrupted_run_says_so_first(void **state)
{
    (void)state;
    struct measurement m;
    struct streaming_setup setup = in_process;
    setup.repeat_runs = 5;
    make_measurement(&m, 2, 3, 10000, true);
    m.runs[1].interrupted = true;
    struct buf table = table_of(&m, &setup, NULL);
    assert_memory_equal(buf_str(&table), "INTERRUPTED in run 2 of 5", 25);
    buf_fini(&table);
    measure_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_in_the_agreed_order),
        cmocka_unit_test(every_figure_is_the_records),
        cmocka_unit_test(what_a_server_does_not_tell_is_not_known),
        cmocka_unit_test(what_flatters_or_slanders_is_told),
        cmocka_unit_test(batch_settings_say_what_bounds_a_step),
        cmocka_unit_test(what_went_wrong_is_counted),
        cmocka_unit_test(nothing_completed_is_no_figure),
        cmocka_unit_test(goodput_names_its_objectives),
        cmocka_unit_test(background_gaps_stand_apart),
        cmocka_unit_test(repeats_show_the_spread_of_their_medians),
        cmocka_unit_test(an_interrupted_run_says_so_first),
    };
    return cmocka_run_group_tests_name("streaming", tests, NULL, NULL);
}
