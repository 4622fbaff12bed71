/* The report's page: escaped, whole, the same bytes again, and not to be broken by any JSON. */
#include "bench/report/report_page.h"
#include "bench/result/result.h"
#include "support/bench_sample.h"
#include "support/cmocka_all.h"
#include "support/random.h"
#include "support/xml.h"

#include <stdio.h>

static char *page_of(const json_t *a, const json_t *b)
{
    const struct figures_file files[] = {{"dir/a.json", a}, {"dir/\xff<b>.json", b}};
    const size_t n = b ? 2 : 1;
    struct figures f;
    struct buf out = {0};
    assert_true(figures_make(&f, files, n));
    report_page_write(&out, files, n, &f);
    assert_false(out.failed);
    figures_fini(&f);
    const char *body = strstr(buf_str(&out), "<body>"), *end = strstr(buf_str(&out), "</html>");
    assert_non_null(body);
    assert_non_null(end);
    assert_true(xml_is_well_formed(body, end));
    return buf_take(&out);
}

static void the_same_file_gives_the_same_bytes(void **state)
{
    (void)state;
    json_t *root = bench_sample_read();
    char *one = page_of(root, root), *two = page_of(root, root);
    assert_string_equal(one, two);
    assert_int_equal(xml_count(one, "class=\"chart wide\""), xml_count(one, "<figure "));
    assert_int_equal(xml_count(one, "class=\"chart narrow\""), xml_count(one, "<figure "));
    free(one);
    free(two);
    json_decref(root);
}

static void texts_are_escaped(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    json_object_set_new(root, "note", json_string("<script>&\"'"));
    json_object_set_new(json_object_get(root, "environment"), "<script>", json_string("<img>"));
    bench_sample_metric(root, "<script>", "<script>", "lower", 1, 2);
    char *page = page_of(root, root);
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "<img"));
    assert_non_null(strstr(page, "&lt;script&gt;&amp;&quot;&#39;"));
    assert_non_null(strstr(page, "dir/\xef\xbf\xbd&lt;b&gt;.json"));
    free(page);
    json_decref(root);
}

static void changes_are_told_from_noise(void **state)
{
    (void)state;
    json_t *a = bench_sample_empty(), *b = bench_sample_empty();
    bench_sample_metric(a, "faster", "tokens/s", "higher", 9, 11);
    bench_sample_metric(b, "faster", "tokens/s", "higher", 14, 16);
    bench_sample_metric(a, "slower", "ms", "lower", 9, 11);
    bench_sample_metric(b, "slower", "ms", "lower", 11.5, 12.5);
    bench_sample_metric(a, "noise", "ms", "lower", 90, 110);
    bench_sample_metric(b, "noise", "ms", "lower", 80, 100);
    bench_sample_metric(a, "zero", "ms", "lower", 0, 0);
    bench_sample_metric(b, "zero", "ms", "lower", 5, 5);
    bench_sample_metric(a, "many", "ms", "lower", 2, 2);
    bench_sample_metric(b, "many", "ms", "lower", 50, 50);
    char *page = page_of(a, b);
    assert_non_null(strstr(page, "<small class=\"change worse\">\u00d7 25 worse</small>"));
    assert_non_null(strstr(page, "<small class=\"change better\">+50.0 % better</small>"));
    assert_non_null(strstr(page, "<small class=\"change worse\">+20.0 % worse</small>"));
    assert_non_null(strstr(page, "<small class=\"change \">\u221210.0 % noise</small>"));
    assert_null(strstr(page, "No verdict"));
    assert_int_equal(xml_count(page, "<small class=\"change"), 4); /* nothing of zero */
    free(page);
    json_decref(a);
    json_decref(b);
}

/* A single run of each: the change is shown, and that it proves nothing. */
static void doubts_are_told(void **state)
{
    (void)state;
    json_t *a = bench_sample_empty(), *b = bench_sample_empty();
    bench_sample_single(a, "ttft_p50", "ms", "lower", 100);
    bench_sample_single(b, "ttft_p50", "ms", "lower", 50);
    char *page = page_of(a, b);
    assert_non_null(strstr(page, "No verdict beside A: B is a single run, which proves nothing"));
    assert_non_null(strstr(page, "<small class=\"change \">\u221250.0 %</small>"));
    free(page);
    json_decref(a);
    json_decref(b);
}

/* Files that do not compare get no verdict, not even on the metrics before the one that differs. */
static void what_does_not_compare_has_no_verdict(void **state)
{
    (void)state;
    json_t *a = bench_sample_empty(), *b = bench_sample_empty();
    bench_sample_metric(a, "ttft_p50", "ms", "lower", 1, 2);
    bench_sample_metric(b, "ttft_p50", "ms", "lower", 11, 12);
    bench_sample_metric(a, "other", "ms", "lower", 1, 2);
    bench_sample_metric(b, "other", "s", "lower", 1, 2);
    char *page = page_of(a, b);
    assert_non_null(strstr(page, "The figures do not compare with those of A: metrics.other.unit"));
    assert_int_equal(xml_count(page, "class=\"change better"), 0);
    assert_int_equal(xml_count(page, "class=\"change worse"), 0);
    free(page);
    json_decref(a);
    json_decref(b);
}

static void a_reader_is_warned_first(void **state)
{
    (void)state;
    json_t *a = bench_sample_empty(), *b = bench_sample_empty();
    json_t *requests = bench_sample_run(a);
    for (int i = 0; i < 12; i++) {
        char error[24];
        json_t *request = bench_sample_request(0, 1, 1, 0);
        snprintf(error, sizeof error, "error %d", i < 2 ? 4 : i);
        json_object_set_new(request, "state", json_string("failed"));
        json_object_set_new(request, "error", json_string(error));
        json_array_append_new(requests, request);
    }
    json_array_append_new(requests, bench_sample_request(0, 1, 1, 0));
    json_t *run = json_array_get(json_object_get(a, "runs"), 0);
    json_object_set_new(run, "interrupted", json_true());
    json_object_set_new(run, "generator",
                        json_pack("{s:b, s:s}", "bottleneck", 1, "why", "late & slow"));
    json_object_set_new(b, "workload", json_object());
    char *page = page_of(a, b);
    assert_non_null(strstr(page, "12 of 13 requests failed"));
    assert_non_null(strstr(page, "<li>3 \u00d7 error 4</li>"));
    assert_non_null(strstr(page, "<li>2 with other errors</li>"));
    assert_non_null(strstr(page, "Run 1 was interrupted"));
    assert_non_null(strstr(page, "the load generator was the bottleneck: late &amp; slow"));
    assert_non_null(strstr(
        page, "The figures do not compare with those of A: not the same measurement: workload"));
    assert_true(strstr(page, "12 of 13") < strstr(page, "<figure"));
    free(page);
    json_decref(a);
    json_decref(b);
}

static void facts_that_differ_are_marked(void **state)
{
    (void)state;
    json_t *a = bench_sample_empty(), *b = bench_sample_empty();
    json_object_set_new(json_object_get(a, "environment"), "machine",
                        json_pack("{s:i, s:s}", "cores", 2, "name", "x"));
    json_object_set_new(json_object_get(b, "environment"), "machine",
                        json_pack("{s:i, s:s}", "cores", 4, "name", "x"));
    char *page = page_of(a, b);
    assert_non_null(strstr(page, "<tr class=\"differs\"><th scope=\"row\">machine.cores</th>"
                                 "<td><div>2</div></td><td><div>4</div></td></tr>"));
    assert_non_null(strstr(page, "<tr><th scope=\"row\">machine.name</th>"));
    free(page);
    json_decref(a);
    json_decref(b);
}

/* Of one repeat there is no median and no range. */
static void repeats_are_spoken_of_where_there_are_several(void **state)
{
    (void)state;
    json_t *one = bench_sample_empty(), *two = bench_sample_empty();
    bench_sample_single(one, "blocking_ttft_p50", "ms", "lower", 20);
    bench_sample_single(one, "streaming_ttft_p50", "ms", "lower", 4);
    bench_sample_single(one, "tokens_per_s", "tokens/s", "higher", 9);
    char *page = page_of(one, NULL);
    assert_null(strstr(page, "repeats"));
    assert_non_null(strstr(page, "<p>Distributions</p>"));
    free(page);
    bench_sample_metric(two, "blocking_ttft_p50", "ms", "lower", 20, 21);
    bench_sample_metric(two, "streaming_ttft_p50", "ms", "lower", 4, 5);
    page = page_of(two, NULL);
    assert_non_null(strstr(page, "<p>The median of the repeats.</p>"));
    assert_non_null(strstr(page, "<p>Distributions. Of several repeats: the median, and the"));
    free(page);
    json_decref(one);
    json_decref(two);
}

/* One name for each thing: the modes' are those that the files have. */
static void a_mode_has_one_name(void **state)
{
    (void)state;
    static const char *const modes[] = {"blocking", "sync", "streaming"};
    json_t *root = bench_sample_empty();
    for (size_t i = 0; i < 3; i++) {
        char metric[32];
        snprintf(metric, sizeof metric, "%s_ttft_p50", modes[i]);
        bench_sample_single(root, metric, "ms", "lower", 5);
        json_array_append_new(bench_sample_run(root), bench_sample_request(0, 5, 0, 0));
        json_object_set_new(json_array_get(json_object_get(root, "runs"), i), "mode",
                            json_string(modes[i]));
    }
    char *page = page_of(root, NULL);
    for (size_t i = 0; i < 3; i++) {
        char title[64];
        snprintf(title, sizeof title, "<h3>%s: TTFT, p50</h3>", modes[i]);
        assert_non_null(strstr(page, title));
        snprintf(title, sizeof title, "<h3>%s: TTFT, histogram</h3>", modes[i]);
        assert_non_null(strstr(page, title));
    }
    assert_int_equal(xml_count(page, "cpu-sync"), 1);
    assert_null(strstr(page, "stream off"));
    assert_null(strstr(page, "One at a time"));
    assert_null(strstr(page, "first visible token"));
    assert_null(strstr(page, "median"));
    free(page);
    json_decref(root);
}

static json_t *anything(struct random *seed)
{
    switch (random_below(seed, 9)) {
    case 0:
        return json_null();
    case 1:
        return json_real(-1e300);
    case 2:
        return json_integer(INT64_MAX);
    case 3:
        return json_string("\x01<>&");
    case 4:
        return json_array();
    case 5:
        return json_object();
    case 6:
        return json_pack("[[], {}, n, f]", 1e-300);
    case 7:
        return json_true();
    default:
        return json_real(random_below(seed, 1000) / 10.0 - 20);
    }
}

/* Replaces something somewhere below `v`. */
static void mutate(json_t *v, struct random *seed)
{
    while (true) {
        bool here = random_below(seed, 4) == 0;
        json_t *next = NULL;
        if (json_is_object(v) && json_object_size(v)) {
            void *at = json_object_iter(v);
            for (uint32_t i = random_below(seed, (uint32_t)json_object_size(v)); i > 0; i--)
                at = json_object_iter_next(v, at);
            next = json_object_iter_value(at);
            if (here || !(json_is_object(next) || json_is_array(next))) {
                json_object_iter_set_new(v, at, anything(seed));
                return;
            }
        } else if (json_is_array(v) && json_array_size(v)) {
            size_t i = random_below(seed, (uint32_t)json_array_size(v));
            next = json_array_get(v, i);
            if (here || !(json_is_object(next) || json_is_array(next))) {
                json_array_set_new(v, i, anything(seed));
                return;
            }
        } else {
            return;
        }
        v = next;
    }
}

/* Past the checks of result_read too: whatever a later schema lets through. */
static void no_json_breaks_it(void **state)
{
    (void)state;
    json_t *sample = bench_sample_read();
    struct random seed = {1};
    for (int i = 0; i < 150; i++) {
        json_t *root = json_deep_copy(sample);
        for (uint32_t k = random_below(&seed, 20) + 1; k > 0; k--)
            mutate(root, &seed);
        free(page_of(root, i % 2 ? sample : NULL));
        json_decref(root);
    }
    json_decref(sample);
}

static void the_sample_stays_readable(void **state)
{
    (void)state;
    struct result r;
    struct err err = {0};
    assert_int_equal(result_read(&r, BENCH_SAMPLE, &err), STATUS_OK);
    char *page = page_of(r.root, NULL);
    assert_non_null(strstr(page, "<h3>Parts of TTFT</h3>"));
    free(page);
    result_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_file_gives_the_same_bytes),
        cmocka_unit_test(texts_are_escaped),
        cmocka_unit_test(changes_are_told_from_noise),
        cmocka_unit_test(doubts_are_told),
        cmocka_unit_test(what_does_not_compare_has_no_verdict),
        cmocka_unit_test(a_reader_is_warned_first),
        cmocka_unit_test(facts_that_differ_are_marked),
        cmocka_unit_test(repeats_are_spoken_of_where_there_are_several),
        cmocka_unit_test(a_mode_has_one_name),
        cmocka_unit_test(no_json_breaks_it),
        cmocka_unit_test(the_sample_stays_readable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
