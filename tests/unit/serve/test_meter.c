#include "serve/meter.h"
#include "support/cmocka_all.h"

#define SECOND INT64_C(1000000)

static struct meter *opened(uint32_t max_clients)
{
    struct meter *m;
    struct err e;
    assert_int_equal(meter_open(&m, max_clients, 1000, 100, &e), STATUS_OK);
    return m;
}

static void use_runs_out_with_time(void **state)
{
    struct meter *m = opened(64);
    struct client a = clients_of_key(1), b = clients_of_key(2);
    int64_t now = 5 * SECOND;
    (void)state;
    assert_false(meter_is_over(m, &a, now));
    meter_use(m, &a, 1000, now);
    assert_false(meter_is_over(m, &a, now));
    meter_use(m, &a, 100, now);
    assert_true(meter_is_over(m, &a, now));
    assert_false(meter_is_over(m, &b, now));
    assert_true(meter_is_over(m, &a, now + SECOND - 20000));
    assert_false(meter_is_over(m, &a, now + SECOND));
    meter_use(m, &a, 500, now + SECOND); /* 1000 + 500 */
    assert_true(meter_is_over(m, &a, now + 5 * SECOND));
    assert_false(meter_is_over(m, &a, now + 6 * SECOND + 1));
    meter_close(m);
}

static void what_is_given_back_was_not_used(void **state)
{
    struct meter *m = opened(64);
    struct client a = clients_of_key(1);
    (void)state;
    meter_use(m, &a, 1500, SECOND);
    assert_true(meter_is_over(m, &a, SECOND));
    meter_use(m, &a, -1500, SECOND);
    assert_false(meter_is_over(m, &a, SECOND));
    meter_use(m, &a, -5000, SECOND); /* nobody saves up */
    meter_use(m, &a, 1001, SECOND);
    assert_true(meter_is_over(m, &a, SECOND));
    meter_close(m);
}

/* Who owes much is known through any number of clients that owe little. */
static void many_clients_do_not_hide_one(void **state)
{
    struct meter *m = opened(64);
    struct client bad = clients_of_key(0);
    (void)state;
    meter_use(m, &bad, 100000, SECOND);
    for (uint64_t i = 1; i < 100000; i++) {
        struct client c = clients_of_key(i);
        meter_use(m, &c, 10, SECOND);
        assert_false(meter_is_over(m, &c, SECOND));
    }
    assert_true(meter_is_over(m, &bad, SECOND));
    meter_close(m);
}

/* After a pause of years, and amounts of years. */
static void large_numbers(void **state)
{
    struct meter *m = opened(64);
    struct client a = clients_of_key(1);
    int64_t far = INT64_C(1) << 60;
    (void)state;
    meter_use(m, &a, 2000, 0);
    assert_false(meter_is_over(m, &a, far));
    meter_use(m, &a, INT64_C(1) << 40, far);
    assert_true(meter_is_over(m, &a, far + 10000 * SECOND));
    meter_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(use_runs_out_with_time),
        cmocka_unit_test(what_is_given_back_was_not_used),
        cmocka_unit_test(many_clients_do_not_hide_one),
        cmocka_unit_test(large_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
