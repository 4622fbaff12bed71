/* Calls over HTTP/2 with an engine run by hand: what happens, step by step, as clients leave. */
#include "unit/engine/by_hand.h"

#include "api/completion.h"
#include "base/log.h"
#include "grpc/grpc.h"
#include "http/http2_conn.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <proto/firstlight.pb-c.h>
#include <semaphore.h>

enum { DATA, HEADERS, RST = 3, SETTINGS, PING = 6, GOAWAY, WINDOW };
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4 };

#define PREFACE  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define GENERATE "/firstlight.v1.Inference/Generate"
#define BLOCKING "/firstlight.v1.Inference/GenerateBlocking"
#define REFLECT  "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"

/* A server with one connection, whose other end is the test's. */
struct world {
    struct by_hand hand;
    struct server server;
    struct http2_set set;
    struct bufferevent *client; /* NULL once it has left */
    uint32_t left;              /* connections that have */
    struct buf got;             /* what the client received */
};

static void on_left(void *arg)
{
    (*(uint32_t *)arg)++;
}

static void loop(struct world *w)
{
    for (int i = 0; i < 8; i++)
        event_base_loop(w->set.base, EVLOOP_NONBLOCK);
    if (!w->client)
        return;
    struct evbuffer *in = bufferevent_get_input(w->client);
    size_t len = evbuffer_get_length(in);
    const void *bytes = evbuffer_pullup(in, -1);
    if (!bytes) /* none, or a test that has no memory */
        return;
    buf_append(&w->got, bytes, len);
    evbuffer_drain(in, len);
}

static void send_bytes(struct world *w, struct buf *bytes)
{
    assert_false(bytes->failed);
    bufferevent_write(w->client, bytes->data, bytes->len);
    buf_fini(bytes);
}

static void put_frame(struct buf *out, int kind, int flags, int stream, const char *payload,
                      size_t len)
{
    const char head[] = {
        (char)(len >> 16), (char)(len >> 8), (char)len, (char)kind, (char)flags, 0, 0, 0,
        (char)stream};
    buf_append(out, head, sizeof head);
    buf_append(out, payload, len);
}

/* As HPACK writes it without tables or Huffman's code (RFC 7541, 6.2.2). */
static void put_field(struct buf *out, const char *name, const char *value)
{
    buf_putc(out, '\0');
    buf_putc(out, (char)strlen(name));
    buf_puts(out, name);
    buf_putc(out, (char)strlen(value));
    buf_puts(out, value);
}

static void ask(struct world *w, int stream, const char *path, const struct buf *body)
{
    struct buf out = {0}, fields = {0};
    put_field(&fields, ":method", "POST");
    put_field(&fields, ":scheme", "http");
    put_field(&fields, ":authority", "test");
    put_field(&fields, ":path", path);
    put_field(&fields, "content-type", path[1] == 'v' ? "application/json" : "application/grpc");
    put_frame(&out, HEADERS, END_HEADERS, stream, fields.data, fields.len);
    for (size_t at = 0; at < body->len; at += 16384) {
        size_t n = body->len - at < 16384 ? body->len - at : 16384;
        put_frame(&out, DATA, at + n == body->len ? END_STREAM : 0, stream, body->data + at, n);
    }
    buf_fini(&fields);
    send_bytes(w, &out);
}

struct question {
    const char *path;
    uint32_t n_prompt, n, max_tokens;
    uint32_t pad; /* bytes that say nothing */
};

static void pack(struct buf *out, const struct question *q, char *prompt)
{
    Firstlight__V1__Sampling sampling = FIRSTLIGHT__V1__SAMPLING__INIT;
    Firstlight__V1__GenerateRequest m;
    firstlight__v1__generate_request__init(&m);
    sampling.has_max_tokens = sampling.has_n = sampling.has_ignore_eos = true;
    sampling.max_tokens = q->max_tokens;
    sampling.n = q->n;
    sampling.ignore_eos = true;
    m.sampling = &sampling;
    m.input_case = FIRSTLIGHT__V1__GENERATE_REQUEST__INPUT_PROMPT;
    m.prompt = (ProtobufCBinaryData){q->n_prompt, (uint8_t *)prompt};
    grpc_put(out, &m.base);
    for (uint32_t i = 0; i < q->pad / 2; i++) /* field 15, which there is not: 1 */
        buf_append(out, "\x78\1", 2);
    size_t len = out->len - GRPC_FRAME_BYTES;
    out->data[2] = (char)(len >> 16);
    out->data[3] = (char)(len >> 8);
    out->data[4] = (char)len;
}

static void send_question(struct world *w, int stream, const struct question *q)
{
    struct buf body = {0};
    char *prompt = mem_alloc(q->n_prompt);
    memset(prompt, 'b', q->n_prompt);
    if (q->path[1] == 'v')
        buf_printf(&body,
                   "%*s{\"prompt\":\"%.*s\",\"max_tokens\":%u,\"n\":%u,\"ignore_eos\":true,"
                   "\"stream\":true}",
                   (int)q->pad, "", (int)q->n_prompt, prompt, q->max_tokens, q->n);
    else
        pack(&body, q, prompt);
    ask(w, stream, q->path, &body);
    buf_fini(&body);
    mem_free(prompt);
}

/* Three choices of 40 tokens. */
static void generate(struct world *w, int stream, const char *path, uint32_t n_prompt, uint32_t pad)
{
    const struct question q = {path, n_prompt, 3, 40, pad};
    send_question(w, stream, &q);
}

/* Where memory is short libevent's pairs lose bytes; sockets do not. */
static bool by_sockets;

static void make_pair(struct event_base *base, struct bufferevent *pair[2])
{
    evutil_socket_t fds[2];
    if (!by_sockets) {
        assert_int_equal(bufferevent_pair_new(base, 0, pair), 0);
        return;
    }
    assert_int_equal(evutil_socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (int i = 0; i < 2; i++) {
        evutil_make_socket_nonblocking(fds[i]);
        pair[i] = bufferevent_socket_new(base, fds[i], BEV_OPT_CLOSE_ON_FREE);
        assert_non_null(pair[i]);
    }
}

static void open_world(struct world *w, const char *settings, size_t settings_len)
{
    struct bufferevent *pair[2];
    struct err e;
    struct buf out = {0};
    *w = (struct world){0};
    by_hand_open(&w->hand, 100, &(struct engine_options){0});
    w->server = (struct server){.state = SERVER_READY,
                                .engine = w->hand.engine,
                                .loader = {.tokenizer = w->hand.world.tokenizer},
                                .options = {.sse_comment_seconds = 60},
                                .model_name = "fake"};
    engine_info(w->server.engine, &w->server.info);
    metrics_init(&w->server.metrics);
    w->set = (struct http2_set){
        .handler = grpc_dispatch, .arg = &w->server, .left = on_left, .left_arg = &w->left};
    w->set.errors = &openai_response_errors;
    w->set.base = w->server.base = event_base_new();
    assert_int_equal(text_worker_open(&w->server.text, w->set.base, 4, &e), STATUS_OK);
    assert_int_equal(http2_conn_set_init(&w->set, &e), STATUS_OK);
    make_pair(w->set.base, pair);
    assert_true(http2_conn_new(&w->set, pair[0], NULL));
    w->client = pair[1];
    bufferevent_enable(w->client, EV_READ | EV_WRITE);
    buf_puts(&out, PREFACE);
    put_frame(&out, SETTINGS, 0, 0, settings, settings_len);
    send_bytes(w, &out);
    loop(w);
    put_frame(&out, SETTINGS, ACK, 0, NULL, 0); /* the server's: its windows count from here on */
    send_bytes(w, &out);
    loop(w);
}

static void news(struct world *w)
{
    struct request *r;
    while ((r = engine_next_event(w->server.engine)))
        completion_output_news(request_user(r));
}

static void turn(struct world *w)
{
    engine_thread_turn(w->server.engine);
    news(w);
    loop(w);
}

static struct engine_stats stats(const struct world *w)
{
    return by_hand_stats(&w->hand);
}

static void close_short(struct world *w)
{
    http2_conn_set_fini(&w->set);
    text_worker_close(w->server.text);
    do
        turn(w);
    while (w->server.calls);
    by_hand_submit(&w->hand, fake_params(6, 60, 2)); /* the engine is as good as before */
    if (w->client)
        bufferevent_free(w->client);
    buf_fini(&w->got);
    by_hand_close(&w->hand);
    event_base_free(w->set.base);
}

static void close_world(struct world *w)
{
    uint32_t before = w->left;
    bool open = w->set.first != NULL;
    close_short(w);
    assert_int_equal(before + open, 1);
}

/* The client got a frame of that kind. */
static bool has_frame(const struct world *w, int kind, int flags, int stream)
{
    const unsigned char *b = (const unsigned char *)w->got.data;
    for (size_t at = 0; at + 9 <= w->got.len;
         at += 9 + ((size_t)b[at] << 16 | (size_t)b[at + 1] << 8 | b[at + 2]))
        if (b[at + 3] == kind && (b[at + 4] & flags) == flags && b[at + 8] == stream)
            return true;
    return false;
}

/* Ways to leave */

static void reset_stream(struct world *w)
{
    struct buf out = {0};
    put_frame(&out, RST, 0, 1, "\0\0\0\x08", 4);
    send_bytes(w, &out);
}

static void hang_up(struct world *w)
{
    bufferevent_flush(w->client, EV_WRITE, BEV_FINISHED);
    bufferevent_free(w->client);
    w->client = NULL;
}

static void break_protocol(struct world *w)
{
    struct buf out = {0};
    put_frame(&out, DATA, 0, 0, "x", 1);
    send_bytes(w, &out);
}

static void (*const ways[])(struct world *w) = {reset_stream, hang_up, break_protocol};
static const char *const paths[] = {GENERATE, BLOCKING, "/v1/completions"};

#define EACH_WAY                                                                                   \
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++)                                      \
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++)

static void test_leaving_while_queued(void **state)
{
    (void)state;
    EACH_WAY
    {
        struct world w;
        open_world(&w, NULL, 0);
        generate(&w, 1, paths[p], 60, 0);
        loop(&w);
        assert_non_null(w.server.calls);
        ways[k](&w);
        loop(&w);
        turn(&w);
        assert_null(w.server.calls);
        assert_int_equal(stats(&w).steps, 0);
        close_world(&w);
    }
}

static struct world *the_world;
static void (*the_way)(struct world *w);

static void leave_once(struct by_hand *h)
{
    (void)h;
    if (the_way)
        the_way(the_world);
    the_way = NULL;
    loop(the_world);
}

/* Between two layers of its prompt: nothing of it is left at the end of that step. */
static void test_leaving_within_a_step(void **state)
{
    (void)state;
    EACH_WAY
    {
        struct world w;
        open_world(&w, NULL, 0);
        generate(&w, 1, paths[p], 200, 0);
        loop(&w);
        the_world = &w;
        the_way = ways[k];
        w.hand.meanwhile = leave_once;
        engine_thread_turn(w.server.engine);
        assert_int_equal(stats(&w).steps, 1);
        assert_int_equal(stats(&w).running + stats(&w).waiting, 0);
        assert_int_equal(stats(&w).generated_tokens, 0);
        assert_int_equal(stats(&w).kv_blocks_free, stats(&w).kv_blocks_total);
        assert_int_equal(stats(&w).cancelled, 3);
        w.hand.meanwhile = NULL;
        news(&w);
        assert_null(w.server.calls);
        close_world(&w);
    }
}

/* Between two steps: there is no further one, and no further token. */
static void test_leaving_between_steps(void **state)
{
    (void)state;
    EACH_WAY
    {
        struct world w;
        open_world(&w, NULL, 0);
        generate(&w, 1, paths[p], 60, 0);
        loop(&w);
        while (stats(&w).generated_tokens < 9)
            turn(&w);
        struct engine_stats before = stats(&w);
        assert_int_equal(before.running, 3);
        ways[k](&w);
        loop(&w);
        turn(&w);
        assert_int_equal(stats(&w).steps, before.steps);
        assert_int_equal(stats(&w).generated_tokens, before.generated_tokens);
        assert_int_equal(stats(&w).kv_blocks_free, before.kv_blocks_total);
        assert_int_equal(stats(&w).cancelled, 3);
        assert_null(w.server.calls);
        close_world(&w);
    }
}

/* The text worker has the body; it may be done before, with or after the client. */
static void test_leaving_with_a_large_body(void **state)
{
    (void)state;
    EACH_WAY
    {
        struct world w;
        open_world(&w, NULL, 0);
        generate(&w, 1, paths[p], 60, 100000);
        event_base_loop(w.set.base, EVLOOP_NONBLOCK);
        ways[k](&w);
        while (w.server.calls)
            turn(&w);
        assert_true(stats(&w).generated_tokens < 120); /* whoever was first, it did not go on */
        close_world(&w);
    }
}

/* A job that holds the usual text worker up. */
struct gate {
    struct text_job job; /* first */
    sem_t *open;
    bool passed;
};

static void wait_for_gate(struct text_job *job)
{
    sem_wait(((struct gate *)(void *)job)->open);
}

static void gate_passed(struct text_job *job)
{
    ((struct gate *)(void *)job)->passed = true;
}

/* Its unstreamed answers with many log probabilities wait to be made: they are not. */
static void test_leaving_while_answers_are_made(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        struct world w;
        struct buf body = {0};
        sem_t open;
        sem_init(&open, 0, 0);
        struct gate gate = {.job = {.work = wait_for_gate,
                                    .done = gate_passed,
                                    .bytes = SIZE_MAX,
                                    .never_slow = true},
                            .open = &open};
        open_world(&w, NULL, 0);
        buf_puts(&body, "{\"prompt\":\"bbb\",\"max_tokens\":200,\"n\":2,\"ignore_eos\":true,"
                        "\"logprobs\":5}");
        ask(&w, 1, "/v1/completions", &body);
        buf_fini(&body);
        loop(&w);
        assert_true(text_worker_submit(w.server.text, &gate.job));
        do
            turn(&w);
        while (stats(&w).running + stats(&w).waiting > 0);
        assert_non_null(w.server.calls);
        assert_int_equal(w.server.calls->n_live, 2); /* both wait behind the gate */
        ways[k](&w);
        loop(&w);
        assert_null(w.server.calls);
        assert_false(gate.passed);
        sem_post(&open);
        close_world(&w);
        assert_true(gate.passed);
    }
}

/* The server closes while the engine and the text worker have requests. */
static void test_closing(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, NULL, 0);
    generate(&w, 1, GENERATE, 60, 0);
    loop(&w);
    turn(&w);
    generate(&w, 3, BLOCKING, 60, 0);
    generate(&w, 5, GENERATE, 60, 100000);
    event_base_loop(w.set.base, EVLOOP_NONBLOCK);
    close_world(&w);
}

static void seconds_pass(struct world *w, int64_t seconds)
{
    w->hand.clock.now_us += seconds * 1000000;
    event_active(&w->set.first->tick, EV_TIMEOUT, 0);
    loop(w);
}

/* With a stream under way a silent client is asked, and left when it does not answer. */
static void test_silence(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, NULL, 0);
    generate(&w, 1, GENERATE, 60, 0);
    loop(&w);
    seconds_pass(&w, LIMIT_H2_PING_SECONDS - 1);
    assert_false(has_frame(&w, PING, 0, 0));
    seconds_pass(&w, 2);
    assert_true(has_frame(&w, PING, 0, 0));
    struct buf pong = {0};
    put_frame(&pong, PING, ACK, 0, "\0\0\0\0\0\0\0\0", 8);
    send_bytes(&w, &pong);
    loop(&w);
    seconds_pass(&w, LIMIT_H2_PING_SECONDS + 1);
    assert_int_equal(w.left, 0);
    seconds_pass(&w, LIMIT_H2_PONG_SECONDS + 1);
    assert_int_equal(w.left, 1);
    turn(&w);
    assert_null(w.server.calls);
    close_world(&w);
}

static void test_idle(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, NULL, 0);
    seconds_pass(&w, LIMIT_H2_IDLE_SECONDS - 1);
    assert_false(has_frame(&w, GOAWAY, 0, 0));
    seconds_pass(&w, 2);
    assert_true(has_frame(&w, GOAWAY, 0, 0));
    assert_int_equal(w.left, 1);
    close_world(&w);
}

/* Who is told to go elsewhere gets the end of what runs, and the connection ends with that. */
static void test_draining(void **state)
{
    struct world w;
    (void)state;
    open_world(&w, NULL, 0);
    generate(&w, 1, GENERATE, 60, 0);
    loop(&w);
    turn(&w);
    w.set.draining = true;
    http2_conn_drain(w.set.first);
    loop(&w);
    assert_true(has_frame(&w, GOAWAY, 0, 0));
    seconds_pass(&w, 1);
    while (w.server.calls)
        turn(&w);
    assert_int_equal(stats(&w).cancelled, 0);
    assert_int_equal(stats(&w).generated_tokens, 120);
    assert_true(has_frame(&w, HEADERS, END_STREAM, 1));
    assert_int_equal(w.left, 1);
    close_world(&w);
}

/* A stream is given up because its client takes nothing, and its reset is stuck behind what the
 * socket does not take either. When there is room again, its last tokens are the first to find it:
 * the exchange must not end while they are written. */
static void test_a_reset_that_waits(void **state)
{
    static const char junk[64 << 10];
    const struct question q = {GENERATE, 60, 1, 8, 0};
    struct world w;
    (void)state;
    open_world(&w, "\0\4\0\0\0\0", 6); /* windows of no byte */
    send_question(&w, 1, &q);
    loop(&w);
    while (stats(&w).generated_tokens < q.max_tokens - 1)
        turn(&w);
    struct http2_conn *c = w.set.first;
    assert_true(c->unsent.bytes > 0);
    bufferevent_disable(w.client, EV_READ);
    bufferevent_write(c->bev, junk, sizeof junk);
    c->queued += sizeof junk;
    seconds_pass(&w, LIMIT_WRITE_SECONDS + 1);
    assert_non_null(w.server.calls->x); /* the reset waits */
    bufferevent_enable(w.client, EV_READ);
    engine_thread_turn(w.server.engine);
    news(&w);
    assert_int_equal(stats(&w).finished, 1);
    loop(&w);
    assert_null(w.server.calls);
    assert_int_equal(c->unsent.bytes, 0);
    close_world(&w);
}

static void open_window(struct world *w, const char *more)
{
    struct buf out = {0};
    put_frame(&out, WINDOW, 0, 1, more, 4);
    send_bytes(w, &out);
    loop(w);
}

/* Tokens gather in the request, not in memory, and come when the client reads on, not at the end.
 */
static void test_a_client_that_reads_late(void **state)
{
    const struct question q = {GENERATE, 20, 16, 200, 0};
    struct world w;
    (void)state;
    open_world(&w, "\0\4\0\0\0\0", 6);
    send_question(&w, 1, &q);
    loop(&w);
    while (stats(&w).generated_tokens < 16 * 100)
        turn(&w);
    assert_int_equal(w.got.len > 0 && w.server.calls->behind, true);
    size_t waiting = w.set.first->unsent.bytes, before = w.got.len;
    assert_in_range(waiting, LIMIT_STREAM_BUFFER, 2 * LIMIT_STREAM_BUFFER);
    open_window(&w, "\0\0\x80\0");
    assert_false(w.server.calls->behind);
    assert_int_equal(w.set.first->unsent.bytes, 0);
    assert_true(w.got.len - before > waiting + 500); /* what gathered, too */
    close_world(&w);
}

/* Requests of reflection, each answered with a file, by a client that reads nothing. */
static void test_answers_that_nobody_reads(void **state)
{
    struct world w;
    struct buf body = {0};
    (void)state;
    open_world(&w, "\0\4\0\0\0\0", 6);
    for (int i = 0; i < 5000; i++)
        buf_append(&body,
                   "\0\0\0\0\x12\x1a\x10"
                   "firstlight.proto",
                   23);
    ask(&w, 1, REFLECT, &body);
    loop(&w);
    size_t one = w.set.first->keyless.bytes;
    assert_in_range(one, LIMIT_STREAM_BUFFER, 5 * LIMIT_STREAM_BUFFER);
    open_window(&w, "\0\0\x80\0"); /* the answers go on as they are taken */
    assert_in_range(w.got.len, 0x8000, 0x9000);
    assert_in_range(w.set.first->keyless.bytes, 1, one);
    buf_fini(&body);
    close_world(&w);
}

/* Memory that is short */

static size_t until_failure; /* 0: none fails */
static bool has_failed;

static bool fails(void)
{
    if (until_failure == 0 || --until_failure > 0)
        return false;
    has_failed = true;
    return true;
}

static void *event_take(size_t size)
{
    return fails() ? NULL : malloc(size);
}

static void *event_resize(void *p, size_t size)
{
    return fails() ? NULL : realloc(p, size);
}

/* Each allocation of libevent fails in turn, of those from the n-th on that come with a body: the
 * prompt is whole, or the request fails with what a server without memory says. */
static void try_short(const char *path, size_t n)
{
    const struct question q = {path, 50, 1, 4, 1200}; /* which this thread reads itself */
    struct world w;
    open_world(&w, NULL, 0);
    send_question(&w, 1, &q);
    has_failed = false;
    until_failure = n;
    for (int i = 0; i < 40 && until_failure != 0; i++)
        turn(&w);
    until_failure = 0;
    for (int i = 0; i < 40; i++)
        turn(&w);
    for (uint64_t i = 0; i < w.server.recent.n; i++) {
        const struct request_log_entry *r = &w.server.recent.requests[i];
        if (r->prompt_tokens != (r->status == 200 ? q.n_prompt : 0) ||
            (r->status != 200 && r->status != 503 && !r->gone))
            fail_msg("%s, allocation %zu: status %d, %u prompt tokens", path, n, r->status,
                     r->prompt_tokens);
    }
    for (uint32_t i = 0; i < w.server.metrics.n_refusals; i++)
        if (w.server.metrics.refusals[i].n > 0 && w.server.metrics.refusals[i].http_status != 503)
            fail_msg("%s, allocation %zu: refused with %d", path, n,
                     w.server.metrics.refusals[i].http_status);
    assert_int_equal(w.server.request_memory.held, 0);
    close_short(&w);
}

static void test_a_body_is_never_cut(void **state)
{
    static const char *const some[] = {GENERATE, "/v1/completions"};
    (void)state;
    by_sockets = true;
    for (size_t p = 0; p < sizeof some / sizeof *some; p++) {
        size_t n = 0;
        do
            try_short(some[p], ++n);
        while (has_failed);
        assert_true(n > 5);
    }
    by_sockets = false;
}

/* Text that found no memory: the stream says so and ends, and the engine is done with it. */
static void test_a_stream_that_lost_text_ends(void **state)
{
    (void)state;
    for (int rest = 0; rest < 2; rest++) {
        struct world w;
        const struct question q = {rest ? "/v1/completions" : GENERATE, 50, 2, 60, 0};
        open_world(&w, NULL, 0);
        send_question(&w, 1, &q);
        for (int i = 0; i < 12; i++)
            turn(&w);
        assert_int_equal(stats(&w).running, 2);
        struct completion *c = w.server.calls;
        c->out.failed = true;
        for (int i = 0; i < 4; i++)
            turn(&w);
        assert_int_equal(stats(&w).running, 0);
        assert_null(w.server.calls);
        assert_true(has_frame(&w, rest ? DATA : HEADERS, END_STREAM, 1));
        buf_putc(&w.got, '\0');
        assert_true(!rest || memmem(w.got.data, w.got.len, "no memory for the answer", 24));
        close_world(&w);
    }
}

/* Answers that nobody takes have a budget: a stream that would pass it ends with that. */
static void test_a_stream_without_room_ends(void **state)
{
    static struct byte_budget budget;
    const struct question q = {"/v1/completions", 20, 16, 200, 0};
    struct client who = client_limit_of_address(NULL);
    struct world w;
    (void)state;
    byte_budget_init(&budget,
                     12 << 10); /* half of it: more than one write, and less than the answer */
    open_world(&w, "\0\4\0\0\0\0", 6);
    assert_true(byte_budget_open(&w.set.first->unsent, &budget, &who));
    send_question(&w, 1, &q);
    loop(&w);
    for (int i = 0; i < 400 && w.server.calls && !w.server.calls->answered; i++) {
        turn(&w);
        assert_in_range(budget.held, 0, (6 << 10) + 1000); /* and its error */
    }
    assert_true(w.server.calls && w.server.calls->lost);
    while (stats(&w).running > 0)
        turn(&w);
    open_window(&w, "\0\0\x80\0");
    buf_putc(&w.got, '\0');
    assert_non_null(memmem(w.got.data, w.got.len, "--max-unsent-memory", 19));
    assert_true(has_frame(&w, DATA, END_STREAM, 1));
    assert_int_equal(budget.held, 0);
    close_world(&w);
}

/* What others leave unread cuts nobody who reads. */
static void test_who_reads_is_not_cut(void **state)
{
    static struct byte_budget budget;
    const struct question q = {"/v1/completions", 20, 4, 60, 0};
    struct client who = client_limit_of_address(NULL);
    struct hold others = {0};
    struct world w;
    (void)state;
    byte_budget_init(&budget, 12 << 10);
    open_world(&w, NULL, 0);
    assert_true(byte_budget_open(&w.set.first->unsent, &budget, &who));
    assert_true(byte_budget_open(&others, &budget, &who) && byte_budget_set(&others, 6 << 10));
    send_question(&w, 1, &q);
    for (int i = 0; i < 400 && (i < 10 || w.server.calls); i++)
        turn(&w);
    assert_null(w.server.calls);
    buf_putc(&w.got, '\0');
    assert_non_null(memmem(w.got.data, w.got.len, "data: [DONE]", 12));
    assert_int_equal(budget.held, 6 << 10);
    assert_int_equal(budget.refused, 0);
    byte_budget_end(&others);
    close_world(&w);
}

/* The text that echo gives back is held until the answer is made. */
static void test_an_echo_is_held(void **state)
{
    struct world w;
    struct buf body = {0};
    char prompt[200];
    (void)state;
    open_world(&w, NULL, 0);
    byte_budget_init(&w.server.request_memory, 32 << 10);
    memset(prompt, 'b', sizeof prompt);
    buf_puts(&body, "{\"echo\":true,\"max_tokens\":20,\"ignore_eos\":true,\"prompt\":[");
    for (int i = 0; i < 40; i++)
        buf_printf(&body, "%s\"%.*s\"", i > 0 ? "," : "", (int)sizeof prompt, prompt);
    buf_puts(&body, "]}");
    ask(&w, 1, "/v1/completions", &body);
    turn(&w);
    while (w.server.calls && !w.server.calls->choices)
        loop(&w);
    assert_in_range(w.server.request_memory.held, 40 * sizeof prompt, 16000);
    while (w.server.calls)
        turn(&w);
    assert_int_equal(w.server.request_memory.held, 0);
    assert_true(w.got.len > 40 * sizeof prompt);
    buf_fini(&body);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaving_while_queued),
        cmocka_unit_test(test_leaving_within_a_step),
        cmocka_unit_test(test_leaving_between_steps),
        cmocka_unit_test(test_leaving_with_a_large_body),
        cmocka_unit_test(test_leaving_while_answers_are_made),
        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_draining),
        cmocka_unit_test(test_a_reset_that_waits),
        cmocka_unit_test(test_a_client_that_reads_late),
        cmocka_unit_test(test_answers_that_nobody_reads),
        cmocka_unit_test(test_a_stream_without_room_ends),
        cmocka_unit_test(test_who_reads_is_not_cut),
        cmocka_unit_test(test_an_echo_is_held),
        cmocka_unit_test(test_a_body_is_never_cut),
        cmocka_unit_test(test_a_stream_that_lost_text_ends),
    };
    event_set_mem_functions(event_take, event_resize, free);
    log_set_level(LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
