/* Two results compared: what is refused, and what is called better, worse or noise. */
#include "bench/compare.h"
#include "bench/require.h"
#include "support/cmocka_all.h"

#include <math.h>
#include <string.h>

static struct result make(json_t *workload)
{
    struct result r;
    result_init(&r, "streaming", NULL, workload,
                json_pack("{s:s, s:i}", "commit", "a", "threads", 2));
    return r;
}

static void metric(struct result *r, const char *name, enum result_better better,
                   const double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        result_metric(r, name, "ms", better, values[i]);
}

static enum status compare(struct compare *c, const struct result *a, const struct result *b,
                           struct err *err)
{
    return compare_make(c, (struct compare_side){a, "A.json"}, (struct compare_side){b, "B.json"},
                        err);
}

/* --- verdicts ------------------------------------------------------------------------------- */

/* With three values a side: the middle one is the median, the ends are the range. */
static void expect(enum result_better better, const double *before, const double *after, size_t n,
                   enum compare_verdict verdict)
{
    struct result a = make(json_object()), b = make(json_object());
    struct compare c;
    metric(&a, "x", better, before, n);
    metric(&b, "x", better, after, n);
    assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
    assert_int_equal(c.n_rows, 1);
    assert_string_equal(compare_verdict_name(c.rows[0].verdict), compare_verdict_name(verdict));
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

static void test_verdicts(void **state)
{
    (void)state;
    const double low[] = {10, 11, 12}, high[] = {13, 14, 15}, touching[] = {12, 14, 15};
    const double inside[] = {10.5, 11.5, 11.7}, around[] = {1, 2, 100};
    expect(RESULT_LOWER, low, high, 3, COMPARE_WORSE);
    expect(RESULT_LOWER, high, low, 3, COMPARE_BETTER);
    expect(RESULT_HIGHER, low, high, 3, COMPARE_BETTER);
    expect(RESULT_HIGHER, high, low, 3, COMPARE_WORSE);
    expect(RESULT_NEITHER, low, high, 3, COMPARE_CHANGED);
    expect(RESULT_LOWER, low, touching, 3, COMPARE_NOISE);
    expect(RESULT_LOWER, touching, low, 3, COMPARE_NOISE);
    expect(RESULT_LOWER, low, inside, 3, COMPARE_NOISE);
    expect(RESULT_LOWER, low, around, 3, COMPARE_NOISE);
    expect(RESULT_NEITHER, low, low, 3, COMPARE_NOISE);
    expect(RESULT_LOWER, low, high, 1, COMPARE_ONE_RUN);
}

/* One run has no range, whatever the other file has. */
static void test_one_run_on_one_side(void **state)
{
    (void)state;
    struct result a = make(json_object()), b = make(json_object());
    struct compare c;
    metric(&a, "x", RESULT_LOWER, (double[]){1, 2, 3}, 3);
    metric(&b, "x", RESULT_LOWER, (double[]){100}, 1);
    assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
    assert_int_equal(c.rows[0].verdict, COMPARE_ONE_RUN);
    compare_fini(&c);
    assert_int_equal(compare(&c, &b, &a, NULL), STATUS_OK);
    assert_int_equal(c.rows[0].verdict, COMPARE_ONE_RUN);
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

static void test_changes(void **state)
{
    (void)state;
    struct result a = make(json_object()), b = make(json_object());
    struct compare c;
    metric(&a, "x", RESULT_LOWER, (double[]){90, 100, 130}, 3);
    metric(&b, "x", RESULT_LOWER, (double[]){60, 80, 85}, 3);
    metric(&a, "zero", RESULT_LOWER, (double[]){0}, 1);
    metric(&b, "zero", RESULT_LOWER, (double[]){5}, 1);
    metric(&a, "minus", RESULT_LOWER, (double[]){-4}, 1);
    metric(&b, "minus", RESULT_LOWER, (double[]){-2}, 1);
    metric(&a, "gone", RESULT_LOWER, (double[]){1}, 1);
    metric(&b, "came\x1b\xc2\x9b", RESULT_LOWER, (double[]){1}, 1); /* shown, not obeyed */
    assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
    assert_int_equal(c.n_rows, 3);
    assert_true(c.rows[0].before.median == 100 && c.rows[0].after.median == 80);
    assert_true(c.rows[0].before.min == 90 && c.rows[0].after.max == 85);
    assert_true(c.rows[0].change == -20 && c.rows[0].percent == -20);
    assert_true(c.rows[1].change == 5 && isnan(c.rows[1].percent));
    assert_true(c.rows[2].change == 2 && c.rows[2].percent == 50); /* up, not down */
    struct buf text = {0};
    compare_text(&c, &text);
    assert_non_null(strstr(buf_str(&text), "100.0 [90.00, 130.0]"));
    assert_non_null(strstr(buf_str(&text), "-20.0 %  better"));
    assert_non_null(strstr(buf_str(&text), "only in A.json: gone\n"));
    assert_non_null(strstr(buf_str(&text), "only in B.json: came   \n"));
    assert_non_null(strstr(buf_str(&text), "1 better, 2 one run: no spread\n"));
    assert_null(strstr(buf_str(&text), "environments differ"));
    buf_fini(&text);
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

static void test_json(void **state)
{
    (void)state;
    struct result a = make(json_object()), b = make(json_object());
    struct compare c;
    metric(&a, "x", RESULT_LOWER, (double[]){90, 100}, 2);
    metric(&b, "x", RESULT_LOWER, (double[]){50, 60}, 2);
    metric(&b, "came", RESULT_LOWER, (double[]){1}, 1);
    assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
    json_t *json = compare_json(&c);
    const char *verdict, *file, *came;
    double change, max;
    assert_int_equal(json_unpack(json, "{s:{s:{s:s, s:f, s:{s:F}}}, s:{s:s}, s:[s], s:[]}",
                                 "metrics", "x", "verdict", &verdict, "change", &change, "before",
                                 "max", &max, "after", "file", &file, "only_after", &came,
                                 "only_before"),
                     0);
    assert_string_equal(verdict, "better");
    assert_string_equal(file, "B.json");
    assert_string_equal(came, "came");
    assert_true(change == -40 && max == 100);
    json_decref(json);
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

static void test_environment_is_shown(void **state)
{
    (void)state;
    struct result a = make(json_object()), b = make(json_object());
    json_t *environment = json_object_get(b.root, "environment");
    json_object_set_new(environment, "commit", json_string("b"));
    json_object_set_new(environment, "cpu", json_string("new"));
    json_object_set_new(environment, "date", json_string("later")); /* not where, but when */
    struct compare c;
    struct buf text = {0};
    assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
    compare_text(&c, &text);
    assert_non_null(strstr(buf_str(&text), "commit         \"a\" -> \"b\"\n"));
    assert_non_null(strstr(buf_str(&text), "cpu            absent -> \"new\"\n"));
    assert_null(strstr(buf_str(&text), "threads"));
    assert_null(strstr(buf_str(&text), "later"));
    buf_fini(&text);
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

/* Failures and a late generator are said of the file they are in. */
static void test_warnings(void **state)
{
    (void)state;
    struct result a = make(json_object()), b = make(json_object());
    struct compare c;
    struct buf text = {0};
    result_add_run(
        &a, json_pack("{s:i, s:i, s:{s:b}}", "n", 8, "failed", 0, "generator", "bottleneck", 0));
    for (int i = 0; i < 2; i++)
        result_add_run(&b, json_pack("{s:i, s:i, s:b, s:{s:b}}", "n", 8, "failed", i + 1,
                                     "interrupted", i, "generator", "bottleneck", i));
    assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
    compare_text(&c, &text);
    assert_non_null(strstr(buf_str(&text), "B.json: 3 of 16 requests failed\n"));
    assert_non_null(strstr(buf_str(&text), "B.json: 1 of 2 runs was interrupted\n"));
    assert_non_null(
        strstr(buf_str(&text), "B.json: the load generator was the bottleneck in 1 of 2 runs\n"));
    assert_null(strstr(buf_str(&text), "A.json: "));
    json_t *json = compare_json(&c);
    assert_int_equal(json_array_size(json_object_get(json_object_get(json, "after"), "warnings")),
                     3);
    assert_int_equal(json_array_size(json_object_get(json_object_get(json, "before"), "warnings")),
                     0);
    json_decref(json);
    buf_fini(&text);
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

/* --- what is refused ------------------------------------------------------------------------ */

static void expect_refusal(json_t *before, json_t *after, const char *says)
{
    struct err err = {0};
    struct compare c;
    struct result a = make(before), b = make(after);
    enum status st = compare(&c, &a, &b, &err);
    if (says)
        assert_int_equal(st, STATUS_INVALID);
    else
        assert_int_equal(st, STATUS_OK);
    if (says && !strstr(err.text, says))
        fail_msg("\"%s\" does not say \"%s\"", err.text, says);
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

static void test_workloads(void **state)
{
    (void)state;
    expect_refusal(json_pack("{s:i}", "n", 4), json_pack("{s:f}", "n", 4.0), NULL);
    expect_refusal(json_pack("{s:i}", "n", 4), json_pack("{s:i}", "n", 5),
                   "workload.n is 4 in A.json, 5 in B.json");
    expect_refusal(json_pack("{s:s, s:i}", "p", "x", "n", 4),
                   json_pack("{s:s, s:i}", "p", "y", "n", 5),
                   "workload.p is \"x\" in A.json, \"y\" in B.json");
    expect_refusal(json_pack("{s:i}", "n", 4), json_object(), "workload.n is 4 in A.json, absent");
    expect_refusal(json_object(), json_pack("{s:b}", "b", 1),
                   "workload.b is absent in A.json, true");
    expect_refusal(json_pack("{s:[{s:i}]}", "list", "k", 1),
                   json_pack("{s:[{s:i}]}", "list", "k", 2), "workload.list.0.k is 1");
    expect_refusal(json_pack("{s:[i]}", "list", 1), json_pack("{s:[i,i]}", "list", 1, 2),
                   "workload.list.1 is absent");
    expect_refusal(json_pack("{s:n}", "n"), json_pack("{s:i}", "n", 0), "workload.n is null");
}

static void test_long_values_are_cut(void **state)
{
    (void)state;
    char prompt[1000];
    memset(prompt, 'x', sizeof prompt - 1);
    prompt[sizeof prompt - 1] = '\0';
    expect_refusal(json_pack("{s:s}", "prompt", prompt), json_pack("{s:s}", "prompt", "y"),
                   "xxx... in A.json, \"y\" in B.json");
}

static void test_kinds_and_units(void **state)
{
    (void)state;
    struct err err = {0};
    struct compare c;
    struct result a = make(json_object()), b = make(json_object());
    result_metric(&a, "x", "ms", RESULT_LOWER, 1);
    result_metric(&b, "x", "s", RESULT_LOWER, 1);
    assert_int_equal(compare(&c, &a, &b, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "metrics.x.unit is \"ms\" in A.json, \"s\" in B.json"));
    compare_fini(&c);
    json_object_set_new(b.root, "kind", json_string("model"));
    assert_int_equal(compare(&c, &a, &b, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "kind is \"streaming\" in A.json, \"model\" in B.json"));
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

/* Goodput of other objectives is another figure; a file without any has none. */
static void test_objectives(void **state)
{
    (void)state;
    struct err err = {0};
    struct compare c;
    struct result a = make(json_object()), b = make(json_object());
    result_set(&a, "goodput", json_pack("{s:i}", "ttft_ms", 500));
    assert_int_equal(compare(&c, &a, &b, &err), STATUS_OK);
    compare_fini(&c);
    result_set(&b, "goodput", json_pack("{s:i}", "ttft_ms", 200));
    assert_int_equal(compare(&c, &a, &b, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "goodput.ttft_ms is 500 in A.json, 200 in B.json"));
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

/* --- requirements --------------------------------------------------------------------------- */

static void test_parses_requirements(void **state)
{
    (void)state;
    static const struct {
        const char *text, *metric;
        enum require_operator op;
        double bound;
    } cases[] = {
        {"ttft_p50<=200", "ttft_p50", REQUIRE_LE, 200},
        {"ttft_p50<200", "ttft_p50", REQUIRE_LT, 200},
        {"x>=0.5", "x", REQUIRE_GE, 0.5},
        {"x>-1", "x", REQUIRE_GT, -1},
        {" x == 3 ", "x", REQUIRE_EQ, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct require r;
        assert_int_equal(require_parse(cases[i].text, &r, NULL), STATUS_OK);
        assert_string_equal(r.metric, cases[i].metric);
        assert_int_equal(r.op, cases[i].op);
        assert_true(r.bound == cases[i].bound);
    }
}

static void test_refuses_bad_requirements(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "such as"},      {"<=200", "such as"},      {"ttft_p50", "one of < <= > >= =="},
        {"x=3", "one of"},    {"x!=3", "one of"},        {"x<=", "a number after x<="},
        {"x<=ms", "\"ms\""},  {"x<=200ms", "\"200ms\""}, {"x<=nan", "a number"},
        {"x<=inf", "number"}, {"x<=1 2", "\"1 2\""},     {"TTFT<=1", "such as"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err err = {0};
        struct require r;
        assert_int_equal(require_parse(cases[i][0], &r, &err), STATUS_INVALID);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("\"%s\": %s", cases[i][0], err.text);
    }
    char longest[100];
    struct require r;
    snprintf(longest, sizeof longest, "%064d<=1", 0);
    assert_int_equal(require_parse(longest, &r, NULL), STATUS_INVALID);
    assert_int_equal(require_parse(longest + 1, &r, NULL), STATUS_OK);
}

static bool holds(const struct result *result, const char *text)
{
    struct require r;
    bool yes = false;
    double value = NAN;
    assert_int_equal(require_parse(text, &r, NULL), STATUS_OK);
    assert_int_equal(require_check(&r, result, "A.json", &value, &yes, NULL), STATUS_OK);
    assert_true(value == 5);
    return yes;
}

static void test_checks_the_median(void **state)
{
    (void)state;
    struct result a = make(json_object());
    metric(&a, "x", RESULT_LOWER, (double[]){1, 5, 100}, 3);
    assert_true(holds(&a, "x<=5") && !holds(&a, "x<=4.99"));
    assert_true(holds(&a, "x<5.01") && !holds(&a, "x<5"));
    assert_true(holds(&a, "x>=5") && !holds(&a, "x>=5.01"));
    assert_true(holds(&a, "x>4.99") && !holds(&a, "x>5"));
    assert_true(holds(&a, "x==5") && !holds(&a, "x==1"));
    result_fini(&a);
}

static void expect_near(const struct result *result, const char *name, const char *says)
{
    struct err err = {0};
    struct require r = {.bound = 1};
    double value;
    bool yes;
    snprintf(r.metric, sizeof r.metric, "%s", name);
    assert_int_equal(require_check(&r, result, "A.json", &value, &yes, &err), STATUS_INVALID);
    if (!strstr(err.text, says))
        fail_msg("%s does not say \"%s\"", err.text, says);
}

static void test_unknown_metric(void **state)
{
    (void)state;
    struct result a = make(json_object());
    expect_near(&a, "x", "A.json has no metric x; it has: none");
    static const char *const names[] = {"ttft_p50", "ttft_p99", "tokens_per_s", "latency_p50"};
    for (size_t i = 0; i < 4; i++)
        metric(&a, names[i], RESULT_LOWER, (double[]){1}, 1);
    expect_near(&a, "ttft_p51", "near it: ttft_p50");
    expect_near(&a, "ttf_p50", "near it: ttft_p50, ttft_p99");
    expect_near(&a, "zzz", "it has: ttft_p50, ttft_p99, tokens_per_s, latency_p50");
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "more_%d", i);
        metric(&a, name, RESULT_LOWER, (double[]){1}, 1);
    }
    expect_near(&a, "zzz", "more_1, more_2,");
    expect_near(&a, "zzz", ", ..."); /* there are more than are named */
    result_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_one_run_on_one_side),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_environment_is_shown),
        cmocka_unit_test(test_warnings),
        cmocka_unit_test(test_workloads),
        cmocka_unit_test(test_long_values_are_cut),
        cmocka_unit_test(test_kinds_and_units),
        cmocka_unit_test(test_objectives),
        cmocka_unit_test(test_parses_requirements),
        cmocka_unit_test(test_refuses_bad_requirements),
        cmocka_unit_test(test_checks_the_median),
        cmocka_unit_test(test_unknown_metric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
