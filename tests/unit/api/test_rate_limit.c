#include "api/rate_limit.h"
#include "base/limits.h"
#include "support/cmocka_all.h"

#include <stdbool.h>
#include <string.h>

#define SECOND INT64_C(1000000)

static struct rate_limit *make(double requests, double tokens, double burst_s)
{
    struct rate_limit *r = NULL;
    const struct rate_limit_options o = {
        .requests = requests, .tokens = tokens, .burst_s = burst_s};
    assert_int_equal(rate_limit_open(&r, &o, NULL), STATUS_OK);
    return r;
}

/* 0: taken; else how long to wait. */
static int64_t take(struct rate_limit *r, uint64_t key, int64_t now_us, struct err *e)
{
    struct client who = client_limit_of_key(key);
    int64_t wait_us = -1;
    enum status st = rate_limit_take(r, &who, now_us, &wait_us, e);
    assert_int_equal(st, wait_us > 0 ? STATUS_OVERLOADED : STATUS_OK);
    return wait_us;
}

static void charge(struct rate_limit *r, uint64_t key, int64_t now_us, uint64_t tokens)
{
    struct client who = client_limit_of_key(key);
    rate_limit_charge(r, &who, now_us, tokens);
}

static void a_burst_and_then_the_rate(void **state)
{
    struct rate_limit *r = make(2, 0, 5);
    struct err e = {0};
    int64_t now = SECOND;
    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(take(r, 1, now, &e), 0);
    assert_int_equal(take(r, 1, now, &e), SECOND / 2);
    assert_string_equal(e.param, "--max-requests-per-second");
    assert_non_null(strstr(e.text, "--max-requests-per-second"));
    assert_int_equal(take(r, 1, now + 100000, &e), 400000); /* a refused one takes nothing */
    assert_int_equal(take(r, 2, now, &e), 0);               /* another client has its own */
    assert_int_equal(take(r, 1, now + SECOND / 2 - 10, &e), 10);
    assert_int_equal(take(r, 1, now + SECOND / 2, &e), 0);
    assert_int_equal(take(r, 1, now + SECOND / 2, &e), SECOND / 2);
    now += 3600 * SECOND; /* no more than full */
    for (int i = 0; i < 10; i++)
        assert_int_equal(take(r, 1, now, &e), 0);
    assert_int_equal(take(r, 1, now, &e), SECOND / 2);
    rate_limit_free(r);
}

/* A client that comes exactly when it was told to is taken, whatever the rate's fractions are. */
static void the_wait_is_exact(void **state)
{
    static const double rates[] = {0.001, 0.3, 1, 3, 7, 11.7, 1e6};
    struct err e;
    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct rate_limit *r = make(rates[i], 0, 1);
        int64_t now = 12345, wait, taken = 0;
        for (int k = 0; k < 1000; k++) {
            wait = take(r, 1, now, &e);
            taken += wait == 0;
            if (wait > 2) /* a microsecond is lost in rounding */
                assert_true(take(r, 1, now + wait - 2 - wait / 100000, &e) > 0);
            now += wait;
        }
        assert_true(taken >= 500);
        rate_limit_free(r);
    }
}

static void tokens_may_be_owed(void **state)
{
    struct rate_limit *r = make(0, 100, 2);
    struct err e = {0};
    int64_t now = SECOND;
    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(take(r, 1, now, &e), 0); /* requests alone are not bounded */
    charge(r, 1, now, 150);
    assert_int_equal(take(r, 1, now, &e), 0); /* 50 are left */
    charge(r, 1, now, 450);                   /* 400 are owed */
    assert_int_equal(take(r, 1, now, &e), 4010000);
    assert_string_equal(e.param, "--max-tokens-per-second");
    assert_int_equal(take(r, 2, now, &e), 0);
    assert_int_equal(take(r, 1, now + 4000000, &e), 10000);
    assert_int_equal(take(r, 1, now + 4010000, &e), 0);
    rate_limit_free(r);
}

static void the_longer_wait_is_told(void **state)
{
    struct rate_limit *r = make(1, 10, 1);
    struct err e = {0};
    (void)state;
    assert_int_equal(take(r, 1, SECOND, &e), 0);
    assert_int_equal(take(r, 1, SECOND, &e), SECOND);
    assert_string_equal(e.param, "--max-requests-per-second");
    charge(r, 1, SECOND, 29);
    assert_int_equal(take(r, 1, SECOND, &e), 2 * SECOND);
    assert_string_equal(e.param, "--max-tokens-per-second");
    rate_limit_free(r);
}

static void levels_are_shown(void **state)
{
    struct rate_limit *r = make(2, 100, 10);
    struct client who = client_limit_of_key(5);
    struct rate_limit_level requests, tokens;
    (void)state;
    assert_int_equal(take(r, 5, SECOND, NULL), 0);
    charge(r, 5, SECOND, 1500);
    rate_limit_look(r, &who, SECOND, &requests, &tokens);
    assert_true(requests.most == 20 && requests.left == 19 && requests.full_us == SECOND / 2);
    assert_true(tokens.most == 1000 && tokens.left == -500 && tokens.full_us == 15 * SECOND);
    rate_limit_look(r, &who, 100 * SECOND, &requests, &tokens);
    assert_true(requests.left == 20 && requests.full_us == 0 && tokens.left == 1000);
    rate_limit_free(r);
    r = make(0, 0, 10);
    rate_limit_look(r, &who, SECOND, &requests, &tokens);
    assert_true(requests.most == 0 && tokens.most == 0);
    rate_limit_free(r);
}

/* A million strangers pass by: none is refused, and those who owe keep their places among them. */
static void strangers_take_idle_places(void **state)
{
    enum { OWE = 100 };
    struct rate_limit *r = make(1, 1, 1);
    struct err e;
    uint32_t forgotten = 0;
    (void)state;
    for (uint64_t k = 0; k < OWE; k++) {
        assert_int_equal(take(r, k, SECOND, &e), 0);
        charge(r, k, SECOND, 1000000);
    }
    for (uint64_t k = 0; k < 1000000; k++)
        assert_int_equal(take(r, OWE + k, SECOND, &e), 0);
    for (uint64_t k = 0; k < OWE; k++)
        forgotten += take(r, k, SECOND, &e) == 0;
    assert_int_equal(forgotten, 0);
    rate_limit_free(r);
}

/* Of twice as many as there are places, no more are known than have one; and nearly that many,
 * though a hash spreads them. */
static void so_many_clients_are_known(void **state)
{
    enum { CLIENTS = 2 * LIMIT_RATE_CLIENTS };
    struct rate_limit *r = make(1, 1, 1);
    struct err e;
    uint32_t known = 0;
    (void)state;
    for (uint64_t k = 0; k < CLIENTS; k++)
        charge(r, k, SECOND, 1000000);
    for (uint64_t k = 0; k < CLIENTS; k++)
        known += take(r, k, SECOND, &e) > 0;
    assert_in_range(known, LIMIT_RATE_CLIENTS / 10 * 9, LIMIT_RATE_CLIENTS);
    rate_limit_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_and_then_the_rate), cmocka_unit_test(the_wait_is_exact),
        cmocka_unit_test(tokens_may_be_owed),        cmocka_unit_test(the_longer_wait_is_told),
        cmocka_unit_test(levels_are_shown),          cmocka_unit_test(strangers_take_idle_places),
        cmocka_unit_test(so_many_clients_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
