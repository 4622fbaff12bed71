/* Result files as JSON for the tests of reports. */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_BENCH_SAMPLE_H
#define FIRSTLIGHT_TESTS_SUPPORT_BENCH_SAMPLE_H

#include "support/cmocka_all.h"

#include <jansson.h>

#define BENCH_SAMPLE "tests/golden/bench/streaming.json"

/* A streaming result without runs, metrics and charts. */
static inline json_t *bench_sample_empty(void)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:n, s:{s:i}, s:{s:s}, s:{}, s:[], s:[]}", "schema",
                             "firstlight-bench/1", "kind", "streaming", "date",
                             "2026-11-21T17:00:00Z", "note", "workload", "num_requests", 4,
                             "environment", "model", "m", "metrics", "runs", "charts");
    assert_non_null(root);
    return root;
}

static inline json_t *bench_sample_read(void)
{
    json_error_t error;
    json_t *root = json_load_file(BENCH_SAMPLE, 0, &error);
    if (!root)
        fail_msg("%s: %s", BENCH_SAMPLE, error.text);
    return root;
}

/* A request that was sent at `sent`, waited `queue` ms, was prefilled in `prefill` ms, and whose
 * client saw it `outside` ms later; then one more chunk 10 ms after the first. */
static inline json_t *bench_sample_request(double sent, double queue, double prefill,
                                           double outside)
{
    double total = queue + prefill, first = sent + total + outside;
    return json_pack("{s:f, s:f, s:f, s:f, s:s, s:n, s:[f, f], s:{s:f, s:f, s:f, s:f, s:f, s:f, "
                     "s:f, s:f}}",
                     "due_ms", sent, "sent_ms", sent, "first_ms", first, "end_ms", first + 10,
                     "state", "ok", "error", "chunks_ms", first, first + 10, "ttft", "receive_ms",
                     0.0, "tokenize_ms", 0.0, "submit_ms", 0.0, "queue_ms", queue, "cache_ms", 0.0,
                     "prefill_ms", prefill, "first_write_ms", 0.0, "total_ms", total);
}

/* An empty run at the end of `root`; returns its list of requests, borrowed. */
static inline json_t *bench_sample_run(json_t *root)
{
    json_t *run = json_pack("{s:[]}", "requests");
    assert_int_equal(json_array_append_new(json_object_get(root, "runs"), run), 0);
    return json_object_get(run, "requests");
}

static inline void bench_sample_metric(json_t *root, const char *name, const char *unit,
                                       const char *better, double low, double high)
{
    double step = (high - low) / 4;
    json_t *metric = json_pack("{s:s, s:s, s:f, s:f, s:f, s:[f, f, f, f, f]}", "unit", unit,
                               "better", better, "median", low + 2 * step, "min", low, "max", high,
                               "repeats", low, low + step, low + 2 * step, high - step, high);
    assert_int_equal(json_object_set_new(json_object_get(root, "metrics"), name, metric), 0);
}

/* One repeat alone. */
static inline void bench_sample_single(json_t *root, const char *name, const char *unit,
                                       const char *better, double v)
{
    bench_sample_metric(root, name, unit, better, v, v);
    json_t *metric = json_object_get(json_object_get(root, "metrics"), name);
    json_t *repeats = json_object_get(metric, "repeats");
    while (json_array_size(repeats) > 1)
        assert_int_equal(json_array_remove(repeats, 1), 0);
}

#endif
