/* Histograms from timelines, counts, moving averages; and the text format. */
#include "observe/metrics.h"

#include "observe/prometheus.h"
#include "support/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static const struct timeline times = {.at_us = {
                                          [TIMELINE_RECEIVED] = 1000,
                                          [TIMELINE_PARSED] = 1234,
                                          [TIMELINE_TOKENIZED] = 1300,
                                          [TIMELINE_QUEUED] = 1301,
                                          [TIMELINE_ADMITTED] = 2000,
                                          [TIMELINE_PREFILL_STARTED] = 2003,
                                          [TIMELINE_FIRST_TOKEN] = 12000,
                                          [TIMELINE_FIRST_CONTENT] = 32007,
                                          [TIMELINE_FINISHED] = 32000,
                                      }};

static struct metrics *make(void)
{
    struct metrics *m = malloc(sizeof *m);
    assert_non_null(m);
    metrics_init(m);
    return m;
}

static struct histogram_view of(const struct metrics *m, enum metrics_id id)
{
    struct histogram_view v;
    metrics_read(m, id, &v);
    return v;
}

/* --- requests ------------------------------------------------------------------------------- */

static void the_parts_of_a_stream_add_up(void **state)
{
    (void)state;
    struct metrics *m = make();
    uint64_t sum = 0;
    metrics_first(m, &times, true, 10);
    for (int id = 0; id < METRICS_PARTS; id++) {
        assert_int_equal(of(m, (enum metrics_id)id).count, 1);
        sum += of(m, (enum metrics_id)id).sum;
    }
    assert_int_equal(of(m, METRICS_TTFT).sum, sum);
    assert_int_equal(sum, 32007 - 1000);
    assert_int_equal(of(m, METRICS_QUEUE).sum, 699);
    assert_int_equal(of(m, METRICS_ADMITTED).sum, 10000);
    assert_int_equal(m->prompt_tokens, 10);
    free(m);
}

/* Its text is written at the end; its first token was there before. */
static void an_unstreamed_one_counts_to_its_first_token(void **state)
{
    (void)state;
    struct metrics *m = make();
    struct timeline whole = times;
    whole.at_us[TIMELINE_DECODED] = whole.at_us[TIMELINE_FINISHED];
    metrics_first(m, &whole, false, 10);
    assert_int_equal(of(m, METRICS_TTFT).sum, 11000);
    assert_int_equal(of(m, METRICS_FIRST_WRITE).sum, 0);
    free(m);
}

static void gaps_between_tokens(void **state)
{
    (void)state;
    struct metrics *m = make();
    struct metrics_track track = {0};
    metrics_tokens(m, &track, &times, 0, 11000);
    assert_int_equal(of(m, METRICS_ITL).count, 0);
    metrics_tokens(m, &track, &times, 1, 12050);
    assert_int_equal(of(m, METRICS_ITL).count, 0);
    metrics_tokens(m, &track, &times, 3, 16000); /* two at once */
    assert_int_equal(of(m, METRICS_ITL).count, 2);
    assert_int_equal(of(m, METRICS_ITL).sum, 4000);
    metrics_tokens(m, &track, &times, 3, 18000);
    metrics_tokens(m, &track, &times, 4, 19000);
    assert_int_equal(of(m, METRICS_ITL).count, 3);
    assert_int_equal(of(m, METRICS_ITL).sum, 7000);
    free(m);
}

/* However the I/O thread came to see them, n tokens have n - 1 gaps. */
static void tokens_that_come_with_the_first(void **state)
{
    (void)state;
    struct metrics *m = make();
    struct metrics_track track = {0};
    metrics_tokens(m, &track, &times, 5, 32000);
    assert_int_equal(of(m, METRICS_ITL).count, 4);
    assert_int_equal(of(m, METRICS_ITL).sum, 20000);
    free(m);
}

static void only_finished_ones_have_a_latency(void **state)
{
    (void)state;
    struct metrics *m = make();
    metrics_end(m, &times, FINISH_LENGTH, 5);
    metrics_end(m, &times, FINISH_CANCELLED, 2);
    metrics_end(m, &times, FINISH_STOP, 1);
    assert_int_equal(of(m, METRICS_E2E).count, 2);
    assert_int_equal(of(m, METRICS_E2E).sum, 2 * 31000);
    assert_int_equal(of(m, METRICS_DECODE).sum, 2 * 20000);
    assert_int_equal(of(m, METRICS_TPOT).count, 1);
    assert_int_equal(of(m, METRICS_TPOT).sum, 5000);
    assert_int_equal(m->finished[FINISH_CANCELLED], 1);
    assert_int_equal(m->finished[FINISH_LENGTH] + m->finished[FINISH_STOP], 2);
    free(m);
}

static void refusals_are_told_apart_up_to_a_limit(void **state)
{
    (void)state;
    struct metrics *m = make();
    static char names[2 * METRICS_REFUSALS][16];
    uint32_t before = m->n_refusals;
    metrics_refuse(m, 429, "rate_limit_exceeded");
    metrics_refuse(m, 429, "rate_limit_exceeded");
    assert_int_equal(m->n_refusals, before);
    for (int i = 0; i < 2 * METRICS_REFUSALS; i++) {
        snprintf(names[i], sizeof names[i], "r%d", i);
        metrics_refuse(m, 500, names[i]);
    }
    uint64_t sum = 0;
    assert_int_equal(m->n_refusals, METRICS_REFUSALS);
    assert_string_equal(m->refusals[METRICS_REFUSALS - 1].reason, "other");
    for (uint32_t i = 0; i < m->n_refusals; i++)
        sum += m->refusals[i].n;
    assert_int_equal(sum, 2 + 2 * METRICS_REFUSALS);
    free(m);
}

static void every_histogram_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < METRICS_HISTOGRAMS; i++)
        for (int k = 0; k <= i; k++)
            assert_true((strcmp(metrics_name((enum metrics_id)i),
                                metrics_name((enum metrics_id)k)) == 0) == (i == k));
}

/* --- moving averages ------------------------------------------------------------------------ */

static void a_steady_rate_is_found(void **state)
{
    (void)state;
    struct metrics_rate r = {0};
    for (int64_t s = 1; s <= 100; s++)
        metrics_rate_update(&r, 7.0 * (double)s, s * 1000000);
    assert_true(r.per_second > 6.99 && r.per_second < 7.01);
    metrics_rate_update(&r, 700, 110 * 1000000); /* nothing for one time constant */
    assert_true(r.per_second > 7 * 0.36 && r.per_second < 7 * 0.38);
}

/* How often somebody looks changes nothing. */
static void looking_more_often_changes_nothing(void **state)
{
    (void)state;
    struct metrics_rate seldom = {0}, often = {0};
    for (int64_t ms = 1; ms <= 30000; ms++) {
        metrics_rate_update(&often, (double)ms / 100, ms * 1000);
        if (ms % 5000 == 1)
            metrics_rate_update(&seldom, (double)ms / 100, ms * 1000);
    }
    metrics_rate_update(&seldom, 300, 30000 * 1000);
    assert_true(seldom.per_second > 0.999 * often.per_second);
    assert_true(seldom.per_second < 1.001 * often.per_second);
    struct metrics_rate same = often;
    metrics_rate_update(&often, 300, 30000 * 1000);
    assert_true(often.per_second == same.per_second);
}

/* --- the text format ------------------------------------------------------------------------ */

static void labels_are_escaped(void **state)
{
    (void)state;
    struct buf b = {0};
    prometheus_label(&b, "a", "plain");
    prometheus_label(&b, "b", "\"q\" back\\slash\nline \xff\xc3\xa4");
    assert_string_equal(buf_str(&b),
                        "a=\"plain\",b=\"\\\"q\\\" back\\\\slash\\nline \xef\xbf\xbd\xc3\xa4\"");
    buf_fini(&b);
}

static void samples(void **state)
{
    (void)state;
    struct buf b = {0};
    prometheus_family(&b, "x_total", "counter", "What it is.");
    prometheus_count(&b, "x_total", "", UINT64_MAX);
    prometheus_value(&b, "y", "a=\"b\"", 0.25);
    assert_string_equal(buf_str(&b), "# HELP x_total What it is.\n# TYPE x_total counter\n"
                                     "x_total 18446744073709551615\ny{a=\"b\"} 0.25\n");
    buf_fini(&b);
}

static void a_histogram_is_cumulative(void **state)
{
    (void)state;
    struct histogram h = {0};
    struct histogram_view v;
    struct buf b = {0};
    histogram_add(&h, 100, 1);
    histogram_add(&h, 101, 1); /* its bound, 120, is not shown: it is in 150's */
    histogram_add(&h, 2000000, 1);
    histogram_add(&h, 700 * INT64_C(1000000), 1);
    histogram_read(&h, &v);
    prometheus_histogram(&b, "t_seconds", "m=\"a\"", &v);
    const char *lines[] = {
        "t_seconds_bucket{m=\"a\",le=\"0.0001\"} 1\n",
        "t_seconds_bucket{m=\"a\",le=\"0.00015\"} 2\n",
        "t_seconds_bucket{m=\"a\",le=\"1.5\"} 2\n",
        "t_seconds_bucket{m=\"a\",le=\"2.2\"} 3\n",
        "t_seconds_bucket{m=\"a\",le=\"680\"} 3\n",
        "t_seconds_bucket{m=\"a\",le=\"+Inf\"} 4\n",
        "t_seconds_sum{m=\"a\"} 702.000201\n",
        "t_seconds_count{m=\"a\"} 4\n",
    };
    const char *at = buf_str(&b);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        at = strstr(at, lines[i]);
        assert_non_null(at);
    }
    assert_int_equal(strncmp(buf_str(&b), lines[0], strlen(lines[0])), 0);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_parts_of_a_stream_add_up),
        cmocka_unit_test(an_unstreamed_one_counts_to_its_first_token),
        cmocka_unit_test(gaps_between_tokens),
        cmocka_unit_test(tokens_that_come_with_the_first),
        cmocka_unit_test(only_finished_ones_have_a_latency),
        cmocka_unit_test(refusals_are_told_apart_up_to_a_limit),
        cmocka_unit_test(every_histogram_has_a_name),
        cmocka_unit_test(a_steady_rate_is_found),
        cmocka_unit_test(looking_more_often_changes_nothing),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(samples),
        cmocka_unit_test(a_histogram_is_cumulative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
