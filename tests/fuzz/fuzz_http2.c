/* Fuzz target of the HTTP/2 port. The first byte chooses: a protobuf question of gRPC (0: Generate,
 * 1: Chat), or how many bytes at a time a connection gets of the rest, after the preface.
 *
 * tests/fuzz/http2_seeds.py writes the seeds. The server behind is one that still loads: it refuses
 * what needs a model, and answers health and reflection.
 */
#include "api/api_kind.h"
#include "base/buf.h"
#include "base/log.h"
#include "grpc/grpc.h"
#include "http/http2_conn.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define TURNS   8 /* of the event loop after the last byte */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_question(const struct api_kind *kind, const uint8_t *data, size_t size)
{
    struct openai_request q = {0};
    struct err e = {0};
    if (grpc_request_read(&q, kind, (const char *)data, size, &e) == STATUS_OK)
        REQUIRE(q.prompts.n == 1 && q.n >= 1 && q.n <= LIMIT_CHOICES && q.params.max_tokens >= 1);
    else
        REQUIRE(e.text[0] != '\0');
    openai_request_fini(&q);
}

static uint32_t n_begun, n_ended;

static void on_ended(struct http_exchange *x, bool gone)
{
    (void)gone;
    REQUIRE(x->user == &n_begun);
    n_ended++;
}

/* Tells how long the body was, as a stream. */
static void on_arrived(struct http_exchange *x, bool whole)
{
    char text[32];
    struct evbuffer *body = http_take_body(x);
    int n = snprintf(text, sizeof text, "%zu\n", body ? evbuffer_get_length(body) : 0);
    if (body)
        evbuffer_free(body);
    if (x->status == 0)
        http_stream_start(x, "text/plain");
    http_stream_write(x, text, (size_t)n);
    if (whole)
        http_stream_end(x, false);
}

static void handle(void *server, struct http_exchange *x)
{
    const char *type = http_header(x, "content-type");
    REQUIRE(x->method && x->path && x->request_id);
    if (x->refused) {
        grpc_dispatch(server, x);
        return;
    }
    if (type && strncmp(type, "application/grpc", 16) == 0) {
        grpc_dispatch(server, x);
        return;
    }
    n_begun++;
    x->user = &n_begun;
    x->ended = on_ended;
    x->arrived = on_arrived;
}

static void on_left(void *arg)
{
    (*(uint32_t *)arg)++;
}

/* One for all inputs: its text worker is a thread. */
static struct server server = {.state = SERVER_LOADING};

static void open_server(void)
{
    struct err e;
    server.base = event_base_new();
    REQUIRE(server.base);
    REQUIRE(text_worker_open(&server.text, server.base, 64, &e) == STATUS_OK);
    metrics_init(&server.metrics);
}

static void check_connection(const uint8_t *data, size_t size, size_t step)
{
    struct bufferevent *pair[2];
    struct err e;
    uint32_t left = 0;
    if (!server.base)
        open_server();
    struct http2_set set = {.base = server.base,
                            .errors = &openai_response_errors,
                            .handler = handle,
                            .arg = &server,
                            .left = on_left,
                            .left_arg = &left};
    n_begun = n_ended = 0;
    REQUIRE(http2_conn_set_init(&set, &e) == STATUS_OK);
    REQUIRE(bufferevent_pair_new(set.base, 0, pair) == 0 && http2_conn_new(&set, pair[0], NULL));
    bufferevent_enable(pair[1], EV_READ | EV_WRITE);
    bufferevent_write(pair[1], PREFACE, strlen(PREFACE));
    for (size_t at = 0; at < size; at += step) {
        bufferevent_write(pair[1], data + at, size - at < step ? size - at : step);
        event_base_loop(set.base, EVLOOP_NONBLOCK);
        evbuffer_drain(bufferevent_get_input(pair[1]), SIZE_MAX);
    }
    for (int i = 0; i < TURNS; i++)
        event_base_loop(set.base, EVLOOP_NONBLOCK);
    http2_conn_set_fini(&set);
    REQUIRE(left == 1 && n_begun == n_ended && !server.watches && !server.calls);
    bufferevent_free(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    log_set_level(LOG_OFF);
    if (size < 1 || size > 1 << 16)
        return 0;
    if (data[0] < 2)
        check_question(data[0] == 0 ? &api_completions : &api_chat, data + 1, size - 1);
    else
        check_connection(data + 1, size - 1, data[0]);
    return 0;
}
