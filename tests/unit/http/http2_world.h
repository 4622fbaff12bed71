/* A connection of HTTP/2 whose other end is the test's, and which the test drives by frames. */
#ifndef FIRSTLIGHT_TESTS_UNIT_HTTP_HTTP2_WORLD_H
#define FIRSTLIGHT_TESTS_UNIT_HTTP_HTTP2_WORLD_H

#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "http/http2_stream.h"

#include "support/cmocka_all.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

enum { HEADERS = 1, SETTINGS = 4 };
enum { END_STREAM = 1, END_HEADERS = 4 };
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

/* A listener's set with one connection, whose other end is the test's. */
struct world {
    struct http2_set set;
    struct bufferevent *client;
    struct byte_budget streams;
    uint32_t answered, left;
};

static void answer(void *arg, struct http_exchange *x)
{
    struct world *w = arg;
    w->answered++;
    http_reply(x, 200, "text/plain", "yes", 3);
}

/* No error is told here in a body. */
static inline void write_error(struct buf *out, const struct err *err, const char *code)
{
    (void)out, (void)err, (void)code;
    fail();
}

static const struct http_error_format format = {.write = write_error};

static void on_left(void *arg)
{
    ((struct world *)arg)->left++;
}

static void loop(struct world *w)
{
    for (int i = 0; i < 8; i++)
        event_base_loop(w->set.base, EVLOOP_NONBLOCK);
    struct evbuffer *in = bufferevent_get_input(w->client);
    evbuffer_drain(in, evbuffer_get_length(in));
}

static inline void put_frame(struct buf *out, int kind, int flags, uint32_t stream,
                             const char *payload, size_t len)
{
    const char head[] = {(char)(len >> 16),    (char)(len >> 8),    (char)len,
                         (char)kind,           (char)flags,         (char)(stream >> 24),
                         (char)(stream >> 16), (char)(stream >> 8), (char)stream};
    buf_append(out, head, sizeof head);
    buf_append(out, payload, len);
}

static void send_bytes(struct world *w, struct buf *bytes)
{
    assert_false(bytes->failed);
    bufferevent_write(w->client, bytes->data, bytes->len);
    buf_fini(bytes);
    loop(w);
}

static void open_world(struct world *w)
{
    struct bufferevent *pair[2];
    struct buf out = {0};
    struct err e;
    *w = (struct world){0};
    w->set = (struct http2_set){
        .errors = &format, .handler = answer, .arg = w, .left = on_left, .left_arg = w};
    w->set.base = event_base_new();
    assert_int_equal(http2_conn_set_init(&w->set, &e), STATUS_OK);
    assert_int_equal(bufferevent_pair_new(w->set.base, 0, pair), 0);
    assert_true(http2_conn_new(&w->set, pair[0], NULL));
    w->client = pair[1];
    bufferevent_enable(w->client, EV_READ | EV_WRITE);
    buf_puts(&out, PREFACE);
    put_frame(&out, SETTINGS, 0, 0, NULL, 0);
    send_bytes(w, &out);
}

static void close_world(struct world *w)
{
    http2_conn_set_fini(&w->set);
    assert_int_equal(w->left, 1);
    assert_int_equal(w->streams.held, 0);
    bufferevent_free(w->client);
    event_base_free(w->set.base);
}

/* GET / of http, as HPACK's static table has it, and an authority. */
static void ask(struct world *w, uint32_t first, uint32_t n)
{
    static const char fields[] = {'\x82', '\x84', '\x86', '\x41', 1, 't'};
    struct buf out = {0};
    for (uint32_t i = 0; i < n; i++)
        put_frame(&out, HEADERS, END_STREAM | END_HEADERS, 2 * (first + i) + 1, fields,
                  sizeof fields);
    send_bytes(w, &out);
}

/* No byte leaves the server any more. */
static inline void stop_reading(struct world *w)
{
    static const char junk[128 << 10];
    bufferevent_disable(w->client, EV_READ);
    bufferevent_write(w->set.first->bev, junk, sizeof junk);
    w->set.first->queued += sizeof junk;
}

#endif
