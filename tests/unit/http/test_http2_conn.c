/* Limits of one connection of HTTP/2: as far as each, and one further. */
#include "unit/http/http2_world.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>

enum { RST_STREAM = 3, PING = 6 };

static uint32_t held, refused;

/* Streams that are never answered; what is refused instead is only to be told so. */
static void hold(void *arg, struct http_exchange *x)
{
    (void)arg;
    held++;
    refused += x->refused != NULL;
}

static void hold_all(struct world *w)
{
    held = refused = 0;
    open_world(w);
    w->set.handler = hold;
}

static void streams_under_way(void **state)
{
    (void)state;
    struct world w;
    hold_all(&w);
    for (uint32_t i = 0; i < LIMIT_H2_STREAMS; i += 64)
        ask(&w, i, 64);
    assert_int_equal(held, LIMIT_H2_STREAMS);
    ask(&w, LIMIT_H2_STREAMS, 1);
    assert_int_equal(held, LIMIT_H2_STREAMS);
    assert_int_equal(refused, 0);
    close_world(&w);
}

/* So many fields in all; the first four are those of any request. */
static void ask_with_fields(struct world *w, uint32_t stream, uint32_t n)
{
    static const char usual[] = {'\x82', '\x84', '\x86', '\x41', 1, 't'};
    static const char more[] = {0, 1, 'a', 1, 'b'};
    struct buf fields = {0}, out = {0};
    buf_append(&fields, usual, sizeof usual);
    for (uint32_t i = 4; i < n; i++)
        buf_append(&fields, more, sizeof more);
    put_frame(&out, HEADERS, END_STREAM | END_HEADERS, stream, fields.data, fields.len);
    buf_fini(&fields);
    send_bytes(w, &out);
}

static void fields_of_a_request(void **state)
{
    (void)state;
    struct world w;
    hold_all(&w);
    ask_with_fields(&w, 1, LIMIT_H2_FIELDS);
    assert_int_equal(held, 1);
    assert_int_equal(refused, 0);
    ask_with_fields(&w, 3, LIMIT_H2_FIELDS + 1);
    assert_int_equal(held, 2);
    assert_int_equal(refused, 1);
    close_world(&w);
}

static void ping(struct world *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct buf out = {0};
        put_frame(&out, PING, 0, 0, "12345678", 8);
        send_bytes(w, &out);
    }
}

static void frames_that_bring_nothing(void **state)
{
    (void)state;
    struct world w;
    int64_t now_us = 10000000;
    clock_simulate(&now_us);
    open_world(&w); /* its settings are the first such frame */
    ping(&w, LIMIT_H2_IDLE_FRAMES - 2);
    now_us += 1000001; /* a new second */
    ping(&w, LIMIT_H2_IDLE_FRAMES - 1);
    ask(&w, 0, 1);
    assert_int_equal(w.answered, 1);
    assert_int_equal(w.left, 0);
    ping(&w, 1);
    assert_int_equal(w.left, 1);
    close_world(&w);
    clock_simulate(NULL);
}

static void reset(struct world *w, uint32_t first, uint32_t n)
{
    struct buf out = {0};
    for (uint32_t i = 0; i < n; i++)
        put_frame(&out, RST_STREAM, 0, 2 * (first + i) + 1, "\0\0\0\x08", 4);
    send_bytes(w, &out);
}

/* All streams at once may be reset. What a second brings beyond that depends on nghttp2's clock,
 * which may go on by one here. */
static void streams_that_are_reset(void **state)
{
    (void)state;
    struct world w;
    hold_all(&w);
    for (uint32_t i = 0; i < LIMIT_H2_STREAMS; i += 64)
        ask(&w, i, 64);
    reset(&w, 0, LIMIT_H2_STREAMS);
    ask(&w, LIMIT_H2_STREAMS, 1);
    assert_int_equal(held, LIMIT_H2_STREAMS + 1);
    uint32_t more = 0;
    for (; more <= 2 * LIMIT_H2_RESETS && w.left == 0; more++) {
        reset(&w, LIMIT_H2_STREAMS + more, 1);
        ask(&w, LIMIT_H2_STREAMS + more + 1, 1);
    }
    assert_int_equal(w.left, 1);
    assert_in_range(more, 1, 2 * LIMIT_H2_RESETS + 1);
    close_world(&w);
}

/* Streams beyond those that are taken are reset, each by a frame. */
static void frames_that_nobody_takes(void **state)
{
    (void)state;
    struct world w;
    hold_all(&w);
    for (uint32_t i = 0; i < LIMIT_H2_STREAMS; i += 64)
        ask(&w, i, 64);
    stop_reading(&w);
    uint32_t next = LIMIT_H2_STREAMS;
    while (nghttp2_session_get_outbound_queue_size(w.set.first->session) < LIMIT_H2_QUEUED) {
        ask(&w, next++, 1);
        assert_int_equal(w.left, 0);
    }
    ask(&w, next, 1);
    assert_int_equal(w.left, 1);
    close_world(&w);
}

static size_t to_answer;

static void answer_so_much(void *arg, struct http_exchange *x)
{
    hold(arg, x);
    if (to_answer > 0) {
        char *bytes = mem_zalloc(to_answer);
        assert_non_null(bytes);
        http_reply(x, 200, "text/plain", bytes, to_answer);
        mem_free(bytes);
    }
    to_answer = 0;
}

static bool is_root(const char *path)
{
    return strcmp(path, "/") == 0;
}

/* Answers that nobody takes: as many bytes as may wait, then one more. Probes are answered still.
 */
static void bytes_that_nobody_takes(void **state)
{
    (void)state;
    struct world w;
    hold_all(&w);
    w.set.handler = answer_so_much;
    to_answer = LIMIT_H2_UNSENT;
    ask(&w, 0, 1); /* the client's window, of which nothing comes back, takes some of it */
    to_answer = LIMIT_H2_UNSENT - w.set.first->unsent.bytes;
    ask(&w, 1, 1);
    assert_int_equal(w.set.first->unsent.bytes, LIMIT_H2_UNSENT);
    to_answer = 1;
    ask(&w, 2, 1);
    assert_int_equal(refused, 0);
    ask(&w, 3, 1);
    assert_int_equal(held, 4);
    assert_int_equal(refused, 1);
    w.set.is_probe = is_root;
    ask(&w, 4, 1);
    assert_int_equal(held, 5);
    assert_int_equal(refused, 1);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_under_way),         cmocka_unit_test(fields_of_a_request),
        cmocka_unit_test(frames_that_bring_nothing), cmocka_unit_test(streams_that_are_reset),
        cmocka_unit_test(frames_that_nobody_takes),  cmocka_unit_test(bytes_that_nobody_takes),
    };
    log_set_level(LOG_OFF);
    return cmocka_run_group_tests_name("http2_conn", tests, NULL, NULL);
}
