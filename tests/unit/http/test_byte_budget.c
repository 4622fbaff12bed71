/* The budget: what all hold, what one client may. */
#include "http/byte_budget.h"

#include "support/cmocka_all.h"

#include <arpa/inet.h>
#include <netinet/in.h>

static void test_a_client_has_half(void **state)
{
    struct budget b;
    struct client one = clients_of_key(1), two = clients_of_key(2), three = clients_of_key(3);
    struct hold h[5] = {{0}};
    (void)state;
    budget_init(&b, 100);
    b.key = (struct siphash_key){{0}}; /* by which the three have three places, not by chance */
    assert_true(budget_open(&h[0], &b, &one) && budget_open(&h[1], &b, &one));
    assert_true(budget_open(&h[2], &b, &two) && budget_open(&h[3], &b, &three));
    assert_true(h[0].share != h[2].share && h[0].share != h[3].share && h[2].share != h[3].share);
    assert_true(budget_set(&h[0], 30) && budget_set(&h[1], 20));
    assert_false(budget_set(&h[1], 21));
    assert_int_equal(h[1].bytes, 20);
    assert_int_equal(b.refused, 1);
    assert_true(budget_set(&h[2], 49) && budget_set(&h[3], 1));
    assert_false(budget_fits(&h[3], 2)); /* the whole is full; a question is no refusal */
    assert_int_equal(b.held, 100);
    assert_int_equal(b.refused, 1);
    assert_true(budget_set(&h[0], 0) && budget_set(&h[3], 31));
    for (int i = 0; i < 4; i++)
        budget_end(&h[i]);
    assert_int_equal(b.held, 0);
    for (int i = 0; i < BUDGET_SHARES; i++)
        assert_int_equal(b.shares[i], 0);
}

static void test_what_was_counted_before(void **state)
{
    struct budget b;
    struct client one = clients_of_key(1);
    struct hold h = {0}, other = {0};
    (void)state;
    budget_init(&b, 100);
    assert_true(budget_set(&h, 51)); /* of no budget yet */
    assert_false(budget_open(&h, &b, &one));
    assert_int_equal(h.bytes, 0);
    assert_true(budget_set(&h, 50));
    budget_move(&other, &h);
    assert_int_equal(b.held, 50);
    assert_true(budget_set(&h, 1000)); /* it is nobody's again */
    budget_end(&h);
    assert_int_equal(b.held, 50);
    budget_force(&other, 500); /* above all bounds; then nothing fits but less */
    assert_int_equal(b.held, 500);
    assert_true(budget_set(&other, 400));
    assert_true(budget_open(&h, &b, &one)); /* nothing is nothing */
    assert_false(budget_set(&h, 1));
    budget_resize(&b, 1000);
    assert_true(budget_set(&h, 100));
    assert_false(budget_set(&h, 101));
    budget_end(&h);
    budget_end(&other);
    assert_int_equal(b.held, 0);
}

static void test_without_a_bound(void **state)
{
    static struct budget none;
    struct client one = clients_of_key(1);
    struct hold h = {0};
    (void)state;
    assert_true(budget_open(&h, &none, &one) && budget_set(&h, SIZE_MAX));
    budget_end(&h);
    assert_int_equal(none.held, 0);
}

static void test_addresses_have_shares(void **state)
{
    struct budget b;
    struct hold h = {0}, same = {0};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    struct client who = clients_of_address((struct sockaddr *)&at);
    (void)state;
    budget_init(&b, 100);
    assert_true(budget_open(&h, &b, &who) && budget_open(&same, &b, &who));
    assert_true(budget_set(&h, 50));
    assert_false(budget_set(&same, 1));
    budget_end(&h);
    assert_true(budget_set(&same, 50));
    budget_end(&same);
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
