/* Curves of a server that is a formula: TTFT is a + b n + c n^2, tokens come evenly, and requests
 * begin one after another, at most `capacity` a second. No clock runs. */
#include "support/near.h"

#include "base/mem.h"
#include "bench/kinds/curves.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_US 1000000

struct formula {
    double a_ms, b_ms, c_ms, tpot_ms, capacity;
    double step_ms; /* what each repeat's TTFT is longer */
    uint32_t repeats;
    uint32_t fail_at;   /* prompt tokens whose second request fails; 0: none */
    uint32_t refuse_at; /* prompt tokens that measuring is an error of */
    uint32_t empty_at;  /* prompt tokens whose answers have no content */
    uint32_t cancel_at; /* calls until an interruption */
    uint32_t cut_at;    /* calls until an interruption in the second repeat */
    uint32_t n_calls;
    struct workload_options last;
    char last_what[64];
    int64_t
        total_us; /* of all runs, a warm-up before each measurement that asks for one included */
};

static const struct formula usual = {
    .a_ms = 2, .b_ms = 0.125, .c_ms = 1e-4, .tpot_ms = 10, .capacity = 1000, .repeats = 1};

static void answer(const struct formula *f, const struct workload_options *w, struct record *r,
                   int64_t begin_us, uint32_t repeat)
{
    double n = w->prompt_tokens;
    double ttft_ms = f->a_ms + f->b_ms * n + f->c_ms * n * n + f->step_ms * repeat;
    bool empty = f->empty_at == w->prompt_tokens;
    r->prompt_tokens = w->prompt_tokens;
    r->completion_tokens = w->max_new_tokens;
    int64_t end_us =
        begin_us + (int64_t)(1e3 * (ttft_ms + f->tpot_ms * (w->max_new_tokens - 1)) + 0.5);
    r->state = RECORD_RUNNING;
    if (!empty) {
        record_chunk(r, begin_us + (int64_t)(1e3 * ttft_ms + 0.5));
        record_chunk(r, end_us);
    }
    record_end(r, RECORD_OK, end_us, NULL);
}

static void simulate(const struct formula *f, const struct workload_options *w,
                     struct load_result *out, uint32_t repeat)
{
    struct workload load;
    struct err err = {0};
    int64_t free_us = START_US;
    assert_int_equal(workload_make(&load, w, NULL, repeat, &err), STATUS_OK);
    *out = (struct load_result){.n = load.n, .start_us = START_US, .end_us = START_US};
    out->records = mem_array(load.n, sizeof *out->records);
    for (uint32_t i = 0; i < load.n; i++) {
        struct record *r = &out->records[i];
        record_init(r);
        r->due_us = START_US + load.items[i].due_us;
        if (w->max_concurrency == 1 && i > 0)
            r->due_us = out->records[i - 1].end_us;
        r->sent_us = r->due_us;
        int64_t begin = r->due_us > free_us ? r->due_us : free_us;
        answer(f, w, r, begin, repeat);
        free_us = begin + (int64_t)(1e6 / f->capacity);
        out->end_us = r->end_us > out->end_us ? r->end_us : out->end_us;
    }
    workload_fini(&load);
}

static enum status measure(void *arg, const char *what, const struct workload_options *w,
                           bool warm_up, struct measurement *out, struct err *err)
{
    struct formula *f = arg;
    *out = (struct measurement){0};
    f->last = *w;
    snprintf(f->last_what, sizeof f->last_what, "%s", what);
    assert_int_equal(warm_up, w->request_rate == 0);
    if (++f->n_calls == f->cancel_at)
        return err_set(err, STATUS_CANCELLED, "interrupted");
    if (f->refuse_at == w->prompt_tokens)
        return err_set(err, STATUS_UNAVAILABLE, "refused");
    out->runs = mem_array(f->repeats, sizeof *out->runs);
    for (out->n_runs = 0; out->n_runs < f->repeats; out->n_runs++) {
        struct load_result *run = &out->runs[out->n_runs];
        simulate(f, w, run, out->n_runs);
        if (f->fail_at == w->prompt_tokens) {
            run->records[1].state = RECORD_FAILED;
            snprintf(run->records[1].error, sizeof run->records[1].error, "it broke");
        }
        f->total_us += (warm_up ? 2 : 1) * (run->end_us - run->start_us);
        run->interrupted = f->n_calls == f->cut_at && out->n_runs == 1;
    }
    assert_true(summary_make(&out->pooled, out->runs, out->n_runs, NULL));
    return STATUS_OK;
}

static struct curves_options only(enum curves_kind kind)
{
    struct curves_options o = curves_default;
    memset(o.which, 0, sizeof o.which);
    o.which[kind] = true;
    return o;
}

static struct curves made(struct formula *f, const struct curves_options *o)
{
    struct curves_source source = {.measure = measure, .arg = f};
    struct curves c;
    struct err err = {0};
    if (curves_run(o, &source, &c, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return c;
}

/* The result, written and read again, so that it is one that the schema allows. */
static struct result written(struct curves *c, const struct curves_options *o)
{
    char path[] = "/tmp/firstlight-curves-XXXXXX";
    struct result made_one, read;
    struct err err = {0};
    FILE *f = fdopen(mkstemp(path), "w");
    result_init(&made_one, "curves", NULL, curves_workload_json(o), json_object());
    curves_result(c, o, &made_one);
    if (result_write(&made_one, f, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    fclose(f);
    if (result_read(&read, path, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    unlink(path);
    result_fini(&made_one);
    return read;
}

static double metric(const struct result *r, const char *name, const char *field)
{
    const json_t *m = json_object_get(json_object_get(r->root, "metrics"), name);
    const json_t *value = json_object_get(m, field);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *first_note(const struct result *r)
{
    const json_t *chart = json_array_get(json_object_get(r->root, "charts"), 0);
    return json_string_value(json_object_get(chart, "note"));
}

static void says(struct curves *c, const struct curves_options *o, const char *part)
{
    struct buf table = {0};
    assert_true(curves_table(&table, c, o));
    if (!strstr(buf_str(&table), part))
        fail_msg("no \"%s\" in\n%s", part, buf_str(&table));
    buf_fini(&table);
}

/* --- prompt --------------------------------------------------------------------------------- */

static void the_prompt_curve_is_fitted(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_PROMPT);
    (void)state;
    struct curves c = made(&f, &o);
    assert_int_equal(c.of[CURVES_PROMPT].n, 8); /* 32 ... 4096 */
    assert_int_equal(f.last.prompt_tokens, 4096);
    assert_string_equal(f.last_what, "prompt 4096");
    assert_int_equal(f.last.max_new_tokens, CURVES_PROMPT_NEW);
    assert_int_equal(f.last.max_concurrency, 1);
    assert_int_equal(f.last.num_requests, 5);
    assert_true(f.last.ignore_eos && f.last.stream);
    assert_true(c.has_fit);
    assert_near(c.fit.a, 2, 1e-2); /* stamps are microseconds */
    assert_near(c.fit.b, 0.125, 1e-4);
    assert_near(c.fit.c, 1e-4, 1e-7);
    assert_near(c.fit.rms, 0, 1e-3);
    struct result r = written(&c, &o);
    assert_near(metric(&r, "ttft_at_32_p50", "median"), 2 + 4 + 0.1024, 1e-3);
    assert_near(metric(&r, "ttft_at_512_p50", "median"), 2 + 64 + 26.2144, 1e-3);
    assert_near(json_number_value(json_object_get(json_object_get(r.root, "fit"), "b")), 0.125,
                1e-4);
    const json_t *chart = json_array_get(json_object_get(r.root, "charts"), 0);
    const json_t *lines = json_object_get(chart, "lines");
    assert_int_equal(json_array_size(lines), 2);
    assert_int_equal(json_array_size(json_object_get(json_array_get(lines, 0), "points")), 8);
    assert_string_equal(first_note(&r), "");
    result_fini(&r);
    says(&c, &o, "       512         92.21      92.21      92.21\n");
    says(&c, &o, "fit: 2 +0.125 n +0.0001 n^2 ms, off by 0.0 %");
    assert_false(curves_failed(&c, NULL));
    curves_fini(&c);
}

static void repeats_give_a_range(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_PROMPT);
    (void)state;
    f.repeats = 3;
    f.step_ms = 5;
    o.max_prompt_tokens = 63;
    struct curves c = made(&f, &o);
    assert_int_equal(c.of[CURVES_PROMPT].n, 1);
    assert_false(c.has_fit);
    struct result r = written(&c, &o);
    assert_near(metric(&r, "ttft_at_32_p50", "min"), 6.102, 1e-3);
    assert_near(metric(&r, "ttft_at_32_p50", "median"), 11.102, 1e-3);
    assert_near(metric(&r, "ttft_at_32_p50", "max"), 16.102, 1e-3);
    assert_string_equal(first_note(&r), "The median of the repeats, and the range.");
    result_fini(&r);
    says(&c, &o, "        32         11.10       6.10      16.10\n");
    says(&c, &o, "fit: none");
    curves_fini(&c);
}

static void what_does_not_fit_is_skipped(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_PROMPT);
    (void)state;
    o.n_ctx = 256 + CURVES_PROMPT_NEW;
    struct curves c = made(&f, &o);
    assert_int_equal(c.of[CURVES_PROMPT].n, 4);
    assert_int_equal(c.of[CURVES_PROMPT].skipped_from, 512);
    says(&c, &o, "512  and longer skipped: they do not fit the context of 260 tokens");
    assert_false(curves_failed(&c, NULL));
    curves_fini(&c);
    o.n_ctx--;
    c = made(&f, &o);
    assert_int_equal(c.of[CURVES_PROMPT].skipped_from, 256);
    curves_fini(&c);
}

static void a_failed_point_is_kept_out(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_PROMPT);
    struct err err = {0};
    (void)state;
    f.fail_at = 128;
    f.refuse_at = 512;
    f.empty_at = 1024;
    struct curves c = made(&f, &o);
    assert_int_equal(c.of[CURVES_PROMPT].n, 8);
    assert_true(curves_failed(&c, &err));
    assert_string_equal(err.text, "3 of 8 points failed; the first, prompt 128: 1 of 5 requests "
                                  "failed; the first: it broke");
    assert_int_equal(c.fit.n, 5);
    assert_near(c.fit.b, 0.125, 1e-4);
    says(&c, &o, "       512  failed: refused\n");
    says(&c, &o, "      1024  failed: no request had a chunk with content\n");
    struct result r = written(&c, &o);
    assert_true(isnan(metric(&r, "ttft_at_128_p50", "median")));
    assert_false(isnan(metric(&r, "ttft_at_256_p50", "median")));
    result_fini(&r);
    curves_fini(&c);
}

static void an_interruption_keeps_what_there_is(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_PROMPT);
    (void)state;
    o.which[CURVES_BATCH] = true;
    f.cancel_at = 3;
    struct curves c = made(&f, &o);
    assert_true(c.interrupted);
    assert_int_equal(f.n_calls, 3);
    assert_int_equal(c.of[CURVES_PROMPT].n, 2);
    assert_false(c.of[CURVES_BATCH].asked);
    assert_false(curves_failed(&c, NULL));
    says(&c, &o, "interrupted");
    curves_fini(&c);

    f = usual; /* in the second repeat: the first counts */
    f.repeats = 2;
    f.cut_at = 2;
    c = made(&f, &o);
    assert_true(c.interrupted);
    assert_int_equal(c.of[CURVES_PROMPT].n, 2);
    assert_int_equal(c.of[CURVES_PROMPT].points[0].ttft_ms.n, 2);
    assert_int_equal(c.of[CURVES_PROMPT].points[1].ttft_ms.n, 1);
    curves_fini(&c);
}

/* --- batch, context, cost ------------------------------------------------------------------- */

static void batches_begin_together(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_BATCH);
    (void)state;
    o.max_batch = 6;
    struct curves c = made(&f, &o);
    assert_int_equal(c.of[CURVES_BATCH].n, 3); /* 1, 2, 4 */
    assert_int_equal(f.last.num_requests, 4);
    assert_near(f.last.request_rate, 0, 0);
    /* TTFT 2 + 16 + 1.6384 ms and 31 gaps; the last of four begins 3 ms later */
    struct result r = written(&c, &o);
    double ms = 2 + 16 + 1.6384 + 31 * 10;
    assert_near(metric(&r, "tokens_per_s_batch_1", "median"), 32e3 / ms, 1e-2);
    assert_near(metric(&r, "tokens_per_s_batch_4", "median"), 128e3 / (ms + 3), 1e-2);
    assert_near(metric(&r, "ttft_batch_4_p50", "median"), 2 + 16 + 1.6384 + 1.5, 1e-2);
    result_fini(&r);
    curves_fini(&c);
}

static void decoding_after_a_context(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_CONTEXT);
    (void)state;
    o.max_context = 1024;
    o.n_ctx = 512 + 32;
    struct curves c = made(&f, &o);
    assert_int_equal(c.of[CURVES_CONTEXT].n, 3); /* 128, 256, 512 */
    assert_int_equal(c.of[CURVES_CONTEXT].skipped_from, 1024);
    struct result r = written(&c, &o);
    assert_near(metric(&r, "decode_tokens_per_s_at_512", "median"), 100, 1e-3);
    result_fini(&r);
    curves_fini(&c);
}

static void tokens_cost_what_the_machine_does(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_PROMPT);
    (void)state;
    o.which[CURVES_BATCH] = true;
    o.max_prompt_tokens = 64;
    o.max_batch = 1;
    struct curves c = made(&f, &o);
    struct result r = written(&c, &o);
    assert_true(isnan(metric(&r, "cost_per_million_input_tokens", "median")));
    result_fini(&r);
    o.cost_per_hour = 3.6;
    r = written(&c, &o);
    double input = 64 / (2 + 8 + 0.4096), output = 32 / (2 + 16 + 1.6384 + 310); /* per ms */
    assert_near(metric(&r, "cost_per_million_input_tokens", "median"), 1 / input, 1e-3);
    assert_near(metric(&r, "cost_per_million_output_tokens", "median"), 1 / output, 1e-3);
    result_fini(&r);
    says(&c, &o, "Cost per million tokens at 3.6 an hour");
    curves_fini(&c);
}

/* --- rate ----------------------------------------------------------------------------------- */

static void the_knee_is_where_it_stops_holding(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_RATE);
    (void)state;
    f.capacity = 20;
    struct curves c = made(&f, &o);
    struct curve *curve = &c.of[CURVES_RATE];
    double unloaded = 2 + 16 + 1.6384, highest = 0, lowest_bad = INFINITY;
    assert_near(series_percentile(&c.unloaded.ttft_ms, 50), unloaded, 1e-2);
    assert_near(curve->points[0].x, 1000 / (unloaded + 310), 1e-2);
    for (uint32_t i = 0; i < curve->n; i++) {
        struct curves_point *p = &curve->points[i];
        assert_true(i == 0 || p->x > curve->points[i - 1].x);
        bool good = series_percentile(&p->ttft_ms, 50) <= 2 * unloaded &&
                    series_percentile(&p->kept_up, 50) >= 0.95;
        assert_int_equal(p->holds, good);
        if (!good && p->x < lowest_bad)
            lowest_bad = p->x;
        else if (good && lowest_bad == INFINITY)
            highest = p->x;
    }
    assert_true(c.knee_reached);
    assert_near(c.knee, highest, 0);
    assert_true(c.knee > 5 && c.knee < 20 && lowest_bad < 1.2 * c.knee);
    struct curves_point *last = &curve->points[curve->n - 1];
    assert_true(series_percentile(&last->kept_up, 50) < 0.8 ||
                series_percentile(&last->ttft_ms, 50) > 10 * unloaded);
    struct result r = written(&c, &o);
    assert_near(metric(&r, "knee_rate", "median"), c.knee, 1e-9);
    const json_t *marks =
        json_object_get(json_array_get(json_object_get(r.root, "charts"), 0), "marks");
    assert_int_equal(json_array_size(marks), 1);
    result_fini(&r);
    says(&c, &o, "knee: ");
    says(&c, &o, "does not hold");
    curves_fini(&c);
}

static void a_knee_above_the_highest_rate(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_RATE);
    (void)state;
    o.start_rate = 1;
    o.max_rate = 4;
    struct curves c = made(&f, &o);
    assert_int_equal(c.of[CURVES_RATE].n, 3);
    assert_false(c.knee_reached);
    assert_near(c.knee, 4, 0);
    says(&c, &o, "knee: not reached; 4 requests/s held");
    curves_fini(&c);
}

static void no_rate_holds(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_RATE);
    (void)state;
    f.capacity = 0.5;
    o.start_rate = 100;
    struct curves c = made(&f, &o);
    assert_int_equal(c.of[CURVES_RATE].n, 4); /* 100, and down by halves */
    assert_near(c.of[CURVES_RATE].points[0].x, 12.5, 1e-9);
    assert_true(isnan(c.knee));
    struct result r = written(&c, &o);
    assert_true(isnan(metric(&r, "knee_rate", "median")));
    result_fini(&r);
    says(&c, &o, "knee: no rate held");
    assert_false(curves_failed(&c, NULL));
    curves_fini(&c);
}

static void an_unloaded_target_that_fails(void **state)
{
    struct formula f = usual;
    struct curves_options o = only(CURVES_RATE);
    struct err err = {0};
    (void)state;
    f.refuse_at = 128;
    struct curves c = made(&f, &o);
    assert_int_equal(c.of[CURVES_RATE].n, 0);
    assert_true(curves_failed(&c, &err));
    assert_non_null(strstr(err.text, "unloaded 1: refused"));
    says(&c, &o, "unloaded: failed: refused");
    struct result r = written(&c, &o);
    result_fini(&r);
    curves_fini(&c);
}

/* --- options -------------------------------------------------------------------------------- */

static void options_are_checked(void **state)
{
    struct curves_options o = curves_default;
    struct err err = {0};
    (void)state;
    assert_int_equal(curves_check(&o, &err), STATUS_OK);
    o.n_ctx = 159;
    assert_int_equal(curves_check(&o, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--prompt-tokens");
    o.which[CURVES_BATCH] = o.which[CURVES_RATE] = false;
    assert_int_equal(curves_check(&o, &err), STATUS_OK);
    o.knee_factor = 1;
    assert_int_equal(curves_check(&o, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--knee-factor");
    o.knee_factor = 2;
    o.start_rate = 2e4;
    assert_int_equal(curves_check(&o, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--start-rate");
    assert_int_equal(curves_at_once(&curves_default), 64);
    o = only(CURVES_CONTEXT);
    assert_int_equal(curves_at_once(&o), 1);
}

/* What --help promises: 1,700 prompt tokens a second, at 4096 a third less, 200 decoded by one
 * request, a new request of the rate curve each 115 ms. */
static void a_default_run_takes_minutes(void **state)
{
    (void)state;
    struct formula f = {.a_ms = 1, .b_ms = 1e3 / 1700, .c_ms = 7e-5, .tpot_ms = 5, .repeats = 1};
    f.capacity = 8.7;
    struct curves c = made(&f, &curves_default);
    assert_int_equal(c.of[CURVES_PROMPT].n, 8);
    assert_int_equal(c.of[CURVES_BATCH].n, 7);
    assert_int_equal(c.of[CURVES_CONTEXT].n, 6);
    assert_true(c.knee > 2 && c.knee < 9 && c.knee_reached);
    if (f.total_us < 180000000 || f.total_us > 420000000)
        fail_msg("%g s", (double)f.total_us / 1e6);
    curves_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_default_run_takes_minutes),
        cmocka_unit_test(the_prompt_curve_is_fitted),
        cmocka_unit_test(repeats_give_a_range),
        cmocka_unit_test(what_does_not_fit_is_skipped),
        cmocka_unit_test(a_failed_point_is_kept_out),
        cmocka_unit_test(an_interruption_keeps_what_there_is),
        cmocka_unit_test(batches_begin_together),
        cmocka_unit_test(decoding_after_a_context),
        cmocka_unit_test(tokens_cost_what_the_machine_does),
        cmocka_unit_test(the_knee_is_where_it_stops_holding),
        cmocka_unit_test(a_knee_above_the_highest_rate),
        cmocka_unit_test(no_rate_holds),
        cmocka_unit_test(an_unloaded_target_that_fails),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
