#include "base/utf8.h"
#include "support/cmocka_all.h"

#include <stdio.h>

static void expect_plain(const char *given, bool keep_lines, const char *expected)
{
    char text[64];
    snprintf(text, sizeof text, "%s", given);
    utf8_make_plain(text, keep_lines);
    assert_string_equal(text, expected);
}

static void controls_are_those_of_both_sets_and_of_direction(void **state)
{
    static const struct {
        uint32_t first, last;
    } controls[] = {{0, 0x1f}, {0x7f, 0x9f}, {0x202a, 0x202e}, {0x2066, 0x2069}};
    (void)state;
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++) {
        for (uint32_t cp = controls[i].first; cp <= controls[i].last; cp++)
            assert_true(utf8_is_control(cp));
        assert_false(utf8_is_control(controls[i].last + 1));
        assert_false(controls[i].first > 0 && utf8_is_control(controls[i].first - 1));
    }
}

static void plain_text_moves_no_cursor_and_turns_nothing(void **state)
{
    (void)state;
    expect_plain("", false, "");
    expect_plain("caf\u00e9 \u4e2d", false, "caf\u00e9 \u4e2d");
    expect_plain("\x1b[2J\x7f\r\n", false, " [2J   ");
    expect_plain("\x1b[2J\x7f\r\n", true, " [2J  \n");
    expect_plain("\xc2\x9b"
                 "2J\u202emoc\u2069",
                 false, "  2J   moc   ");
    expect_plain("\xff\xc2", false, "\xff\xc2"); /* not UTF-8: a terminal's to replace */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controls_are_those_of_both_sets_and_of_direction),
        cmocka_unit_test(plain_text_moves_no_cursor_and_turns_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
