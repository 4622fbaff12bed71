/* Blocking against streaming: the table's ratios and the result's metrics. */
#include "bench/kinds/blocking.h"
#include "unit/bench/bench_runs.h"

#include <math.h>

/* First tokens of 10, 20, 30 ms streamed, 40 .. 120 ms with `stream` off, 100 .. 300 ms alone. */
static struct blocking make(uint32_t repeats, bool has_sync)
{
    static const int64_t steps[BLOCKING_MODES] = {
        [BLOCKING_WHOLE] = 40000, [BLOCKING_SYNC] = 100000, [BLOCKING_STREAM] = 10000};
    struct blocking b = {0};
    for (int i = 0; i < BLOCKING_MODES; i++) {
        if (i == BLOCKING_SYNC && !has_sync)
            continue;
        make_measurement(&b.of[i], repeats, 3, steps[i], true);
        pool(&b.of[i], NULL);
    }
    return b;
}

static void the_table_has_baselines_stream_and_ratios(void **state)
{
    (void)state;
    struct blocking b = make(1, true);
    struct buf table = {0};
    b.of[BLOCKING_SYNC].runs[0].end_us += 2000000; /* three seconds: a third of the throughput */
    pool(&b.of[BLOCKING_SYNC], NULL);
    assert_true(blocking_table(&table, &b));
    const char *t = buf_str(&table);
    expect_words(t, "milliseconds", "blocking sync streaming blocking sync");
    expect_words(t, "TTFT P50", "80.0 200.0 20.0 4.00x +75.0% 10.00x +90.0%");
    expect_words(t, "TTFT P90", "112.0 280.0 28.0 4.00x +75.0% 10.00x +90.0%");
    expect_words(t, "TTFT P95", "116.0 290.0 29.0 4.00x +75.0% 10.00x +90.0%");
    expect_words(t, "throughput, tokens/s", "27.0 9.0 27.0 1.00x +0.0% 3.00x +200.0%");
    expect_words(t, "completed of requests", "3/3 3/3 3/3");
    buf_fini(&table);
    blocking_fini(&b);
}

static void decode_is_told_of_whole_answers(void **state)
{
    (void)state;
    struct blocking b = make(1, true);
    struct buf table = {0};
    assert_true(blocking_table(&table, &b));
    assert_null(strstr(buf_str(&table), "decode")); /* no server told of it */
    for (uint32_t i = 0; i < 3; i++) {
        struct record *r = &b.of[BLOCKING_WHOLE].runs[0].records[i];
        r->whole = true;
        r->ttft.decode_us = (i + 1) * 15000;
    }
    pool(&b.of[BLOCKING_WHOLE], NULL);
    buf_clear(&table);
    assert_true(blocking_table(&table, &b));
    expect_words(buf_str(&table), "of it decode P50", "30.0 n/a n/a");
    buf_fini(&table);
    blocking_fini(&b);
}

static void other_servers_have_no_sync_baseline(void **state)
{
    (void)state;
    struct blocking b = make(1, false);
    struct buf table = {0};
    snprintf(b.of[BLOCKING_STREAM].runs[0].generator.why, 16, "it slept");
    b.of[BLOCKING_STREAM].runs[0].generator.bottleneck = true;
    assert_true(blocking_table(&table, &b));
    const char *t = buf_str(&table);
    expect_words(t, "TTFT P50", "80.0 n/a 20.0 4.00x +75.0% n/a n/a");
    expect_words(t, "throughput, tokens/s", "27.0 n/a 27.0 1.00x +0.0% n/a n/a");
    expect_words(t, "completed of requests", "3/3 n/a 3/3");
    expect_words(t, "streaming, run 1:", "THE BOTTLENECK WAS THE GENERATOR: it slept");
    buf_fini(&table);
    blocking_fini(&b);
}

static void expect_metric(const struct result *r, const char *name, size_t repeats, double first)
{
    const json_t *metrics = json_object_get(r->root, "metrics");
    const json_t *values = json_object_get(json_object_get(metrics, name), "repeats");
    if (json_array_size(values) != repeats)
        fail_msg("%s: %zu repeats, expected %zu", name, json_array_size(values), repeats);
    if (repeats > 0 && fabs(json_number_value(json_array_get(values, 0)) - first) > 1e-9)
        fail_msg("%s: %g, expected %g", name, json_number_value(json_array_get(values, 0)), first);
}

static void the_result_has_metrics_per_repeat_and_runs_by_mode(void **state)
{
    (void)state;
    struct blocking b = make(2, true);
    struct result r;
    result_init(&r, "blocking", NULL, json_object(), json_object());
    blocking_result(&b, NULL, &r);
    assert_false(r.failed);
    expect_metric(&r, "blocking_ttft_p50", 2, 80);
    expect_metric(&r, "sync_ttft_p90", 2, 280);
    expect_metric(&r, "streaming_ttft_p95", 2, 29);
    expect_metric(&r, "improvement_p50", 2, 4);
    expect_metric(&r, "improvement_sync_p50", 2, 10);
    expect_metric(&r, "improvement_tokens_per_s", 2, 1);
    expect_metric(&r, "improvement_percent_p50", 2, 75);
    expect_metric(&r, "improvement_percent_p95", 2, 75);
    expect_metric(&r, "improvement_percent_sync_p90", 2, 90);
    expect_metric(&r, "improvement_percent_tokens_per_s", 2, 0);
    expect_metric(&r, "improvement_percent_sync_tokens_per_s", 2, 0);
    const json_t *runs = json_object_get(r.root, "runs");
    assert_int_equal(json_array_size(runs), 2 * BLOCKING_MODES);
    for (int i = 0; i < BLOCKING_MODES; i++)
        assert_string_equal(
            json_string_value(json_object_get(json_array_get(runs, (size_t)i * 2), "mode")),
            blocking_mode_name((enum blocking_mode)i));
    result_fini(&r);
    blocking_fini(&b);
}

/* A stream that is worse than its baseline is below one, and below zero. */
static void what_is_worse_is_negative(void **state)
{
    (void)state;
    struct blocking b = {0};
    struct buf table = {0};
    make_measurement(&b.of[BLOCKING_WHOLE], 1, 3, 10000, true);
    make_measurement(&b.of[BLOCKING_STREAM], 1, 3, 15000, true);
    b.of[BLOCKING_STREAM].runs[0].end_us += 1000000;
    pool(&b.of[BLOCKING_WHOLE], NULL);
    pool(&b.of[BLOCKING_STREAM], NULL);
    assert_true(blocking_table(&table, &b));
    const char *t = buf_str(&table);
    expect_words(t, "TTFT P50", "20.0 n/a 30.0 0.67x -50.0% n/a n/a");
    expect_words(t, "throughput, tokens/s", "27.0 n/a 13.5 0.50x -50.0% n/a n/a");
    buf_fini(&table);
    blocking_fini(&b);
}

/* Every mode once; each order comes as often as another. */
static void orders_are_drawn(void **state)
{
    enum { N = 6000 };
    (void)state;
    uint32_t n[BLOCKING_MODES][BLOCKING_MODES] = {0}; /* how often a mode was at a place */
    struct random r, same;
    random_init(&r, 3, 0);
    random_init(&same, 3, 0);
    for (int i = 0; i < N; i++) {
        enum blocking_mode order[BLOCKING_MODES], again[BLOCKING_MODES];
        uint32_t seen = 0;
        blocking_order(&r, order);
        blocking_order(&same, again);
        assert_memory_equal(order, again, sizeof order);
        for (int k = 0; k < BLOCKING_MODES; k++) {
            seen |= 1u << order[k];
            n[order[k]][k]++;
        }
        assert_int_equal(seen, (1u << BLOCKING_MODES) - 1);
    }
    for (int i = 0; i < BLOCKING_MODES; i++)
        for (int k = 0; k < BLOCKING_MODES; k++)
            assert_in_range(n[i][k], N / BLOCKING_MODES - 200, N / BLOCKING_MODES + 200);
}

static void a_mode_that_was_cut_short_has_fewer_repeats(void **state)
{
    (void)state;
    struct blocking b = make(2, true);
    struct result r;
    load_fini(&b.of[BLOCKING_STREAM].runs[1]);
    b.of[BLOCKING_STREAM].n_runs = 1;
    result_init(&r, "blocking", NULL, json_object(), json_object());
    blocking_result(&b, NULL, &r);
    assert_false(r.failed);
    expect_metric(&r, "blocking_ttft_p50", 2, 80);
    expect_metric(&r, "streaming_ttft_p50", 1, 20);
    expect_metric(&r, "improvement_p50", 1, 4);
    expect_metric(&r, "improvement_percent_p50", 1, 75);
    result_fini(&r);
    blocking_fini(&b);
}

static void a_failure_names_its_mode(void **state)
{
    (void)state;
    struct blocking b = make(1, true);
    struct err err = {0};
    assert_false(blocking_failed(&b, &err));
    struct record *r = &b.of[BLOCKING_SYNC].runs[0].records[1];
    r->state = RECORD_FAILED;
    snprintf(r->error, sizeof r->error, "it broke");
    assert_true(blocking_failed(&b, &err));
    assert_string_equal(err.text, "sync: 1 of 3 requests failed; the first: it broke");
    blocking_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_has_baselines_stream_and_ratios),
        cmocka_unit_test(decode_is_told_of_whole_answers),
        cmocka_unit_test(other_servers_have_no_sync_baseline),
        cmocka_unit_test(the_result_has_metrics_per_repeat_and_runs_by_mode),
        cmocka_unit_test(what_is_worse_is_negative),
        cmocka_unit_test(orders_are_drawn),
        cmocka_unit_test(a_mode_that_was_cut_short_has_fewer_repeats),
        cmocka_unit_test(a_failure_names_its_mode),
    };
    return cmocka_run_group_tests_name("blocking", tests, NULL, NULL);
}
