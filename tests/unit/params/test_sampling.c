/* The rows of the sampling parameters: each is held to its own range, wherever it comes from. */
#include "params/sampling.h"

#include "base/limits.h"
#include "support/cmocka_all.h"

#include <math.h>
#include <string.h>

/* In the range, exact as a float, and no row's default. */
static double inside(int p)
{
    const struct sampling_row *row = &sampling_rows[p];
    return row->whole ? row->highest - 1 : (row->lowest + row->highest) / 2 + 0.25;
}

static void rows_are_whole(void **state)
{
    (void)state;
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        const struct sampling_row *row = &sampling_rows[p];
        assert_true(strlen(row->name) > 0 && strlen(row->help) > 0);
        assert_true(sampling_row_takes(row, row->standard));
        assert_true((float)sampling_get(&sampling_default, p) == (float)row->standard);
        for (int k = 0; k < p; k++)
            assert_string_not_equal(row->name, sampling_rows[k].name);
    }
    assert_int_equal(sampling_check(&sampling_default, 100, NULL), STATUS_OK);
}

static void a_row_is_one_field(void **state)
{
    (void)state;
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        struct sampling s = sampling_default;
        sampling_set(&s, p, inside(p));
        for (int k = 0; k < SAMPLING_PARAMS; k++)
            assert_true(sampling_get(&s, k) ==
                        (k == p ? inside(p) : sampling_get(&sampling_default, k)));
    }
    struct sampling s = sampling_default;
    sampling_set(&s, SAMPLING_min_p, 0.5);
    assert_true(s.min_p == 0.5f);
    sampling_set(&s, SAMPLING_top_k, -1);
    assert_int_equal(s.top_k, 0);
}

static void check_refuses(int p, double value)
{
    struct sampling s = sampling_default;
    struct err err = {0};
    sampling_set(&s, p, value);
    if (sampling_check(&s, 100, &err) != STATUS_INVALID ||
        strcmp(err.param, sampling_rows[p].name) != 0)
        fail_msg("%s: %g was taken", sampling_rows[p].name, value);
}

static void ranges_are_held(void **state)
{
    (void)state;
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        const struct sampling_row *row = &sampling_rows[p];
        check_refuses(p, row->highest + 1);
        if (!row->whole)
            check_refuses(p, row->above ? row->lowest : row->lowest - 0.25);
        if (!row->whole)
            check_refuses(p, NAN);
        assert_true(sampling_row_takes(row, row->highest));
        assert_true(sampling_row_takes(row, row->lowest) == !row->above);
        assert_true(sampling_row_takes(row, row->highest - 0.5) == !row->whole);
        assert_false(sampling_row_takes(row, row->lowest - 1));
        assert_false(sampling_row_takes(row, NAN));
    }
}

static void takes_what_is_given(void **state)
{
    (void)state;
    for (int p = 0; p < SAMPLING_PARAMS; p++) {
        struct sampling_values v = {0};
        struct sampling s = sampling_default;
        sampling_take(&s, &v);
        assert_memory_equal(&s, &sampling_default, sizeof s);
        sampling_values_set(&v, p, inside(p));
        sampling_take(&s, &v);
        for (int k = 0; k < SAMPLING_PARAMS; k++)
            assert_true(sampling_get(&s, k) ==
                        (k == p ? inside(p) : sampling_get(&sampling_default, k)));
    }
}

static void parameters_out_of_range_are_named(void **state)
{
    (void)state;
    struct logit_bias unknown = {100, 1}, huge = {1, NAN};
    struct sampling bad[10];
    static const char *const names[10] = {"temperature",
                                          "temperature",
                                          "top_p",
                                          "min_p",
                                          "top_k",
                                          "logit_bias",
                                          "repetition_penalty",
                                          "presence_penalty",
                                          "frequency_penalty",
                                          "logit_bias"};
    for (int i = 0; i < 10; i++)
        bad[i] = sampling_default;
    bad[0].temperature = -0.1f;
    bad[1].temperature = NAN;
    bad[2].top_p = 0;
    bad[3].min_p = 1.1f;
    bad[4].top_k = LIMIT_TOP_K + 1;
    bad[5].bias = &unknown;
    bad[5].n_bias = 1;
    bad[6].repetition_penalty = 0;
    bad[7].presence_penalty = 2.5f;
    bad[8].frequency_penalty = -INFINITY;
    bad[9].bias = &huge;
    bad[9].n_bias = 1;
    for (int i = 0; i < 10; i++) {
        struct err err = {0};
        assert_int_equal(sampling_check(&bad[i], 100, &err), STATUS_INVALID);
        assert_string_equal(err.param, names[i]);
    }
    assert_int_equal(sampling_check(&sampling_default, 100, NULL), STATUS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(a_row_is_one_field),
        cmocka_unit_test(ranges_are_held),
        cmocka_unit_test(takes_what_is_given),
        cmocka_unit_test(parameters_out_of_range_are_named),
    };
    return cmocka_run_group_tests_name("sampling", tests, NULL, NULL);
}
