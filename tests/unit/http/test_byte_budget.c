/* The budget: what all hold, what one client may. */
#include "http/byte_budget.h"

#include "support/cmocka_all.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static void test_a_client_has_half(void **state)
{
    struct byte_budget b;
    struct client one = client_limit_of_key(1), two = client_limit_of_key(2),
                  three = client_limit_of_key(3);
    struct hold h[5] = {{0}};
    (void)state;
    byte_budget_init(&b, 100);
    b.key = (struct siphash_key){{0}}; /* by which the three have three places, not by chance */
    assert_true(byte_budget_open(&h[0], &b, &one) && byte_budget_open(&h[1], &b, &one));
    assert_true(byte_budget_open(&h[2], &b, &two) && byte_budget_open(&h[3], &b, &three));
    assert_true(h[0].share != h[2].share && h[0].share != h[3].share && h[2].share != h[3].share);
    assert_true(byte_budget_set(&h[0], 30) && byte_budget_set(&h[1], 20));
    assert_false(byte_budget_set(&h[1], 21));
    assert_int_equal(h[1].bytes, 20);
    assert_int_equal(b.refused, 1);
    assert_true(byte_budget_set(&h[2], 49) && byte_budget_set(&h[3], 1));
    assert_false(byte_budget_fits(&h[3], 2)); /* the whole is full; a question is no refusal */
    assert_int_equal(b.held, 100);
    assert_int_equal(b.refused, 1);
    assert_true(byte_budget_set(&h[0], 0) && byte_budget_set(&h[3], 31));
    for (int i = 0; i < 4; i++)
        byte_budget_end(&h[i]);
    assert_int_equal(b.held, 0);
    for (int i = 0; i < BYTE_BUDGET_SHARES; i++)
        assert_int_equal(b.shares[i], 0);
}

static void test_what_was_counted_before(void **state)
{
    struct byte_budget b;
    struct client one = client_limit_of_key(1);
    struct hold h = {0}, other = {0};
    (void)state;
    byte_budget_init(&b, 100);
    assert_true(byte_budget_set(&h, 51)); /* of no budget yet */
    assert_false(byte_budget_open(&h, &b, &one));
    assert_int_equal(h.bytes, 0);
    assert_true(byte_budget_set(&h, 50));
    byte_budget_move(&other, &h);
    assert_int_equal(b.held, 50);
    assert_true(byte_budget_set(&h, 1000)); /* it is nobody's again */
    byte_budget_end(&h);
    assert_int_equal(b.held, 50);
    byte_budget_force(&other, 500); /* above all bounds; then nothing fits but less */
    assert_int_equal(b.held, 500);
    assert_true(byte_budget_set(&other, 400));
    assert_true(byte_budget_open(&h, &b, &one)); /* nothing is nothing */
    assert_false(byte_budget_set(&h, 1));
    byte_budget_resize(&b, 1000);
    assert_true(byte_budget_set(&h, 100));
    assert_false(byte_budget_set(&h, 101));
    byte_budget_end(&h);
    byte_budget_end(&other);
    assert_int_equal(b.held, 0);
}

static void test_without_a_bound(void **state)
{
    static struct byte_budget none;
    struct client one = client_limit_of_key(1);
    struct hold h = {0};
    (void)state;
    assert_true(byte_budget_open(&h, &none, &one) && byte_budget_set(&h, SIZE_MAX));
    byte_budget_end(&h);
    assert_int_equal(none.held, 0);
}

static void test_addresses_have_shares(void **state)
{
    struct byte_budget b;
    struct hold h = {0}, same = {0};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    struct client who = client_limit_of_address((struct sockaddr *)&at);
    (void)state;
    byte_budget_init(&b, 100);
    assert_true(byte_budget_open(&h, &b, &who) && byte_budget_open(&same, &b, &who));
    assert_true(byte_budget_set(&h, 50));
    assert_false(byte_budget_set(&same, 1));
    byte_budget_end(&h);
    assert_true(byte_budget_set(&same, 50));
    byte_budget_end(&same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_client_has_half),
        cmocka_unit_test(test_what_was_counted_before),
        cmocka_unit_test(test_without_a_bound),
        cmocka_unit_test(test_addresses_have_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
