/* Frames of a stream and whole answers: order, ids, usage, measurements that add up. */
#include "api/openai_sse.h"

#include "api/api_kind.h"
#include "support/cmocka_all.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FRAMES 8

static const struct timeline times = {.at_us = {
                                          [TIMELINE_RECEIVED] = 1000,
                                          [TIMELINE_PARSED] = 1234,
                                          [TIMELINE_TOKENIZED] = 1300,
                                          [TIMELINE_QUEUED] = 1301,
                                          [TIMELINE_ADMITTED] = 2000,
                                          [TIMELINE_PREFILL_STARTED] = 2003,
                                          [TIMELINE_FIRST_TOKEN] = 12000,
                                          [TIMELINE_FIRST_CONTENT] = 12007,
                                          [TIMELINE_FINISHED] = 32000,
                                      }};
static const struct request_wait waited = {
    .waiting = 1, .steps = 2, .over = true, .prompts = 1, .prompt_tokens = 90};
static const struct openai_response_end end = {.prompt_tokens = 10,
                                               .completion_tokens = 5,
                                               .timeline = &times,
                                               .n_gaps = 4,
                                               .gaps_us = 20000,
                                               .wait = &waited,
                                               .cache = "part"};

static struct openai_response make(const struct api_kind *kind, bool usage)
{
    return (struct openai_response){.kind = kind,
                                    .id = "id-1",
                                    .model = "m\"\xe2\x80\xa8",
                                    .created = 42,
                                    .include_usage = usage};
}

static void put_text(const struct openai_response *a, struct buf *b, uint32_t index, bool first,
                     const char *text)
{
    const struct openai_response_choice c = {
        .index = index, .first = first, .text = text, .len = strlen(text)};
    openai_sse_format.text(b, a, &c);
}

static void put_finish(const struct openai_response *a, struct buf *b, uint32_t index, bool first,
                       const struct openai_response_end *last)
{
    const struct openai_response_choice c = {.index = index, .first = first, .finish = "stop"};
    openai_sse_format.finish(b, a, &c, last);
}

/* The JSON of each frame; [DONE] as NULL behind them. */
static size_t frames(struct buf *b, json_t **out)
{
    size_t n = 0;
    char *at = b->data;
    for (char *next; (next = strstr(at, "\n\n")) != NULL; at = next + 2) {
        *next = '\0';
        assert_int_equal(strncmp(at, "data: ", 6), 0);
        if (strcmp(at + 6, "[DONE]") == 0) {
            assert_string_equal(next + 2, "");
            buf_fini(b);
            return n;
        }
        assert_true(n < MAX_FRAMES);
        out[n] = json_loads(at + 6, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(out[n]);
        assert_string_equal(json_string_value(json_object_get(out[n], "id")), "id-1");
        assert_string_equal(json_string_value(json_object_get(out[n], "model")), "m\"\xe2\x80\xa8");
        assert_int_equal(json_integer_value(json_object_get(out[n], "created")), 42);
        n++;
    }
    fail_msg("no [DONE]");
    return 0;
}

static const json_t *choice(const json_t *frame)
{
    return json_array_get(json_object_get(frame, "choices"), 0);
}

static const char *delta(const json_t *frame, const char *name)
{
    return json_string_value(json_object_get(json_object_get(choice(frame), "delta"), name));
}

static const char *finish(const json_t *frame)
{
    return json_string_value(json_object_get(choice(frame), "finish_reason"));
}

static void release(json_t **list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        json_decref(list[i]);
}

static void test_chat(void **state)
{
    (void)state;
    struct openai_response s = make(&api_chat, false);
    struct buf b = {0};
    json_t *f[MAX_FRAMES];
    put_text(&s, &b, 0, true, "a\nb");
    put_text(&s, &b, 0, false, "c");
    put_finish(&s, &b, 0, false, &end);
    size_t n = frames(&b, f);
    assert_int_equal(n, 3);
    assert_string_equal(delta(f[0], "role"), "assistant");
    assert_string_equal(delta(f[0], "content"), "a\nb");
    assert_null(finish(f[0]));
    assert_null(delta(f[1], "role"));
    assert_string_equal(delta(f[1], "content"), "c");
    assert_int_equal(json_object_size(json_object_get(choice(f[2]), "delta")), 0);
    assert_string_equal(finish(f[2]), "stop");
    for (size_t i = 0; i < n; i++) {
        assert_null(json_object_get(f[i], "usage"));
        assert_int_equal(json_object_get(f[i], "ttft") != NULL, i == n - 1);
    }
    release(f, n);
}

static void test_usage(void **state)
{
    (void)state;
    struct openai_response s = make(&api_chat, true);
    struct buf b = {0};
    json_t *f[MAX_FRAMES];
    put_text(&s, &b, 0, true, "a");
    put_finish(&s, &b, 0, false, &end);
    size_t n = frames(&b, f);
    assert_int_equal(n, 3);
    assert_true(json_is_null(json_object_get(f[0], "usage")));
    assert_true(json_is_null(json_object_get(f[1], "usage")));
    assert_null(json_object_get(f[1], "ttft"));
    assert_int_equal(json_array_size(json_object_get(f[2], "choices")), 0);
    const json_t *usage = json_object_get(f[2], "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")), 10);
    assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), 5);
    assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")), 15);
    assert_non_null(json_object_get(f[2], "ttft"));
    release(f, n);
}

static void test_empty(void **state)
{
    (void)state;
    struct openai_response s = make(&api_chat, false);
    struct buf b = {0};
    json_t *f[MAX_FRAMES];
    put_finish(&s, &b, 0, true, &end);
    size_t n = frames(&b, f);
    assert_int_equal(n, 2);
    assert_string_equal(delta(f[0], "role"), "assistant");
    assert_string_equal(delta(f[0], "content"), "");
    assert_string_equal(finish(f[1]), "stop");
    release(f, n);
}

static void test_completion(void **state)
{
    (void)state;
    struct openai_response s = make(&api_completions, false);
    struct buf b = {0};
    json_t *f[MAX_FRAMES];
    put_text(&s, &b, 0, true, "a");
    put_finish(&s, &b, 0, false, &end);
    size_t n = frames(&b, f);
    assert_int_equal(n, 2);
    assert_string_equal(json_string_value(json_object_get(choice(f[0]), "text")), "a");
    assert_string_equal(json_string_value(json_object_get(f[0], "object")), "text_completion");
    assert_string_equal(finish(f[1]), "stop");
    release(f, n);
}

/* Choices come mixed; the last one to end has the measurements and the stream's end. */
static void test_choices(void **state)
{
    (void)state;
    struct openai_response s = make(&api_chat, false);
    struct buf b = {0};
    json_t *f[MAX_FRAMES];
    put_text(&s, &b, 1, true, "x");
    put_text(&s, &b, 0, true, "a");
    put_finish(&s, &b, 0, false, NULL);
    put_text(&s, &b, 1, false, "y");
    put_finish(&s, &b, 2, true, NULL);
    put_finish(&s, &b, 1, false, &end);
    size_t n = frames(&b, f);
    static const int indices[] = {1, 0, 0, 1, 2, 2, 1};
    assert_int_equal(n, 7);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(json_integer_value(json_object_get(choice(f[i]), "index")), indices[i]);
        assert_int_equal(json_object_get(f[i], "ttft") != NULL, i == n - 1);
        assert_int_equal(finish(f[i]) != NULL, i == 2 || i == 5 || i == 6);
        assert_int_equal(delta(f[i], "role") != NULL, i == 0 || i == 1 || i == 4);
    }
    release(f, n);
}

/* In thousandths, so that the sum is exact. */
static long thousandths(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    assert_true(json_is_real(v));
    return (long)(json_real_value(v) * 1000 + 0.5);
}

static void test_measurements(void **state)
{
    (void)state;
    struct buf b = {0};
    struct openai_response s = make(&api_chat, false);
    const struct openai_response_choice c = {.text = "text", .len = 4, .finish = "stop"};
    openai_response_head(&b, &s);
    openai_response_choice(&b, &s, &c);
    openai_response_tail(&b, &end);
    json_t *whole = json_loads(buf_str(&b), JSON_REJECT_DUPLICATES, NULL);
    const json_t *ttft = json_object_get(whole, "ttft");
    static const char *const parts[] = {"receive_ms", "tokenize_ms", "submit_ms",     "queue_ms",
                                        "cache_ms",   "prefill_ms",  "first_write_ms"};
    assert_int_equal(thousandths(ttft, "decode_ms"), 0); /* nothing said that it came whole */
    long sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sum += thousandths(ttft, parts[i]);
    assert_int_equal(sum, 11007);
    assert_int_equal(thousandths(ttft, "total_ms"), 11007);
    assert_int_equal(thousandths(ttft, "prefill_ms"), 9997);
    assert_string_equal(json_string_value(json_object_get(whole, "cache")), "part");
    const json_t *wait = json_object_get(whole, "waited");
    assert_string_equal(json_string_value(json_object_get(wait, "for")), "turn");
    assert_string_equal(json_string_value(json_object_get(wait, "words")), ""); /* 0.7 ms */
    const json_t *timings = json_object_get(whole, "timings");
    assert_int_equal(json_integer_value(json_object_get(timings, "prompt_n")), 10);
    assert_int_equal(thousandths(timings, "prompt_ms"), 9997);
    assert_int_equal(json_integer_value(json_object_get(timings, "predicted_n")), 5);
    assert_int_equal(thousandths(timings, "predicted_ms"), 20000);
    assert_int_equal(thousandths(timings, "predicted_per_token_ms"), 4000);
    assert_int_equal(thousandths(timings, "predicted_per_second"), 250000);
    const json_t *metrics = json_object_get(whole, "metrics");
    assert_int_equal(thousandths(metrics, "time_to_first_token_ms"), 11007);
    assert_int_equal(thousandths(metrics, "queue_time_ms"), 699);
    assert_int_equal(thousandths(metrics, "generation_time_ms"), 20000);
    assert_int_equal(thousandths(metrics, "mean_itl_ms"), 5000);
    assert_int_equal(thousandths(metrics, "tokens_per_second"), 200000);
    json_decref(whole);
    buf_fini(&b);
}

static void test_error(void **state)
{
    (void)state;
    struct buf b = {0};
    struct err e;
    err_param(&e, STATUS_INVALID, "top_p", "bad \"x\"");
    openai_response_error(&b, &e, NULL);
    assert_string_equal(buf_str(&b),
                        "{\"error\":{\"message\":\"bad \\\"x\\\"\",\"type\":"
                        "\"invalid_request_error\",\"param\":\"top_p\",\"code\":null}}");
    buf_clear(&b);
    openai_sse_format.error(&b, &e);
    assert_int_equal(strncmp(buf_str(&b), "data: {\"error\":", 15), 0);
    assert_string_equal(buf_str(&b) + b.len - 2, "\n\n");
    buf_fini(&b);
}

/* The text for when nothing can be made is what would be made. */
static void test_no_memory(void **state)
{
    struct buf b = {0};
    struct err e;
    (void)state;
    err_set(&e, STATUS_NO_MEMORY, "no memory for the answer");
    openai_sse_format.error(&b, &e);
    assert_string_equal(buf_str(&b), openai_sse_format.no_memory);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat),       cmocka_unit_test(test_usage),
        cmocka_unit_test(test_choices),    cmocka_unit_test(test_empty),
        cmocka_unit_test(test_completion), cmocka_unit_test(test_measurements),
        cmocka_unit_test(test_error),      cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
