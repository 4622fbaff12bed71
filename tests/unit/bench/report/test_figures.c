/* A result's charts: what is counted adds up, phases lie where the stamps say, limits hold. */
#include "bench/report/chart.h"
#include "bench/report/figures.h"
#include "support/bench_sample.h"
#include "support/cmocka_all.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct figures figures_of(const json_t *a, const json_t *b)
{
    const struct figures_file files[] = {{"a.json", a}, {"b.json", b}};
    struct figures f;
    assert_true(figures_make(&f, files, b ? 2 : 1));
    return f;
}

static const struct figure *find(const struct figures *f, const char *id)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->list[i]->id, id) == 0)
            return f->list[i];
    fail_msg("no figure %s", id);
    return NULL;
}

static const struct svg_line *line_of(const struct figure *f, const char *name)
{
    for (size_t i = 0; i < f->chart.n_lines; i++)
        if (strcmp(f->chart.lines[i].name, name) == 0)
            return &f->chart.lines[i];
    fail_msg("%s has no line %s", f->id, name);
    return NULL;
}

static void assert_near(double found, double expected)
{
    if (!(fabs(found - expected) < 1e-6))
        fail_msg("found %.12g, expected %.12g", found, expected);
}

/* n requests, the i-th sent at i and its first token i + 1 ms later. */
static json_t *result_of(int n)
{
    json_t *root = bench_sample_empty();
    json_t *requests = bench_sample_run(root);
    for (int i = 0; i < n; i++)
        json_array_append_new(requests, bench_sample_request(i, i, 1, 0));
    return root;
}

static double counted(const struct figure *f, double *low, double *high)
{
    double sum = 0;
    *low = INFINITY, *high = -INFINITY;
    for (size_t i = 0; i < f->chart.lines[0].n_boxes; i++) {
        const struct svg_box *b = &f->chart.lines[0].boxes[i];
        sum += b->y1;
        *low = fmin(*low, b->x0);
        *high = fmax(*high, b->x1);
    }
    return sum;
}

static void histograms_count_every_request_once(void **state)
{
    (void)state;
    json_t *a = result_of(100), *b = result_of(40);
    struct figures f = figures_of(a, b);
    double low, high;
    assert_near(counted(find(&f, "a-ttft-histogram"), &low, &high), 100);
    assert_true(low <= 1 && high >= 100 && high < 110);
    assert_true(find(&f, "a-ttft-histogram")->chart.y.whole);
    assert_near(counted(find(&f, "b-ttft-histogram"), &low, &high), 40);
    const struct svg_chart *one = &find(&f, "a-ttft-histogram")->chart;
    const struct svg_chart *two = &find(&f, "b-ttft-histogram")->chart;
    assert_near(one->x.max, two->x.max);
    assert_near(one->y.max, two->y.max);
    assert_string_equal(one->title, "A: TTFT, histogram");
    assert_near(one->marks[0].x, 50.5);
    figures_fini(&f);
    json_decref(a);
    json_decref(b);
}

/* Two runs, of which the second waits longer. Together their p90 is another. */
static json_t *result_of_repeats(const char *mode)
{
    json_t *root = bench_sample_empty();
    for (int run = 0; run < 2; run++) {
        json_t *requests = bench_sample_run(root);
        for (int i = 0; i <= 10; i++)
            json_array_append_new(requests, bench_sample_request(0, i + 100 * run, 0, 0));
        if (mode)
            json_object_set_new(json_array_get(json_object_get(root, "runs"), (size_t)run), "mode",
                                json_string(mode));
    }
    return root;
}

static void marks_are_the_metrics_of_the_file(void **state)
{
    (void)state;
    json_t *root = result_of_repeats(NULL);
    bench_sample_metric(root, "ttft_p50", "ms", "lower", 6, 106);
    bench_sample_metric(root, "ttft_p99", "ms", "lower", 10, 200);
    struct figures f = figures_of(root, NULL);
    const struct figure *figure = find(&f, "ttft-histogram");
    assert_near(figure->chart.marks[0].x, 56);
    assert_near(figure->chart.marks[1].x, 59); /* no metric: the median of 9 and 109 */
    assert_near(figure->chart.marks[2].x, 105);
    assert_string_equal(figure->chart.marks[2].label, "p99 105 ms");
    assert_string_equal(buf_str(&figure->note),
                        "22 requests of 2 repeats together. The marks are the medians of the "
                        "repeats' percentiles.");
    assert_non_null(strstr(buf_str(&find(&f, "ttft-parts")->note),
                           "which is not the median of the repeats' percentiles."));
    assert_near(find(&f, "itl-histogram")->chart.marks[2].x, 10);
    figures_fini(&f);
    json_decref(root);
    root = result_of(100);
    f = figures_of(root, NULL);
    assert_string_equal(buf_str(&find(&f, "ttft-histogram")->note), "100 requests.");
    assert_null(strstr(buf_str(&find(&f, "ttft-parts")->note), "repeats"));
    figures_fini(&f);
    json_decref(root);
}

static void marks_of_a_mode_are_its_metrics(void **state)
{
    (void)state;
    json_t *root = result_of_repeats("streaming");
    json_array_append_new(bench_sample_run(root), bench_sample_request(0, 500, 0, 0));
    json_object_set_new(json_array_get(json_object_get(root, "runs"), 2), "mode",
                        json_string("blocking"));
    bench_sample_metric(root, "streaming_ttft_p50", "ms", "lower", 7, 107);
    bench_sample_metric(root, "blocking_ttft_p50", "ms", "lower", 501, 501);
    struct figures f = figures_of(root, NULL);
    assert_near(find(&f, "streaming-ttft-histogram")->chart.marks[0].x, 57);
    assert_near(find(&f, "streaming-ttft-histogram")->chart.marks[2].x, 59.9);
    assert_near(find(&f, "blocking-ttft-histogram")->chart.marks[0].x, 501);
    figures_fini(&f);
    json_decref(root);
}

/* One request waits a thousand times as long as the others: both are seen on a logarithmic axis. */
static void a_long_tail_makes_the_axis_logarithmic(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    json_t *requests = bench_sample_run(root);
    for (int i = 0; i < 50; i++)
        json_array_append_new(requests, bench_sample_request(0, i == 9 ? 0 : 10, 0, 0));
    json_array_append_new(requests, bench_sample_request(0, 10000, 0, 0));
    struct figures f = figures_of(root, NULL);
    const struct figure *figure = find(&f, "ttft-histogram");
    double low, high;
    assert_int_equal(figure->chart.x.scale, SVG_LOG);
    assert_near(counted(figure, &low, &high), 51);
    assert_true(low > 0.05 && low <= 0.1 && high >= 10000);
    assert_non_null(strstr(buf_str(&figure->note), "The first bar holds 1 that"));
    figures_fini(&f);
    json_decref(root);
}

static void the_cumulative_line_ends_at_the_maximum(void **state)
{
    (void)state;
    json_t *a = result_of(5000), *b = result_of(10);
    struct figures f = figures_of(a, b);
    const struct svg_chart *c = &find(&f, "ttft-cumulative")->chart;
    assert_int_equal(c->n_lines, 2);
    const struct svg_line *large = &c->lines[0], *small = &c->lines[1];
    assert_int_equal(large->n_points, 1001);
    assert_near(large->points[1000].x, 5000);
    assert_near(large->points[1000].y, 100);
    assert_near(large->points[500].y, 50);
    assert_near(large->points[500].x, 2500);
    assert_int_equal(small->n_points, 11);
    assert_near(small->points[0].y, 0);
    assert_near(small->points[10].x, 10);
    figures_fini(&f);
    json_decref(a);
    json_decref(b);
}

static void parts_are_stacked(void **state)
{
    (void)state;
    json_t *root = result_of(101); /* windows of 3; at p90 a queue of 90 and a prefill of 1 */
    struct figures f = figures_of(root, NULL);
    const struct figure *figure = find(&f, "ttft-parts");
    const struct svg_box *queue = &line_of(figure, "queue")->boxes[1];
    const struct svg_box *prefill = &line_of(figure, "prefill")->boxes[1];
    assert_near(queue->y0, 0);
    assert_near(queue->y1, 90);
    assert_near(prefill->y0, 90);
    assert_near(prefill->y1, 91);
    for (size_t i = 0; i < figure->chart.n_lines; i++) /* these were streamed */
        assert_string_not_equal(figure->chart.lines[i].name, "decode");
    assert_string_equal(figure->chart.x.categories[1], "p90");
    assert_non_null(strstr(buf_str(&figure->note), "the 3 requests nearest"));
    figures_fini(&f);
    json_decref(root);
}

static void decode_of_a_whole_answer_is_stacked(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    json_t *request = bench_sample_request(0, 5, 20, 40);
    json_object_set_new(json_object_get(request, "ttft"), "decode_ms", json_real(39));
    json_array_append_new(bench_sample_run(root), request);
    struct figures f = figures_of(root, NULL);
    const struct figure *figure = find(&f, "ttft-parts");
    const struct svg_line *decode = line_of(figure, "decode");
    assert_int_equal(decode->colour, SVG_PALE);
    assert_near(decode->boxes[0].y0, 25);
    assert_near(decode->boxes[0].y1, 64);
    assert_near(line_of(figure, "network and client")->boxes[0].y1, 65);
    figures_fini(&f);
    json_decref(root);
}

static void phases_lie_where_the_stamps_say(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    json_t *requests = bench_sample_run(root);
    json_array_append_new(requests, bench_sample_request(100, 30, 20, 0));
    json_object_set_new(json_array_get(requests, 0), "due_ms", json_real(90));
    json_array_append_new(requests, bench_sample_request(100, 30, 20, 0));
    json_object_set_new(json_array_get(requests, 1), "state", json_string("failed"));
    struct figures f = figures_of(root, NULL);
    const struct figure *figure = find(&f, "timeline");
    static const struct {
        const char *name;
        double from, to, row;
    } phases[] = {{"not yet sent", 90, 100, 0},
                  {"queue", 100, 130, 0},
                  {"prefill to first token", 130, 150, 0},
                  {"decode", 150, 160, 0},
                  {"failed", 100, 160, 1}};
    for (size_t i = 0; i < 5; i++) {
        const struct svg_line *line = line_of(figure, phases[i].name);
        assert_int_equal(line->n_boxes, 1);
        assert_near(line->boxes[0].x0, phases[i].from);
        assert_near(line->boxes[0].x1, phases[i].to);
        assert_near(line->boxes[0].y0, phases[i].row);
    }
    figures_fini(&f);
    json_decref(root);
}

static void a_server_without_parts_has_no_split(void **state)
{
    (void)state;
    json_t *root = result_of(3);
    json_t *requests =
        json_object_get(json_array_get(json_object_get(root, "runs"), 0), "requests");
    for (size_t i = 0; i < 3; i++)
        json_object_set_new(json_array_get(requests, i), "ttft", json_null());
    struct figures f = figures_of(root, NULL);
    for (size_t i = 0; i < f.n; i++)
        assert_string_not_equal(f.list[i]->id, "ttft-parts");
    const struct figure *figure = find(&f, "timeline");
    assert_int_equal(line_of(figure, "queue")->n_boxes, 0);
    assert_int_equal(line_of(figure, "prefill to first token")->n_boxes, 3);
    assert_non_null(strstr(buf_str(&figure->note), "did not tell queue and prefill apart"));
    figures_fini(&f);
    json_decref(root);
}

static void modes_are_drawn_apart(void **state)
{
    (void)state;
    json_t *root = result_of(4);
    json_array_append_new(bench_sample_run(root), bench_sample_request(0, 500, 0, 0));
    static const char *const modes[] = {"streaming", "blocking"};
    for (size_t i = 0; i < 2; i++)
        json_object_set_new(json_array_get(json_object_get(root, "runs"), i), "mode",
                            json_string(modes[i]));
    struct figures f = figures_of(root, NULL);
    double low, high;
    assert_near(counted(find(&f, "streaming-ttft-histogram"), &low, &high), 4);
    assert_near(counted(find(&f, "blocking-ttft-histogram"), &low, &high), 1);
    assert_int_equal(line_of(find(&f, "ttft-cumulative"), "blocking")->n_points, 2);
    figures_fini(&f);
    json_decref(root);
}

static void more_modes_than_fit_are_left_out(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    for (int i = 0; i < 2 * LIMIT_REPORT_MODES; i++) {
        char mode[16];
        snprintf(mode, sizeof mode, "m%d", i);
        json_array_append_new(bench_sample_run(root), bench_sample_request(0, 5, 0, 0));
        json_object_set_new(json_array_get(json_object_get(root, "runs"), (size_t)i), "mode",
                            json_string(mode));
    }
    struct figures f = figures_of(root, NULL);
    assert_int_equal(find(&f, "ttft-cumulative")->chart.n_lines, LIMIT_REPORT_MODES);
    figures_fini(&f);
    json_decref(root);
}

static void a_long_run_is_thinned(void **state)
{
    (void)state;
    json_t *root = result_of(3 * LIMIT_REPORT_ROWS + 1);
    struct figures f = figures_of(root, NULL);
    const struct figure *figure = find(&f, "timeline");
    const struct svg_line *decode = line_of(figure, "decode");
    assert_int_equal(decode->n_boxes, (3 * LIMIT_REPORT_ROWS + 4) / 4);
    assert_true(decode->n_boxes <= LIMIT_REPORT_ROWS);
    assert_near(decode->boxes[1].y0, 4);
    assert_non_null(strstr(buf_str(&figure->note), "One in 4 of 769 is drawn."));
    figures_fini(&f);
    json_decref(root);
}

static const struct chart_axis axis = {"x", "linear"};

/* A chart of n_lines with n_points each. */
static void add_chart(json_t *root, const char *id, int n_lines, int n_points, const char *style)
{
    struct chart c;
    chart_init(&c, id, id, axis, axis);
    for (int i = 0; i < n_lines; i++) {
        chart_line(&c, "line", style);
        for (int k = 0; k < n_points; k++)
            chart_point_range(&c, k, k + i, k, k + 2 * i);
    }
    chart_mark(&c, 1, "knee");
    chart_note(&c, "a note");
    assert_int_equal(json_array_append_new(json_object_get(root, "charts"), chart_take(&c)), 0);
}

static void charts_of_a_file_have_limits(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    add_chart(root, "lines", LIMIT_CHART_LINES + 2, 2, "both");
    add_chart(root, "points", 1, 2 * LIMIT_CHART_POINTS + 1, "line");
    add_chart(root, "bars", 1, LIMIT_CHART_BARS + 5, "bars");
    for (int i = 0; i < LIMIT_REPORT_CHARTS; i++)
        add_chart(root, "same", 1, 1, "line");
    struct figures f = figures_of(root, NULL);
    assert_int_equal(f.n, LIMIT_REPORT_CHARTS);
    assert_int_equal(find(&f, "lines")->chart.n_lines, LIMIT_CHART_LINES);
    assert_non_null(strstr(buf_str(&find(&f, "lines")->note), "2 more lines are not drawn."));
    assert_int_equal(find(&f, "points")->chart.lines[0].n_points, (2 * LIMIT_CHART_POINTS + 3) / 3);
    assert_int_equal(find(&f, "bars")->chart.lines[0].n_boxes, LIMIT_CHART_BARS);
    assert_string_equal(find(&f, "same-3")->chart.title, "same");
    figures_fini(&f);
    json_decref(root);
}

static void two_lines_of_two_files_lie_over_each_other(void **state)
{
    (void)state;
    json_t *a = bench_sample_empty(), *b = bench_sample_empty();
    add_chart(a, "few", 2, 3, "both");
    add_chart(b, "few", 2, 9, "both");
    add_chart(a, "many", 3, 3, "both");
    add_chart(b, "many", 3, 9, "both");
    add_chart(b, "alone", 1, 3, "points");
    struct figures f = figures_of(a, b);
    assert_int_equal(f.n, 4);
    const struct figure *few = find(&f, "few");
    assert_int_equal(few->chart.n_lines, 4);
    assert_int_equal(line_of(few, "B: line")->n_points, 9);
    assert_string_equal(few->chart.marks[1].label, "B: knee");
    assert_string_equal(buf_str(&few->note), "A: a note B: a note");
    assert_int_equal(find(&f, "a-many")->chart.n_lines, 3);
    assert_near(find(&f, "a-many")->chart.x.max, 8);
    assert_string_equal(find(&f, "b-alone")->chart.title, "B: alone");
    figures_fini(&f);
    json_decref(a);
    json_decref(b);
}

static void bars_stand_at_their_place_in_order(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    struct chart made;
    chart_init(&made, "bars", "bars", axis, axis);
    chart_line(&made, "b", "bars");
    chart_point(&made, 64, 3);
    chart_point(&made, 1, 2);
    chart_line(&made, "p", "points");
    chart_point(&made, 8, 9);
    json_array_append_new(json_object_get(root, "charts"), chart_take(&made));
    struct figures f = figures_of(root, NULL);
    const struct svg_chart *c = &find(&f, "bars")->chart;
    assert_int_equal(c->x.n_categories, 3);
    assert_string_equal(c->x.categories[2], "64");
    assert_near(c->lines[0].boxes[0].x0, 1.6);
    assert_near(c->lines[0].boxes[0].y1, 3);
    assert_near(c->lines[0].boxes[1].x0, -0.4);
    assert_near(c->lines[1].points[0].x, 1);
    figures_fini(&f);
    json_decref(root);
}

static void metrics_of_prompts_and_modes_become_bars(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    bench_sample_metric(root, "ttft_p50", "ms", "lower", 1, 1);
    bench_sample_metric(root, "ttft_code_p50", "ms", "lower", 20, 40);
    bench_sample_metric(root, "ttft_maths_p50", "ms", "lower", 50, 50);
    bench_sample_metric(root, "ttft_maths_p95", "ms", "lower", 60, 60);
    bench_sample_metric(root, "blocking_tokens_per_s", "tokens/s", "higher", 5, 5);
    bench_sample_metric(root, "streaming_tokens_per_s", "tokens/s", "higher", 6, 6);
    bench_sample_metric(root, "improvement_tokens_per_s", "x", "higher", 1.2, 1.2);
    struct figures f = figures_of(root, NULL);
    assert_int_equal(f.n, 2);
    const struct figure *ttft = find(&f, "compared-ttft");
    assert_int_equal(ttft->chart.x.n_categories, 2);
    assert_int_equal(ttft->chart.n_lines, 2); /* nobody has a p90 */
    assert_near(line_of(ttft, "p50")->boxes[0].y1, 30);
    assert_near(line_of(ttft, "p50")->boxes[0].x0, -0.4);
    assert_near(line_of(ttft, "p95")->boxes[0].x1, 1.4);
    assert_int_equal(line_of(ttft, "p95")->n_boxes, 1);
    assert_near(line_of(ttft, "p95")->boxes[0].y1, 60);
    const struct svg_chart *throughput = &find(&f, "compared-throughput")->chart;
    assert_int_equal(throughput->x.n_categories, 2);
    assert_string_equal(throughput->x.categories[1], "streaming");
    figures_fini(&f);
    f = figures_of(root, root);
    assert_int_equal(find(&f, "compared-ttft")->chart.n_lines, 2);
    assert_string_equal(find(&f, "compared-ttft")->chart.title, "TTFT, p50");
    figures_fini(&f);
    add_chart(root, "own", 1, 1, "line"); /* says it better */
    f = figures_of(root, NULL);
    assert_int_equal(f.n, 1);
    figures_fini(&f);
    json_decref(root);
}

/* An id becomes a file's name. */
static void ids_name_no_other_folder(void **state)
{
    (void)state;
    json_t *root = bench_sample_empty();
    add_chart(root, "../../etc/Passwd", 1, 1, "line");
    add_chart(root, "", 1, 1, "line");
    add_chart(root, "\xc3\xa9\n.", 1, 1, "line");
    add_chart(root, "0123456789012345678901234567890123456789012345678901234567890123456789", 1, 1,
              "line");
    struct figures f = figures_of(root, NULL);
    assert_int_equal(f.n, 4);
    for (size_t i = 0; i < f.n; i++)
        assert_int_equal(strspn(f.list[i]->id, "abcdefghijklmnopqrstuvwxyz0123456789-"),
                         strlen(f.list[i]->id));
    find(&f, "------etc-passwd");
    find(&f, "chart");
    figures_fini(&f);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(histograms_count_every_request_once),
        cmocka_unit_test(marks_are_the_metrics_of_the_file),
        cmocka_unit_test(marks_of_a_mode_are_its_metrics),
        cmocka_unit_test(a_long_tail_makes_the_axis_logarithmic),
        cmocka_unit_test(the_cumulative_line_ends_at_the_maximum),
        cmocka_unit_test(parts_are_stacked),
        cmocka_unit_test(decode_of_a_whole_answer_is_stacked),
        cmocka_unit_test(phases_lie_where_the_stamps_say),
        cmocka_unit_test(a_server_without_parts_has_no_split),
        cmocka_unit_test(modes_are_drawn_apart),
        cmocka_unit_test(more_modes_than_fit_are_left_out),
        cmocka_unit_test(a_long_run_is_thinned),
        cmocka_unit_test(charts_of_a_file_have_limits),
        cmocka_unit_test(two_lines_of_two_files_lie_over_each_other),
        cmocka_unit_test(bars_stand_at_their_place_in_order),
        cmocka_unit_test(metrics_of_prompts_and_modes_become_bars),
        cmocka_unit_test(ids_name_no_other_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
