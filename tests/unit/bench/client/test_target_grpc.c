/* A gRPC server as a target, against scripted frames. */
#include "net_target.h"
#include "support/script_grpc.h"

#include <math.h>
#include <proto/firstlight.pb-c.h>

#define HEADS ":status: 200\ncontent-type: application/grpc\n"
// clang-format off
#define HEAD     {PIECE_HEAD, HEADS, 0}
#define LAST(t)  {PIECE_LAST, t, 0}
#define OK_END   LAST("grpc-status: 0\n")
#define ONLY(t)  LAST(HEADS t)
#define BYTES(b) {PIECE_DATA, b, sizeof(b) - 1}
#define RAW(b)   {PIECE_RAW, b, sizeof(b) - 1}
#define RESET(n) {PIECE_RESET, NULL, n}
#define GATE     {PIECE_GATE, NULL, 0}
#define HOLD     {PIECE_HOLD, NULL, 0}
#define CLOSE    {PIECE_CLOSE, NULL, 0}
// clang-format on
/* GenerateResponse with one choice: field 4, its text 2 or finish_reason 3, of one letter each */
#define TEXT(t)   "\0\0\0\0\5\x22\3\x12\1" t
#define FINISH(t) "\0\0\0\0\x0a\x22\x08\x1a\6" t /* of six letters */
#define MODELS                                                                                     \
    "\0\0\0\0\x11\x0a\7\x0a\5"                                                                     \
    "first"                                                                                        \
    "\x0a\6\x0a\4"                                                                                 \
    "next"
#define REPLY(...) ((struct script_grpc_reply){{__VA_ARGS__}})

static struct script_grpc script;

static struct http_options options(void)
{
    return (struct http_options){.url = script.url, .timeout_seconds = 60, .max_connections = 8};
}

static void serve(struct script_grpc_reply reply)
{
    script.replies[script.n_replies++] = reply;
}

static void begin(void)
{
    script_grpc_start(&script);
    open_target(options());
}

/* Sends one item to a server that answers so, up to its end. */
static void ask(struct script_grpc_reply reply, struct work_item item)
{
    serve(reply);
    begin();
    send_to(&record, item);
    until_ended(&record);
}

static int set_up(void **state)
{
    (void)state;
    script = (struct script_grpc){.listener = -1, .models = REPLY(HEAD, BYTES(MODELS), OK_END)};
    record_init(&record);
    return 0;
}

/* Closes both sides, after which the script's notes may be read. */
static void finish_script(void)
{
    close_target();
    if (script.listener >= 0)
        script_grpc_stop(&script);
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

/* The last message of a stream, with its frame, as a server makes it. */
static struct piece measured_message(void)
{
    static uint8_t bytes[256];
    Firstlight__V1__GenerateResponse m = FIRSTLIGHT__V1__GENERATE_RESPONSE__INIT;
    Firstlight__V1__Choice choice = FIRSTLIGHT__V1__CHOICE__INIT, *choices[] = {&choice};
    Firstlight__V1__Usage usage = FIRSTLIGHT__V1__USAGE__INIT;
    Firstlight__V1__Ttft t = FIRSTLIGHT__V1__TTFT__INIT;
    usage.has_prompt_tokens = usage.has_completion_tokens = usage.has_cached_tokens = true;
    usage.prompt_tokens = 9;
    usage.completion_tokens = 5;
    usage.cached_tokens = 4;
    t.has_receive_ms = t.has_tokenize_ms = t.has_submit_ms = t.has_queue_ms = true;
    t.has_cache_ms = t.has_prefill_ms = t.has_first_write_ms = t.has_total_ms = true;
    t.queue_ms = 0.4;
    t.total_ms = 2.8;
    choice.finish_reason = (char *)(uintptr_t) "length";
    m.choices = choices;
    m.n_choices = 1;
    m.usage = &usage;
    m.ttft = &t;
    size_t n = firstlight__v1__generate_response__pack(&m, bytes + 5);
    script_put(bytes + 1, (uint32_t)n, 4);
    return (struct piece){PIECE_DATA, (const char *)bytes, 5 + n};
}

static void open_gate(void)
{
    script_grpc_open_gate(&script);
}

static void test_stream(void **state)
{
    (void)state;
    struct piece measured = measured_message();
    serve(REPLY(HEAD, GATE, BYTES(TEXT("a")), GATE, BYTES("\0\0\0\0\6\x22\4\x12\2\xc3"),
                BYTES("\xa9\0\0"), BYTES("\0\0\0"), measured, OK_END));
    begin();
    assert_string_equal(target->model, "first");
    assert_string_equal(target->engine, script.url);
    assert_false(target->in_process);
    check_gated_stream(open_gate); /* neither the empty message nor the last is a chunk */
    assert_int_equal(record.n_messages, 4);
    assert_int_equal(record.payload_bytes, 5 + 6 + 0 + measured.n - 5);
    assert_int_equal(target->ops->received(target), script.n_sent);
}

static void test_together_is_one_moment(void **state)
{
    (void)state;
    ask(REPLY(HEAD, BYTES(TEXT("a") TEXT("b") TEXT("c")), OK_END), completion);
    assert_int_equal(record.state, RECORD_OK);
    assert_int_equal(record.n_chunks, 3);
    check_stamps();
    assert_int_equal(record.chunk_us[0], record.chunk_us[2]);
    assert_true(record.uncounted); /* chunks */
    assert_int_equal(record.completion_tokens, 3);
}

/* Every cut of two messages gives the same. */
static void test_cuts(void **state)
{
    static const char bytes[] = TEXT("a") TEXT("b");
    for (size_t cut = 1; cut < sizeof bytes - 1; cut++) {
        set_up(state);
        ask(REPLY(HEAD, {PIECE_DATA, bytes, cut}, {PIECE_DATA, bytes + cut, sizeof bytes - 1 - cut},
                  OK_END),
            completion);
        assert_int_equal(record.state, RECORD_OK);
        assert_int_equal(record.n_chunks, 2);
        assert_int_equal(record.payload_bytes, 10);
        tear_down(state);
    }
    set_up(state);
}

static void check_head(int i, const char *method)
{
    char line[80];
    snprintf(line, sizeof line, ":path: /firstlight.v1.Inference/%s\n", method);
    assert_non_null(strstr(script.heads[i], ":method: POST\n"));
    assert_non_null(strstr(script.heads[i], line));
    assert_non_null(strstr(script.heads[i], "\nte: trailers\n"));
    assert_non_null(strstr(script.heads[i], "\ncontent-type: application/grpc\n"));
    assert_non_null(strstr(script.heads[i], script.url + strlen("grpc://")));
    assert_null(strstr(script.heads[i], "authorization"));
    assert_int_equal(script.bodies[i][0], 0);
    assert_int_equal(script.body_lens[i], 5 + (uint8_t)script.bodies[i][4]);
}

static void check_sampling(const Firstlight__V1__Sampling *s, bool ignore_eos)
{
    assert_int_equal(s->max_tokens, 5);
    assert_true(s->has_temperature && s->temperature == 0);
    assert_int_equal(s->has_ignore_eos, ignore_eos);
    assert_int_equal(s->ignore_eos, ignore_eos);
}

static void check_generate(int i)
{
    Firstlight__V1__GenerateRequest *m = firstlight__v1__generate_request__unpack(
        NULL, script.body_lens[i] - 5, (const uint8_t *)script.bodies[i] + 5);
    assert_non_null(m);
    assert_int_equal(m->input_case, FIRSTLIGHT__V1__GENERATE_REQUEST__INPUT_PROMPT);
    assert_int_equal(m->prompt.len, 7);
    assert_memory_equal(m->prompt.data, "say \"a\"", 7);
    assert_string_equal(m->service->model, "next");
    check_sampling(m->sampling, false);
    firstlight__v1__generate_request__free_unpacked(m, NULL);
}

static void check_chat(int i)
{
    Firstlight__V1__ChatRequest *m = firstlight__v1__chat_request__unpack(
        NULL, script.body_lens[i] - 5, (const uint8_t *)script.bodies[i] + 5);
    assert_non_null(m);
    assert_int_equal(m->n_messages, 1);
    assert_string_equal(m->messages[0]->role, "user");
    assert_int_equal(m->messages[0]->content.len, 7);
    assert_string_equal(m->service->model, "next");
    check_sampling(m->sampling, true);
    firstlight__v1__chat_request__free_unpacked(m, NULL);
}

static void test_request(void **state)
{
    (void)state;
    static const char *const methods[] = {"Generate", "GenerateBlocking", "Chat", "ChatBlocking"};
    for (int i = 0; i < 4; i++)
        serve(REPLY(HEAD, BYTES(TEXT("a")), OK_END));
    script_grpc_start(&script);
    struct http_options o = options();
    strcat(script.url, "/");
    o.model = "next";
    open_target(o);
    script.url[strlen(script.url) - 1] = '\0';
    assert_string_equal(target->engine, script.url);
    for (int i = 0; i < 4; i++) {
        struct work_item item = completion;
        item.stream = i % 2 == 0;
        item.chat = item.ignore_eos = i >= 2;
        ask_again(item);
        assert_int_equal(record.state, RECORD_OK);
        assert_int_equal(record.n_chunks, 1);
    }
    finish_script();
    assert_int_equal(script.n_calls, 4);
    assert_int_equal(script.n_connections, 1); /* kept */
    for (int i = 0; i < 4; i++) {
        check_head(i, methods[i]);
        if (i < 2)
            check_generate(i);
        else
            check_chat(i);
    }
}

static void test_no_content(void **state)
{
    (void)state;
    ask(REPLY(HEAD, BYTES(FINISH("length")), OK_END), completion);
    assert_int_equal(record.state, RECORD_OK);
    assert_int_equal(record.n_chunks, 0);
    assert_string_equal(record.finish, "length");
    check_stamps();
    assert_true(isnan(record.server_ttft_ms) && !record.has_ttft);
}

/* ---- Failures ---- */

// clang-format off
static const struct {
    bool whole;
    struct failure expect;
    struct script_grpc_reply reply;
} failures[] = {
    {false, {0, 200, "gRPC 8 RESOURCE_EXHAUSTED: full, 5% \xc3\xa9 (retry after 3 s)"},
     {{ONLY("grpc-status: 8\ngrpc-message: full, 5% %C3%a9\nretry-after: 3\n")}}},
    {false, {0, 200, "gRPC 14 UNAVAILABLE (retry after 250 ms)"},
     {{ONLY("grpc-status: 14\ngrpc-retry-pushback-ms: 250\n")}}},
    {true, {0, 200, "gRPC 3 INVALID_ARGUMENT: bad"},
     {{ONLY("grpc-status: 3\ngrpc-message: bad\n")}}},
    {false, {1, 200, "gRPC 13 INTERNAL: lost a worker"},
     {{HEAD, BYTES(TEXT("a")), LAST("grpc-status: 13\ngrpc-message: lost a worker\n")}}},
    {false, {0, 200, "gRPC 2 UNKNOWN"}, {{ONLY("grpc-status: eight\n")}}},
    {false, {0, 200, "gRPC 99 of no known name"}, {{ONLY("grpc-status: 99\n")}}},
    {false, {0, 503, "HTTP 503"}, {{LAST(":status: 503\ncontent-type: text/plain\n")}}},
    {false, {0, 200, "the answer is text/html: is this a gRPC port?"},
     {{{PIECE_HEAD, ":status: 200\ncontent-type: text/html\n", 0}, BYTES("<html>"),
       LAST("x: y\n")}}},
    {false, {1, 200, "ended after 1 chunks without a grpc-status"},
     {{HEAD, BYTES(TEXT("a")), LAST("x: y\n")}}},
    {false, {1, 200, "the answer broke off after 1 chunks: RST_STREAM with INTERNAL_ERROR"},
     {{HEAD, BYTES(TEXT("a")), RESET(NGHTTP2_INTERNAL_ERROR)}}},
    {false, {0, 0, "no answer: RST_STREAM with REFUSED_STREAM"}, {{RESET(NGHTTP2_REFUSED_STREAM)}}},
    {false, {0, 0, "no answer: after a GOAWAY, RST_STREAM with REFUSED_STREAM"},
     {{{PIECE_GOAWAY, NULL, 1}, HOLD}}},
    {false, {1, 200,
      "the answer broke off after 1 chunks: the server went away: GOAWAY with INTERN"},
     {{HEAD, BYTES(TEXT("a")), {PIECE_GOAWAY, "", 99}, CLOSE}}},
    {false, {1, 200, "broke off after 1 chunks: the server closed the connection"},
     {{HEAD, BYTES(TEXT("a")), CLOSE}}},
    {false, {0, 0, "no answer: the server closed the connection"}, {{CLOSE}}},
    {false, {1, 200, "malformed message: 3 bytes that are no GenerateResponse"},
     {{HEAD, BYTES(TEXT("a") "\0\0\0\0\3\x22\x7f\x12" TEXT("b")), OK_END}}},
    {false, {1, 200, "a message begins with 0 or 1, found 7"},
     {{HEAD, BYTES(TEXT("a") "\7\0\0\0\1x"), OK_END}}},
    {false, {0, 200, "a compressed message"}, {{HEAD, BYTES("\1\0\0\0\1x"), OK_END}}},
    {false, {0, 200, "a message of 16777217 bytes, more than 16777216"},
     {{HEAD, BYTES("\0\1\0\0\1"), OK_END}}},
    {false, {1, 200, "ended in the middle of a message"},
     {{HEAD, BYTES(TEXT("a") "\0\0\0\0\5\x22"), OK_END}}},
    {true, {0, 200, "the answer has no message"}, {{HEAD, OK_END}}},
    {false, {1, 200, "broke off after 1 chunks: "}, /* DATA on stream 0 */
     {{HEAD, BYTES(TEXT("a")), RAW("\0\0\0\0\0\0\0\0\0"), HOLD}}},
    {false, {1, 200, "broke off after 1 chunks: "}, /* a frame larger than was ever allowed */
     {{HEAD, BYTES(TEXT("a")), RAW("\xff\xff\xff\0\0\0\0\0\1"), HOLD}}},
    {false, {0, 0, "no answer: "}, /* HEADERS whose HPACK names a field that is not there */
     {{RAW("\0\0\2\1\4\0\0\0\3\xff\xff"), HOLD}}},
    {false, {0, 0, "no answer: "}, {{RAW("HTTP/1.1 400 Bad Request\r\n\r\n"), HOLD}}},
};
// clang-format on

static void test_failures(void **state)
{
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++) {
        struct work_item item = completion;
        item.stream = !failures[i].whole;
        set_up(state);
        ask(failures[i].reply, item);
        check_failed(i, failures[i].expect);
        tear_down(state);
    }
    set_up(state);
}

/* One request was given up, and its connection served the next. */
static void check_one_reset(void)
{
    finish_script();
    assert_int_equal(script.n_connections, 1);
    assert_int_equal(script.n_resets, 1);
    assert_int_equal(script.resets[0], NGHTTP2_CANCEL);
}

/* A call that is of no use is ended, and the connection goes on. */
static void test_after_a_malformed_answer(void **state)
{
    (void)state;
    serve(REPLY(HEAD, BYTES("\7\0\0\0\1x")));
    serve(REPLY(HEAD, BYTES(TEXT("a")), OK_END));
    begin();
    send_to(&record, completion);
    until_ended(&record);
    assert_int_equal(record.state, RECORD_FAILED);
    ask_again(completion);
    assert_int_equal(record.state, RECORD_OK);
    check_one_reset();
}

static void test_timeout(void **state)
{
    (void)state;
    serve(REPLY(HEAD, BYTES(TEXT("a")), HOLD));
    script_grpc_start(&script);
    struct http_options o = options();
    o.timeout_seconds = 1;
    open_target(o);
    check_timeout(1000000);
}

/* ---- Connections ---- */

/* One that the server has left, or wants to leave, is not used for another request. */
static void test_left_connections(void **state)
{
    (void)state;
    serve(REPLY(HEAD, BYTES(TEXT("a")), OK_END, {PIECE_GOAWAY, NULL, 3}));
    serve(REPLY(HEAD, BYTES(TEXT("a")), OK_END, CLOSE));
    serve(REPLY(HEAD, BYTES(TEXT("a")), OK_END));
    begin();
    for (int i = 0; i < 3; i++) {
        ask_again(completion);
        assert_string_equal(record.error, "");
        while (i < 2 && sem_trywait(&script.closed) != 0)
            target->ops->poll(target, clock_now_us() + 1000);
        if (i == 1)
            poll_once(); /* its end, unless it came before */
    }
    finish_script();
    assert_int_equal(script.n_connections, 3);
}

/* A server that takes one request a connection gets two connections; one that has to make do with
 * one connection answers one after the other. */
static void test_room(void **state)
{
    struct record other;
    for (uint32_t most = 1; most <= 2; most++) {
        set_up(state);
        record_init(&other);
        script.max_streams = 1;
        serve(REPLY(HEAD, BYTES(TEXT("a")), GATE, OK_END));
        serve(REPLY(HEAD, BYTES(TEXT("a")), GATE, OK_END));
        script_grpc_start(&script);
        struct http_options o = options();
        o.max_connections = most;
        open_target(o);
        send_to(&record, completion);
        send_to(&other, completion);
        while (record.n_chunks == 0 || (most == 2 && other.n_chunks == 0))
            poll_once();
        assert_true(most == 2 || other.accepted_us == 0);
        script_grpc_open_gate(&script);
        script_grpc_open_gate(&script);
        until_ended(&record);
        until_ended(&other);
        assert_int_equal(record.state, RECORD_OK);
        assert_int_equal(other.state, RECORD_OK);
        finish_script();
        assert_int_equal(script.n_connections, most);
        record_fini(&other);
        tear_down(state);
    }
    set_up(state);
}

/* A connection has so many calls at once, whatever its server allows; one more gets another. */
static void test_calls_of_a_connection(void **state)
{
    static struct record calls[LIMIT_BENCH_STREAMS + 1];
    for (int most = LIMIT_BENCH_STREAMS; most <= LIMIT_BENCH_STREAMS + 1; most++) {
        set_up(state);
        for (int i = 0; i < most; i++)
            serve(REPLY(HEAD));
        begin();
        for (int i = 0; i < most; i++) {
            record_init(&calls[i]);
            send_to(&calls[i], completion);
            while (calls[i].accepted_us == 0)
                poll_once();
        }
        finish_script();
        assert_int_equal(script.n_connections, most > LIMIT_BENCH_STREAMS ? 2 : 1);
        for (int i = 0; i < most; i++)
            record_fini(&calls[i]);
        tear_down(state);
    }
    set_up(state);
}

/* ---- Cancelling ---- */

static void test_cancel(void **state)
{
    (void)state;
    serve(REPLY(HEAD, BYTES(TEXT("a"))));
    serve(REPLY(HEAD, BYTES(TEXT("b")), OK_END));
    begin();
    check_cancel();
    check_one_reset();
}

/* Closing ends what runs. */
static void test_close_while_it_runs(void **state)
{
    (void)state;
    serve(REPLY(HEAD, BYTES(TEXT("a")), HOLD));
    begin();
    send_to(&record, completion);
    until_chunks(1);
    finish_script();
    assert_int_equal(record.state, RECORD_CANCELLED);
}

static void test_poll_sleeps_until(void **state)
{
    (void)state;
    serve(REPLY(HEAD, BYTES(TEXT("a")), GATE, OK_END));
    begin();
    send_to(&record, completion);
    until_chunks(1);
    int64_t until = clock_now_us() + 20000;
    while (clock_now_us() < until)
        target->ops->poll(target, until); /* nothing comes but an answer to our settings */
    target->ops->poll(target, 0);         /* takes what is there and returns */
    assert_int_equal(record.state, RECORD_RUNNING);
    script_grpc_open_gate(&script);
    until_ended(&record);
}

/* ---- Opening ---- */

static void refused(struct http_options o, enum status status, const char *says)
{
    struct err e = {0};
    assert_int_equal(target_open_url(&target, &o, &e), status);
    if (!strstr(e.text, says))
        fail_msg("\"%s\" is not in \"%s\"", says, e.text);
    target = NULL;
}

static void refuses_models(struct script_grpc_reply reply, const char *asked, enum status status,
                           const char *says)
{
    script.models = reply;
    script_grpc_start(&script);
    struct http_options o = options();
    o.model = asked;
    refused(o, status, says);
    finish_script();
    set_up(NULL);
}

static void test_models(void **state)
{
    (void)state;
    refuses_models(script.models, "third", STATUS_NOT_FOUND,
                   "has no \"third\": it has \"first\", \"next\"");
    refuses_models(REPLY(HEAD, BYTES("\0\0\0\0\0"), OK_END), NULL, STATUS_INVALID,
                   "lists no model: name one");
    refuses_models(REPLY(HEAD, BYTES("\0\0\0\0\2\x0a\x7f"), OK_END), NULL, STATUS_INVALID,
                   "expected a ListModelsResponse");
    refuses_models(REPLY(ONLY("grpc-status: 12\n")), NULL, STATUS_UNAVAILABLE,
                   "gRPC 12 UNIMPLEMENTED");
    refuses_models(REPLY(ONLY("grpc-status: 16\ngrpc-message: who?\n")), NULL,
                   STATUS_UNAUTHENTICATED, "wants a key: give one with --api-key-file: gRPC 16");
    refuses_models(REPLY(CLOSE), NULL, STATUS_UNAVAILABLE, "no answer from grpc://127.0.0.1:");
    script.models = REPLY(ONLY("grpc-status: 12\n")); /* it need not list them */
    script_grpc_start(&script);
    struct http_options o = options();
    o.model = "mine";
    open_target(o);
    assert_string_equal(target->model, "mine");
}

static void test_urls(void **state)
{
    (void)state;
    static const char *const bad[] = {"grpc://127.0.0.1",        "grpc://:1",
                                      "grpc://127.0.0.1:1/path", "grpc://127.0.0.1:99999",
                                      "grpc://127.0.0.1:1/?q=1", "grpc://127.0.0.1:1/#a"};
    struct http_options o = {.timeout_seconds = 5, .max_connections = 1};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        o.url = bad[i];
        refused(o, STATUS_INVALID, "--url: expected grpc://HOST:PORT");
    }
    o.url = "grpcs://127.0.0.1:1";
    refused(o, STATUS_UNSUPPORTED, "gRPC without TLS only");
    o.url = "grpc://me:secret@127.0.0.1:1";
    refused(o, STATUS_INVALID, "use --api-key-file");
    script_grpc_start(&script);
    finish_script(); /* its port is free again */
    o.url = script.url;
    refused(o, STATUS_UNAVAILABLE, "no answer: Connection refused");
}

/* It is sent, and shown to nobody, even where the server repeats it. */
static void test_key(void **state)
{
    (void)state;
    serve(REPLY(ONLY("grpc-status: 16\ngrpc-message: sk-secret is wrong\n")));
    script_grpc_start(&script);
    struct http_options o = options();
    o.api_key_file = write_key("# mine\nsk-secret\nsk-other\n");
    open_target(o);
    send_to(&record, completion);
    until_ended(&record);
    unlink(o.api_key_file);
    assert_string_equal(record.error, "gRPC 16 UNAUTHENTICATED: ********* is wrong");
    finish_script();
    assert_non_null(strstr(script.heads[0], "\nauthorization: Bearer sk-secret\n"));
    assert_non_null(strstr(script.models_head, "\nauthorization: Bearer sk-secret\n"));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_stream),
        T(test_together_is_one_moment),
        T(test_cuts),
        T(test_request),
        T(test_no_content),
        T(test_failures),
        T(test_after_a_malformed_answer),
        T(test_timeout),
        T(test_left_connections),
        T(test_room),
        T(test_calls_of_a_connection),
        T(test_cancel),
        T(test_close_while_it_runs),
        T(test_poll_sleeps_until),
        T(test_models),
        T(test_urls),
        T(test_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
