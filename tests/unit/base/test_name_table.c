/* Names of a table: found, or listed for the error. */
#include "base/name_table.h"
#include "support/cmocka_all.h"

#include <string.h>

static bool fruit_at(size_t i, const char **name, const char **about)
{
    static const char *const fruits[] = {"apple", "pear", "plum"};
    if (i >= 3)
        return false;
    *name = *about = fruits[i];
    return true;
}

static void finds_each(void **state)
{
    (void)state;
    char known[32];
    assert_int_equal(name_table_find(fruit_at, "apple", known, sizeof known), 0);
    assert_int_equal(name_table_find(fruit_at, "plum", known, sizeof known), 2);
}

static void lists_all_when_there_is_none(void **state)
{
    (void)state;
    char known[32], little[9];
    assert_true(name_table_find(fruit_at, "plu", known, sizeof known) == NAME_TABLE_NONE);
    assert_string_equal(known, "apple, pear, plum");
    assert_true(name_table_find(fruit_at, "", little, sizeof little) == NAME_TABLE_NONE);
    assert_string_equal(little, "apple, p");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_each),
        cmocka_unit_test(lists_all_when_there_is_none),
    };
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
