/* The allowance: what it begins with, how it fills, and how long one waits. */
#include "base/allowance.h"
#include "base/clock.h"
#include "support/cmocka_all.h"

#define SECOND INT64_C(1000000)

static int64_t now_us;

static int set_clock(void **state)
{
    (void)state;
    now_us = SECOND;
    clock_simulate(&now_us);
    return 0;
}

static int end_clock(void **state)
{
    (void)state;
    clock_simulate(NULL);
    return 0;
}

static void begins_full_and_is_overdrawn(void **state)
{
    struct allowance a;
    (void)state;
    allowance_init(&a, 100, 50);
    assert_true(allowance_has(&a));
    allowance_use(&a, 49);
    assert_true(allowance_has(&a));
    assert_int_equal(allowance_wait_us(&a), 0);
    allowance_use(&a, 31);
    assert_false(allowance_has(&a));
    assert_int_equal(allowance_wait_us(&a), 31 * SECOND / 100); /* 30 owed, and one to have */
    now_us += 31 * SECOND / 100 - 1;
    assert_false(allowance_has(&a));
    assert_int_equal(allowance_wait_us(&a), 1);
    now_us++;
    assert_true(allowance_has(&a));
}

/* Nobody waits for what somebody else has overdrawn without end. */
static void owes_a_second_at_most(void **state)
{
    struct allowance a;
    (void)state;
    allowance_init(&a, 1000, 50);
    for (int i = 0; i < 100; i++)
        allowance_use(&a, 1 << 30);
    assert_int_equal(allowance_wait_us(&a), SECOND + SECOND / 1000);
}

static void holds_no_more_than_it_may(void **state)
{
    struct allowance a;
    (void)state;
    allowance_init(&a, 1 << 24, 7);
    now_us += INT64_C(1000000) * SECOND; /* longer than the product of all would fit */
    assert_true(allowance_has(&a));
    allowance_use(&a, 7);
    assert_false(allowance_has(&a));
}

/* However often one asks, no time is lost, and none counts twice. */
static void fills_at_its_rate(void **state)
{
    static const int64_t rates[] = {3, 1000, 100000, 1000000, 3000000};
    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct allowance a;
        int64_t taken = 0;
        allowance_init(&a, rates[i], 22);
        allowance_use(&a, 22);
        for (int64_t t = 0; t < 10 * SECOND; t += 7) {
            now_us += 7;
            while (allowance_has(&a)) {
                allowance_use(&a, 22);
                taken += 22;
            }
        }
        assert_in_range(taken, 10 * rates[i] - 22, 10 * rates[i] + 22);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(begins_full_and_is_overdrawn),
        cmocka_unit_test(owes_a_second_at_most),
        cmocka_unit_test(holds_no_more_than_it_may),
        cmocka_unit_test(fills_at_its_rate),
    };
    return cmocka_run_group_tests(tests, set_clock, end_clock);
}
