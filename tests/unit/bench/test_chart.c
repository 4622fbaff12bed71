#include "support/cmocka_all.h"

#include "bench/chart.h"

#include <math.h>
#include <string.h>

static const struct chart_axis x_axis = {"prompt tokens", "log"};
static const struct chart_axis y_axis = {"TTFT, ms", "linear"};

static void is_the_documented_object(void **state)
{
    json_error_t error;
    json_t *chart = chart_new("ttft", "TTFT by length", x_axis, y_axis);
    (void)state;
    char text[] = "{'id': 'ttft', 'title': 'TTFT by length', 'note': 'n',"
                  " 'x': {'label': 'prompt tokens', 'scale': 'log'},"
                  " 'y': {'label': 'TTFT, ms', 'scale': 'linear'},"
                  " 'lines': [{'name': 'measured', 'style': 'points',"
                  "            'points': [[1.0, 2.0], [2.0, 3.0, 2.5, 4.0]]},"
                  "           {'name': 'fit', 'style': 'line', 'points': []}],"
                  " 'marks': [{'x': 12.5, 'label': 'knee'}]}";
    for (char *quote = text; (quote = strchr(quote, '\'')) != NULL;)
        *quote = '"';
    json_t *expected = json_loads(text, 0, &error);
    json_t *line = chart_line(chart, "measured", "points");
    chart_point(line, 1, 2);
    chart_point_range(line, 2, 3, 2.5, 4);
    chart_line(chart, "fit", "line");
    chart_mark(chart, 12.5, "knee");
    chart_note(chart, "n");
    assert_non_null(expected);
    assert_true(json_equal(chart, expected));
    json_decref(expected);
    json_decref(chart);
}

/* What has no number is no point, and what came before stays. */
static void not_a_number_is_left_out(void **state)
{
    json_t *chart = chart_new("a", "b", x_axis, y_axis);
    json_t *line = chart_line(chart, "measured", "points");
    (void)state;
    chart_point(line, 1, NAN);
    chart_point(line, 1, INFINITY);
    chart_point_range(line, 1, 2, NAN, 3);
    chart_mark(chart, NAN, "knee");
    chart_point(line, 1, 2);
    assert_int_equal(json_array_size(json_object_get(line, "points")), 1);
    assert_int_equal(json_array_size(json_object_get(chart, "marks")), 0);
    json_decref(chart);
}

static void null_is_passed_through(void **state)
{
    (void)state;
    assert_null(chart_line(NULL, "a", "line"));
    chart_point(NULL, 1, 2);
    chart_point_range(NULL, 1, 2, 1, 3);
    chart_mark(NULL, 1, "x");
    chart_note(NULL, "x");
    assert_null(chart_new("a", "no UTF-8: \xff", x_axis, y_axis));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_documented_object),
        cmocka_unit_test(not_a_number_is_left_out),
        cmocka_unit_test(null_is_passed_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
