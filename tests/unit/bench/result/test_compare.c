/* Two results compared: what is refused, and what is called better, worse or noise. */
#include "bench/result/compare.h"
#include "bench/result/random.h"
#include "bench/result/require.h"
#include "support/cmocka_all.h"
#include "support/sanitized.h"

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
    static const char *const names[] = {"A.json", "B.json"};
    return compare_make(c, (struct compare_side){a, names, 1},
                        (struct compare_side){b, names + 1, 1}, err);
}

/* --- verdicts ------------------------------------------------------------------------------- */

#define REPEATS 5

static void expect(enum result_better better, const double *before, const double *after,
                   enum compare_verdict verdict)
{
    struct result a = make(json_object()), b = make(json_object());
    struct compare c;
    metric(&a, "x", better, before, REPEATS);
    metric(&b, "x", better, after, REPEATS);
    assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
    assert_int_equal(c.n_rows, 1);
    assert_int_equal(json_array_size(c.doubts), 0);
    assert_string_equal(compare_verdict_name(c.rows[0].verdict), compare_verdict_name(verdict));
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

/* Five and five that lie apart are the one of 126 pairs of arrangements that differs most. */
static void test_verdicts(void **state)
{
    (void)state;
    const double low[] = {10, 11, 12, 10.5, 11.5}, high[] = {13, 14, 15, 13.5, 14.5};
    const double touching[] = {11.7, 14, 15, 13.5, 14.5}, zeros[REPEATS] = {0};
    expect(RESULT_LOWER, low, high, COMPARE_WORSE);
    expect(RESULT_LOWER, high, low, COMPARE_BETTER);
    expect(RESULT_HIGHER, low, high, COMPARE_BETTER);
    expect(RESULT_HIGHER, high, low, COMPARE_WORSE);
    expect(RESULT_NEITHER, low, high, COMPARE_CHANGED);
    expect(RESULT_LOWER, zeros, low, COMPARE_WORSE);
    expect(RESULT_LOWER, low, touching, COMPARE_NOISE);
    expect(RESULT_LOWER, touching, low, COMPARE_NOISE);
    expect(RESULT_NEITHER, low, low, COMPARE_NOISE);
    expect(RESULT_LOWER, zeros, zeros, COMPARE_NOISE);
}

static void expect_doubt(const struct result *a, const struct result *b, const char *says)
{
    struct compare c;
    struct buf text = {0};
    assert_int_equal(compare(&c, a, b, NULL), STATUS_OK);
    compare_text(&c, false, &text);
    for (size_t i = 0; i < c.n_rows && says; i++)
        assert_int_equal(c.rows[i].verdict, COMPARE_NONE);
    if (says && !strstr(buf_str(&text), says))
        fail_msg("\"%s\" is not in:\n%s", says, buf_str(&text));
    if (!says && json_array_size(c.doubts))
        fail_msg("unexpected doubt:\n%s", buf_str(&text));
    buf_fini(&text);
    compare_fini(&c);
}

static const double fast[] = {100, 101, 102, 103, 104, 105},
                    slow[] = {150, 151, 152, 153, 154, 155};

/* One run or four of them prove nothing, however far apart they lie. */
static void test_few_repeats(void **state)
{
    (void)state;
    struct result whole = make(json_object()), four = make(json_object()),
                  one = make(json_object());
    metric(&whole, "x", RESULT_LOWER, fast, 5);
    metric(&four, "x", RESULT_LOWER, slow, 4);
    metric(&one, "x", RESULT_LOWER, slow, 1);
    expect_doubt(&whole, &one, "no verdict: B.json is a single run, which proves nothing");
    expect_doubt(&one, &whole, "no verdict: A.json is a single run");
    expect_doubt(&whole, &four,
                 "no verdict: B.json has 4 repeats, which are too few: give at "
                 "least 5 (--repeat-runs 5)");
    result_fini(&whole);
    result_fini(&four);
    result_fini(&one);
}

/* --- runs: starts, the machine, the cache --------------------------------------------------- */

/* n repeats of n_starts, on a machine whose figures are `speed` and so many percent of which were
 * stolen. */
static struct result make_runs(const double *values, size_t n, size_t n_starts, double speed,
                               double stolen)
{
    struct result r = make(json_object());
    metric(&r, "ttft_p50", RESULT_LOWER, values, n);
    for (size_t i = 0; i < n; i++) {
        double wobble = 0.01 * (double)i;
        result_add_run(&r,
                       json_pack("{s:[], s:i, s:i, s:i, s:{s:f, s:f, s:f}}", "requests", "start",
                                 (int)(i % n_starts), "prompt_tokens", 384, "cached_tokens", 3,
                                 "machine", "arithmetic", speed + wobble, "reading",
                                 speed / 4 + wobble, "stolen_percent", stolen + wobble));
    }
    return r;
}

static void test_starts(void **state)
{
    (void)state;
    struct result a = make_runs(fast, 5, 5, 100, 0), b = make_runs(slow, 5, 5, 100, 0);
    struct result one = make_runs(slow, 5, 1, 100, 0), two = make_runs(slow, 6, 2, 100, 0);
    expect_doubt(&a, &b, NULL);
    expect_doubt(&a, &one, "no verdict: B.json has 5 repeats of 1 start of the server");
    expect_doubt(&a, &two, "no verdict: B.json has 6 repeats of 2 starts of the server");
    /* A file from before starts were counted holds one. */
    json_object_del(json_array_get(json_object_get(b.root, "runs"), 0), "start");
    for (size_t i = 1; i < 5; i++)
        json_object_del(json_array_get(json_object_get(b.root, "runs"), i), "start");
    expect_doubt(&a, &b, "no verdict: B.json has 5 repeats of 1 start");
    result_fini(&a);
    result_fini(&b);
    result_fini(&one);
    result_fini(&two);
}

/* Numbers with gaps are no more starts than there are; names of files are any bytes. */
static void test_odd_starts(void **state)
{
    (void)state;
    static const char *const names[] = {"a\xff.json", "b.json"};
    struct result a = make_runs(fast, 5, 5, 100, 0), b = make_runs(slow, 5, 1, 100, 0);
    struct compare c;
    json_object_set_new(json_array_get(json_object_get(b.root, "runs"), 3), "start",
                        json_integer(4));
    expect_doubt(&a, &b, "no verdict: B.json has 5 repeats of 2 starts of the server");
    assert_int_equal(compare_make(&c, (struct compare_side){&b, names, 1},
                                  (struct compare_side){&a, names + 1, 1}, NULL),
                     STATUS_OK);
    assert_int_equal(json_array_size(c.doubts), 1);
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

/* Five files of one start each are five measurements, each the median of its repeats. */
static void test_several_files(void **state)
{
    (void)state;
    static const char *const names[] = {"1", "2", "3", "4", "5"};
    struct result a[5], b[5];
    struct compare c;
    for (size_t i = 0; i < 5; i++) {
        const double values[] = {fast[i], 1000, fast[i] + 1}, others[] = {slow[i], 1, slow[i] + 1};
        a[i] = make_runs(values, 3, 1, 100, 0);
        b[i] = make_runs(others, 3, 1, 100, 0);
    }
    assert_int_equal(compare_make(&c, (struct compare_side){a, names, 5},
                                  (struct compare_side){b, names, 5}, NULL),
                     STATUS_OK);
    assert_int_equal(json_array_size(c.doubts), 0);
    assert_int_equal(c.rows[0].before.n, 15);
    assert_true(c.rows[0].before.max == 1000 && c.rows[0].after.min == 1);
    assert_int_equal(c.rows[0].verdict, COMPARE_WORSE);
    compare_fini(&c);
    assert_int_equal(compare_make(&c, (struct compare_side){a, names, 5},
                                  (struct compare_side){b, names, 4}, NULL),
                     STATUS_OK);
    assert_int_equal(json_array_size(c.doubts), 1);
    compare_fini(&c);
    for (size_t i = 0; i < 5; i++) {
        result_fini(&a[i]);
        result_fini(&b[i]);
    }
}

/* A machine that does 5 percent less, or loses 3 percent of its time, did not stay the same. */
static void test_drift(void **state)
{
    (void)state;
    struct result a = make_runs(fast, 5, 5, 100, 0), slower = make_runs(slow, 5, 5, 95, 0);
    struct result stolen = make_runs(slow, 5, 5, 100, 3), little = make_runs(slow, 5, 5, 99, 1);
    expect_doubt(&a, &slower,
                 "no verdict: the machine drifted, which proves nothing of the "
                 "program: arithmetic of one thread was 100.0 GFLOP/s before and 95.0 "
                 "after");
    expect_doubt(&a, &slower, "reading of one thread was 25.0 GB/s before and 23.8 after");
    expect_doubt(&a, &stolen, "stolen processor time was 0.0 % before and 3.0 after");
    expect_doubt(&a, &little, NULL);
    /* Another machine has not drifted. */
    json_object_set_new(json_object_get(slower.root, "environment"), "cpu", json_string("other"));
    expect_doubt(&a, &slower, NULL);
    /* A file that does not say. */
    json_object_del(json_array_get(json_object_get(little.root, "runs"), 2), "machine");
    struct compare c;
    assert_int_equal(compare(&c, &a, &little, NULL), STATUS_OK);
    assert_int_equal(json_array_size(c.notes), 1);
    assert_int_equal(c.rows[0].verdict, COMPARE_WORSE);
    compare_fini(&c);
    result_fini(&a);
    result_fini(&slower);
    result_fini(&stolen);
    result_fini(&little);
}

static void test_cached(void **state)
{
    (void)state;
    struct result a = make_runs(slow, 5, 5, 100, 0), b = make_runs(fast, 5, 5, 100, 0);
    for (size_t i = 0; i < 5; i++)
        json_object_set_new(json_array_get(json_object_get(b.root, "runs"), i), "cached_tokens",
                            json_integer(6));
    expect_doubt(&a, &b, NULL); /* 0.8 and 1.6 percent */
    for (size_t i = 0; i < 5; i++)
        json_object_set_new(json_array_get(json_object_get(b.root, "runs"), i), "cached_tokens",
                            json_integer(380));
    expect_doubt(&a, &b,
                 "no verdict: the prefix cache had 0.8 % of the prompt tokens before and "
                 "99.0 % after");
    expect_doubt(&a, &b, "cached prompt tokens: 15 of 1920 before, 1900 of 1920 after\n");
    result_fini(&a);
    result_fini(&b);
}

/* --- equals --------------------------------------------------------------------------------- */

static const char *const headline[] = {"ttft_p50", "ttft_p95",     "ttft_p99",
                                       "itl_p99",  "tokens_per_s", "failures"};
#define N_HEADLINE 6
#define N_OTHERS   53

/* A figure of a repeat: what the repeat's metrics have in common, a little of its own, and now and
 * then something that took much longer. */
static double draw(struct random *r, double common)
{
    double x = exp(0.03 * random_normal(r) + common);
    return random_unit(r) < 0.1 ? x * (1 + random_gamma(r, 1, 0.5)) : x;
}

static struct result make_random(struct random *r, size_t n, double factor)
{
    struct result a = make(json_object());
    for (size_t i = 0; i < n; i++) {
        double common = 0.05 * random_normal(r);
        char name[32];
        for (size_t k = 0; k < N_HEADLINE - 1; k++)
            result_metric(&a, headline[k], "ms", RESULT_LOWER, factor * draw(r, common));
        result_metric(&a, headline[N_HEADLINE - 1], "1", RESULT_LOWER, random_below(r, 20) == 0);
        for (size_t k = 0; k < N_OTHERS; k++) {
            snprintf(name, sizeof name, "other_%zu", k);
            result_metric(&a, name, "ms", RESULT_LOWER, draw(r, k % 2 ? common : 0));
        }
    }
    return a;
}

/* Comparisons that call any metric of a family better or worse. */
static void count_verdicts(size_t n_before, size_t n_after, double factor, size_t n_comparisons,
                           size_t *of_headlines, size_t *of_others)
{
    struct random r;
    random_init(&r, 17, n_before);
    *of_headlines = *of_others = 0;
    for (size_t i = 0; i < n_comparisons; i++) {
        struct result a = make_random(&r, n_before, 1), b = make_random(&r, n_after, factor);
        bool found[2] = {false, false};
        struct compare c;
        assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
        assert_int_equal(c.n_rows, N_HEADLINE + N_OTHERS);
        for (size_t k = 0; k < c.n_rows; k++)
            found[c.rows[k].headline] |= c.rows[k].verdict != COMPARE_NOISE;
        *of_headlines += found[true];
        *of_others += found[false];
        compare_fini(&c);
        result_fini(&a);
        result_fini(&b);
    }
}

#define EQUALS (SANITIZED ? 20 : 200) /* comparisons */

/* Of equal programs at most two comparisons in a hundred say anything, of any of 59 metrics. */
static void test_equals(void **state)
{
    (void)state;
    size_t headlines, others;
    count_verdicts(5, 5, 1, EQUALS, &headlines, &others);
    assert_in_range(headlines, 0, EQUALS / 50);
    assert_in_range(others, 0, EQUALS / 50);
    count_verdicts(5, 9, 1, EQUALS, &headlines, &others);
    assert_in_range(headlines, 0, EQUALS / 50);
    assert_in_range(others, 0, EQUALS / 50);
}

/* It is not silent either: 40 percent is found by five repeats in most cases, 20 by eight. */
static void test_differences_are_found(void **state)
{
    (void)state;
    size_t headlines, others;
    count_verdicts(5, 5, 1.4, 20, &headlines, &others);
    assert_in_range(headlines, 14, 20);
    assert_in_range(others, 0, 2);
    if (SANITIZED)
        return;
    count_verdicts(8, 8, 1.2, 20, &headlines, &others);
    assert_in_range(headlines, 16, 20);
}

/* --- what is shown -------------------------------------------------------------------------- */

static void test_changes(void **state)
{
    (void)state;
    struct result a = make(json_object()), b = make(json_object());
    struct compare c;
    metric(&a, "x", RESULT_LOWER, (double[]){90, 100, 130, 95, 101}, 5);
    metric(&b, "x", RESULT_LOWER, (double[]){60, 80, 85, 79, 84}, 5);
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
    compare_text(&c, true, &text);
    assert_non_null(strstr(buf_str(&text), "100.0 [90.00, 130.0]"));
    assert_non_null(strstr(buf_str(&text), "-20.0 %  0.008  better"));
    assert_non_null(strstr(buf_str(&text), "only in A.json: gone\n"));
    assert_non_null(strstr(buf_str(&text), "only in B.json: came   \n"));
    assert_non_null(strstr(buf_str(&text), "1 better, 2 no verdict\n"));
    assert_null(strstr(buf_str(&text), "environments differ"));
    buf_fini(&text);
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

static bool shows(const struct compare *c, bool all, const char *name)
{
    struct buf text = {0};
    compare_text(c, all, &text);
    bool found = strstr(buf_str(&text), name) != NULL;
    buf_fini(&text);
    return found;
}

/* What a person looks at first, and the rest behind --all; a kind without any of it shows all. */
static void test_headlines(void **state)
{
    (void)state;
    struct result a = make(json_object()), b = make(json_object());
    struct compare c;
    for (size_t i = 0; i < N_HEADLINE; i++) {
        metric(&a, headline[i], RESULT_LOWER, fast, 5);
        metric(&b, headline[i], RESULT_LOWER, slow, 5);
    }
    metric(&a, "latency_p50", RESULT_LOWER, fast, 5);
    metric(&b, "latency_p50", RESULT_LOWER, slow, 5);
    assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
    for (size_t i = 0; i < N_HEADLINE; i++)
        assert_true(shows(&c, false, headline[i]) && shows(&c, true, headline[i]));
    assert_false(shows(&c, false, "latency_p50"));
    assert_true(shows(&c, true, "latency_p50"));
    assert_true(shows(&c, false, "6 worse; 1 more metrics with --all\n"));
    assert_true(shows(&c, true, "7 worse\n"));
    compare_fini(&c);
    for (size_t i = 0; i < N_HEADLINE; i++)
        json_object_del(json_object_get(a.root, "metrics"), headline[i]);
    assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
    assert_true(shows(&c, false, "latency_p50"));
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

static void test_json(void **state)
{
    (void)state;
    struct result a = make(json_object()), b = make(json_object());
    struct compare c;
    metric(&a, "x", RESULT_LOWER, (double[]){90, 100, 91, 99, 92}, 5);
    metric(&b, "x", RESULT_LOWER, (double[]){50, 60, 51, 59, 52}, 5);
    metric(&b, "came", RESULT_LOWER, (double[]){1}, 1);
    assert_int_equal(compare(&c, &a, &b, NULL), STATUS_OK);
    json_t *json = compare_json(&c);
    const char *verdict, *file, *came;
    double change, max, p;
    assert_int_equal(
        json_unpack(json, "{s:{s:{s:s, s:f, s:f, s:{s:F}}}, s:{s:[{s:s}]}, s:[s], s:[], s:[]}",
                    "metrics", "x", "verdict", &verdict, "change", &change, "p", &p, "before",
                    "max", &max, "after", "files", "file", &file, "only_after", &came,
                    "only_before", "doubts"),
        0);
    assert_string_equal(verdict, "better");
    assert_string_equal(file, "B.json");
    assert_string_equal(came, "came");
    assert_true(change == -40 && max == 100 && fabs(p - 2.0 / 252) < 1e-9);
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
    compare_text(&c, false, &text);
    assert_non_null(strstr(buf_str(&text), "commit         \"a\" -> \"b\"\n"));
    assert_non_null(strstr(buf_str(&text), "cpu            absent -> \"new\"\n"));
    assert_null(strstr(buf_str(&text), "threads"));
    assert_null(strstr(buf_str(&text), "later"));
    buf_fini(&text);
    compare_fini(&c);
    result_fini(&a);
    result_fini(&b);
}

static size_t count_warnings(const json_t *comparison, const char *side)
{
    const json_t *files = json_object_get(json_object_get(comparison, side), "files");
    return json_array_size(json_object_get(json_array_get(files, 0), "warnings"));
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
    compare_text(&c, false, &text);
    assert_non_null(strstr(buf_str(&text), "B.json: 3 of 16 requests failed\n"));
    assert_non_null(strstr(buf_str(&text), "B.json: 1 of 2 runs were interrupted\n"));
    assert_non_null(
        strstr(buf_str(&text), "B.json: the load generator was the bottleneck in 1 of 2 runs\n"));
    assert_null(strstr(buf_str(&text), "A.json: "));
    json_t *json = compare_json(&c);
    assert_int_equal(count_warnings(json, "after"), 3);
    assert_int_equal(count_warnings(json, "before"), 0);
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
        cmocka_unit_test(test_few_repeats),
        cmocka_unit_test(test_starts),
        cmocka_unit_test(test_odd_starts),
        cmocka_unit_test(test_several_files),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_cached),
        cmocka_unit_test(test_equals),
        cmocka_unit_test(test_differences_are_found),
        cmocka_unit_test(test_headlines),
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
