/* What the session of a connection takes is counted, and bounded: a client that reads nothing, or
 * comes again and again, makes it no larger. */
#include "unit/http/http2_world.h"

#include <malloc.h>

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
    struct world w;
    open_world(&w);
    byte_budget_init(&w.streams, 1);
    w.set.streams = &w.streams;
    stop_reading(&w);
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
