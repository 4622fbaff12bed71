#include "support/cmocka_all.h"

#include "bench/report/chart.h"

#include <math.h>
#include <string.h>

static const struct chart_axis x_axis = {"prompt tokens", "log"};
static const struct chart_axis y_axis = {"TTFT, ms", "linear"};

static void is_the_documented_object(void **state)
{
    json_error_t error;
    struct chart c;
    (void)state;
    chart_init(&c, "ttft", "TTFT by length", x_axis, y_axis);
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
    chart_line(&c, "measured", "points");
    chart_point(&c, 1, 2);
    chart_point_range(&c, 2, 3, 2.5, 4);
    chart_line(&c, "fit", "line");
    chart_mark(&c, 12.5, "knee");
    chart_note(&c, "n");
    json_t *chart = chart_take(&c);
    assert_non_null(expected);
    assert_true(json_equal(chart, expected));
    json_decref(expected);
    json_decref(chart);
}

/* What has no number is no point, and what came before stays. */
static void not_a_number_is_left_out(void **state)
{
    struct chart c;
    (void)state;
    chart_init(&c, "a", "b", x_axis, y_axis);
    chart_line(&c, "measured", "points");
    chart_point(&c, 1, NAN);
    chart_point(&c, 1, INFINITY);
    chart_point_range(&c, 1, 2, NAN, 3);
    chart_mark(&c, NAN, "knee");
    chart_point(&c, 1, 2);
    json_t *chart = chart_take(&c);
    const json_t *line = json_array_get(json_object_get(chart, "lines"), 0);
    assert_int_equal(json_array_size(json_object_get(line, "points")), 1);
    assert_int_equal(json_array_size(json_object_get(chart, "marks")), 0);
    json_decref(chart);
}

/* What jansson cannot make stands in for memory that is short: text that is no UTF-8. */
static void what_could_not_be_made_fails_the_chart(void **state)
{
    static const char bad[] = "no UTF-8: \xff";
    struct chart c;
    (void)state;
    for (int part = 0; part < 4; part++) {
        chart_init(&c, "a", part == 0 ? bad : "b", x_axis, y_axis);
        chart_line(&c, part == 1 ? bad : "measured", "points");
        chart_point(&c, 1, 2);
        chart_point_range(&c, 1, 2, 1, 3);
        chart_mark(&c, 1, part == 2 ? bad : "x");
        chart_note(&c, part == 3 ? bad : "x");
        assert_null(chart_take(&c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_documented_object),
        cmocka_unit_test(not_a_number_is_left_out),
        cmocka_unit_test(what_could_not_be_made_fails_the_chart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
