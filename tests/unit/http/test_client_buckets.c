#include "http/client_buckets.h"
#include "support/cmocka_all.h"

#include <stdbool.h>

#define SECOND INT64_C(1000000)
#define MOST   1000

static struct client_buckets *opened(uint32_t max_clients)
{
    struct client_buckets *b;
    struct err e;
    assert_int_equal(client_buckets_open(&b, max_clients, 100, &e), STATUS_OK);
    return b;
}

static bool is_over(const struct client_buckets *b, const struct client *who, int64_t now_us)
{
    return client_buckets_held(b, who, now_us) > MOST;
}

static void use_runs_out_with_time(void **state)
{
    struct client_buckets *b = opened(64);
    struct client a = client_limit_of_key(1), other = client_limit_of_key(2);
    int64_t now = 5 * SECOND;
    (void)state;
    assert_false(is_over(b, &a, now));
    client_buckets_add(b, &a, 1000, now);
    assert_false(is_over(b, &a, now));
    client_buckets_add(b, &a, 100, now);
    assert_true(is_over(b, &a, now));
    assert_false(is_over(b, &other, now));
    assert_true(is_over(b, &a, now + SECOND - 20000));
    assert_false(is_over(b, &a, now + SECOND));
    client_buckets_add(b, &a, 500, now + SECOND); /* 1000 + 500 */
    assert_true(is_over(b, &a, now + 5 * SECOND));
    assert_false(is_over(b, &a, now + 6 * SECOND + 1));
    assert_true(client_buckets_held(b, &a, now + 16 * SECOND) == 0);
    client_buckets_close(b);
}

/* When somebody may come back: neither too early nor later than need be. */
static void the_wait_is_told(void **state)
{
    struct client_buckets *b = opened(64);
    struct client a = client_limit_of_key(1);
    (void)state;
    assert_int_equal(client_buckets_until_us(b, &a, MOST, SECOND), 0);
    client_buckets_add(b, &a, 1250, SECOND);
    assert_int_equal(client_buckets_until_us(b, &a, MOST, SECOND), 2500000);
    assert_int_equal(client_buckets_until_us(b, &a, MOST, 3 * SECOND), 500000);
    assert_int_equal(client_buckets_until_us(b, &a, MOST, 3500000), 0);
    assert_int_equal(client_buckets_until_us(b, &a, 0, SECOND), 12500000);
    client_buckets_close(b);
}

static void what_is_given_back_was_not_used(void **state)
{
    struct client_buckets *b = opened(64);
    struct client a = client_limit_of_key(1);
    (void)state;
    client_buckets_add(b, &a, 1500, SECOND);
    assert_true(is_over(b, &a, SECOND));
    client_buckets_add(b, &a, -1500, SECOND);
    assert_false(is_over(b, &a, SECOND));
    client_buckets_add(b, &a, -5000, SECOND); /* nobody saves up */
    client_buckets_add(b, &a, 1001, SECOND);
    assert_true(is_over(b, &a, SECOND));
    client_buckets_close(b);
}

/* Who owes much is known through any number of clients that owe little. */
static void many_clients_do_not_hide_one(void **state)
{
    struct client_buckets *b = opened(64);
    struct client bad = client_limit_of_key(0);
    (void)state;
    client_buckets_add(b, &bad, 100000, SECOND);
    for (uint64_t i = 1; i < 100000; i++) {
        struct client c = client_limit_of_key(i);
        client_buckets_add(b, &c, 10, SECOND);
        assert_false(is_over(b, &c, SECOND));
    }
    assert_true(is_over(b, &bad, SECOND));
    client_buckets_close(b);
}

/* All places are of clients that owe much: one who comes now is known all the same, and neither a
 * look nor what is given back takes anybody's place. */
static void a_full_table_takes_one_more(void **state)
{
    enum { PLACES = CLIENT_BUCKETS_SET };
    struct client_buckets *b = opened(PLACES);
    struct client late = client_limit_of_key(100);
    uint32_t known = 0;
    (void)state;
    for (uint64_t i = 0; i < PLACES; i++) {
        struct client c = client_limit_of_key(i);
        client_buckets_add(b, &c, 2000 + (double)i, SECOND);
    }
    assert_false(is_over(b, &late, SECOND));
    client_buckets_add(b, &late, -10, SECOND);
    for (uint64_t i = 0; i < PLACES; i++) {
        struct client c = client_limit_of_key(i);
        assert_true(is_over(b, &c, SECOND));
    }
    for (int i = 0; i < 11; i++)
        client_buckets_add(b, &late, 100, SECOND);
    assert_true(is_over(b, &late, SECOND));
    for (uint64_t i = 0; i < PLACES; i++) {
        struct client c = client_limit_of_key(i);
        known += is_over(b, &c, SECOND);
    }
    assert_int_equal(known, PLACES - 1);
    client_buckets_close(b);
}

/* After a pause of years, and amounts of years. */
static void large_numbers(void **state)
{
    struct client_buckets *b = opened(64);
    struct client a = client_limit_of_key(1);
    int64_t far = INT64_C(1) << 60;
    (void)state;
    client_buckets_add(b, &a, 2000, 0);
    assert_false(is_over(b, &a, far));
    client_buckets_add(b, &a, (double)(INT64_C(1) << 40), far);
    assert_true(is_over(b, &a, far + 10000 * SECOND));
    client_buckets_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(use_runs_out_with_time),
        cmocka_unit_test(the_wait_is_told),
        cmocka_unit_test(what_is_given_back_was_not_used),
        cmocka_unit_test(many_clients_do_not_hide_one),
        cmocka_unit_test(a_full_table_takes_one_more),
        cmocka_unit_test(large_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
