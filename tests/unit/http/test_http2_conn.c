/* Limits of one connection of HTTP/2: as far as each, and one further. */
#include "unit/http/http2_world.h"

#include "base/clock.h"

#define PING 6

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_under_way),
        cmocka_unit_test(fields_of_a_request),
        cmocka_unit_test(frames_that_bring_nothing),
    };
    log_set_level(LOG_OFF);
    return cmocka_run_group_tests_name("http2_conn", tests, NULL, NULL);
}
