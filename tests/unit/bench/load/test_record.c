/* A request's record: its stamps, what is derived from them, and how it ends. */
#include "support/cmocka_all.h"

#include "base/utf8.h"
#include "bench/load/record.h"

#include <math.h>
#include <string.h>

static void a_new_one_knows_nothing(void **state)
{
    (void)state;
    struct record r;
    record_init(&r);
    assert_int_equal(r.state, RECORD_UNSENT);
    assert_false(record_has_ended(&r));
    assert_true(isnan(r.server_ttft_ms) && isnan(r.server_queue_ms));
    assert_true(isnan(record_ttft_ms(&r)) && isnan(record_latency_ms(&r)));
    assert_true(isnan(record_tpot_ms(&r)));
    record_fini(&r);
}

/* Sent at 1 ms, chunks at 5, 6, 8 ms, ended at 11 ms. */
static void send_and_answer(struct record *r)
{
    record_init(r);
    r->state = RECORD_RUNNING;
    r->sent_us = 1000;
    assert_true(record_chunk(r, 5000));
    assert_true(record_chunk(r, 6000));
    assert_true(record_chunk(r, 8000));
}

static void times_are_differences_of_stamps(void **state)
{
    (void)state;
    struct record r;
    send_and_answer(&r);
    r.completion_tokens = 4; /* two came in one chunk */
    assert_true(record_ttft_ms(&r) == 4);
    assert_true(isnan(record_latency_ms(&r)) && isnan(record_tpot_ms(&r))); /* it still runs */
    record_end(&r, RECORD_OK, 11000, NULL);
    assert_true(record_has_ended(&r));
    assert_int_equal(r.first_us, 5000);
    assert_int_equal(r.n_chunks, 3);
    assert_int_equal(r.chunk_us[2], 8000);
    assert_true(record_latency_ms(&r) == 10);
    assert_false(r.uncounted);
    assert_true(record_tpot_ms(&r) == 2);
    record_fini(&r);
    assert_null(r.chunk_us);
}

static void chunks_count_where_the_target_does_not(void **state)
{
    (void)state;
    struct record r;
    send_and_answer(&r);
    record_end(&r, RECORD_OK, 11000, NULL);
    assert_int_equal(r.completion_tokens, 3);
    assert_true(r.uncounted);
    assert_true(record_tpot_ms(&r) == 3);
    record_fini(&r);
}

/* However many tokens it has: what came unstreamed, or in one chunk, has no pace, not one of 0. */
static void one_chunk_has_no_time_per_token(void **state)
{
    (void)state;
    struct record r;
    record_init(&r);
    r.state = RECORD_RUNNING;
    r.sent_us = 1000;
    r.completion_tokens = 64;
    assert_true(record_chunk(&r, 5000));
    record_end(&r, RECORD_OK, 5000, NULL);
    assert_true(isnan(record_tpot_ms(&r)));
    record_fini(&r);
}

/* A server that counts one token of two chunks: the formula divides by 1. */
static void one_token_of_two_chunks(void **state)
{
    (void)state;
    struct record r;
    send_and_answer(&r);
    r.completion_tokens = 1;
    record_end(&r, RECORD_OK, 11000, NULL);
    assert_true(record_tpot_ms(&r) == 6);
    record_fini(&r);
}

static void what_failed_has_a_ttft_but_no_latency(void **state)
{
    (void)state;
    struct record r;
    send_and_answer(&r);
    record_end(&r, RECORD_FAILED, 11000, "the server closed the connection");
    assert_int_equal(r.state, RECORD_FAILED);
    assert_int_equal(r.end_us, 11000);
    assert_string_equal(r.error, "the server closed the connection");
    assert_true(record_ttft_ms(&r) == 4);
    assert_true(isnan(record_latency_ms(&r)) && isnan(record_tpot_ms(&r)));
    record_fini(&r);
}

static void reserved_chunks_stay_in_place(void **state)
{
    (void)state;
    struct record r;
    record_init(&r);
    r.state = RECORD_RUNNING;
    assert_true(record_reserve(&r, 100));
    const int64_t *where = r.chunk_us;
    for (int i = 0; i < 100; i++)
        assert_true(record_chunk(&r, 1 + i));
    assert_ptr_equal(r.chunk_us, where);
    for (int i = 100; i < 1000; i++) /* and more than that is no error */
        assert_true(record_chunk(&r, 1 + i));
    assert_int_equal(r.n_chunks, 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(r.chunk_us[i], 1 + i);
    assert_true(record_reserve(&r, 10)); /* never less than there is */
    assert_int_equal(r.chunk_us[999], 1000);
    record_fini(&r);
}

static void expect_error(const char *given, const char *kept)
{
    struct record r;
    record_init(&r);
    record_end(&r, RECORD_FAILED, 1, given);
    assert_string_equal(r.error, kept);
    record_fini(&r);
}

static void an_error_is_one_line_of_utf8(void **state)
{
    (void)state;
    expect_error("", "");
    expect_error("caf\u00e9", "caf\u00e9");
    expect_error("two\r\nlines\x7f", "two  lines ");
    expect_error("\xff\xfe caf\xc3", "?? caf?");
    expect_error("\x1b[31m\xc2\x9b"
                 "2J\u202e"
                 "do not\u2066",
                 " [31m  2J   do not   ");
}

static void a_long_error_is_cut_between_characters(void **state)
{
    (void)state;
    for (size_t lead = 0; lead < 3; lead++) {
        struct record r;
        char text[1024] = "";
        memset(text, 'x', lead);
        while (strlen(text) < 1000)
            strcat(text, "\u20ac");
        record_init(&r);
        record_end(&r, RECORD_FAILED, 1, text);
        size_t len = strlen(r.error);
        assert_true(len < sizeof r.error && len + 3 >= sizeof r.error);
        assert_int_equal(utf8_valid_prefix(r.error, len), len);
        assert_memory_equal(r.error, text, len);
        record_fini(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_one_knows_nothing),
        cmocka_unit_test(times_are_differences_of_stamps),
        cmocka_unit_test(chunks_count_where_the_target_does_not),
        cmocka_unit_test(one_chunk_has_no_time_per_token),
        cmocka_unit_test(one_token_of_two_chunks),
        cmocka_unit_test(what_failed_has_a_ttft_but_no_latency),
        cmocka_unit_test(reserved_chunks_stay_in_place),
        cmocka_unit_test(an_error_is_one_line_of_utf8),
        cmocka_unit_test(a_long_error_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
