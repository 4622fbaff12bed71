/* The figures of a run from records whose stamps are known. */
#include "bench/load/summary.h"
#include "support/cmocka_all.h"

#include <math.h>
#include <string.h>

#define START 1000000

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) < 1e-9 * (1 + fabs(b))))
        fail_msg("%.12g is not %.12g", a, b);
}

/* A completed request: sent at `sent`, chunks at the given times, ended with the last; all in us
 * after START. */
static void answer(struct record *r, int64_t sent, const int64_t *chunks, uint32_t n)
{
    record_init(r);
    r->state = RECORD_RUNNING;
    r->due_us = r->sent_us = START + sent;
    for (uint32_t i = 0; i < n; i++)
        assert_true(record_chunk(r, START + chunks[i]));
    r->prompt_tokens = 10;
    r->completion_tokens = n;
    record_end(r, RECORD_OK, START + (n ? chunks[n - 1] : sent + 5000), NULL);
}

static struct load_result make_run(struct record *records, uint32_t n, int64_t end, int64_t submit)
{
    return (struct load_result){.records = records,
                                .n = n,
                                .start_us = START,
                                .end_us = START + end,
                                .submit_wall_us = submit};
}

static void release(struct record *records, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        record_fini(&records[i]);
}

/* Two answers, a failure that had streamed, one cancelled, one never sent. */
static void test_counts_and_rates(void **state)
{
    (void)state;
    struct record r[5];
    struct summary s;
    answer(&r[0], 0, (int64_t[]){100000, 120000, 150000}, 3);
    answer(&r[1], 10000, (int64_t[]){210000, 250000, 290000, 310000}, 4);
    answer(&r[2], 0, (int64_t[]){1000, 2000}, 2);
    r[2].state = RECORD_FAILED;
    answer(&r[3], 0, (int64_t[]){3000}, 1);
    r[3].state = RECORD_CANCELLED;
    record_init(&r[4]);
    r[1].cached_tokens = 4;
    struct load_result run = make_run(r, 5, 500000, 12000);
    assert_true(summary_make(&s, &run, 1, NULL));
    assert_int_equal(s.n, 5);
    assert_int_equal(s.completed, 2);
    assert_int_equal(s.failed, 1);
    assert_int_equal(s.cancelled, 2);
    assert_int_equal(s.without_content, 0);
    assert_int_equal(s.prompt_tokens, 20); /* the failed one's do not count */
    assert_int_equal(s.completion_tokens, 7);
    assert_int_equal(s.cached_tokens, 4);
    assert_near(s.duration_s, 0.5);
    assert_near(s.submit_wall_ms, 12);
    assert_near(s.request_throughput, 4);
    assert_near(s.output_throughput, 14);
    assert_near(s.total_throughput, 54);
    assert_false(s.has_goodput);
    assert_true(isnan(s.request_goodput));
    assert_int_equal(s.ttft.n, 2);
    assert_near(s.ttft.v[0], 100);
    assert_near(s.ttft.v[1], 200);
    assert_near(s.latency.v[0], 150);
    assert_near(s.latency.v[1], 300);
    assert_near(s.tpot.v[0], 25);        /* (150 - 100) / (3 - 1) */
    assert_near(s.tpot.v[1], 100.0 / 3); /* (310 - 210) / (4 - 1) */
    const double gaps[] = {20, 30, 40, 40, 20};
    assert_int_equal(s.itl.n, 5);
    for (int i = 0; i < 5; i++)
        assert_near(s.itl.v[i], gaps[i]);
    summary_fini(&s);
    release(r, 5);
}

/* Queue is queued -> admitted alone; what is before it is add_request, what follows is prefill. */
static void test_server_parts(void **state)
{
    (void)state;
    struct record r[4];
    struct summary s;
    for (int i = 0; i < 4; i++)
        answer(&r[i], 0, (int64_t[]){50000}, 1);
    r[0].has_ttft = true;
    r[0].ttft = (struct timeline_ttft){.receive_us = 100,
                                       .tokenize_us = 200,
                                       .submit_us = 400,
                                       .queue_us = 5000,
                                       .cache_us = 800,
                                       .prefill_us = 30000,
                                       .first_write_us = 1500,
                                       .total_us = 38000};
    r[1].server_queue_ms = 7; /* splits no more than that */
    r[1].server_ttft_ms = 45;
    r[3].server_ttft_ms = 45;
    r[3].whole = true; /* its first token and the whole answer are not the same moment */
    struct load_result run = make_run(r, 4, 50000, 0);
    assert_true(summary_make(&s, &run, 1, NULL));
    assert_int_equal(s.add_request.n, 1);
    assert_near(s.add_request.v[0], 0.7);
    assert_int_equal(s.queue.n, 2);
    assert_near(s.queue.v[0], 5);
    assert_near(s.queue.v[1], 7);
    assert_int_equal(s.prefill.n, 1);
    assert_near(s.prefill.v[0], 30.8);
    assert_int_equal(s.client_minus_server.n, 2); /* the third server told nothing */
    assert_near(s.client_minus_server.v[0], 12);
    assert_near(s.client_minus_server.v[1], 5);
    summary_fini(&s);
    release(r, 4);
}

/* Of a stream, and where an older server splits TTFT, it is not 0 but no sample. */
static void test_decode_of_whole_answers(void **state)
{
    (void)state;
    struct record r[3];
    struct summary s;
    for (int i = 0; i < 3; i++) {
        answer(&r[i], 0, (int64_t[]){50000}, 1);
        r[i].has_ttft = true;
        r[i].whole = i > 0;
    }
    r[1].ttft = (struct timeline_ttft){.decode_us = 25000, .total_us = 50000};
    struct load_result run = make_run(r, 3, 50000, 0);
    assert_true(summary_make(&s, &run, 1, NULL));
    assert_int_equal(s.decode.n, 1);
    assert_near(s.decode.v[0], 25);
    summary_fini(&s);
    release(r, 3);
}

/* One token has no gap, an empty answer has no first chunk: it completed all the same. */
static void test_short_answers(void **state)
{
    (void)state;
    struct record r[2];
    struct summary s;
    struct goodput ttft = {.ttft_ms = 1e9}, e2el = {.e2el_ms = 1e9};
    answer(&r[0], 0, (int64_t[]){20000}, 1);
    answer(&r[1], 0, NULL, 0);
    struct load_result run = make_run(r, 2, 100000, 0);
    assert_true(summary_make(&s, &run, 1, &ttft));
    assert_int_equal(s.completed, 2);
    assert_int_equal(s.without_content, 1);
    assert_int_equal(s.ttft.n, 1);
    assert_int_equal(s.itl.n, 0);
    assert_int_equal(s.latency.n, 2);
    assert_int_equal(s.good, 1); /* no first chunk meets no TTFT */
    summary_fini(&s);
    assert_true(summary_make(&s, &run, 1, &e2el));
    assert_int_equal(s.good, 2);
    summary_fini(&s);
    release(r, 2);
}

/* Samples are pooled, durations and counts add up. */
static void test_pools_runs(void **state)
{
    (void)state;
    struct record a[1], b[2];
    struct summary s;
    answer(&a[0], 0, (int64_t[]){10000, 20000}, 2);
    answer(&b[0], 0, (int64_t[]){30000}, 1);
    answer(&b[1], 0, (int64_t[]){40000}, 1);
    struct load_result runs[] = {make_run(a, 1, 300000, 1000), make_run(b, 2, 700000, 2000)};
    series_add(&runs[0].background_gap_ms, 3);
    series_add(&runs[1].background_gap_ms, 9);
    assert_true(summary_make(&s, runs, 2, NULL));
    assert_int_equal(s.n, 3);
    assert_near(s.duration_s, 1.0);
    assert_near(s.submit_wall_ms, 3);
    assert_near(s.request_throughput, 3);
    assert_near(s.output_throughput, 4);
    assert_near(series_percentile(&s.ttft, 50), 30);
    assert_near(series_percentile(&s.background_gap, 100), 9);
    assert_int_equal(s.background_gap.n, 2);
    series_fini(&runs[0].background_gap_ms);
    series_fini(&runs[1].background_gap_ms);
    summary_fini(&s);
    release(a, 1);
    release(b, 2);
}

/* "At most" for each objective that is set; those that are not set ask for nothing. */
static void test_goodput(void **state)
{
    (void)state;
    struct record r[4];
    answer(&r[0], 0, (int64_t[]){100000, 110000}, 2); /* ttft 100, tpot 10, e2el 110 */
    answer(&r[1], 0, (int64_t[]){100000, 160000}, 2); /* ttft 100, tpot 60, e2el 160 */
    answer(&r[2], 0, (int64_t[]){300000, 310000}, 2); /* ttft 300, tpot 10, e2el 310 */
    answer(&r[3], 0, (int64_t[]){6000000}, 1);        /* ttft 6000, no wait for more, e2el 6000 */
    static const struct {
        struct goodput g;
        uint32_t good;
    } cases[] = {{{.ttft_ms = 100}, 2}, {{.ttft_ms = 99.9}, 0},
                 {{.tpot_ms = 10}, 3},  {{.ttft_ms = 100, .tpot_ms = 50}, 1},
                 {{.e2el_ms = 160}, 2}, {{.ttft_ms = 500, .tpot_ms = 100, .e2el_ms = 5000}, 3}};
    struct load_result run = make_run(r, 4, 500000, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct summary s;
        assert_true(summary_make(&s, &run, 1, &cases[i].g));
        assert_true(s.has_goodput);
        assert_int_equal(s.good, cases[i].good);
        assert_near(s.request_goodput, cases[i].good / 0.5);
        summary_fini(&s);
    }
    release(r, 4);
}

static void test_nothing_ran(void **state)
{
    (void)state;
    struct summary s;
    struct load_result run = {0};
    assert_true(summary_make(&s, &run, 1, NULL));
    assert_int_equal(s.n, 0);
    assert_true(isnan(s.request_throughput) && isnan(s.output_throughput));
    summary_fini(&s);
}

/* It took half a second, and yet how fast the target is nobody knows; none was good, that is known.
 */
static void test_all_failed(void **state)
{
    (void)state;
    struct summary s;
    struct record r[2];
    for (int i = 0; i < 2; i++) {
        answer(&r[i], 0, (int64_t[]){100000}, 1);
        r[i].state = RECORD_FAILED;
    }
    struct load_result run = make_run(r, 2, 500000, 0);
    assert_true(summary_make(&s, &run, 1, &(struct goodput){.ttft_ms = 500}));
    assert_int_equal(s.failed, 2);
    assert_true(isnan(s.request_throughput) && isnan(s.output_throughput));
    assert_true(isnan(s.total_throughput));
    assert_near(s.request_goodput, 0);
    summary_fini(&s);
    release(r, 2);
}

/* --- the objectives' text ------------------------------------------------------------------- */

static void test_parses_goodput(void **state)
{
    (void)state;
    struct goodput g;
    assert_int_equal(summary_parse_goodput("ttft:500,tpot:50,e2el:5000", &g, NULL), STATUS_OK);
    assert_near(g.ttft_ms, 500);
    assert_near(g.tpot_ms, 50);
    assert_near(g.e2el_ms, 5000);
    assert_int_equal(summary_parse_goodput("tpot:0.5", &g, NULL), STATUS_OK);
    assert_near(g.tpot_ms, 0.5);
    assert_true(g.ttft_ms == 0 && g.e2el_ms == 0);
}

static void test_refuses_bad_goodput(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "such as"},           {"500", "\"500\""},
        {"ttft:", "milliseconds"}, {"ttft:x", "\"x\""},
        {"ttft:5x", "\"5x\""},     {"ttft:0", "above 0"},
        {"ttft:-1", "above 0"},    {"ttft:nan", "above 0"},
        {"ttft:inf", "above 0"},   {"ttft:1,", "such as"},
        {",ttft:1", "such as"},    {"ttft:1,ttft:2", "twice"},
        {"ttf:1", "\"ttf\""},      {"ttft:1;tpot:2", "\"1;tpot:2\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = {0};
        struct goodput g = {.ttft_ms = 7};
        assert_int_equal(summary_parse_goodput(cases[i][0], &g, &err), STATUS_INVALID);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("\"%s\": %s", cases[i][0], err.text);
        assert_true(g.ttft_ms == 7); /* untouched */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_and_rates),
        cmocka_unit_test(test_server_parts),
        cmocka_unit_test(test_decode_of_whole_answers),
        cmocka_unit_test(test_short_answers),
        cmocka_unit_test(test_pools_runs),
        cmocka_unit_test(test_goodput),
        cmocka_unit_test(test_nothing_ran),
        cmocka_unit_test(test_all_failed),
        cmocka_unit_test(test_parses_goodput),
        cmocka_unit_test(test_refuses_bad_goodput),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
