/* Token speed: what is asked of a target, the figures of known stamps, the table and the JSON. */
#include "batch_target.h"
#include "support/cmocka_all.h"

#include "base/clock.h"
#include "base/mem.h"
#include "bench/kinds/token_speed.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct prompt three[] = {
    {(char *)"zh", (char *)"Chinese", (char *)"ni hao"},
    {(char *)"code", NULL, (char *)"write C"},
    {(char *)"maths", NULL, (char *)"2 + 2"},
};
static const struct prompt_set prompts = {three, 3};

/* --- what is asked -------------------------------------------------------------------------- */

static struct workload workload_of(struct token_speed_options o, uint32_t run)
{
    struct workload w;
    struct err err = {0};
    assert_int_equal(token_speed_workload(&w, &prompts, &o, run, &err), STATUS_OK);
    return w;
}

static void one_stream_asks_each_prompt_once_as_it_stands(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 2; run++) {
        struct workload w = workload_of(token_speed_default, run);
        assert_int_equal(w.n, 3);
        for (uint32_t i = 0; i < w.n; i++) {
            assert_string_equal(w.items[i].prompt, three[i].text);
            assert_int_equal(w.items[i].max_tokens, 128);
            assert_int_equal(w.items[i].due_us, 0);
            assert_true(w.items[i].ignore_eos && w.items[i].chat && w.items[i].stream);
        }
        workload_fini(&w);
    }
}

static void many_streams_take_the_prompts_in_turn(void **state)
{
    (void)state;
    struct token_speed_options o = token_speed_default;
    o.concurrency = 100;
    struct workload w = workload_of(o, 0);
    assert_int_equal(w.n, 100);
    assert_string_equal(w.items[98].prompt, "2 + 2");
    assert_string_equal(w.items[99].prompt, "ni hao");
    workload_fini(&w);
    o.concurrency = 2;
    w = workload_of(o, 0);
    assert_int_equal(w.n, 3); /* no prompt is left out */
    workload_fini(&w);
}

/* Whether no prompt of a is one of b's. */
static bool all_differ(const struct workload *a, const struct workload *b)
{
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t k = 0; k < b->n; k++)
            if ((a != b || i != k) && strcmp(a->items[i].prompt, b->items[k].prompt) == 0)
                return false;
    return true;
}

static void unique_prompts_differ_from_their_first_line_on(void **state)
{
    (void)state;
    struct token_speed_options o = token_speed_default;
    o.unique_prompts = true;
    o.concurrency = 9;
    struct workload first = workload_of(o, 0), second = workload_of(o, 1),
                    again = workload_of(o, 0);
    assert_true(all_differ(&first, &first) && all_differ(&first, &second));
    for (uint32_t i = 0; i < first.n; i++) {
        const char *line_end = strchr(first.items[i].prompt, '\n');
        assert_non_null(line_end);
        assert_string_equal(line_end + 1, three[i % 3].text);
        assert_string_equal(first.items[i].prompt, again.items[i].prompt);
    }
    o.salt = 1;
    struct workload salted = workload_of(o, 0);
    assert_true(all_differ(&first, &salted));
    workload_fini(&salted);
    o.salt = 0;
    o.seed = 1;
    struct workload other = workload_of(o, 0);
    assert_true(all_differ(&first, &other));
    workload_fini(&first);
    workload_fini(&second);
    workload_fini(&again);
    workload_fini(&other);
}

/* --- the figures of known stamps ------------------------------------------------------------ */

/* Sent at `at`, first chunk after ttft, end after whole; milliseconds. */
static struct record answered(int64_t at, int64_t ttft, int64_t whole, uint32_t tokens)
{
    struct record r;
    record_init(&r);
    r.state = RECORD_RUNNING;
    r.due_us = r.sent_us = r.accepted_us = 1 + at * 1000;
    r.end_us = r.sent_us + whole * 1000;
    record_chunk(&r, r.sent_us + ttft * 1000);
    if (whole > ttft)
        record_chunk(&r, r.end_us);
    r.state = RECORD_OK;
    r.prompt_tokens = 20;
    r.completion_tokens = tokens;
    return r;
}

/* Two runs of the three prompts, one after the other; the caller frees by measure_fini. */
static struct measurement two_runs(void)
{
    struct measurement m = {.runs = mem_array(2, sizeof *m.runs), .n_runs = 2};
    for (int i = 0; i < 2; i++) {
        struct load_result *r = &m.runs[i];
        r->n = 3;
        r->records = mem_array(3, sizeof *r->records);
        r->records[0] = answered(0, 200, 1200 + i * 800, 101); /* 84.2 and 50.5 tokens/s */
        r->records[1] = answered(2000, 100, 1100, 51);
        r->records[2] = answered(4000, 300, 800, 11);
        r->start_us = 1;
        r->end_us = r->records[2].end_us; /* 4.8 s */
    }
    assert_true(summary_make(&m.pooled, m.runs, m.n_runs, NULL));
    return m;
}

static void near(double got, double expected)
{
    if (!(fabs(got - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.12g is not %.12g", got, expected);
}

static void rates_are_tokens_over_the_time_of_each_request(void **state)
{
    (void)state;
    struct measurement m = two_runs();
    struct token_speed_figures f;
    token_speed_figures(&f, m.runs, 1, 0, 3);
    assert_int_equal(f.n, 1);
    near(f.tokens_per_s, 101 / 1.2);
    near(f.decode_tokens_per_s, 100 / 1.0);
    token_speed_figures_fini(&f);

    token_speed_figures(&f, m.runs, 2, 0, 3);
    assert_int_equal(f.n, 2);
    assert_int_equal(f.prompt_tokens, 40);
    assert_int_equal(f.completion_tokens, 202);
    near(f.tokens_per_s, 202 / (1.2 + 2.0));
    near(f.decode_tokens_per_s, 200 / (1.0 + 1.8));
    near(series_percentile(&f.ttft_ms, 50), 200);
    token_speed_figures_fini(&f);

    token_speed_figures(&f, m.runs, 2, TOKEN_SPEED_ALL, 3);
    assert_int_equal(f.n, 6);
    near(f.tokens_per_s, 2 * (101 + 51 + 11) / (1.2 + 2.0 + 2 * (1.1 + 0.8)));
    near(series_percentile(&f.ttft_ms, 100), 300);
    token_speed_figures_fini(&f);
    measure_fini(&m);
}

static void what_was_not_answered_has_no_part(void **state)
{
    (void)state;
    struct measurement m = two_runs();
    struct token_speed_figures f;
    m.runs[1].records[0].state = RECORD_FAILED;
    token_speed_figures(&f, m.runs, 2, 0, 3);
    assert_int_equal(f.n, 1);
    near(f.tokens_per_s, 101 / 1.2);
    token_speed_figures_fini(&f);
    m.runs[0].records[0].state = RECORD_CANCELLED;
    token_speed_figures(&f, m.runs, 2, 0, 3);
    assert_int_equal(f.n, 0);
    assert_true(isnan(f.tokens_per_s) && isnan(f.decode_tokens_per_s));
    token_speed_figures_fini(&f);
    measure_fini(&m);
}

/* An engine that delivers all text at the end decodes in no time that the client sees. */
static void an_answer_in_one_piece_has_no_decode_rate(void **state)
{
    (void)state;
    struct record r = answered(0, 500, 500, 10), silent = answered(0, 0, 500, 10);
    struct load_result run = {.records = &r, .n = 1};
    struct token_speed_figures f;
    token_speed_figures(&f, &run, 1, 0, 1);
    near(f.tokens_per_s, 20);
    assert_true(isnan(f.decode_tokens_per_s));
    token_speed_figures_fini(&f);
    silent.first_us = 0; /* no chunk had content */
    silent.n_chunks = 0;
    run.records = &silent;
    token_speed_figures(&f, &run, 1, 0, 1);
    assert_true(isnan(f.decode_tokens_per_s));
    assert_int_equal(f.ttft_ms.n, 0);
    token_speed_figures_fini(&f);
    record_fini(&r);
    record_fini(&silent);
}

/* --- the result and the table --------------------------------------------------------------- */

static json_t *metric(const struct result *r, const char *name, const char *field)
{
    json_t *m = json_object_get(json_object_get(r->root, "metrics"), name);
    if (!m)
        fail_msg("no metric %s", name);
    return json_object_get(m, field);
}

static void the_result_has_each_prompts_metrics_of_each_run(void **state)
{
    (void)state;
    struct measurement m = two_runs();
    struct result r;
    result_init(&r, "token-speed", NULL, token_speed_workload_json(&prompts, &token_speed_default),
                json_object());
    token_speed_result(&m, &prompts, &r);
    assert_false(r.failed);
    json_t *zh = metric(&r, "tokens_per_s_zh", "repeats");
    assert_int_equal(json_array_size(zh), 2);
    near(json_number_value(json_array_get(zh, 0)), 101 / 1.2);
    near(json_number_value(json_array_get(zh, 1)), 101 / 2.0);
    near(json_number_value(metric(&r, "ttft_code_p50", "median")), 100);
    near(json_number_value(metric(&r, "ttft_p50", "median")), 200);
    near(json_number_value(metric(&r, "tokens_per_s", "median")), 163 / 4.8);
    assert_int_equal(json_array_size(metric(&r, "tokens_per_s", "repeats")), 2);
    near(json_number_value(json_array_get(metric(&r, "decode_tokens_per_s", "repeats"), 0)),
         160 / 2.5);
    json_t *list = json_object_get(r.root, "prompts");
    assert_int_equal(json_array_size(list), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "kind")),
                        "Chinese");
    assert_int_equal(
        json_integer_value(json_object_get(json_array_get(list, 0), "completion_tokens")), 202);
    assert_int_equal(json_array_size(json_object_get(r.root, "runs")), 2);
    result_fini(&r);
    measure_fini(&m);
}

static void the_workload_says_what_was_asked(void **state)
{
    (void)state;
    struct token_speed_options o = token_speed_default;
    o.concurrency = 100;
    json_t *w = token_speed_workload_json(&prompts, &o);
    json_t *first = json_array_get(json_object_get(w, "prompts"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "text")), "ni hao");
    assert_int_equal(json_integer_value(json_object_get(w, "max_concurrency")), 100);
    assert_int_equal(json_integer_value(json_object_get(w, "num_requests")), 100);
    assert_int_equal(json_integer_value(json_object_get(w, "max_new_tokens")), 128);
    assert_true(json_is_true(json_object_get(w, "ignore_eos")));
    assert_true(json_is_false(json_object_get(w, "unique_prompts")));
    json_decref(w);
}

static void shows(struct measurement *m, struct token_speed_options o, const char *text, bool yes)
{
    const struct target t = {.model = "m", .engine = "cpu"};
    struct buf table = {0};
    token_speed_table(&table, m, &prompts, &o, &t);
    if ((strstr(buf_str(&table), text) != NULL) != yes)
        fail_msg("\"%s\" is%s in:\n%s", text, yes ? " not" : "", buf_str(&table));
    buf_fini(&table);
}

static void the_table_says_what_a_reader_has_to_know(void **state)
{
    (void)state;
    struct measurement m = two_runs();
    struct token_speed_options o = token_speed_default;
    /* prompt, new, tokens/s, decode/s, TTFT p50, p95, p99 */
    shows(&m, o,
          "zh                   20      101       63.1       71.4      200.0      200.0      200.0",
          true);
    shows(&m, o, "aggregate", false);
    shows(&m, o, "prefix cache", false);
    shows(&m, o, "not answered", false);
    shows(&m, o, "326 new tokens came of 768", true);
    o.max_new_tokens = 54;
    shows(&m, o, "new tokens came of", false);
    o.concurrency = 3;
    m.pooled.cached_tokens = 7;
    m.pooled.completed = 5;
    shows(&m, o, "aggregate", true);
    shows(&m, o, "7 of 120 prompt tokens came from a prefix cache: TTFT is", true);
    shows(&m, o, "--unique-prompts asks for distinct ones", true);
    o.unique_prompts = true;
    shows(&m, o, "7 of 120 prompt tokens came from a prefix cache: that of what all begin", true);
    shows(&m, o, "--unique-prompts asks for distinct ones", false);
    shows(&m, o, "1 of 6 requests were not answered", true);
    shows(&m, o, "did not count", false);
    m.pooled.uncounted = 2;
    shows(&m, o, "did not count the tokens of 2 answers", true);
    measure_fini(&m);
}

/* --- a whole measurement -------------------------------------------------------------------- */

static void warm_ups_are_sent_and_do_not_count(void **state)
{
    (void)state;
    struct batch_target f = {.target = {.ops = &batch_ops}, .stream = true, .tokens = 2};
    struct measure_options o = {.warmup_runs = 2, .repeat_runs = 3};
    struct measurement m;
    struct err err = {0};
    assert_int_equal(token_speed_measure(&f.target, &prompts, &token_speed_default, &o, &m, &err),
                     STATUS_OK);
    assert_int_equal(f.n_sent, 5 * 3);
    assert_int_equal(f.most, 1);
    assert_int_equal(m.n_runs, 3);
    assert_int_equal(m.pooled.completed, 9);
    assert_int_equal(m.pooled.completion_tokens, 18);
    measure_fini(&m);
    batch_fini(&f);
}

static void many_streams_are_there_at_once(void **state)
{
    (void)state;
    struct batch_target f = {.target = {.ops = &batch_ops}, .stream = true, .tokens = 2};
    struct token_speed_options many = token_speed_default;
    struct measure_options o = {.repeat_runs = 1};
    struct measurement m;
    struct err err = {0};
    many.concurrency = 8;
    assert_int_equal(token_speed_measure(&f.target, &prompts, &many, &o, &m, &err), STATUS_OK);
    assert_int_equal(f.n_sent, 8);
    assert_int_equal(f.most, 8);
    measure_fini(&m);
    batch_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stream_asks_each_prompt_once_as_it_stands),
        cmocka_unit_test(many_streams_take_the_prompts_in_turn),
        cmocka_unit_test(unique_prompts_differ_from_their_first_line_on),
        cmocka_unit_test(rates_are_tokens_over_the_time_of_each_request),
        cmocka_unit_test(what_was_not_answered_has_no_part),
        cmocka_unit_test(an_answer_in_one_piece_has_no_decode_rate),
        cmocka_unit_test(the_result_has_each_prompts_metrics_of_each_run),
        cmocka_unit_test(the_workload_says_what_was_asked),
        cmocka_unit_test(the_table_says_what_a_reader_has_to_know),
        cmocka_unit_test(warm_ups_are_sent_and_do_not_count),
        cmocka_unit_test(many_streams_are_there_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
