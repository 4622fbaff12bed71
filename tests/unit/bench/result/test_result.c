/* Result files: what is written is read back, and what no reader can rely on is refused by name. */
#include "base/limits.h"
#include "bench/result/result.h"
#include "support/cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/test_result.XXXXXX";
static char path[64];

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/r.json", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_text(const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static struct result example(const char *note)
{
    struct result r;
    result_init(&r, "streaming", note, json_pack("{s:i}", "num_requests", 4),
                json_pack("{s:s}", "cpu", "x"));
    return r;
}

static void save(const struct result *r)
{
    struct err err = {0};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(result_write(r, f, &err), STATUS_OK);
    assert_int_equal(fclose(f), 0);
}

static double figure(const struct result *r, const char *metric, const char *key)
{
    const json_t *m = json_object_get(json_object_get(r->root, "metrics"), metric);
    assert_non_null(m);
    assert_true(json_is_number(json_object_get(m, key)));
    return json_number_value(json_object_get(m, key));
}

/* --- writing -------------------------------------------------------------------------------- */

static void test_comes_back(void **state)
{
    (void)state;
    struct result r = example("a note"), back;
    struct err err = {0};
    result_metric(&r, "ttft_p50", "ms", RESULT_LOWER, 12.5);
    result_metric(&r, "ttft_p50", "ms", RESULT_LOWER, 0.1);
    result_add_run(&r, json_pack("{s:[{s:f}]}", "requests", "ttft_ms", 1.5));
    result_set(&r, "duration", result_number(1.0 / 3));
    save(&r);
    assert_int_equal(result_read(&back, path, &err), STATUS_OK);
    assert_true(
        json_equal(json_object_get(r.root, "metrics"), json_object_get(back.root, "metrics")));
    assert_true(json_equal(json_object_get(r.root, "runs"), json_object_get(back.root, "runs")));
    assert_string_equal(json_string_value(json_object_get(back.root, "note")), "a note");
    assert_string_equal(json_string_value(json_object_get(back.root, "schema")), RESULT_SCHEMA);
    assert_int_equal(strlen(json_string_value(json_object_get(back.root, "date"))),
                     strlen("2026-11-21T17:00:00Z"));
    double third = json_number_value(json_object_get(back.root, "duration"));
    assert_true(fabs(third - 1.0 / 3) < 1e-15);
    result_fini(&r);
    result_fini(&back);
}

static void test_median_and_range_of_repeats(void **state)
{
    (void)state;
    struct result r = example(NULL);
    const double values[] = {5, 1, 4, 2};
    for (int i = 0; i < 3; i++)
        result_metric(&r, "x", "", RESULT_HIGHER, values[i]);
    assert_true(figure(&r, "x", "median") == 4);
    result_metric(&r, "x", "", RESULT_HIGHER, values[3]);
    assert_true(figure(&r, "x", "median") == 3); /* of 2 and 4 */
    assert_true(figure(&r, "x", "min") == 1);
    assert_true(figure(&r, "x", "max") == 5);
    const json_t *m = json_object_get(json_object_get(r.root, "metrics"), "x");
    const json_t *repeats = json_object_get(m, "repeats");
    assert_int_equal(json_array_size(repeats), 4);
    for (size_t i = 0; i < 4; i++) /* as they came, so that a trend shows */
        assert_true(json_real_value(json_array_get(repeats, i)) == values[i]);
    assert_string_equal(json_string_value(json_object_get(m, "better")), "higher");
    assert_true(json_is_null(json_object_get(r.root, "note")));
    assert_false(r.failed);
    result_fini(&r);
}

/* NAN and infinity are no JSON: they are left out of metrics, null elsewhere. */
static void test_no_nan_reaches_the_file(void **state)
{
    (void)state;
    struct result r = example(NULL), back;
    struct err err = {0};
    struct series empty = {0};
    result_metric(&r, "gone", "ms", RESULT_LOWER, NAN);
    result_metric(&r, "far", "ms", RESULT_LOWER, INFINITY);
    result_metric_series(&r, "ttft", &empty);
    result_set(&r, "n", result_number(NAN));
    result_set(&r, "i", result_number(-INFINITY));
    result_set(&r, "spread", result_spread(&empty));
    assert_int_equal(json_object_size(json_object_get(r.root, "metrics")), 0);
    assert_false(r.failed);
    save(&r);
    assert_int_equal(result_read(&back, path, &err), STATUS_OK);
    assert_true(json_is_null(json_object_get(back.root, "n")));
    assert_true(json_is_null(json_object_get(back.root, "i")));
    const json_t *spread = json_object_get(back.root, "spread");
    assert_int_equal(json_integer_value(json_object_get(spread, "n")), 0);
    assert_true(json_is_null(json_object_get(spread, "p99")));
    result_fini(&r);
    result_fini(&back);
}

static void test_series_become_metrics(void **state)
{
    (void)state;
    struct result r = example(NULL);
    struct series s = {0};
    for (int i = 0; i <= 100; i++)
        series_add(&s, 2 * i);
    result_metric_series(&r, "ttft", &s);
    assert_int_equal(json_object_size(json_object_get(r.root, "metrics")), 5);
    assert_true(figure(&r, "ttft_mean", "median") == 100);
    assert_true(figure(&r, "ttft_p50", "median") == 100);
    assert_true(figure(&r, "ttft_p90", "median") == 180);
    assert_true(figure(&r, "ttft_p95", "median") == 190);
    assert_true(figure(&r, "ttft_p99", "median") == 198);
    json_t *spread = result_spread(&s);
    assert_int_equal(json_integer_value(json_object_get(spread, "n")), 101);
    assert_true(json_real_value(json_object_get(spread, "max")) == 200);
    json_decref(spread);
    series_fini(&s);
    result_fini(&r);
}

static void test_text_that_is_no_utf8(void **state)
{
    (void)state;
    struct result r = example("caf\xe9 \xc3\xa9 \xe2\x82");
    const char *note = json_string_value(json_object_get(r.root, "note"));
    assert_string_equal(note, "caf\xef\xbf\xbd \xc3\xa9 \xef\xbf\xbd");
    assert_false(r.failed);
    result_fini(&r);
}

/* A value that could not be made fails the whole, once, at the end. */
static void test_no_memory_is_told_at_the_end(void **state)
{
    (void)state;
    struct err err = {0};
    struct result r = example(NULL);
    result_add_run(&r, NULL);
    assert_int_equal(result_write(&r, stderr, &err), STATUS_NO_MEMORY);
    result_fini(&r);
    result_init(&r, "model", NULL, NULL, json_object());
    assert_int_equal(result_write(&r, stderr, &err), STATUS_NO_MEMORY);
    result_fini(&r);
}

static void test_full_disk(void **state)
{
    (void)state;
    struct err err = {0};
    struct result r = example(NULL);
    FILE *f = fopen("/dev/full", "w");
    assert_non_null(f);
    assert_int_equal(result_write(&r, f, &err), STATUS_IO);
    assert_non_null(strstr(err.text, "No space left"));
    fclose(f);
    result_fini(&r);
}

/* --- reading -------------------------------------------------------------------------------- */

#define METRIC                                                                                     \
    "{\"unit\": \"ms\", \"better\": \"lower\", \"median\": 1, \"min\": 1, \"max\": 1, "            \
    "\"repeats\": [1]}"
#define HEAD                                                                                       \
    "{\"schema\": \"" RESULT_SCHEMA "\", \"kind\": \"streaming\", \"date\": \"\", \"note\": null," \
    "\"workload\": {}, \"environment\": {}"
#define CHART                                                                                      \
    "{\"id\": \"c\", \"title\": \"\", \"note\": \"\", \"x\": {\"label\": \"\", \"scale\": \"\"},"  \
    "\"y\": {\"label\": \"\", \"scale\": \"\"}"

static void refused(const char *text, const char *says, const char *also)
{
    struct err err = {0};
    struct result r;
    write_text(text);
    assert_int_equal(result_read(&r, path, &err), STATUS_INVALID);
    assert_null(r.root);
    assert_non_null(strstr(err.text, path));
    if (!strstr(err.text, says) || !strstr(err.text, also))
        fail_msg("\"%s\" should name \"%s\" and \"%s\"", err.text, says, also);
}

static void test_refuses_no_json(void **state)
{
    (void)state;
    refused("", "is empty", "");
    refused("[]", "an object", "an array");
    refused("{\n\"a\": 1,\n", "line 3", "");
    refused("{\"a\": 1, \"a\": 2}", "line 1", "duplicate");
    refused("{} x", "line 1", "");
    refused("{\"a\": \"\xff\"}", "line 1", "byte 0xff");
    refused("{\"a\": 1e999}", "line 1", "overflow");
}

static void test_refuses_another_schema(void **state)
{
    (void)state;
    refused("{}", "schema", "nothing");
    refused("{\"schema\": 1}", "schema", "a number");
    refused("{\"schema\": \"firstlight-bench/2\"}", "firstlight-bench/1", "firstlight-bench/2");
}

static void test_refuses_wrong_types(void **state)
{
    (void)state;
    refused("{\"schema\": \"" RESULT_SCHEMA "\"}", "kind", "a string");
    refused(HEAD "}", "metrics", "nothing");
    refused(HEAD ", \"metrics\": []}", "metrics", "an array");
    refused(HEAD ", \"metrics\": {\"x\": 1}, \"runs\": [], \"charts\": []}", "metrics.x",
            "a number");
    refused(HEAD ", \"metrics\": {\"x\": {}}, \"runs\": [], \"charts\": []}", "metrics.x.unit",
            "nothing");
    refused(HEAD ", \"metrics\": {}, \"runs\": [1], \"charts\": []}", "runs", "objects");
    refused(HEAD ", \"metrics\": {}, \"runs\": [{\"requests\": {}}], \"charts\": []}",
            "runs[0].requests", "an object");
    refused(HEAD ", \"metrics\": {}, \"runs\": [], \"charts\": [{}]}", "charts[0].id", "nothing");
}

static void test_refuses_wrong_requests(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\"sent_ms\": \"1\"", ".sent_ms"},
        {"\"first_ms\": []", ".first_ms"},
        {"\"state\": 1", ".state"},
        {"\"prompt_tokens\": null", ".prompt_tokens"},
        {"\"chunks_ms\": null", ".chunks_ms"},
        {"\"chunks_ms\": [1, null]", ".chunks_ms"},
        {"\"ttft\": 1", ".ttft"},
        {"\"ttft\": {\"queue_ms\": \"1\"}", ".ttft.queue_ms"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1000];
        snprintf(text, sizeof text,
                 HEAD ", \"metrics\": {}, \"runs\": [{\"requests\": [{}, {%s}]}], \"charts\": []}",
                 cases[i][0]);
        refused(text, "runs[0].requests[1]", cases[i][1]);
    }
}

static void test_refuses_wrong_metrics(void **state)
{
    (void)state;
    static const struct {
        const char *metric, *says, *also;
    } cases[] = {
        {"{\"unit\": \"\", \"better\": \"big\", \"median\": 1, \"min\": 1, \"max\": 1, "
         "\"repeats\": [1]}",
         "metrics.x.better", "big"},
        {"{\"unit\": \"\", \"better\": \"lower\", \"median\": null, \"min\": 1, \"max\": 1, "
         "\"repeats\": [1]}",
         "metrics.x.median", "null"},
        {"{\"unit\": \"\", \"better\": \"lower\", \"median\": 1, \"min\": 1, \"max\": 1, "
         "\"repeats\": []}",
         "metrics.x.repeats", "at least one"},
        {"{\"unit\": \"\", \"better\": \"lower\", \"median\": 1, \"min\": 1, \"max\": 1, "
         "\"repeats\": [\"1\"]}",
         "metrics.x.repeats", "a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1000];
        snprintf(text, sizeof text,
                 HEAD ", \"metrics\": {\"x\": %s}, \"runs\": [], \"charts\": []}", cases[i].metric);
        refused(text, cases[i].says, cases[i].also);
    }
}

static void test_refuses_wrong_charts(void **state)
{
    (void)state;
    static const struct {
        const char *rest, *says;
    } cases[] = {
        {", \"lines\": 1, \"marks\": []}", "charts[0].lines"},
        {", \"lines\": [1], \"marks\": []}", "charts[0].lines"},
        {", \"lines\": [{\"name\": \"\", \"style\": \"\", \"points\": [[1]]}], \"marks\": []}",
         "charts[0].lines[0].points"},
        {", \"lines\": [{\"name\": \"\", \"style\": \"\", \"points\": [[1, \"2\"]]}], "
         "\"marks\": []}",
         "charts[0].lines[0].points"},
        {", \"lines\": [], \"marks\": [{\"x\": null}]}", "charts[0].marks[0].x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1000];
        snprintf(text, sizeof text,
                 HEAD ", \"metrics\": {}, \"runs\": [], \"charts\": [" CHART "%s]}", cases[i].rest);
        refused(text, cases[i].says, "expected");
    }
}

/* What a newer program adds does not make a file unreadable. */
static void test_takes_unknown_fields(void **state)
{
    (void)state;
    struct err err = {0};
    struct result r;
    write_text(HEAD ", \"metrics\": {\"x\": " METRIC "}, \"runs\": [{\"new\": 1, \"requests\": "
                    "[{\"newer\": [], \"first_ms\": null, \"ttft\": null, \"chunks_ms\": [1.5, "
                    "2]}]}], \"charts\": [" CHART ", \"lines\": [{\"name\": \"\", "
                    "\"style\": \"\", \"points\": [[1, 2], [1, 2, 0, 3]]}], \"marks\": [], "
                    "\"more\": 1}], \"newest\": {}}");
    if (result_read(&r, path, &err))
        fail_msg("%s", err.text);
    result_fini(&r);
}

static void test_no_file(void **state)
{
    (void)state;
    struct err err = {0};
    struct result r;
    assert_int_equal(result_read(&r, folder, &err), STATUS_IO);
    assert_non_null(strstr(err.text, folder));
    assert_non_null(strstr(err.text, "directory"));
    assert_int_equal(result_read(&r, "/nowhere/at/all.json", &err), STATUS_IO);
    assert_non_null(strstr(err.text, "/nowhere/at/all.json: No such file"));
    assert_null(r.root);
}

/* A sparse file one byte past the limit: refused by its size, not parsed. */
static void test_file_past_the_limit(void **state)
{
    (void)state;
    struct err err = {0};
    struct result r;
    write_text("");
    assert_int_equal(truncate(path, (off_t)LIMIT_RESULT_BYTES + 1), 0);
    assert_int_equal(result_read(&r, path, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "larger than the 64 MiB"));
    assert_int_equal(truncate(path, LIMIT_RESULT_BYTES), 0);
    assert_int_equal(result_read(&r, path, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "line 1"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comes_back),
        cmocka_unit_test(test_median_and_range_of_repeats),
        cmocka_unit_test(test_no_nan_reaches_the_file),
        cmocka_unit_test(test_series_become_metrics),
        cmocka_unit_test(test_text_that_is_no_utf8),
        cmocka_unit_test(test_no_memory_is_told_at_the_end),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_refuses_no_json),
        cmocka_unit_test(test_refuses_another_schema),
        cmocka_unit_test(test_refuses_wrong_types),
        cmocka_unit_test(test_refuses_wrong_requests),
        cmocka_unit_test(test_refuses_wrong_metrics),
        cmocka_unit_test(test_refuses_wrong_charts),
        cmocka_unit_test(test_takes_unknown_fields),
        cmocka_unit_test(test_no_file),
        cmocka_unit_test(test_file_past_the_limit),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
