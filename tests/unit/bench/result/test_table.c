#include "unit/bench/bench_runs.h"

#include "bench/load/load_table.h"
#include "bench/result/table.h"

#include <math.h>

static void cells_have_three_digits(void **state)
{
    (void)state;
    assert_string_equal(table_cell(1234.56).text, "1234.6");
    assert_string_equal(table_cell(12.345).text, "12.3");
    assert_string_equal(table_cell(-1.235).text, "-1.24");
    assert_string_equal(table_cell(0).text, "0.00");
    assert_string_equal(table_cell(0.01234).text, "0.012");
    assert_string_equal(table_cell(NAN).text, "n/a");
}

static void numbers_stand_in_their_column(void **state)
{
    (void)state;
    struct buf out = {0};
    table_number(&out, 8, 1, 12.34);
    table_number(&out, 5, 0, NAN);
    table_number(&out, 5, 0, INFINITY);
    table_count(&out, 1, "run");
    table_count(&out, 2, "run");
    assert_string_equal(buf_str(&out), "     12.3   n/a   n/a1 run2 runs");
    buf_fini(&out);
}

static void the_generators_lag_is_that_of_all_runs(void **state)
{
    (void)state;
    struct measurement m;
    struct buf out = {0};
    make_measurement(&m, 3, 1, 1000, false);
    m.runs[1].generator.cpu_share = 0.5;
    assert_true(load_table_generator(&out, 10, m.runs, 1));
    assert_string_equal(buf_str(&out),
                        "generator sent 0.50 ms late, stamps 0.25 ms late (p99), 3 % of a "
                        "processor\n");
    buf_clear(&out);
    series_add(&m.runs[2].generator.lag_ms, 40.5); /* 3 of 4 samples are 0.5 */
    m.runs[2].generator.bottleneck = true;
    snprintf(m.runs[2].generator.why, sizeof m.runs[2].generator.why, "it slept");
    assert_true(load_table_generator(&out, 10, m.runs, 3));
    assert_string_equal(buf_str(&out),
                        "generator sent 39.3 ms late, stamps 0.25 ms late (p99), 50 % of a "
                        "processor\n"
                        "          THE BOTTLENECK WAS THE GENERATOR of run 3: it slept\n");
    buf_clear(&out);
    m.runs[0].generator.turn_ms.failed = true; /* memory was short */
    assert_false(load_table_generator(&out, 10, m.runs, 3));
    assert_non_null(strstr(buf_str(&out), "stamps n/a ms late"));
    buf_fini(&out);
    measure_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_have_three_digits),
        cmocka_unit_test(numbers_stand_in_their_column),
        cmocka_unit_test(the_generators_lag_is_that_of_all_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
