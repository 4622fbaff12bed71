/* Each sampling parameter has its flag, with the row's range. */
#include "cli/sampling_flags.h"

#include "support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

static enum status parse(struct sampling_flags *f, const char *flag, const char *value,
                         struct err *err)
{
    char *argv[] = {(char *)"test", (char *)flag, (char *)value, NULL};
    struct flag_set set = {.command = "test", .groups = {sampling_flags_init(f)}};
    bool help;
    *err = (struct err){0};
    return flags_parse(&set, flag ? 3 : 1, argv, &help, err);
}

static void a_flag_sets_its_parameter(void **state)
{
    (void)state;
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        struct sampling_flags f;
        struct sampling s = sampling_default;
        struct err err;
        char text[32];
        double value = sampling_rows[p].highest;
        sampling_flags_init(&f);
        snprintf(text, sizeof text, "%.17g", value);
        assert_int_equal(parse(&f, f.names[p], text, &err), STATUS_OK);
        sampling_flags_take(&s, &f);
        for (int k = 0; k < SAMPLING_PARAMS; k++)
            assert_true(sampling_get(&s, k) ==
                        (k == p ? value : sampling_get(&sampling_default, k)));
        snprintf(text, sizeof text, "%.17g", value + 1);
        assert_int_equal(parse(&f, f.names[p], text, &err), STATUS_INVALID);
        assert_string_equal(err.param, f.names[p]);
    }
}

static void says_nothing_without_flags(void **state)
{
    (void)state;
    struct sampling_flags f;
    struct err err;
    struct sampling s = {.temperature = 1.5f, .top_k = 7};
    const struct sampling before = s;
    assert_int_equal(parse(&f, NULL, NULL, &err), STATUS_OK);
    sampling_flags_take(&s, &f);
    assert_memory_equal(&s, &before, sizeof s);
}

static void names_and_helps_are_whole(void **state)
{
    (void)state;
    struct sampling_flags f;
    sampling_flags_init(&f);
    assert_string_equal(f.flags[SAMPLING_repetition_penalty].name, "--repetition-penalty");
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        const struct flag *flag = &f.flags[p];
        assert_int_equal(strlen(flag->name), 2 + strlen(sampling_rows[p].name));
        assert_ptr_equal(strstr(flag->help, sampling_rows[p].help), flag->help);
        assert_int_equal(flag->help[strlen(flag->help) - 1], ')');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flag_sets_its_parameter),
        cmocka_unit_test(says_nothing_without_flags),
        cmocka_unit_test(names_and_helps_are_whole),
    };
    return cmocka_run_group_tests_name("sampling_flags", tests, NULL, NULL);
}
