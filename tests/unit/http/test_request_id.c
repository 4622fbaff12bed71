/* Exchanges, whatever protocol they came by: which names of a request are taken. */
#include "http/http.h"
#include "http/http_transport.h"

#include "base/limits.h"
#include "support/cmocka_all.h"

#include <string.h>

static const char *given;

static const char *header(const struct http_exchange *x, const char *name)
{
    (void)x;
    return strcmp(name, "X-Request-Id") == 0 ? given : NULL;
}

static const struct http_transport transport = {.header = header};

static bool is_taken(const char *id)
{
    char name[LIMIT_REQUEST_ID_BYTES + 1];
    struct http_exchange x = {.via = &transport};
    given = id;
    http_name_request(&x, name);
    assert_ptr_equal(x.request_id, name);
    assert_true(name[0] != '\0');
    return id && strcmp(name, id) == 0;
}

static void a_request_is_named_by_its_client(void **state)
{
    char id[LIMIT_REQUEST_ID_BYTES + 2] = {0};
    (void)state;
    assert_true(is_taken("mine-1"));
    assert_false(is_taken(NULL));
    assert_false(is_taken(""));
    assert_false(is_taken("a b"));
    memset(id, 'x', LIMIT_REQUEST_ID_BYTES);
    assert_true(is_taken(id));
    id[LIMIT_REQUEST_ID_BYTES] = 'x';
    assert_false(is_taken(id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_named_by_its_client),
    };
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
