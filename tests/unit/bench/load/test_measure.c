/* Warm-up, repeats and the JSON of both, on a target whose answers take times that are known. */
#include "base/clock.h"
#include "base/mem.h"
#include "bench/load/measure.h"
#include "support/cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_SEEN 64
#define FIRST_US 2000 /* sent -> first chunk */
#define GAP_US   500  /* between chunks */
#define CHUNKS   5
#define TOKENS   9

/* Answers at once, with stamps of its own making. */
struct scripted {
    struct target base;
    char *seen[MAX_SEEN]; /* prompts in the order they came */
    uint32_t n_seen;
    uint32_t fail_from, fail_to; /* which of them fail */
    atomic_bool stop;
    uint32_t stop_at; /* set `stop` when so many have come; 0: never */
};

static void answer(struct record *r)
{
    for (int i = 0; i < CHUNKS; i++)
        record_chunk(r, r->sent_us + FIRST_US + i * GAP_US);
    r->prompt_tokens = 7;
    r->completion_tokens = TOKENS;
    r->has_ttft = true;
    r->ttft = (struct timeline_ttft){
        .receive_us = 100, .queue_us = 400, .prefill_us = 1200, .total_us = 1700};
    r->server_ttft_ms = 1.7;
    memcpy(r->finish, "st\xff", 4); /* a server may say anything */
    record_end(r, RECORD_OK, r->sent_us + FIRST_US + CHUNKS * GAP_US, NULL);
}

static void scripted_send(struct target *t, const struct work_item *item, struct record *r)
{
    struct scripted *s = (struct scripted *)t;
    uint32_t n = s->n_seen++;
    assert_true(n < MAX_SEEN);
    s->seen[n] = mem_strdup(item->prompt);
    r->state = RECORD_RUNNING;
    r->sent_us = clock_now_us();
    if (n >= s->fail_from && n < s->fail_to)
        record_end(r, RECORD_FAILED, r->sent_us + 1, "it said no");
    else
        answer(r);
    if (s->stop_at > 0 && s->n_seen == s->stop_at)
        atomic_store(&s->stop, true);
}

static void scripted_poll(struct target *t, int64_t until_us)
{
    (void)t;
    (void)until_us;
}

static void scripted_cancel(struct target *t, struct record *r)
{
    (void)t;
    (void)r;
}

static const struct target_ops ops = {
    .send = scripted_send, .poll = scripted_poll, .cancel = scripted_cancel};

static struct scripted scripted(void)
{
    return (struct scripted){.base = {.ops = &ops, .model = "m", .engine = "e"}};
}

static void scripted_fini(struct scripted *s)
{
    for (uint32_t i = 0; i < s->n_seen; i++)
        mem_free(s->seen[i]);
}

static struct workload_options workload(void)
{
    struct workload_options w = workload_default;
    w.num_requests = 4;
    w.unique_prompts = true;
    return w;
}

static enum status run(struct scripted *s, const struct measure_options *o, struct measurement *m,
                       struct err *err)
{
    struct workload_options w = workload();
    struct measure_options options = *o;
    options.stop = &s->stop;
    return measure_run(&s->base, &w, &options, m, err);
}

/* --- runs ----------------------------------------------------------------------------------- */

static void warm_ups_run_and_do_not_count(void **state)
{
    (void)state;
    struct scripted s = scripted();
    struct measurement m;
    struct err err = {0};
    const struct measure_options o = {.warmup_runs = 2, .repeat_runs = 3};
    assert_int_equal(run(&s, &o, &m, &err), STATUS_OK);
    assert_int_equal(s.n_seen, 5 * 4);
    assert_int_equal(m.n_runs, 3);
    assert_int_equal(m.pooled.n, 3 * 4);
    assert_int_equal(m.pooled.completed, 3 * 4);
    assert_false(measure_failed(&m, &err));
    measure_fini(&m);
    scripted_fini(&s);
}

static void each_run_has_prompts_of_its_own(void **state)
{
    (void)state;
    struct scripted s = scripted();
    struct measurement m;
    struct err err = {0};
    const struct measure_options o = {.warmup_runs = 1, .repeat_runs = 2};
    assert_int_equal(run(&s, &o, &m, &err), STATUS_OK);
    for (uint32_t i = 0; i < s.n_seen; i++)
        for (uint32_t k = 0; k < i; k++)
            assert_string_not_equal(s.seen[i], s.seen[k]);
    measure_fini(&m);
    scripted_fini(&s);
}

static void runs_can_be_counted_on_from_another_measurement(void **state)
{
    (void)state;
    struct scripted one = scripted(), two = scripted();
    struct measurement m;
    struct err err = {0};
    assert_int_equal(run(&one, &(struct measure_options){.repeat_runs = 4}, &m, &err), STATUS_OK);
    measure_fini(&m);
    const struct measure_options later = {.first_run = 2, .repeat_runs = 2};
    assert_int_equal(run(&two, &later, &m, &err), STATUS_OK);
    measure_fini(&m);
    assert_int_equal(two.n_seen, 8);
    for (uint32_t i = 0; i < two.n_seen; i++)
        assert_string_equal(two.seen[i], one.seen[8 + i]);
    scripted_fini(&one);
    scripted_fini(&two);
}

/* Two items a run, that say which run it is; the fourth cannot be made. */
static enum status make_two(void *arg, uint32_t run, struct workload *out, struct err *err)
{
    (void)arg;
    if (run == 3)
        return err_set(err, STATUS_UNAVAILABLE, "no more");
    *out = (struct workload){.items = mem_array(2, sizeof *out->items), .n = 2};
    for (uint32_t i = 0; i < 2; i++) {
        char prompt[16];
        snprintf(prompt, sizeof prompt, "%u %u", run, i);
        out->items[i] =
            (struct work_item){.prompt = mem_strdup(prompt), .max_tokens = 3, .stream = true};
    }
    return STATUS_OK;
}

static void items_are_made_for_each_run(void **state)
{
    (void)state;
    static const char *const prompts[] = {"0 0", "0 1", "1 0", "1 1"};
    struct scripted s = scripted();
    struct measurement m;
    struct err err = {0};
    const struct measure_options o = {.warmup_runs = 1, .repeat_runs = 1};
    assert_int_equal(measure_made(&s.base, make_two, NULL, 1, &o, &m, &err), STATUS_OK);
    assert_int_equal(m.pooled.completed, 2);
    assert_int_equal(s.n_seen, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_string_equal(s.seen[i], prompts[i]);
    measure_fini(&m);
    scripted_fini(&s);
}

static void a_failure_keeps_the_repeats_before_it(void **state)
{
    (void)state;
    struct scripted s = scripted();
    struct measurement m;
    struct err err = {0};
    const struct measure_options o = {.warmup_runs = 1, .repeat_runs = 5};
    assert_int_equal(measure_made(&s.base, make_two, NULL, 1, &o, &m, &err), STATUS_UNAVAILABLE);
    assert_string_equal(err.text, "no more");
    assert_int_equal(m.n_runs, 2);
    assert_int_equal(m.pooled.completed, 4);
    measure_fini(&m);
    scripted_fini(&s);
}

static void an_interrupted_run_is_kept_and_the_last(void **state)
{
    (void)state;
    struct scripted s = scripted();
    struct measurement m;
    struct err err = {0};
    s.stop_at = 4 + 4 + 2; /* in the middle of the second repeat */
    const struct measure_options o = {.warmup_runs = 1, .repeat_runs = 9};
    assert_int_equal(run(&s, &o, &m, &err), STATUS_OK);
    assert_int_equal(m.n_runs, 2);
    assert_false(m.runs[0].interrupted);
    assert_true(m.runs[1].interrupted);
    assert_int_equal(m.pooled.completed, 4 + 2);
    assert_int_equal(s.n_seen, s.stop_at);
    measure_fini(&m);
    scripted_fini(&s);
}

static void interrupted_in_a_warm_up_there_is_nothing(void **state)
{
    (void)state;
    struct scripted s = scripted();
    struct measurement m;
    struct err err = {0};
    s.stop_at = 2;
    const struct measure_options o = {.warmup_runs = 1, .repeat_runs = 1};
    assert_int_equal(run(&s, &o, &m, &err), STATUS_CANCELLED);
    assert_int_equal(m.n_runs, 0);
    measure_fini(&m);
    scripted_fini(&s);
}

static void failures_are_counted_with_the_first_why(void **state)
{
    (void)state;
    struct scripted s = scripted();
    struct measurement m;
    struct err err = {0};
    s.fail_from = 4; /* one of the first repeat, two of the second */
    s.fail_to = 5;
    const struct measure_options o = {.repeat_runs = 2};
    assert_int_equal(run(&s, &o, &m, &err), STATUS_OK);
    assert_true(measure_failed(&m, &err));
    assert_string_equal(err.text, "1 of 8 requests failed; the first: it said no");
    m.runs[1].records[0].state = RECORD_OK;
    assert_false(measure_failed(&m, &err));
    m.runs[0].background_failed = 2;
    assert_true(measure_failed(&m, &err));
    assert_non_null(strstr(err.text, "2 background streams"));
    measure_fini(&m);
    scripted_fini(&s);
}

static void a_bad_workload_is_an_error_that_names_the_flag(void **state)
{
    (void)state;
    struct scripted s = scripted();
    struct workload_options w = workload();
    struct measurement m;
    struct err err = {0};
    w.num_requests = 0;
    const struct measure_options o = {.repeat_runs = 1};
    assert_int_equal(measure_run(&s.base, &w, &o, &m, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--num-requests");
    measure_fini(&m);
}

struct told {
    uint32_t last_run, n_runs, ended, calls;
};

static void take_progress(void *arg, uint32_t which, uint32_t n_runs, uint32_t ended,
                          uint32_t failed, uint32_t n)
{
    struct told *t = arg;
    assert_int_equal(failed, 0);
    assert_int_equal(n, 4);
    assert_true(which >= t->last_run);
    *t = (struct told){which, n_runs, ended, t->calls + 1};
}

static void progress_numbers_all_runs(void **state)
{
    (void)state;
    struct scripted s = scripted();
    struct measurement m;
    struct err err = {0};
    struct told told = {0};
    const struct measure_options o = {
        .warmup_runs = 1, .repeat_runs = 2, .progress = take_progress, .arg = &told};
    assert_int_equal(run(&s, &o, &m, &err), STATUS_OK);
    assert_int_equal(told.last_run, 2);
    assert_int_equal(told.n_runs, 3);
    assert_int_equal(told.ended, 4);
    assert_true(told.calls >= 3);
    measure_fini(&m);
    scripted_fini(&s);
}

/* --- the caller's own order, and new starts -------------------------------------------------- */

static void one_run_is_appended_and_a_warm_up_is_not(void **state)
{
    (void)state;
    struct scripted one = scripted(), all = scripted();
    struct workload_options w = workload();
    struct measurement m = {0}, whole;
    struct err err = {0};
    const struct measure_options o = {.first_run = 2, .warmup_runs = 1, .repeat_runs = 2};
    assert_int_equal(run(&all, &o, &whole, &err), STATUS_OK);
    assert_int_equal(measure_one(&one.base, &w, &o, 0, NULL, &err), STATUS_OK);
    assert_int_equal(measure_one(&one.base, &w, &o, 1, &m, &err), STATUS_OK);
    assert_int_equal(measure_one(&one.base, &w, &o, 2, &m, &err), STATUS_OK);
    assert_int_equal(m.n_runs, 2);
    assert_int_equal(m.pooled.n, 0);
    assert_true(measure_pool(&m, NULL));
    assert_true(measure_pool(&m, NULL)); /* again, of no more */
    assert_int_equal(m.pooled.completed, whole.pooled.completed);
    assert_int_equal(one.n_seen, all.n_seen);
    for (uint32_t i = 0; i < one.n_seen; i++)
        assert_string_equal(one.seen[i], all.seen[i]);
    measure_fini(&m);
    measure_fini(&whole);
    scripted_fini(&one);
    scripted_fini(&all);
}

static void one_run_that_is_interrupted_counts_and_a_warm_up_is_an_error(void **state)
{
    (void)state;
    struct scripted s = scripted();
    struct workload_options w = workload();
    struct measurement m = {0};
    struct err err = {0};
    const struct measure_options o = {.repeat_runs = 1, .stop = &s.stop};
    s.stop_at = 2;
    assert_int_equal(measure_one(&s.base, &w, &o, 0, &m, &err), STATUS_OK);
    assert_int_equal(m.n_runs, 1);
    assert_true(m.runs[0].interrupted);
    assert_int_equal(measure_one(&s.base, &w, &o, 1, NULL, &err), STATUS_CANCELLED);
    measure_fini(&m);
    scripted_fini(&s);
}

/* Starts of a target: the next of them answers after each restart. */
struct starts {
    struct scripted *of; /* (n) */
    uint32_t n, current;
};

static enum status next_start(void *arg, struct target **t, struct err *err)
{
    struct starts *s = arg;
    assert_ptr_equal(*t, &s->of[s->current].base);
    if (++s->current == s->n)
        return err_set(err, STATUS_UNAVAILABLE, "it does not start again");
    *t = &s->of[s->current].base;
    return STATUS_OK;
}

static void each_repeat_has_a_start_and_warm_ups_of_its_own(void **state)
{
    (void)state;
    struct scripted s[3] = {scripted(), scripted(), scripted()}, one = scripted();
    struct starts starts = {s, 3, 0};
    struct measurement m;
    struct err err = {0};
    struct told told = {0};
    const struct measure_options o = {.warmup_runs = 2,
                                      .repeat_runs = 3,
                                      .restart = next_start,
                                      .restart_arg = &starts,
                                      .progress = take_progress,
                                      .arg = &told};
    assert_int_equal(run(&s[0], &o, &m, &err), STATUS_OK);
    assert_int_equal(m.n_runs, 3);
    assert_int_equal(told.last_run, 8);
    assert_int_equal(told.n_runs, 9);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(m.runs[i].start, i);
        assert_int_equal(s[i].n_seen, 3 * 4);
    }
    measure_fini(&m);
    /* In this order the prompts are those of nine runs, each of its own. */
    assert_int_equal(run(&one, &(struct measure_options){.repeat_runs = 9}, &m, &err), STATUS_OK);
    for (uint32_t i = 0; i < one.n_seen; i++)
        assert_string_equal(one.seen[i], s[i / 12].seen[i % 12]);
    for (uint32_t i = 0; i < m.n_runs; i++)
        assert_int_equal(m.runs[i].start, 0);
    measure_fini(&m);
    for (uint32_t i = 0; i < 3; i++)
        scripted_fini(&s[i]);
    scripted_fini(&one);
}

static void a_restart_that_fails_keeps_the_repeats_before_it(void **state)
{
    (void)state;
    struct scripted s[2] = {scripted(), scripted()};
    struct starts starts = {s, 2, 0};
    struct measurement m;
    struct err err = {0};
    const struct measure_options o = {
        .warmup_runs = 1, .repeat_runs = 5, .restart = next_start, .restart_arg = &starts};
    assert_int_equal(run(&s[0], &o, &m, &err), STATUS_UNAVAILABLE);
    assert_string_equal(err.text, "it does not start again");
    assert_int_equal(m.n_runs, 2);
    assert_int_equal(m.pooled.completed, 2 * 4);
    measure_fini(&m);
    scripted_fini(&s[0]);
    scripted_fini(&s[1]);
}

/* `seen` answers have come when the measurement is interrupted, in its first start. */
static void interrupted_after(uint32_t seen, uint32_t n_runs, bool in_a_run)
{
    struct scripted s[2] = {scripted(), scripted()};
    struct starts starts = {s, 2, 0};
    struct measurement m;
    struct err err = {0};
    struct workload_options w = workload();
    const struct measure_options o = {.warmup_runs = 1,
                                      .repeat_runs = 2,
                                      .restart = next_start,
                                      .restart_arg = &starts,
                                      .stop = &s[seen > 8].stop};
    s[seen > 8].stop_at = seen > 8 ? seen - 8 : seen;
    assert_int_equal(measure_run(&s[0].base, &w, &o, &m, &err), STATUS_OK);
    assert_int_equal(m.n_runs, n_runs);
    assert_int_equal(m.runs[n_runs - 1].interrupted, in_a_run);
    assert_int_equal(s[0].n_seen + s[1].n_seen, seen);
    measure_fini(&m);
    scripted_fini(&s[0]);
    scripted_fini(&s[1]);
}

static void an_interruption_keeps_the_repeats_before_it(void **state)
{
    (void)state;
    interrupted_after(4 + 2, 1, true);     /* in the first repeat */
    interrupted_after(8 + 2, 1, false);    /* in the warm-up after the restart */
    interrupted_after(8 + 4 + 1, 2, true); /* in the second repeat */
}

/* --- as JSON -------------------------------------------------------------------------------- */

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

static void expect(const json_t *object, const char *key, double expected)
{
    double found = number(object, key);
    if (fabs(found - expected) > 1e-9 * (1 + fabs(expected)))
        fail_msg("%s: expected %.15g, found %.15g", key, expected, found);
}

/* A result of `repeats` runs of four requests, the first of which fails when `fails`. */
static struct result result_of(uint32_t repeats, bool fails, const struct goodput *goodput)
{
    struct scripted s = scripted();
    struct workload_options w = workload();
    struct measurement m;
    struct err err = {0};
    struct result r;
    s.fail_to = fails;
    const struct measure_options o = {.repeat_runs = repeats, .goodput = goodput};
    assert_int_equal(measure_run(&s.base, &w, &o, &m, &err), STATUS_OK);
    result_init(&r, "streaming", NULL, workload_json(&w),
                json_pack("{s:s, s:s}", "target", "in-process", "model", "m"));
    measure_result(&m, goodput, &r);
    assert_false(r.failed);
    measure_fini(&m);
    scripted_fini(&s);
    return r;
}

static void metrics_have_one_value_a_repeat(void **state)
{
    (void)state;
    struct result r = result_of(3, false, &(struct goodput){.ttft_ms = 2});
    const json_t *metrics = json_object_get(r.root, "metrics");
    static const char *const names[] = {"ttft_p50",       "tpot_p95",  "itl_p99",
                                        "latency_mean",   "queue_p90", "prefill_p50",
                                        "add_request_p50"};
    static const double values[] = {2, 2.5 / 8, 0.5, 4.5, 0.4, 1.2, 0.1};
    for (int i = 0; i < 7; i++) {
        const json_t *metric = json_object_get(metrics, names[i]);
        assert_non_null(metric);
        assert_int_equal(json_array_size(json_object_get(metric, "repeats")), 3);
        expect(metric, "median", values[i]);
    }
    assert_non_null(json_object_get(metrics, "tokens_per_s"));
    assert_non_null(json_object_get(metrics, "goodput_per_s"));
    assert_null(json_object_get(metrics, "background_gap_p50")); /* there were none */
    result_fini(&r);
}

static void runs_hold_every_request(void **state)
{
    (void)state;
    struct result r = result_of(2, true, NULL);
    const json_t *runs = json_object_get(r.root, "runs");
    assert_int_equal(json_array_size(runs), 2);
    const json_t *run = json_array_get(runs, 0);
    expect(run, "completed", 3);
    expect(run, "failed", 1);
    assert_true(number(run, "start_us") > 0);
    expect(run, "start", 0);
    expect(run, "completion_tokens", 3 * TOKENS);
    expect(json_object_get(json_object_get(run, "distributions"), "ttft"), "p50", 2);
    assert_non_null(json_object_get(json_object_get(run, "generator"), "lag_ms"));
    const json_t *requests = json_object_get(run, "requests");
    assert_int_equal(json_array_size(requests), 4);
    const json_t *bad = json_array_get(requests, 0), *good = json_array_get(requests, 1);
    assert_string_equal(json_string_value(json_object_get(bad, "state")), "failed");
    assert_string_equal(json_string_value(json_object_get(bad, "error")), "it said no");
    assert_true(json_is_null(json_object_get(bad, "first_ms")));
    assert_true(json_is_null(json_object_get(bad, "ttft")));
    assert_true(json_is_null(json_object_get(bad, "http_status"))); /* in-process */
    assert_true(json_is_null(json_object_get(good, "error")));
    assert_string_equal(json_string_value(json_object_get(good, "finish")), "st\xef\xbf\xbd");
    expect(json_object_get(good, "ttft"), "queue_ms", 0.4);
    const json_t *chunks = json_object_get(good, "chunks_ms");
    assert_int_equal(json_array_size(chunks), CHUNKS);
    double sent = number(good, "sent_ms");
    assert_true(fabs(number(good, "first_ms") - sent - 2) < 1e-6);
    assert_true(fabs(json_number_value(json_array_get(chunks, 4)) - sent - 4) < 1e-6);
    result_fini(&r);
}

static void vllm_names_cover_all_repeats(void **state)
{
    (void)state;
    struct result r = result_of(2, true, NULL);
    expect(r.root, "num_prompts", 8);
    expect(r.root, "completed", 7);
    expect(r.root, "failed", 1);
    expect(r.root, "total_input_tokens", 7 * 7);
    expect(r.root, "total_output_tokens", 7 * TOKENS);
    expect(r.root, "mean_ttft_ms", 2);
    expect(r.root, "median_tpot_ms", 2.5 / 8);
    expect(r.root, "std_e2el_ms", 0);
    expect(r.root, "p99_itl_ms", 0.5);
    expect(r.root, "output_throughput", 7 * TOKENS / number(r.root, "duration"));
    expect(r.root, "request_throughput", 7 / number(r.root, "duration"));
    assert_true(json_is_null(json_object_get(r.root, "request_goodput")));
    assert_string_equal(json_string_value(json_object_get(r.root, "request_rate")), "inf");
    assert_string_equal(json_string_value(json_object_get(r.root, "model_id")), "m");
    static const char *const lists[] = {"input_lens", "output_lens", "ttfts", "itls", "errors"};
    for (int i = 0; i < 5; i++)
        assert_int_equal(json_array_size(json_object_get(r.root, lists[i])), 8);
    const json_t *gaps = json_array_get(json_object_get(r.root, "itls"), 1);
    assert_int_equal(json_array_size(gaps), CHUNKS - 1);
    assert_true(fabs(json_number_value(json_array_get(gaps, 0)) - 0.0005) < 1e-9); /* seconds */
    result_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_ups_run_and_do_not_count),
        cmocka_unit_test(each_run_has_prompts_of_its_own),
        cmocka_unit_test(runs_can_be_counted_on_from_another_measurement),
        cmocka_unit_test(items_are_made_for_each_run),
        cmocka_unit_test(a_failure_keeps_the_repeats_before_it),
        cmocka_unit_test(an_interrupted_run_is_kept_and_the_last),
        cmocka_unit_test(interrupted_in_a_warm_up_there_is_nothing),
        cmocka_unit_test(failures_are_counted_with_the_first_why),
        cmocka_unit_test(a_bad_workload_is_an_error_that_names_the_flag),
        cmocka_unit_test(progress_numbers_all_runs),
        cmocka_unit_test(one_run_is_appended_and_a_warm_up_is_not),
        cmocka_unit_test(one_run_that_is_interrupted_counts_and_a_warm_up_is_an_error),
        cmocka_unit_test(each_repeat_has_a_start_and_warm_ups_of_its_own),
        cmocka_unit_test(a_restart_that_fails_keeps_the_repeats_before_it),
        cmocka_unit_test(an_interruption_keeps_the_repeats_before_it),
        cmocka_unit_test(metrics_have_one_value_a_repeat),
        cmocka_unit_test(runs_hold_every_request),
        cmocka_unit_test(vllm_names_cover_all_repeats),
    };
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
