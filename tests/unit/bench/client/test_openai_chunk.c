/* Chunks as servers of the OpenAI API write them, ours, llama.cpp's and vLLM's among them. */
#include "bench/client/openai_chunk.h"

#include "support/cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct openai_chunk chunk;

static void read_ok(const char *json)
{
    struct err e = {0};
    if (openai_chunk_read(&chunk, json, strlen(json), &e))
        fail_msg("%s: %s", json, e.text);
}

static int set_up(void **state)
{
    (void)state;
    openai_chunk_init(&chunk);
    return 0;
}

static const struct {
    bool content;
    const char *json;
} contents[] = {
    {true, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}"},
    {true, "{\"choices\":[{\"index\":0,\"delta\":{\"content\":\" \"}}]}"},
    {true, "{\"choices\":[{\"text\":\"a\"}],\"usage\":null}"},
    {true, "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"a\"}}]}"},
    {true, "{\"choices\":[{\"delta\":{\"reasoning_content\":\"a\",\"content\":null}}]}"},
    {true, "{\"choices\":[{\"delta\":{\"reasoning\":\"a\"}}]}"},
    {true, "{\"choices\":[{\"delta\":{\"content\":\"\\u0000\"}}]}"},
    {false, "{\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}"},
    {false, "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}"},
    {false, "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}"},
    {false, "{\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}"},
    {false, "{\"choices\":[{\"delta\":null}]}"},
    {false, "{\"choices\":[{\"text\":\"\"}]}"},
    {false, "{\"choices\":[{}]}"},
    {false, "{\"choices\":[]}"},
    {false, "{\"choices\":null}"},
    {false, "{\"usage\":{\"prompt_tokens\":1}}"},
    {false, "{}"},
};

static void test_content(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        chunk.content = !contents[i].content;
        read_ok(contents[i].json);
        if (chunk.content != contents[i].content)
            fail_msg("%s", contents[i].json);
    }
}

static void test_finish(void **state)
{
    (void)state;
    read_ok("{\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}");
    assert_string_equal(chunk.finish, "");
    read_ok("{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}");
    read_ok("{\"choices\":[],\"usage\":{}}");
    assert_string_equal(chunk.finish, "length");
    read_ok("{\"choices\":[{\"text\":\"\",\"finish_reason\":\"0123456789abcd\xc3\xa9\"}]}");
    assert_string_equal(chunk.finish, "0123456789abcd"); /* no half of a character */
}

static void test_usage(void **state)
{
    (void)state;
    read_ok("{\"choices\":[],\"usage\":null}");
    assert_int_equal(chunk.counted, OPENAI_COUNTED_NONE);
    read_ok("{\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7.0,"
            "\"prompt_tokens_details\":{\"cached_tokens\":3}}}");
    assert_int_equal(chunk.counted, OPENAI_COUNTED_USAGE);
    assert_int_equal(chunk.prompt_tokens, 5);
    assert_int_equal(chunk.completion_tokens, 7);
    assert_int_equal(chunk.cached_tokens, 3);
    /* llama.cpp's count does not replace it */
    read_ok("{\"timings\":{\"prompt_n\":1,\"predicted_n\":2}}");
    assert_int_equal(chunk.prompt_tokens, 5);
    read_ok("{\"usage\":{\"prompt_tokens\":6,\"completion_tokens\":8,"
            "\"prompt_tokens_details\":null}}");
    assert_int_equal(chunk.completion_tokens, 8);
}

static void test_timings(void **state)
{
    (void)state;
    read_ok("{\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}],\"timings\":{\"cache_n\":4,"
            "\"prompt_n\":5,\"prompt_ms\":12.5,\"predicted_n\":7,\"predicted_ms\":99.5}}");
    assert_int_equal(chunk.counted, OPENAI_COUNTED_TIMINGS);
    assert_int_equal(chunk.prompt_tokens, 9);
    assert_int_equal(chunk.cached_tokens, 4);
    assert_int_equal(chunk.completion_tokens, 7);
    read_ok("{\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":8}}");
    assert_int_equal(chunk.prompt_tokens, 10);
    assert_int_equal(chunk.completion_tokens, 8);
}

static void test_our_ttft(void **state)
{
    (void)state;
    assert_true(isnan(chunk.ttft_ms) && isnan(chunk.queue_ms));
    read_ok("{\"ttft\":{\"receive_ms\":0.001,\"tokenize_ms\":0.020,\"submit_ms\":0.300,"
            "\"queue_ms\":4,\"cache_ms\":0.005,\"prefill_ms\":60.006,\"first_write_ms\":0.07,"
            "\"total_ms\":64.402},\"metrics\":{\"time_to_first_token_ms\":1,\"queue_time_ms\":2}}");
    assert_true(chunk.has_ttft);
    assert_int_equal(chunk.ttft.decode_us, 0); /* an older server tells none */
    assert_int_equal(chunk.ttft.receive_us, 1);
    assert_int_equal(chunk.ttft.tokenize_us, 20);
    assert_int_equal(chunk.ttft.submit_us, 300);
    assert_int_equal(chunk.ttft.queue_us, 4000);
    assert_int_equal(chunk.ttft.cache_us, 5);
    assert_int_equal(chunk.ttft.prefill_us, 60006);
    assert_int_equal(chunk.ttft.first_write_us, 70);
    assert_int_equal(chunk.ttft.total_us, 64402);
    assert_true(chunk.ttft_ms == 64.402 && chunk.queue_ms == 4); /* before vLLM's */
    read_ok("{\"ttft\":{\"receive_ms\":0,\"tokenize_ms\":0,\"submit_ms\":0,\"queue_ms\":4,\"cache_"
            "ms\":0,"
            "\"prefill_ms\":60,\"decode_ms\":0.4,\"first_write_ms\":0.002,\"total_ms\":64.402}}");
    assert_int_equal(chunk.ttft.decode_us, 400);
    read_ok("{}");
    assert_true(chunk.ttft_ms == 64.402 && chunk.queue_ms == 4); /* a later chunk forgets nothing */
}

static void test_vllm_metrics(void **state)
{
    (void)state;
    read_ok("{\"metrics\":{\"time_to_first_token_ms\":12.25,\"queue_time_ms\":0,"
            "\"generation_time_ms\":null}}");
    assert_false(chunk.has_ttft);
    assert_true(chunk.ttft_ms == 12.25 && chunk.queue_ms == 0);
}

/* What is not the API's own and makes no sense is not there. */
static void test_other_measurements(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "{\"ttft\":12.5,\"metrics\":\"fast\",\"timings\":[]}",
        "{\"ttft\":{\"total_ms\":\"1\",\"queue_ms\":-1},\"metrics\":{\"queue_time_ms\":1e300}}",
        "{\"timings\":{\"prompt_n\":-1,\"predicted_n\":5}}",
        "{\"timings\":{\"prompt_n\":1e18,\"predicted_n\":5,\"cache_n\":1e18}}",
        "{\"timings\":{\"prompt_n\":null,\"predicted_n\":5}}",
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        read_ok(odd[i]);
        assert_false(chunk.has_ttft);
        assert_true(isnan(chunk.ttft_ms) && isnan(chunk.queue_ms));
        assert_int_equal(chunk.counted, OPENAI_COUNTED_NONE);
        assert_int_equal(chunk.cached_tokens, 0);
    }
    /* a total without the parts is a total */
    read_ok("{\"ttft\":{\"total_ms\":3.5}}");
    assert_false(chunk.has_ttft);
    assert_true(chunk.ttft_ms == 3.5);
}

static const struct {
    const char *json, *says;
} malformed[] = {
    {"", "malformed chunk"},
    {"{\"choices\":[{\"text\":", "malformed chunk: "},
    {"not json", "not json"},
    {"{\"choices\":[]} x", "malformed chunk: "},
    {"[1]", "expected an object, found an array of 1"},
    {"\"a\"", "expected an object, found a string"},
    {"{\"choices\":{}}", "choices: expected an array, found an object"},
    {"{\"choices\":[1]}", "choices[0]: expected an object, found 1"},
    {"{\"choices\":[{\"delta\":\"a\"}]}", "delta: expected an object, found a string"},
    {"{\"choices\":[{\"delta\":{\"content\":[]}}]}", "content: expected a string, found an array"},
    {"{\"choices\":[{\"text\":5}]}", "text: expected a string, found 5"},
    {"{\"choices\":[{\"finish_reason\":5}]}", "finish_reason: must be a string, found 5"},
    {"{\"usage\":5}", "usage: expected an object, found 5"},
    {"{\"usage\":{\"prompt_tokens\":-1}}", "usage: prompt_tokens: must be a whole number"},
    {"{\"usage\":{\"completion_tokens\":4294967296}}", "found 4294967296"},
    {"{\"usage\":{\"prompt_tokens_details\":{\"cached_tokens\":\"1\"}}}", "cached_tokens"},
};

static void test_malformed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        struct err e = {0};
        const char *json = malformed[i].json;
        assert_int_equal(openai_chunk_read(&chunk, json, strlen(json), &e), STATUS_INVALID);
        assert_non_null(strstr(e.text, "malformed chunk"));
        if (!strstr(e.text, malformed[i].says))
            fail_msg("%s: \"%s\" is not in \"%s\"", json, malformed[i].says, e.text);
    }
}

static const struct {
    const char *json, *says;
} errors[] = {
    {"{\"error\":{\"message\":\"out of slots\",\"type\":\"x\",\"code\":503}}", "out of slots"},
    {"{\"error\":\"plain words\"}", "plain words"},
    {"{\"object\":\"error\",\"message\":\"older vLLM\"}", "older vLLM"},
    {"{\"error\":{}}", "an error without a message"},
    {"{\"error\":{\"message\":\"both\"},\"choices\":[{\"text\":\"a\"}]}", "both"},
};

static void test_errors_of_the_server(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct err e = {0};
        const char *json = errors[i].json;
        assert_int_equal(openai_chunk_read(&chunk, json, strlen(json), &e), STATUS_INTERNAL);
        assert_non_null(strstr(e.text, "the server reports: "));
        assert_non_null(strstr(e.text, errors[i].says));
        assert_false(chunk.content);
    }
    read_ok("{\"error\":null,\"choices\":[{\"text\":\"a\"}]}");
    assert_true(chunk.content);
}

static void test_error_bodies(void **state)
{
    (void)state;
    char out[16];
    const char *json = "{\"error\":{\"message\":\"a long message of a server\"}}";
    assert_string_equal(openai_chunk_error(json, strlen(json), out, sizeof out), "a long message ");
    json = "{\"detail\":\"Not Found\"}";
    assert_string_equal(openai_chunk_error(json, strlen(json), out, sizeof out), "Not Found");
    json = "<html>Bad Gateway</html>";
    assert_string_equal(openai_chunk_error(json, strlen(json), out, sizeof out), "<html>Bad Gatew");
    assert_string_equal(openai_chunk_error("a\0b", 3, out, sizeof out), "a b");
    assert_string_equal(openai_chunk_error("", 0, out, sizeof out), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_content, set_up),
        cmocka_unit_test_setup(test_finish, set_up),
        cmocka_unit_test_setup(test_usage, set_up),
        cmocka_unit_test_setup(test_timings, set_up),
        cmocka_unit_test_setup(test_our_ttft, set_up),
        cmocka_unit_test_setup(test_vllm_metrics, set_up),
        cmocka_unit_test_setup(test_other_measurements, set_up),
        cmocka_unit_test_setup(test_malformed, set_up),
        cmocka_unit_test_setup(test_errors_of_the_server, set_up),
        cmocka_unit_test_setup(test_error_bodies, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
