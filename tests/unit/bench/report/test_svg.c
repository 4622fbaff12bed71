/* Charts as SVG: values lie where they belong, nothing a file holds breaks the drawing. */
#include "bench/report/svg_internal.h"
#include "support/cmocka_all.h"
#include "support/xml.h"

#include <math.h>

static struct svg_point point(double x, double y)
{
    return (struct svg_point){x, y, NAN, NAN};
}

static struct svg_chart chart_of(enum svg_scale x, enum svg_scale y)
{
    struct svg_chart c;
    svg_init(&c, "title", "x", x, "y", y);
    return c;
}

/* The drawing, well-formed and without a number that is none. */
static char *draw(const struct svg_chart *c, const struct svg_look *look)
{
    struct buf out = {0};
    svg_draw(&out, c, look, "summary");
    assert_false(out.failed);
    assert_true(xml_is_well_formed(buf_str(&out), buf_str(&out) + out.len));
    assert_null(strstr(buf_str(&out), "nan"));
    assert_null(strstr(buf_str(&out), "inf"));
    return buf_take(&out);
}

static void assert_shown(const char *svg, const char *text)
{
    char element[128];
    snprintf(element, sizeof element, ">%s</text>", text);
    if (!strstr(svg, element))
        fail_msg("no text %s in %s", text, svg);
}

static void escapes_what_xml_does_not_take(void **state)
{
    (void)state;
    struct buf out = {0};
    svg_escape(&out, "<a b=\"c\" d='e'>&\x01\x7f\t\xff\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbf");
    assert_string_equal(buf_str(&out),
                        "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\xef\xbf\xbd"
                        "\xef\xbf\xbd\t\xef\xbf\xbd\xc3\xa9\xf0\x9f\x98\x80\xef\xbf\xbd");
    buf_fini(&out);
}

static void numbers_are_short_and_plain(void **state)
{
    (void)state;
    static const struct {
        double x;
        const char *text;
    } cases[] = {
        {0, "0"},
        {-0.0, "0"},
        {1, "1"},
        {0.12345, "0.1235"},
        {12.344, "12.34"},
        {-12.5, "-12.5"},
        {99999.6, "100000"},
        {123456, "123456"},
        {1e-5, "0.00001"},
        {2.5e-9, "2.500e-09"},
        {2e15, "2.000e+15"},
        {NAN, "n/a"},
        {INFINITY, "n/a"},
        {999.96, "1000"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[SVG_NUMBER];
        assert_string_equal(svg_number(text, cases[i].x), cases[i].text);
    }
}

static void points_lie_in_proportion(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_LINEAR, SVG_LINEAR);
    size_t line = svg_add_line(&c, "", SVG_POINTS, 0);
    for (int i = 0; i <= 4; i++)
        svg_add_point(&c, line, point(i * 25, i * 10));
    char *svg = draw(&c, &svg_wide);
    double step = xml_number(svg, "<circle", 1, "cx") - xml_number(svg, "<circle", 0, "cx");
    double rise = xml_number(svg, "<circle", 0, "cy") - xml_number(svg, "<circle", 1, "cy");
    assert_true(step > 50 && rise > 20);
    for (size_t i = 1; i < 4; i++) {
        double x = xml_number(svg, "<circle", i + 1, "cx") - xml_number(svg, "<circle", i, "cx");
        double y = xml_number(svg, "<circle", i, "cy") - xml_number(svg, "<circle", i + 1, "cy");
        assert_true(fabs(x - step) < 0.25);
        assert_true(fabs(y - rise) < 0.25);
    }
    assert_shown(svg, "0");
    assert_shown(svg, "20");
    assert_shown(svg, "100");
    free(svg);
    svg_fini(&c);
}

static void decades_of_a_logarithm_are_alike(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_LOG, SVG_LOG);
    size_t line = svg_add_line(&c, "", SVG_BOTH, 0);
    for (int i = 0; i < 4; i++)
        svg_add_point(&c, line, point(pow(10, i), pow(10, -i)));
    svg_add_point(&c, line, point(0, 1));
    svg_add_point(&c, line, point(1, -1));
    char *svg = draw(&c, &svg_wide);
    assert_int_equal(xml_count(svg, "<circle"), 4); /* not those that have no logarithm */
    double step = xml_number(svg, "<circle", 1, "cx") - xml_number(svg, "<circle", 0, "cx");
    double last = xml_number(svg, "<circle", 3, "cx") - xml_number(svg, "<circle", 2, "cx");
    assert_true(step > 50 && fabs(step - last) < 0.25);
    assert_shown(svg, "1000");
    assert_shown(svg, "0.001");
    free(svg);
    svg_fini(&c);
}

/* The texts of an axis's ticks with their places along it. `anchor` tells which axis. */
struct ticks {
    double at[SVG_MAX_TICKS];
    char label[SVG_MAX_TICKS][SVG_NUMBER];
    size_t n;
};

static struct ticks ticks_of(const char *svg, const char *anchor, const char *along)
{
    struct ticks t = {0};
    char element[64];
    snprintf(element, sizeof element, "<text text-anchor=\"%s\"", anchor);
    for (const char *p = svg; (p = strstr(p, element)); p++) {
        const char *text = strchr(p, '>') + 1;
        assert_true(t.n < SVG_MAX_TICKS);
        t.at[t.n] = xml_number(p, element, 0, along);
        snprintf(t.label[t.n++], SVG_NUMBER, "%.*s", (int)strcspn(text, "<"), text);
    }
    return t;
}

/* Enough of them, in order, and none on another. A label's digits are few. */
static void assert_good_ticks(const struct ticks *t, double from, double to, double font)
{
    size_t enough = to / from <= 4 ? 3 : 4;
    if (t->n < enough)
        fail_msg("%g to %g has %zu ticks", from, to, t->n);
    for (size_t i = 0; i < t->n; i++) {
        size_t digits = 0;
        for (const char *p = t->label[i]; *p && *p != 'e'; p++)
            digits += *p >= '1' && *p <= '9';
        if (digits == 0 || digits > 3)
            fail_msg("%g to %g has the tick %s", from, to, t->label[i]);
        if (i == 0)
            continue;
        double room = fabs(t->at[i] - t->at[i - 1]), need = font * 1.2;
        if (t->at[0] < t->at[t->n - 1])
            need = (svg_text_width(t->label[i - 1], font) + svg_text_width(t->label[i], font)) / 2;
        if (room < need)
            fail_msg("%g to %g: %s lies on %s", from, to, t->label[i - 1], t->label[i]);
    }
}

/* Of ranges within a decade and over many, wherever they begin, on each axis of each look. */
static void a_logarithmic_axis_has_enough_ticks(void **state)
{
    (void)state;
    static const double factors[] = {1.2, 1.5, 2, 3, 4, 5, 7, 9.9, 12, 30, 80, 300, 1e3, 3e4, 1e6};
    static const struct svg_look *const looks[] = {&svg_wide, &svg_narrow, &svg_file};
    for (size_t i = 0; i < sizeof factors / sizeof factors[0] * 3; i++) {
        const struct svg_look *look = looks[i % 3];
        for (double from = 1e-3; from < 2e3; from *= 1.37) {
            struct svg_chart c = chart_of(SVG_LOG, SVG_LOG);
            double to = from * factors[i / 3];
            size_t line = svg_add_line(&c, "", SVG_LINE, 0);
            svg_add_point(&c, line, point(from, from));
            svg_add_point(&c, line, point(to, to));
            char *svg = draw(&c, look);
            struct ticks x = ticks_of(svg, "middle", "x"), y = ticks_of(svg, "end", "y");
            assert_string_equal(x.label[--x.n], "x (log scale)");
            assert_good_ticks(&x, from, to, look->font);
            assert_good_ticks(&y, from, to, look->font);
            free(svg);
            svg_fini(&c);
        }
    }
}

/* The data's own x are ticks, less those without room for their labels, and with others between
 * them where they are too few. */
static void own_values_are_ticks(void **state)
{
    (void)state;
    static const double own[] = {1, 2, 4, 8, 16, 32, 64}, near[] = {100, 101, 102, 3000};
    struct svg_chart c = chart_of(SVG_LOG, SVG_LINEAR);
    size_t line = svg_add_line(&c, "", SVG_BOTH, 0);
    for (size_t i = 0; i < 7; i++)
        svg_add_point(&c, line, point(own[i], 1));
    char *svg = draw(&c, &svg_wide);
    struct ticks t = ticks_of(svg, "middle", "x");
    assert_int_equal(t.n, 8);
    assert_string_equal(t.label[6], "64");
    free(svg);
    svg_fini(&c);
    c = chart_of(SVG_LOG, SVG_LINEAR);
    line = svg_add_line(&c, "", SVG_BOTH, 0);
    for (size_t i = 0; i < 4; i++)
        svg_add_point(&c, line, point(near[i], 1));
    svg = draw(&c, &svg_wide);
    t = ticks_of(svg, "middle", "x");
    t.n--;
    assert_good_ticks(&t, 100, 3000, svg_wide.font);
    assert_string_equal(t.label[0], "100");
    assert_string_equal(t.label[1], "200");
    assert_string_equal(t.label[t.n - 1], "3000");
    free(svg);
    svg_fini(&c);
}

static void a_long_label_leaves_the_scale_its_place(void **state)
{
    (void)state;
    struct svg_chart c;
    char label[401];
    memset(label, 'x', sizeof label - 1);
    label[sizeof label - 1] = '\0';
    svg_init(&c, "", label, SVG_LOG, "y", SVG_LINEAR);
    svg_add_point(&c, svg_add_line(&c, "", SVG_POINTS, 0), point(1, 1));
    char *svg = draw(&c, &svg_narrow);
    assert_non_null(strstr(svg, "x\u2026 (log scale)</text>"));
    assert_shown(svg, "y");
    free(svg);
    svg_fini(&c);
}

/* A rate that varies by a tenth is not drawn as if it fell to nothing. */
static void a_linear_y_axis_starts_at_zero(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_LINEAR, SVG_LINEAR);
    size_t line = svg_add_line(&c, "", SVG_BOTH, 0);
    svg_add_point(&c, line, point(1000, 500));
    svg_add_point(&c, line, point(1100, 450));
    char *svg = draw(&c, &svg_wide);
    assert_string_equal(ticks_of(svg, "end", "y").label[0], "0");
    assert_string_equal(ticks_of(svg, "middle", "x").label[0], "1000"); /* an x axis need not */
    free(svg);
    svg_add_point(&c, line, point(1100, -450));
    svg = draw(&c, &svg_wide);
    assert_shown(svg, "-400");
    free(svg);
    svg_fini(&c);
}

static void half_of_a_count_is_no_tick(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_LINEAR, SVG_LINEAR);
    svg_add_point(&c, svg_add_line(&c, "", SVG_POINTS, 0), point(0, 1));
    c.y.whole = true;
    char *svg = draw(&c, &svg_wide);
    assert_int_equal(ticks_of(svg, "end", "y").n, 2); /* 0, 1 */
    free(svg);
    svg_fini(&c);
}

static void boxes_are_as_high_as_their_value(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_CATEGORIES, SVG_LINEAR);
    size_t line = svg_add_line(&c, "", SVG_BOXES, 1);
    svg_add_category(&c, &c.x, "first");
    svg_add_category(&c, &c.x, "second");
    svg_add_box(&c, line, (struct svg_box){-0.3, 0.3, 0, 10, NULL}, "ten <");
    svg_add_box(&c, line, (struct svg_box){1.3, 0.7, 40, 0, NULL}, NULL);
    char *svg = draw(&c, &svg_wide);
    double low = xml_number(svg, "<rect", 0, "height"),
           high = xml_number(svg, "<rect", 1, "height");
    assert_true(fabs(high / low - 4) < 0.05);
    assert_non_null(strstr(svg, "<title>ten &lt;</title>"));
    assert_shown(svg, "second");
    free(svg);
    svg_fini(&c);
}

static void rows_grow_downwards(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_LINEAR, SVG_ROWS);
    size_t line = svg_add_line(&c, "", SVG_BOXES, 1);
    svg_add_box(&c, line, (struct svg_box){0, 5, 0, 1, NULL}, NULL);
    svg_add_box(&c, line, (struct svg_box){0, 5, 1, 2, NULL}, NULL);
    char *svg = draw(&c, &svg_narrow);
    assert_true(xml_number(svg, "<rect", 1, "y") > xml_number(svg, "<rect", 0, "y") + 50);
    free(svg);
    svg_fini(&c);
}

static void same_scales_put_the_same_value_in_the_same_place(void **state)
{
    (void)state;
    struct svg_chart a = chart_of(SVG_LINEAR, SVG_LINEAR), b = chart_of(SVG_LINEAR, SVG_LINEAR);
    size_t line_a = svg_add_line(&a, "", SVG_POINTS, 0),
           line_b = svg_add_line(&b, "", SVG_POINTS, 0);
    svg_add_point(&a, line_a, point(5, 7));
    svg_add_point(&a, line_a, point(10, 9));
    svg_add_point(&b, line_b, point(5, 7));
    svg_add_point(&b, line_b, point(1000, 900));
    svg_same_scales((struct svg_chart *[]){&a, &b}, 2);
    char *one = draw(&a, &svg_wide), *two = draw(&b, &svg_wide);
    assert_true(xml_number(one, "<circle", 0, "cx") == xml_number(two, "<circle", 0, "cx"));
    assert_true(xml_number(one, "<circle", 0, "cy") == xml_number(two, "<circle", 0, "cy"));
    assert_shown(one, "1000");
    free(one);
    free(two);
    svg_fini(&a);
    svg_fini(&b);
}

/* Labels in the same row of text do not lie on each other. */
static void near_marks_get_rows_of_their_own(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_LINEAR, SVG_LINEAR);
    svg_add_point(&c, svg_add_line(&c, "", SVG_POINTS, 0), point(100, 1));
    svg_add_mark(&c, 50, "fifty milliseconds");
    svg_add_mark(&c, 51, "one more");
    svg_add_mark(&c, 99.5, "at the very end of it");
    char *svg = draw(&c, &svg_wide);
    const char *label = "<text class=\"over\"";
    assert_int_equal(xml_count(svg, label), 3);
    assert_true(fabs(xml_number(svg, label, 0, "y") - xml_number(svg, label, 1, "y")) > 10);
    assert_true(xml_number(svg, label, 2, "x") < 500); /* to the left of its line */
    free(svg);
    svg_fini(&c);
}

static void a_legend_names_what_there_is(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_LINEAR, SVG_LINEAR);
    svg_add_point(&c, svg_add_line(&c, "one & only", SVG_STEPS, 0), point(1, 1));
    char *svg = draw(&c, &svg_wide);
    assert_null(strstr(svg, ">one &amp; only</text>")); /* the title says it */
    free(svg);
    svg_add_point(&c, svg_add_line(&c, "two", SVG_LINE, 1), point(1, 2));
    svg_add_line(&c, "without data", SVG_LINE, 1);
    svg = draw(&c, &svg_wide);
    assert_shown(svg, "one &amp; only");
    assert_shown(svg, "two");
    assert_null(strstr(svg, "without data"));
    free(svg);
    svg_fini(&c);
}

static void long_texts_are_cut(void **state)
{
    (void)state;
    struct svg_chart c;
    char text[4001];
    memset(text, '&', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    svg_init(&c, text, text, SVG_LINEAR, text, SVG_LINEAR);
    svg_add_mark(&c, 1, text);
    for (int i = 0; i < 3; i++)
        svg_add_point(&c, svg_add_line(&c, text, SVG_LINE, 0), point(1, 1));
    char *svg = draw(&c, &svg_file);
    assert_int_equal(xml_count(svg, "\u2026</text>"), 7);
    free(svg);
    svg_fini(&c);
}

static void draws_whatever_comes(void **state)
{
    (void)state;
    static const double values[] = {NAN,   INFINITY, -INFINITY, 0,     -0.0,   1,
                                    1,     1e15,     -1e15,     1e300, 5e-324, 1e-14,
                                    -1e-9, 0.001,    123456,    1e9,   3};
    const size_t n = sizeof values / sizeof values[0];
    for (int scales = 0; scales < 4; scales++) {
        for (size_t i = 0; i < n; i++) {
            for (size_t k = 0; k < n; k++) {
                struct svg_chart c =
                    chart_of(scales & 1 ? SVG_LOG : SVG_LINEAR, scales & 2 ? SVG_LOG : SVG_LINEAR);
                size_t line = svg_add_line(&c, "l", SVG_BOTH, SVG_PALE);
                svg_add_point(&c, line, (struct svg_point){values[i], values[k], values[k], 7});
                svg_add_point(&c, line, (struct svg_point){values[k], values[i], 7, values[i]});
                svg_add_box(&c, line, (struct svg_box){values[i], 1, 2, values[k], NULL}, "b");
                svg_add_mark(&c, values[k], "mark");
                free(draw(&c, &svg_wide));
                svg_fini(&c);
            }
        }
    }
}

static void an_empty_chart_says_so(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_CATEGORIES, SVG_LINEAR);
    assert_true(svg_is_empty(&c));
    char *svg = draw(&c, &svg_narrow);
    assert_shown(svg, "no data");
    free(svg);
    svg_fini(&c);
}

/* A file stands alone: title, style, paper. On a page these are the page's. */
static void a_file_has_its_own_style(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_LINEAR, SVG_LINEAR);
    char *file = draw(&c, &svg_file), *part = draw(&c, &svg_wide), *again = draw(&c, &svg_wide);
    assert_non_null(strstr(file, "prefers-color-scheme:dark"));
    assert_shown(file, "title");
    assert_null(strstr(part, "<style>"));
    assert_non_null(strstr(part, "role=\"img\" aria-label=\"title. summary\""));
    assert_string_equal(part, again);
    free(file);
    free(part);
    free(again);
    svg_fini(&c);
}

static void short_memory_fails_the_drawing(void **state)
{
    (void)state;
    struct svg_chart c = chart_of(SVG_LINEAR, SVG_LINEAR);
    struct buf small = {.limit = 100};
    svg_draw(&small, &c, &svg_wide, NULL);
    assert_true(small.failed);
    buf_fini(&small);
    c.failed = true;
    struct buf out = {0};
    svg_draw(&out, &c, &svg_wide, NULL);
    assert_true(out.failed);
    buf_fini(&out);
    svg_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_what_xml_does_not_take),
        cmocka_unit_test(numbers_are_short_and_plain),
        cmocka_unit_test(points_lie_in_proportion),
        cmocka_unit_test(decades_of_a_logarithm_are_alike),
        cmocka_unit_test(a_logarithmic_axis_has_enough_ticks),
        cmocka_unit_test(own_values_are_ticks),
        cmocka_unit_test(a_long_label_leaves_the_scale_its_place),
        cmocka_unit_test(a_linear_y_axis_starts_at_zero),
        cmocka_unit_test(half_of_a_count_is_no_tick),
        cmocka_unit_test(boxes_are_as_high_as_their_value),
        cmocka_unit_test(rows_grow_downwards),
        cmocka_unit_test(same_scales_put_the_same_value_in_the_same_place),
        cmocka_unit_test(near_marks_get_rows_of_their_own),
        cmocka_unit_test(a_legend_names_what_there_is),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(draws_whatever_comes),
        cmocka_unit_test(an_empty_chart_says_so),
        cmocka_unit_test(a_file_has_its_own_style),
        cmocka_unit_test(short_memory_fails_the_drawing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
