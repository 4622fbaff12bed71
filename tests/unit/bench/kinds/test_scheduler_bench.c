/* Offline and online: the passes that are asked, their split into prefill and decode, the tables.
 */
#include "batch_target.h"
#include "support/cmocka_all.h"

#include "base/clock.h"
#include "base/mem.h"
#include "bench/kinds/scheduler_bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.12g is not %.12g", got, expected);
}

static struct workload_options offline_of(uint32_t n, uint32_t prompt, uint32_t new)
{
    struct workload_options w = workload_default;
    w.num_requests = n;
    w.prompt_tokens = prompt;
    w.max_new_tokens = new;
    w.ignore_eos = true;
    w.stream = false;
    return w;
}

/* --- the split of known passes -------------------------------------------------------------- */

/* n requests that are there at 1 us and all answered at the end. */
static struct load_result pass_of(uint32_t n, uint32_t prompt, uint32_t tokens, double seconds)
{
    struct load_result r = {.records = mem_array(n, sizeof *r.records), .n = n, .start_us = 1};
    r.end_us = 1 + (int64_t)(seconds * 1e6);
    for (uint32_t i = 0; i < n; i++) {
        struct record *record = &r.records[i];
        record_init(record);
        record->state = RECORD_OK;
        record->due_us = record->sent_us = record->accepted_us = 1;
        record->first_us = record->end_us = r.end_us;
        record->prompt_tokens = prompt;
        record->completion_tokens = tokens;
    }
    return r;
}

static void decode_is_what_the_whole_takes_beyond_the_prompts(void **state)
{
    (void)state;
    struct load_result prefill = pass_of(10, 100, 1, 2.0), whole = pass_of(10, 100, 41, 10.0);
    struct scheduler_bench_split s;
    assert_true(scheduler_bench_split(&s, &prefill, &whole));
    near(s.prefill_s, 2);
    near(s.decode_s, 8);
    near(s.whole_s, 10);
    near(s.prefill_tokens_per_s, 1000 / 2.0);
    near(s.decode_tokens_per_s, 400 / 8.0); /* the first token of each came with its prompt */
    near(s.tokens_per_s, 410 / 10.0);
    assert_int_equal(s.prompt_tokens, 1000);
    assert_int_equal(s.decoded_tokens, 400);
    load_fini(&prefill);
    load_fini(&whole);
}

static void passes_that_lack_an_answer_are_not_compared(void **state)
{
    (void)state;
    struct load_result prefill = pass_of(2, 100, 1, 2.0), whole = pass_of(2, 100, 41, 10.0);
    struct scheduler_bench_split s;
    whole.records[1].state = RECORD_FAILED;
    assert_false(scheduler_bench_split(&s, &prefill, &whole));
    whole.records[1].state = RECORD_OK;
    prefill.records[0].state = RECORD_CANCELLED;
    assert_false(scheduler_bench_split(&s, &prefill, &whole));
    load_fini(&prefill);
    load_fini(&whole);
}

/* On a machine with other work a short whole pass may take less time than the prefill pass. */
static void a_decode_of_no_time_has_no_rate(void **state)
{
    (void)state;
    struct load_result prefill = pass_of(2, 100, 1, 2.0), whole = pass_of(2, 100, 2, 1.5);
    struct scheduler_bench_split s;
    assert_true(scheduler_bench_split(&s, &prefill, &whole));
    assert_true(isnan(s.decode_s));
    assert_true(isnan(s.decode_tokens_per_s));
    load_fini(&prefill);
    load_fini(&whole);
}

/* --- the result and the tables -------------------------------------------------------------- */

/* Two runs, and the prefill pass of a third that was interrupted. */
static struct measurement two_runs_and_a_half(void)
{
    struct measurement m = {.runs = mem_array(5, sizeof *m.runs), .n_runs = 5};
    m.runs[0] = pass_of(10, 100, 1, 2.0);
    m.runs[1] = pass_of(10, 100, 41, 10.0);
    m.runs[2] = pass_of(10, 100, 1, 4.0);
    m.runs[3] = pass_of(10, 100, 41, 14.0);
    m.runs[4] = pass_of(10, 100, 1, 9.0);
    assert_true(summary_make(&m.pooled, m.runs, m.n_runs, NULL));
    return m;
}

static json_t *metric(const struct result *r, const char *name)
{
    return json_object_get(json_object_get(r->root, "metrics"), name);
}

static double median(const struct result *r, const char *name)
{
    return json_number_value(json_object_get(metric(r, name), "median"));
}

static void an_offline_result_has_no_ttft(void **state)
{
    (void)state;
    struct workload_options w = offline_of(10, 100, 41);
    struct measurement m = two_runs_and_a_half();
    struct result r;
    result_init(&r, "scheduler", NULL, scheduler_bench_workload_json(SCHEDULER_BENCH_OFFLINE, &w),
                json_object());
    scheduler_bench_result(SCHEDULER_BENCH_OFFLINE, &m, &r);
    assert_false(r.failed);
    near(median(&r, "prefill_s"), 3);
    near(median(&r, "decode_s"), 9);
    near(median(&r, "duration_s"), 12);
    near(median(&r, "prefill_tokens_per_s"), (1000 / 2.0 + 1000 / 4.0) / 2);
    near(median(&r, "decode_tokens_per_s"), (400 / 8.0 + 400 / 10.0) / 2);
    near(median(&r, "tokens_per_s"), (410 / 10.0 + 410 / 14.0) / 2);
    assert_null(metric(&r, "ttft_p50"));
    assert_int_equal(json_array_size(json_object_get(r.root, "runs")), 2);
    json_t *mode = json_object_get(json_object_get(r.root, "workload"), "mode");
    assert_string_equal(json_string_value(mode), "offline");
    result_fini(&r);
    measure_fini(&m);
}

static void an_online_result_has_one(void **state)
{
    (void)state;
    struct workload_options w = offline_of(10, 100, 41);
    struct measurement m = {.runs = mem_array(1, sizeof *m.runs), .n_runs = 1};
    struct result r;
    m.runs[0] = pass_of(10, 100, 41, 10.0);
    assert_true(summary_make(&m.pooled, m.runs, 1, NULL));
    result_init(&r, "scheduler", NULL, scheduler_bench_workload_json(SCHEDULER_BENCH_ONLINE, &w),
                json_object());
    scheduler_bench_result(SCHEDULER_BENCH_ONLINE, &m, &r);
    near(median(&r, "ttft_p50"), 10000);
    result_fini(&r);
    measure_fini(&m);
}

static void shows(enum scheduler_bench mode, struct measurement *m,
                  const struct workload_options *w, const char *text, bool yes)
{
    const struct target t = {.model = "m", .engine = "cpu"};
    struct buf table = {0};
    scheduler_bench_table(&table, mode, m, w, &t);
    if ((strstr(buf_str(&table), text) != NULL) != yes)
        fail_msg("\"%s\" is%s in:\n%s", text, yes ? " not" : "", buf_str(&table));
    buf_fini(&table);
}

static void the_offline_table_has_prefill_and_decode_apart(void **state)
{
    (void)state;
    struct workload_options w = offline_of(10, 100, 41);
    struct measurement m = two_runs_and_a_half();
    /*                              seconds     tokens   tokens/s */
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w, "prefill             3.000       1000      375.0\n",
          true);
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w, "decode              9.000        400       45.0\n",
          true);
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w, "whole run          12.000        410       35.1\n",
          true);
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w, "TTFT           n/a", true);
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w, "TPOT", false);
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w, "10, all at once; 2 runs\n", true);
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w, "not answered", false);
    m.pooled.completed--;
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w, "1 of 50 requests were not answered", true);
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w, "pass of one token", false);
    m.runs[2].end_us += 20000000; /* the first run alone has a decode: 8 s */
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w, "decode              8.000        400       50.0\n",
          true);
    shows(SCHEDULER_BENCH_OFFLINE, &m, &w,
          "In 1 of 2 runs the pass of one token a request took longer", true);
    measure_fini(&m);
}

static void the_online_table_has_p50_and_mean(void **state)
{
    (void)state;
    struct workload_options w = offline_of(2, 100, 11);
    struct measurement m = {.runs = mem_array(1, sizeof *m.runs), .n_runs = 1};
    w.request_rate = 4;
    w.burstiness = 0.5;
    m.runs[0] = pass_of(3, 100, 11, 4.0);
    m.runs[0].records[0].first_us -= 3000000; /* TTFT 1, 4, 4 s; TPOT 300, n/a, n/a ms */
    struct record *first = &m.runs[0].records[0];
    assert_true(record_reserve(first, 2));
    first->chunk_us[0] = first->first_us;
    first->chunk_us[1] = first->end_us;
    first->n_chunks = 2;
    assert_true(summary_make(&m.pooled, m.runs, 1, NULL));
    shows(SCHEDULER_BENCH_ONLINE, &m, &w, "TTFT               4000.0     3000.0\n", true);
    shows(SCHEDULER_BENCH_ONLINE, &m, &w, "TPOT                300.0      300.0\n", true);
    shows(SCHEDULER_BENCH_ONLINE, &m, &w, "latency            4000.0     4000.0\n", true);
    shows(SCHEDULER_BENCH_ONLINE, &m, &w, "0.75 requests/s        8.2 new tokens/s", true);
    shows(SCHEDULER_BENCH_ONLINE, &m, &w, "4 a second, burstiness 0.5", true);
    shows(SCHEDULER_BENCH_ONLINE, &m, &w, "bottleneck", false);
    m.runs[0].generator.bottleneck = true;
    snprintf(m.runs[0].generator.why, sizeof m.runs[0].generator.why, "it was late");
    shows(SCHEDULER_BENCH_ONLINE, &m, &w, "THE BOTTLENECK WAS THE GENERATOR: it was late", true);
    measure_fini(&m);
}

/* --- the passes ----------------------------------------------------------------------------- */

static void each_run_is_two_passes_of_prompts_of_their_own(void **state)
{
    (void)state;
    struct batch_target f = {.target = {.ops = &batch_ops}};
    struct workload_options w = offline_of(4, 8, 16);
    struct measure_options o = {.warmup_runs = 1, .repeat_runs = 2};
    struct measurement m;
    struct err err = {0};
    assert_int_equal(scheduler_bench_measure_offline(&f.target, &w, &o, &m, &err), STATUS_OK);
    assert_int_equal(f.n_sent, 3 * 2 * 4);
    assert_int_equal(f.most, 4);
    assert_int_equal(m.n_runs, 2 * 2);
    for (uint32_t i = 0; i < f.n_sent; i++) {
        assert_int_equal(f.max_tokens[i], i / 4 % 2 == 0 ? 1 : 16);
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(f.prompts[i], f.prompts[k]);
    }
    assert_int_equal(m.runs[0].records[0].completion_tokens, 1);
    assert_int_equal(m.runs[1].records[0].completion_tokens, 16);
    measure_fini(&m);
    batch_fini(&f);
}

static void an_interrupted_measurement_keeps_what_there_is(void **state)
{
    (void)state;
    struct batch_target f = {.target = {.ops = &batch_ops}, .stop_after = 4 * 2 + 2};
    struct workload_options w = offline_of(4, 8, 16);
    struct measure_options o = {.repeat_runs = 2, .stop = &f.stop};
    struct measurement m;
    struct err err = {0};
    assert_int_equal(scheduler_bench_measure_offline(&f.target, &w, &o, &m, &err), STATUS_OK);
    assert_int_equal(m.n_runs, 3);
    assert_true(m.runs[2].interrupted);
    struct result r;
    result_init(&r, "scheduler", NULL, scheduler_bench_workload_json(SCHEDULER_BENCH_OFFLINE, &w),
                json_object());
    scheduler_bench_result(SCHEDULER_BENCH_OFFLINE, &m, &r);
    assert_int_equal(json_array_size(json_object_get(r.root, "runs")), 1);
    result_fini(&r);
    measure_fini(&m);
    batch_fini(&f);
}

static void refuses_what_cannot_be_split(void **state)
{
    (void)state;
    struct batch_target f = {.target = {.ops = &batch_ops}};
    struct workload_options w = offline_of(4, 8, 1);
    struct measure_options o = {.repeat_runs = 1};
    struct measurement m;
    struct err err = {0};
    assert_int_equal(scheduler_bench_measure_offline(&f.target, &w, &o, &m, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--max-new-tokens");
    measure_fini(&m);
    w = offline_of(4, 0, 16);
    assert_int_equal(scheduler_bench_measure_offline(&f.target, &w, &o, &m, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--prompt-tokens");
    measure_fini(&m);
    assert_int_equal(f.n_sent, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode_is_what_the_whole_takes_beyond_the_prompts),
        cmocka_unit_test(passes_that_lack_an_answer_are_not_compared),
        cmocka_unit_test(a_decode_of_no_time_has_no_rate),
        cmocka_unit_test(an_offline_result_has_no_ttft),
        cmocka_unit_test(an_online_result_has_one),
        cmocka_unit_test(the_offline_table_has_prefill_and_decode_apart),
        cmocka_unit_test(the_online_table_has_p50_and_mean),
        cmocka_unit_test(each_run_is_two_passes_of_prompts_of_their_own),
        cmocka_unit_test(an_interrupted_measurement_keeps_what_there_is),
        cmocka_unit_test(refuses_what_cannot_be_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
