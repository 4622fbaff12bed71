/* Whatever result_read lets through, its readers survive: a file with one value after the other
 * replaced by one of another type, and with bytes changed. Sanitizers see what they do. */
#include "bench/result/compare.h"
#include "bench/result/history.h"
#include "bench/result/require.h"
#include "support/cmocka_all.h"
#include "support/random.h"
#include "unit/bench/bench_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char sample[] =
    "{\"schema\": \"firstlight-bench/1\", \"kind\": \"streaming\", \"date\": \"2026\", \"note\": "
    "null,"
    "\"workload\": {\"n\": 1, \"list\": [1, {\"a\": 2}]}, \"environment\": {\"cpu\": \"x\", "
    "\"engine\": null, \"model\": \"m\"}, \"metrics\": {\"ttft_p50\": {\"unit\": \"ms\", "
    "\"better\": \"lower\", \"median\": 1.5, \"min\": 1, \"max\": 2, \"repeats\": [1, 2]}, "
    "\"tokens_per_s\": {\"unit\": \"\", \"better\": \"neither\", \"median\": 0, \"min\": 0, "
    "\"max\": 0, \"repeats\": [0]}}, \"runs\": [{\"n\": 2, \"failed\": 1, \"generator\": "
    "{\"bottleneck\": true}, \"requests\": [{\"sent_ms\": 1, \"state\": \"ok\", \"ttft\": "
    "{\"queue_ms\": 1}, \"chunks_ms\": [1, 2]}]}], \"charts\": [{\"id\": \"\", \"title\": \"\", "
    "\"note\": \"\", \"x\": {\"label\": \"\", \"scale\": \"\"}, \"y\": {\"label\": \"\", "
    "\"scale\": "
    "\"\"}, \"lines\": [{\"name\": \"\", \"style\": \"\", \"points\": [[1, 2]]}], \"marks\": "
    "[{\"x\": 1, \"label\": \"\"}]}]}";

static struct result good;

static void compare_both(const struct result *a, const struct result *b)
{
    static const char *const names[] = {"a", "b"};
    struct compare c;
    struct buf text = {0};
    struct err err = {0};
    if (compare_make(&c, (struct compare_side){a, &names[0], 1},
                     (struct compare_side){b, &names[1], 1}, &err)) {
        assert_true(err.text[0] != '\0');
    } else {
        compare_text(&c, true, &text);
        json_decref(compare_json(&c));
        assert_false(text.failed);
    }
    buf_fini(&text);
    compare_fini(&c);
}

/* True when the bytes made a result. */
static bool use(const char *bytes, size_t len)
{
    struct result r;
    struct buf text = {0};
    struct err err = {0};
    struct require require = {.metric = "ttft_p50"};
    double value;
    bool holds;
    bench_file_write(bytes, len);
    if (result_read(&r, bench_file, &err)) {
        assert_non_null(strstr(err.text, bench_file));
        assert_null(r.root);
        return false;
    }
    compare_both(&good, &r);
    compare_both(&r, &good);
    compare_both(&r, &r);
    struct history_entry entries[] = {{"b", r}, {"a", good}};
    history_sort(entries, 2);
    history_text(entries, 2, &text);
    json_decref(history_json(entries, 2));
    assert_false(text.failed);
    require_check(&require, &r, "a", &value, &holds, &err);
    buf_fini(&text);
    result_fini(&r);
    return true;
}

/* --- one value of another type -------------------------------------------------------------- */

static json_t *other(int which)
{
    switch (which) {
    case 0:
        return json_null();
    case 1:
        return json_integer(-5);
    case 2:
        return json_string("text");
    case 3:
        return json_array();
    case 4:
        return json_object();
    default:
        return json_pack("[{s:[]}]", "a");
    }
}
#define N_OTHERS 6

/* Replaces the value that *at counts down to; true when it was in `v`. */
static bool replace(json_t *v, int *at, int which)
{
    const char *key;
    json_t *inner;
    size_t i;
    json_object_foreach(v, key, inner)
    {
        if ((*at)-- == 0)
            return json_object_set_new(v, key, other(which)) == 0;
        if (replace(inner, at, which))
            return true;
    }
    json_array_foreach(v, i, inner)
    {
        if ((*at)-- == 0)
            return json_array_set_new(v, i, other(which)) == 0;
        if (replace(inner, at, which))
            return true;
    }
    return false;
}

static void test_each_value_of_another_type(void **state)
{
    (void)state;
    int n_taken = 0, n_refused = 0;
    bool there = true;
    for (int value = 0; there; value++) {
        for (int which = 0; which < N_OTHERS && there; which++) {
            int at = value;
            json_t *root = json_loads(sample, 0, NULL);
            there = replace(root, &at, which);
            char *text = json_dumps(root, 0);
            if (there && use(text, strlen(text)))
                n_taken++;
            else if (there)
                n_refused++;
            free(text);
            json_decref(root);
        }
    }
    assert_in_range(n_taken, 50, 1000); /* those that no reader relies on */
    assert_in_range(n_refused, 100, 1000);
}

/* --- bytes ---------------------------------------------------------------------------------- */

static void test_each_truncation(void **state)
{
    (void)state;
    for (size_t len = 0; len + 1 < sizeof sample; len++)
        assert_false(use(sample, len));
}

static void test_changed_bytes(void **state)
{
    (void)state;
    struct random random = {.state = 1};
    char copy[sizeof sample];
    for (int i = 0; i < 1000; i++) {
        memcpy(copy, sample, sizeof sample);
        for (int k = 0; k < 1 + i % 3; k++)
            copy[random_next(&random) % (sizeof sample - 1)] =
                "\"{}[],:0e-.n\\\xff\x01"[random_next(&random) % 15];
        use(copy, sizeof sample - 1);
    }
}

static int make_file(void **state)
{
    struct err err = {0};
    if (bench_file_make(state))
        return 1;
    bench_file_write(sample, sizeof sample - 1);
    return result_read(&good, bench_file, &err) != STATUS_OK;
}

static int remove_file(void **state)
{
    result_fini(&good);
    return bench_file_remove(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_value_of_another_type),
        cmocka_unit_test(test_each_truncation),
        cmocka_unit_test(test_changed_bytes),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
