/* Expressions of a tokenizer: how long one may be. */
#include "text/tokenizer/regex.h"

#include "base/limits.h"
#include "base/mem.h"
#include "support/cmocka_all.h"

#include <string.h>

static void an_expression_is_as_long_as_the_limit(void **state)
{
    struct regex *r = NULL;
    struct err err = {0};
    size_t start, end;
    char *pattern = mem_alloc(LIMIT_REGEX_BYTES + 1);
    (void)state;
    assert_non_null(pattern);
    memset(pattern, 'a', LIMIT_REGEX_BYTES + 1);
    assert_int_equal(regex_open(&r, pattern, LIMIT_REGEX_BYTES, false, "Split", &err), STATUS_OK);
    struct regex_scratch *s = regex_scratch_open();
    assert_non_null(s);
    assert_int_equal(regex_find(r, s, pattern, LIMIT_REGEX_BYTES + 1, 0, &start, &end, &err),
                     STATUS_OK);
    assert_true(start == 0 && end == LIMIT_REGEX_BYTES);
    regex_scratch_close(s);
    regex_close(r);
    assert_int_equal(regex_open(&r, pattern, LIMIT_REGEX_BYTES + 1, false, "Split", &err),
                     STATUS_INVALID);
    assert_non_null(strstr(err.text, "Split: expected an expression of 1 to 16384 bytes"));
    mem_free(pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_expression_is_as_long_as_the_limit),
    };
    return cmocka_run_group_tests_name("regex", tests, NULL, NULL);
}
