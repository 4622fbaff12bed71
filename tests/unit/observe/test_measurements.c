/* The figures and where they are shown: values of a view made by hand come out under their names.
 */
#include "observe/measurements.h"
#include "unit/engine/by_hand.h"

#include "base/log.h"

#include <jansson.h>
#include <string.h>

static struct by_hand hand;
static struct metrics metrics;
static struct server_view view;

static void set_up(void)
{
    by_hand_open(&hand, 100, &(struct engine_options){0});
    by_hand_submit(&hand, fake_params(6, 60, 2));
    by_hand_finish(&hand);
    metrics_init(&metrics);
    metrics.prompt_tokens = 70;
    metrics.finished[FINISH_CANCELLED] = 3;
    metrics.request_rate.per_second = 0.5;
    metrics.workers_busy.per_second = 1;
    metrics.workers_capacity.per_second = 4;
    histogram_add(&metrics.histograms[METRICS_ITL], 2000, 10);
    metrics_refuse(&metrics, 429, "slots");
    metrics_refuse(&metrics, 401, "invalid_api_key");
    metrics_refuse(&metrics, 503, "loading");
    metrics_refuse(&metrics, 404, "model_not_found");
    view = (struct server_view){.state = "ok",
                                .ready = true,
                                .start_unix_s = 1700000000,
                                .metrics = &metrics,
                                .connections = 9,
                                .n_refusals = 1,
                                .refusals = {{417, 5}},
                                .unsent_memory = {.held = 11, .most = 22, .refused = 2},
                                .engine = hand.engine,
                                .model_name = "m",
                                .info = {.decode_gap_us = 40000},
                                .stats = {.running = 1,
                                          .waiting = 2,
                                          .kv_blocks_total = 8,
                                          .kv_blocks_free = 6,
                                          .kv_blocks_cached = 4,
                                          .finished = 1ull << 52,
                                          .cancelled = 3,
                                          .prefix_hit = 12,
                                          .busy_us = 1500000}};
}

static void tear_down(void)
{
    by_hand_close(&hand);
}

static json_t *page(enum measurements_page id)
{
    struct buf out = {0};
    json_error_t e;
    buf_puts(&out, "{\"first\":0");
    measurements_json(&out, id, &view);
    buf_putc(&out, '}');
    assert_false(out.failed);
    json_t *all = json_loads(buf_str(&out), JSON_REJECT_DUPLICATES, &e);
    assert_non_null(all);
    buf_fini(&out);
    return all;
}

static double number(const json_t *all, const char *object, const char *name)
{
    const json_t *at = object ? json_object_get(all, object) : all;
    assert_true(json_is_number(json_object_get(at, name)));
    return json_number_value(json_object_get(at, name));
}

static void test_health(void **state)
{
    (void)state;
    struct buf out = {0};
    set_up();
    measurements_json(&out, MEASUREMENTS_HEALTH, &view);
    assert_string_equal(buf_str(&out),
                        ",\"running\":1,\"waiting\":2,\"kv_blocks_free\":6,\"kv_blocks_cached\":4,"
                        "\"kv_blocks_total\":8,\"finished\":4503599627370496,\"cancelled\":3,"
                        "\"connections\":9");
    buf_fini(&out);
    tear_down();
}

static void test_live(void **state)
{
    (void)state;
    struct histogram_view window[EVENT_WINDOW_VIEWS] = {0};
    set_up();
    measurements_views(&view, window);
    assert_int_equal(window[EVENT_WINDOW_ITL].count, 10);
    window[EVENT_WINDOW_ITL] = (struct histogram_view){0};
    histogram_add(&metrics.histograms[METRICS_TTFT], 5000, 1);
    metrics_read(&metrics, METRICS_TTFT, &window[EVENT_WINDOW_TTFT]);
    view.window = window;
    view.window_us = 2500000;
    json_t *all = page(MEASUREMENTS_LIVE);
    assert_float_equal(number(all, NULL, "window_s"), 2.5, 0);
    assert_float_equal(number(all, "kv", "free"), 6, 0);
    assert_float_equal(number(all, "prefix", "hits"), 12, 0);
    assert_float_equal(number(all, "rates", "requests"), 0.5, 0);
    assert_float_equal(number(all, "utilisation", "workers"), 0.25, 0);
    assert_float_equal(number(all, "gap", "promised_ms"), 40, 0);
    assert_float_equal(number(all, "finished", "abort"), 3, 0);
    assert_float_equal(number(all, "refused", "429"), 1, 0);
    assert_float_equal(number(all, "refused", "503"), 1, 0);
    assert_float_equal(number(all, "refused", "other"), 2, 0);
    assert_float_equal(number(all, "itl", "count"), 0, 0); /* the window's, not that of all */
    assert_float_equal(number(all, "ttft", "mean_ms"), 5, 0);
    assert_non_null(json_object_get(json_object_get(all, "itl"), "max_ms"));
    assert_null(json_object_get(json_object_get(all, "ttft"), "max_ms"));
    assert_int_equal(json_object_size(json_object_get(all, "parts")), METRICS_PARTS);
    json_decref(all);
    tear_down();
}

static void test_debug(void **state)
{
    (void)state;
    set_up();
    json_t *all = page(MEASUREMENTS_DEBUG), *latencies = json_object_get(all, "latencies");
    for (int id = 0; id < METRICS_HISTOGRAMS; id++)
        assert_non_null(json_object_get(latencies, metrics_name((enum metrics_id)id)));
    assert_float_equal(number(latencies, "itl", "count"), 10, 0);
    assert_float_equal(number(latencies, "itl", "mean_ms"), 2, 0);
    assert_non_null(json_object_get(json_object_get(latencies, "step"), "p99_ms"));
    assert_non_null(json_object_get(json_object_get(all, "step_prediction_error"), "p99"));
    json_decref(all);
    tear_down();
}

static void check_has(const char *all, const char *line)
{
    if (!strstr(all, line))
        fail_msg("not there: %s", line);
}

static void test_prometheus(void **state)
{
    (void)state;
    struct buf out = {0};
    set_up();
    measurements_prometheus(&out, &view);
    const char *all = buf_str(&out);
    check_has(all, "# HELP firstlight_connections Open connections.\n"
                   "# TYPE firstlight_connections gauge\n"
                   "firstlight_connections{model_name=\"m\"} 9\n");
    check_has(all, "\nprocess_start_time_seconds{model_name=\"m\"} 1700000000\n");
    check_has(all, "\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.25\n");
    check_has(all, "\nvllm:prompt_tokens_total{model_name=\"m\"} 70\n");
    check_has(all, "\nfirstlight_decode_gap_promised_seconds{model_name=\"m\"} 0.04\n");
    check_has(all, "\nfirstlight_engine_busy_seconds_total{model_name=\"m\"} 1.5\n");
    check_has(all, "{model_name=\"m\",status=\"429\",reason=\"slots\"} 1\n");
    check_has(all, "{model_name=\"m\",status=\"503\",reason=\"unsent_memory\"} 2\n");
    check_has(all, "firstlight_connections_refused_total{model_name=\"m\",status=\"417\"} 5\n");
    check_has(all, "\nvllm:inter_token_latency_seconds_count{model_name=\"m\"} 10\n");
    check_has(all, "\nfirstlight_ttft_part_seconds_count{model_name=\"m\",part=\"queue\"} 0\n");
    buf_fini(&out);
    tear_down();
}

/* Nothing of a model while there is none, and no name of one. */
static void test_while_loading(void **state)
{
    (void)state;
    struct buf out = {0};
    set_up();
    view.engine = NULL;
    measurements_prometheus(&out, &view);
    check_has(buf_str(&out), "\nfirstlight_ready 1\n");
    check_has(buf_str(&out), "\nfirstlight_unsent_memory_most_bytes 22\n");
    assert_null(strstr(buf_str(&out), "vllm:"));
    assert_null(strstr(buf_str(&out), "model_name"));
    buf_fini(&out);
    tear_down();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_health),        cmocka_unit_test(test_live),
        cmocka_unit_test(test_debug),         cmocka_unit_test(test_prometheus),
        cmocka_unit_test(test_while_loading),
    };
    log_set_level(LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
