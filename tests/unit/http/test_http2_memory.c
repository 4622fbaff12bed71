/* What the session of a connection takes is counted, and bounded: a client that reads nothing, or
 * comes again and again, makes it no larger. */
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "http/http2_stream.h"

#include "support/cmocka_all.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <malloc.h>

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

static void put_frame(struct buf *out, int kind, int flags, uint32_t stream, const char *payload,
                      size_t len)
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
    w->set = (struct http2_set){.handler = answer, .arg = w, .left = on_left, .left_arg = w};
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

static void test_bytes_are_counted(void **state)
{
    (void)state;
    struct http2_memory m;
    http2_memory_init(&m);
    void *a = m.mem.malloc(1000, m.mem.mem_user_data);
    char *b = m.mem.calloc(10, 50, m.mem.mem_user_data);
    assert_true(a && b && b[499] == 0);
    assert_int_equal(m.bytes, malloc_usable_size(a) + malloc_usable_size(b));
    assert_in_range(m.bytes, 1500, 1600);
    a = m.mem.realloc(a, 5000, m.mem.mem_user_data);
    assert_in_range(m.bytes, 5500, 5600);
    void *c = m.mem.realloc(NULL, 100, m.mem.mem_user_data);
    assert_in_range(m.bytes, 5600, 5800);
    m.mem.free(a, m.mem.mem_user_data);
    m.mem.free(b, m.mem.mem_user_data);
    m.mem.free(c, m.mem.mem_user_data);
    m.mem.free(NULL, m.mem.mem_user_data);
    assert_int_equal(m.bytes, 0);
}

static void test_streams_that_ended_are_forgotten(void **state)
{
    (void)state;
    struct world w;
    open_world(&w);
    for (uint32_t i = 0; i < 10; i++)
        ask(&w, 20 * i, 20);
    size_t before = w.set.first->memory.bytes; /* with its tables of headers, which are full now */
    assert_in_range(before, 1000, LIMIT_H2_SESSION / 2);
    for (uint32_t i = 10; i < 50; i++)
        ask(&w, 20 * i, 20);
    assert_int_equal(w.answered, 1000);
    assert_int_equal(w.left, 0);
    assert_in_range(w.set.first->memory.bytes, 1000, before + 4000);
    close_world(&w);
}

/* Refusals wait as answers do, but belong to no stream that is held of a budget. */
static void test_refusals_that_nobody_reads(void **state)
{
    (void)state;
    static const char junk[128 << 10];
    struct world w;
    open_world(&w);
    byte_budget_init(&w.streams, 1);
    w.set.streams = &w.streams;
    bufferevent_disable(w.client, EV_READ);
    bufferevent_write(w.set.first->bev, junk, sizeof junk);
    w.set.first->queued += sizeof junk;
    size_t most = 0;
    for (uint32_t i = 0; i < 45 && w.left == 0; i++) {
        most = w.set.first->memory.bytes;
        ask(&w, 20 * i, 20);
    }
    assert_int_equal(w.left, 1);
    assert_in_range(most, LIMIT_H2_SESSION / 2, LIMIT_H2_SESSION + HTTP2_STREAM_SESSION);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_counted),
        cmocka_unit_test(test_streams_that_ended_are_forgotten),
        cmocka_unit_test(test_refusals_that_nobody_reads),
    };
    log_set_level(LOG_OFF);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
