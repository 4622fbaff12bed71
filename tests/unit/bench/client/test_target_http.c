/* A server as a target, against scripted answers. */
#include "net_target.h"
#include "support/script_server.h"

#include "base/buf.h"
#include "base/limits.h"

#include <jansson.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define HEAD(type)  "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: " type "\r\n\r\n"
#define JSON        HEAD("application/json")
#define STREAM      HEAD("text/event-stream")
#define MODELS      JSON "{\"object\":\"list\",\"data\":[{\"id\":\"first\"},{\"id\":\"second\"}]}"
#define TEXT(t)     "data: {\"choices\":[{\"index\":0,\"text\":\"" t "\"}]}\n\n"
#define FINISH(why) "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"" why "\"}]}\n\n"
#define DONE        "data: [DONE]\n\n"

static struct script script;

/* The models first, then the reply under test. */
static void serve(struct script_reply reply)
{
    script.replies[0] = (struct script_reply){{MODELS}};
    script.replies[1] = reply;
    script.n_replies = 2;
    script_start(&script);
}

static struct http_options options(void)
{
    return (struct http_options){.url = script.url, .timeout_seconds = 60, .max_connections = 8};
}

/* Sends one item to a server that answers so, up to its end. */
static void ask(struct script_reply reply, struct work_item item)
{
    serve(reply);
    open_target(options());
    send_to(&record, item);
    until_ended(&record);
}

static int set_up(void **state)
{
    (void)state;
    script = (struct script){.listener = -1};
    record_init(&record);
    return 0;
}

/* Closes both sides, after which the script's notes may be read. */
static void finish_script(void)
{
    close_target();
    if (script.listener >= 0)
        script_stop(&script);
    script.listener = -1;
}

static int tear_down(void **state)
{
    (void)state;
    finish_script();
    record_fini(&record);
    return 0;
}

/* ---- Answers ---- */

static const char usage_chunk[] =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":5,"
    "\"prompt_tokens_details\":{\"cached_tokens\":4}},\"ttft\":{\"receive_ms\":0.1,"
    "\"tokenize_ms\":0.2,\"submit_ms\":0.3,\"queue_ms\":0.4,\"cache_ms\":0.5,\"prefill_ms\":0.6,"
    "\"first_write_ms\":0.7,\"total_ms\":2.8}}\n\n";

static void open_gate(void)
{
    script_open_gate(&script);
}

static void test_stream(void **state)
{
    (void)state;
    serve((struct script_reply){{STREAM ": hello\n\n", TEXT(""), script_gate, TEXT("a"),
                                 script_gate, "data: {\"choices\":[{\"text\":\"\xc3",
                                 "\xa9\"}]}\r\n\r", "\n" FINISH("length"), usage_chunk, DONE}});
    open_target(options());
    assert_string_equal(target->model, "first");
    assert_string_equal(target->engine, script.url);
    assert_false(target->in_process);
    check_gated_stream(open_gate); /* neither the comment nor the empty texts are chunks */
}

static void test_together_is_one_moment(void **state)
{
    (void)state;
    ask((struct script_reply){{STREAM TEXT("a") TEXT("b") TEXT("c") FINISH("stop") DONE}},
        completion); /* one write, one segment */
    assert_int_equal(record.state, RECORD_OK);
    assert_int_equal(record.n_chunks, 3);
    check_stamps();
    assert_int_equal(record.chunk_us[0], record.chunk_us[2]);
    assert_int_equal(record.end_us, record.chunk_us[2]);
}

static void test_request(void **state)
{
    (void)state;
    struct work_item chat = completion;
    chat.chat = chat.ignore_eos = true;
    script.replies[0] = (struct script_reply){{MODELS}};
    script.replies[1] = script.replies[2] = (struct script_reply){{STREAM TEXT("a") DONE}};
    script.n_replies = 3;
    script_start(&script);
    struct http_options o = options();
    strcat(script.url, "/v1/");
    o.model = "second";
    open_target(o);
    send_to(&record, completion);
    until_ended(&record);
    ask_again(chat);
    finish_script();

    assert_int_equal(script.n_requests, 3);
    assert_ptr_equal(strstr(script.requests[0], "GET /v1/models HTTP/1.1\r\n"), script.requests[0]);
    assert_ptr_equal(strstr(script.requests[1], "POST /v1/completions HTTP/1.1\r\n"),
                     script.requests[1]);
    assert_ptr_equal(strstr(script.requests[2], "POST /v1/chat/completions HTTP/1.1\r\n"),
                     script.requests[2]);
    assert_null(strcasestr(script.requests[1], "\r\nExpect:"));
    assert_null(strcasestr(script.requests[1], "\r\nAuthorization:"));
    assert_string_equal(strstr(script.requests[1], "\r\n\r\n") + 4,
                        "{\"model\":\"second\",\"prompt\":\"say \\\"a\\\"\",\"max_tokens\":5,"
                        "\"temperature\":0,\"stream\":true,"
                        "\"stream_options\":{\"include_usage\":true}}");
    assert_string_equal(strstr(script.requests[2], "\r\n\r\n") + 4,
                        "{\"model\":\"second\",\"messages\":[{\"role\":\"user\",\"content\":"
                        "\"say \\\"a\\\"\"}],\"max_tokens\":5,\"temperature\":0,"
                        "\"ignore_eos\":true,\"stream\":true,"
                        "\"stream_options\":{\"include_usage\":true}}");
}

static void test_whole(void **state)
{
    (void)state;
    struct work_item item = completion;
    item.stream = false;
    ask(
        (struct script_reply){
            {JSON "{\"choices\":[{\"text\":\"a b\",\"finish_reason\":\"stop\"}],",
             "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2},",
             "\"metrics\":{\"time_to_first_token_ms\":1.5,\"queue_time_ms\":0.25}}"}},
        item);
    assert_int_equal(record.state, RECORD_OK);
    assert_int_equal(record.n_chunks, 1);
    check_stamps();
    assert_int_equal(record.end_us, record.first_us);
    assert_int_equal(record.prompt_tokens, 3);
    assert_int_equal(record.completion_tokens, 2);
    assert_true(record.server_ttft_ms == 1.5 && record.server_queue_ms == 0.25);
    assert_false(record.has_ttft);
    finish_script();
    assert_non_null(strstr(script.requests[1], "\"stream\":false}"));
}

/* A server that says little: no usage, no [DONE]; one that answers nothing at all is no failure. */
static void test_terse(void **state)
{
    (void)state;
    ask((struct script_reply){{STREAM, TEXT("a"), TEXT("b"), FINISH("stop")}}, completion);
    assert_int_equal(record.state, RECORD_OK);
    assert_int_equal(record.completion_tokens, 2); /* chunks */
    assert_int_equal(record.prompt_tokens, 0);
    assert_true(isnan(record.server_ttft_ms) && isnan(record.server_queue_ms));
}

static void test_no_content(void **state)
{
    (void)state;
    ask((struct script_reply){{STREAM, FINISH("stop") DONE}}, completion);
    assert_int_equal(record.state, RECORD_OK);
    assert_int_equal(record.n_chunks, 0);
    check_stamps();
}

/* What follows [DONE] is not part of the answer, be it a chunk or no JSON. */
static void test_after_done(void **state)
{
    (void)state;
    ask((struct script_reply){{STREAM TEXT("a") DONE TEXT("b") "data: {\n\n"}}, completion);
    assert_int_equal(record.state, RECORD_OK);
    assert_int_equal(record.n_chunks, 1);
}

static void test_connection_is_kept(void **state)
{
    (void)state;
    static const char answer[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 57\r\n\r\n"
        "{\"choices\":[{\"text\":\"a\",\"finish_reason\":\"stop\"}],\"u\":123}";
    struct work_item item = completion;
    item.stream = false;
    script.replies[0] = (struct script_reply){{MODELS}};
    script.replies[1] = script.replies[2] = (struct script_reply){{answer, script_keep}};
    script.n_replies = 3;
    script_start(&script);
    open_target(options());
    for (int i = 0; i < 2; i++) {
        ask_again(item);
        assert_string_equal(record.error, "");
    }
    finish_script();
    assert_int_equal(script.n_connections, 2); /* the models', and one for both */
}

/* ---- Failures ---- */

// clang-format off
static const struct {
    bool stream;
    struct failure expect;
    struct script_reply reply;
} failures[] = {
    {true, {0, 503, "HTTP 503: all slots are taken"},
     {{"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n"
       "{\"error\":{\"message\":\"all slots are taken\"}}"}}},
    {false, {0, 429, "HTTP 429: slow down"},
     {{"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\n\r\n{\"message\":\"slow down\"}"}}},
    {true, {0, 301, "HTTP 301: "},
     {{"HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"}}},
    {true, {0, 0, "no answer: "}, {{""}}},
    {true, {0, 0, "no answer: "}, {{"nonsense\r\n\r\n"}}},
    {true, {1, 200, "the stream ended after 1 chunks without [DONE]"}, {{STREAM TEXT("a")}}},
    {true, {0, 200, "the stream ended after 0 chunks"}, {{STREAM "data: [DONE]"}}},
    {true, {1, 200, "malformed chunk: "}, {{STREAM TEXT("a") "data: {\"choices\":\n\n" TEXT("b")}}},
    {true, {1, 200, "choices: expected an array"},
     {{STREAM TEXT("a"), "data: {\"choices\":1}\n\n"}}},
    {true, {2, 200, "the server reports: lost a worker"},
     {{STREAM TEXT("a") TEXT("b") "data: {\"error\":{\"message\":\"lost a worker\"}}\n\n"}}},
    {true, {0, 200, "the answer is application/json"}, {{JSON "{\"choices\":[{\"text\":\"a\"}]}"}}},
    {true, {1, 200, "the answer broke off after 1 chunks: "},
     {{"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
       "2d\r\n" TEXT("a") "\r\n"}}},
    {false, {0, 200, "the answer broke off"}, {{"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"}}},
    {false, {0, 200, "malformed chunk: "}, {{JSON "{\"choices\":"}}},
    {false, {0, 200, "neither a text nor a finish_reason"}, {{JSON "{}"}}},
    {false, {0, 200, "the server reports: odd"}, {{JSON "{\"error\":\"odd\"}"}}},
};
// clang-format on

static void test_failures(void **state)
{
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct work_item item = completion;
        item.stream = failures[i].stream;
        set_up(state);
        ask(failures[i].reply, item);
        check_failed(i, failures[i].expect);
        tear_down(state);
    }
}

static void test_reset(void **state)
{
    (void)state;
    serve((struct script_reply){{STREAM TEXT("a"), script_gate, script_reset}});
    open_target(options());
    send_to(&record, completion);
    until_chunks(1);
    assert_int_equal(record.state, RECORD_RUNNING);
    script_open_gate(&script);
    until_ended(&record);
    assert_int_equal(record.state, RECORD_FAILED);
    assert_non_null(strstr(record.error, "the answer broke off after 1 chunks: "));
    assert_non_null(strstr(record.error, "reset"));
}

/* [DONE] is the end, whatever the connection does then. */
static void test_reset_after_done(void **state)
{
    (void)state;
    serve((struct script_reply){{STREAM TEXT("a"), TEXT("b") DONE, script_gate, script_reset}});
    open_target(options());
    send_to(&record, completion);
    until_chunks(2);
    int64_t gate = clock_now_us();
    script_open_gate(&script);
    until_ended(&record);
    assert_int_equal(record.state, RECORD_OK);
    assert_true(record.end_us <= gate);
}

static void test_timeout(void **state)
{
    (void)state;
    serve((struct script_reply){{STREAM TEXT("a"), script_hold}});
    struct http_options o = options();
    o.timeout_seconds = 1;
    open_target(o);
    check_timeout(990000); /* libcurl rounds to milliseconds */
}

static void test_answer_limit(void **state)
{
    (void)state;
    struct work_item item = completion;
    struct buf big = {0};
    item.stream = false;
    buf_puts(&big, JSON "{\"a\":\"");
    size_t head = strlen(JSON);
    while (big.len < head + LIMIT_ANSWER_BYTES)
        buf_putc(&big, 'x');
    buf_puts(&big, "\"}");
    ask((struct script_reply){{buf_str(&big)}}, item);
    assert_int_equal(record.state, RECORD_FAILED);
    assert_string_equal(record.error, "the answer has more than 16777216 bytes");
    tear_down(state);
    set_up(state);
    /* a whole one of that size is read */
    big.len = head + LIMIT_ANSWER_BYTES - 2;
    big.data[big.len] = '\0';
    buf_puts(&big, "\"}");
    ask((struct script_reply){{buf_str(&big)}}, item);
    assert_non_null(strstr(record.error, "neither a text nor a finish_reason"));
    tear_down(state); /* the server's thread is done with the answer */
    set_up(state);
    buf_fini(&big);
}

/* ---- Cancelling ---- */

static void test_cancel(void **state)
{
    (void)state;
    script.replies[0] = (struct script_reply){{MODELS}};
    script.replies[1] = (struct script_reply){{STREAM TEXT("a"), script_hold}};
    script.replies[2] = (struct script_reply){{STREAM TEXT("b") DONE}};
    script.n_replies = 3;
    script_start(&script);
    open_target(options());
    check_cancel(); /* the server saw the connection close, else it would not answer another */
}

/* Closing ends what runs. */
static void test_close_while_it_runs(void **state)
{
    (void)state;
    serve((struct script_reply){{STREAM TEXT("a"), script_hold}});
    open_target(options());
    send_to(&record, completion);
    until_chunks(1);
    finish_script();
    assert_int_equal(record.state, RECORD_CANCELLED);
}

static void test_poll_sleeps_until(void **state)
{
    (void)state;
    serve((struct script_reply){{STREAM TEXT("a"), script_gate, DONE}});
    open_target(options());
    send_to(&record, completion);
    until_chunks(1);
    int64_t until = clock_now_us() + 20000;
    target->ops->poll(target, until); /* nothing comes */
    assert_true(clock_now_us() >= until);
    target->ops->poll(target, 0); /* takes what is there and returns */
    assert_int_equal(record.state, RECORD_RUNNING);
    script_open_gate(&script);
    until_ended(&record);
}

/* ---- Opening ---- */

/* It is sent, and shown to nobody, even where the server repeats it. */
static void test_key(void **state)
{
    (void)state;
    serve((struct script_reply){
        {"HTTP/1.1 401 No\r\nConnection: close\r\n\r\n{\"error\":\"sk-secret is wrong\"}"}});
    struct http_options o = options();
    o.api_key_file = write_key("# mine\nsk-secret\nsk-other\n");
    open_target(o);
    send_to(&record, completion);
    until_ended(&record);
    assert_string_equal(record.error, "HTTP 401: ********* is wrong");
    finish_script();
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(script.requests[i], "\r\nAuthorization: Bearer sk-secret\r\n"));
    unlink(o.api_key_file);
}

/* In a child, whose limits may be lowered. Its exit status is 0 when all was as it has to be. */
static int with_files(rlim_t soft, rlim_t hard, uint32_t max_connections, rlim_t soft_after)
{
    struct rlimit files = {soft, hard};
    struct err e = {0};
    struct http_options o = {
        .url = "http://127.0.0.1:1", .timeout_seconds = 5, .max_connections = max_connections};
    pid_t pid = fork();
    if (pid == 0) {
        int rc = setrlimit(RLIMIT_NOFILE, &files) != 0;
        rc |= target_open_http(&target, &o, &e) == STATUS_OK;
        rc |= getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur != soft_after;
        rc |= (soft_after == soft) != (strstr(e.text, "--max-concurrency") != NULL);
        _exit(rc);
    }
    int rc = -1;
    assert_int_equal(waitpid(pid, &rc, 0), pid);
    return rc;
}

static void test_open_files(void **state)
{
    (void)state;
    assert_int_equal(with_files(100, 200, 136, 200), 0);
    assert_int_equal(with_files(100, 200, 137, 100), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_stream),
        T(test_together_is_one_moment),
        T(test_request),
        T(test_whole),
        T(test_terse),
        T(test_no_content),
        T(test_after_done),
        T(test_connection_is_kept),
        T(test_failures),
        T(test_reset),
        T(test_reset_after_done),
        T(test_timeout),
        T(test_answer_limit),
        T(test_cancel),
        T(test_close_while_it_runs),
        T(test_poll_sleeps_until),
        T(test_key),
        T(test_open_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
