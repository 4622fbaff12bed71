#include "http/client_limit.h"
#include "support/cmocka_all.h"
#include "support/random.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

static struct client v4(const char *text)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = 80};
    assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
    return client_limit_of_address((const struct sockaddr *)&a);
}

static struct client v6(const char *text)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = 80};
    assert_int_equal(inet_pton(AF_INET6, text, &a.sin6_addr), 1);
    return client_limit_of_address((const struct sockaddr *)&a);
}

static bool same(struct client a, struct client b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static void who_is_one_client(void **state)
{
    (void)state;
    assert_true(same(v4("10.0.0.1"), v6("::ffff:10.0.0.1")));
    assert_false(same(v4("10.0.0.1"), v4("10.0.0.2")));
    assert_true(same(v6("2001:db8:0:1::1"), v6("2001:db8:0:1:ffff::2")));
    assert_false(same(v6("2001:db8:0:1::1"), v6("2001:db8:0:2::1")));
    assert_false(same(client_limit_of_key(0), client_limit_of_key(1)));
    assert_false(same(client_limit_of_key(0), client_limit_of_address(NULL)));
    assert_false(same(v6("::1"), v4("127.0.0.1")));
}

static void each_has_so_many(void **state)
{
    (void)state;
    struct client_limit *c;
    struct err err = {0};
    struct client a = v4("10.0.0.1"), b = v4("10.0.0.2"), third = client_limit_of_key(7);
    assert_int_equal(client_limit_open(&c, 2, 2, &err), STATUS_OK);
    assert_int_equal(client_limit_enter(c, &a, &err), STATUS_OK);
    assert_int_equal(client_limit_enter(c, &a, &err), STATUS_OK);
    assert_int_equal(client_limit_enter(c, &a, &err), STATUS_OVERLOADED);
    assert_non_null(strstr(err.text, "--max-requests-per-client"));
    assert_int_equal(client_limit_enter(c, &b, &err), STATUS_OK);
    assert_int_equal(client_limit_enter(c, &third, &err), STATUS_OVERLOADED); /* no room to count */
    client_limit_leave(c, &a);
    assert_int_equal(client_limit_enter(c, &a, &err), STATUS_OK);
    client_limit_leave(c, &b);
    assert_int_equal(client_limit_enter(c, &third, &err), STATUS_OK);
    assert_int_equal(client_limit_count(c), 2);
    client_limit_free(c);
}

static void all_or_none(void **state)
{
    (void)state;
    struct client_limit *c;
    struct err err = {0};
    struct client a = v4("10.0.0.1");
    assert_int_equal(client_limit_open(&c, 4, 2, &err), STATUS_OK);
    assert_int_equal(client_limit_enter(c, &a, &err), STATUS_OK);
    assert_int_equal(client_limit_enter_all(c, &a, 4, &err), STATUS_OVERLOADED);
    assert_non_null(strstr(err.text, "1 requests under way and asks for 4 more, one may have 4"));
    assert_int_equal(client_limit_enter_all(c, &a, UINT32_MAX, &err), STATUS_OVERLOADED);
    assert_int_equal(client_limit_enter_all(c, &a, 3, &err), STATUS_OK);
    assert_int_equal(client_limit_enter_all(c, &a, 0, &err), STATUS_OK);
    assert_int_equal(client_limit_enter(c, &a, &err), STATUS_OVERLOADED);
    client_limit_leave_all(c, &a, 0);
    client_limit_leave_all(c, &a, 2);
    assert_int_equal(client_limit_enter_all(c, &a, 2, &err), STATUS_OK);
    client_limit_leave_all(c, &a, 4);
    assert_int_equal(client_limit_count(c), 0);
    client_limit_free(c);
}

/* Against counts in an array: coming and going in a table as full as it gets. */
static void as_a_plain_array_counts(void **state)
{
    (void)state;
    enum { CLIENTS = 40, MOST = 24, EACH = 3 };
    struct random random = {3};
    struct client_limit *c;
    uint32_t count[CLIENTS] = {0}, present = 0, refused = 0;
    assert_int_equal(client_limit_open(&c, EACH, MOST, NULL), STATUS_OK);
    for (uint32_t i = 0; i < 200000; i++) {
        uint32_t k = random_below(&random, CLIENTS);
        struct client who = client_limit_of_key(k);
        if (random_below(&random, 2) && count[k] > 0) {
            client_limit_leave(c, &who);
            present -= --count[k] == 0;
        } else {
            bool fits = count[k] < EACH && (count[k] > 0 || present < MOST);
            assert_int_equal(client_limit_enter(c, &who, NULL) == STATUS_OK, fits);
            present += fits && count[k] == 0;
            count[k] += fits;
            refused += !fits;
        }
        assert_int_equal(client_limit_count(c), present);
    }
    assert_true(refused > 1000);
    client_limit_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_one_client),
        cmocka_unit_test(each_has_so_many),
        cmocka_unit_test(all_or_none),
        cmocka_unit_test(as_a_plain_array_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
