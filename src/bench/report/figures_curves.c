/* The charts that a result file brings along (chart.h). */
#include "bench/report/figures_internal.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Lines of one file in a chart that holds several files: the file has the colour, so that only
 * points and a fit, or full and dashed, are told apart. */
#define OVERLAY_LINES 2

static const char *figures_curves_text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const json_t *lines_of(const json_t *chart)
{
    return json_object_get(chart, "lines");
}

static enum svg_style style_of(const json_t *line)
{
    static const struct {
        const char *name;
        enum svg_style style;
    } styles[] = {{"points", SVG_POINTS}, {"both", SVG_BOTH}, {"bars", SVG_BOXES}};
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++)
        if (strcmp(figures_curves_text_of(line, "style"), styles[i].name) == 0)
            return styles[i].style;
    return SVG_LINE;
}

static enum svg_scale scale_of(const json_t *chart, const char *axis)
{
    const char *scale = figures_curves_text_of(json_object_get(chart, axis), "scale");
    return strcmp(scale, "log") == 0 ? SVG_LOG : SVG_LINEAR;
}

static const char *label_of(const json_t *chart, const char *axis)
{
    return figures_curves_text_of(json_object_get(chart, axis), "label");
}

/* ---- Bars: their x become categories, in order ---- */

/* The distinct x of all lines of a chart with bars. */
struct places {
    double x[LIMIT_CHART_BARS];
    size_t n;
    bool bars;
};

static void add_place(struct places *p, double x)
{
    size_t at = 0;
    while (at < p->n && p->x[at] < x)
        at++;
    if (isnan(x) || (at < p->n && p->x[at] == x) || p->n == LIMIT_CHART_BARS)
        return;
    memmove(p->x + at + 1, p->x + at, (p->n - at) * sizeof p->x[0]);
    p->x[at] = x;
    p->n++;
}

static void collect_places(struct places *p, const json_t *chart)
{
    for (size_t i = 0; i < json_array_size(lines_of(chart)); i++) {
        const json_t *line = json_array_get(lines_of(chart), i);
        const json_t *points = json_object_get(line, "points");
        p->bars |= style_of(line) == SVG_BOXES;
        for (size_t k = 0; k < json_array_size(points); k++)
            add_place(p, samples_number(json_array_get(json_array_get(points, k), 0)));
    }
}

/* Index of x among the places; NAN: not one of them. */
static double figures_curves_place_of(const struct places *p, double x)
{
    for (size_t i = 0; i < p->n; i++)
        if (p->x[i] == x)
            return (double)i;
    return NAN;
}

/* ---- One chart of one or several files ---- */

struct drawing {
    struct figure *figure;
    struct places places;
    size_t n_charts;        /* laid over each other */
    size_t n_bars, bar;     /* lines of bars in all, and the next of them */
    size_t n_lines, n_left; /* drawn, and not */
};

static void add_bar(struct drawing *d, size_t line, double x, double y)
{
    char title[96], a[SVG_NUMBER], b[SVG_NUMBER];
    double width = 0.8 / (double)(d->n_bars ? d->n_bars : 1);
    double from = figures_curves_place_of(&d->places, x) - 0.4 + width * (double)d->bar;
    snprintf(title, sizeof title, "%s: %s", svg_number(a, x), svg_number(b, y));
    svg_add_box(&d->figure->chart, line, (struct svg_box){from, from + width, 0, y, NULL}, title);
}

static void add_points(struct drawing *d, size_t line, enum svg_style style, const json_t *points)
{
    size_t n = json_array_size(points);
    size_t stride = (n + LIMIT_CHART_POINTS - 1) / LIMIT_CHART_POINTS;
    for (size_t i = 0; i < n; i += stride) {
        const json_t *point = json_array_get(points, i);
        double v[4];
        for (size_t k = 0; k < 4; k++)
            v[k] = samples_number(json_array_get(point, k));
        if (style == SVG_BOXES)
            add_bar(d, line, v[0], v[1]);
        else
            svg_add_point(&d->figure->chart, line,
                          (struct svg_point){
                              d->places.bars ? figures_curves_place_of(&d->places, v[0]) : v[0],
                              v[1], v[2], v[3]});
    }
    if (stride > 1)
        buf_printf(&d->figure->note, " One in %zu of %zu points is drawn.", stride, n);
    d->bar += style == SVG_BOXES;
}

static void add_line(struct drawing *d, const json_t *line, size_t index, size_t file)
{
    struct buf name = {0};
    bool several = d->n_charts > 1;
    if (d->n_lines == LIMIT_CHART_LINES) {
        d->n_left++;
        return;
    }
    d->n_lines++;
    if (several)
        buf_printf(&name, "%c: ", figures_letter(file));
    buf_puts(&name, figures_curves_text_of(line, "name"));
    enum svg_style style = style_of(line);
    struct svg_chart *c = &d->figure->chart;
    unsigned colour = several ? figures_colour(file) : (unsigned)(index % SVG_COLOURS);
    size_t at = svg_add_line(c, buf_str(&name), style, colour);
    if (at < c->n_lines)
        c->lines[at].dashed = index % OVERLAY_LINES && several ? true : index >= SVG_COLOURS;
    add_points(d, at, style, json_object_get(line, "points"));
    c->failed |= name.failed;
    buf_fini(&name);
}

static void figures_curves_add_marks(struct drawing *d, const json_t *chart, size_t file)
{
    const json_t *marks = json_object_get(chart, "marks");
    for (size_t i = 0; i < json_array_size(marks) && i < LIMIT_CHART_LINES; i++) {
        const json_t *mark = json_array_get(marks, i);
        struct buf label = {0};
        if (d->n_charts > 1)
            buf_printf(&label, "%c: ", figures_letter(file));
        buf_puts(&label, figures_curves_text_of(mark, "label"));
        double x = samples_number(json_object_get(mark, "x"));
        svg_add_mark(&d->figure->chart, d->places.bars ? figures_curves_place_of(&d->places, x) : x,
                     buf_str(&label));
        d->figure->chart.failed |= label.failed;
        buf_fini(&label);
    }
}

static void add_note(struct drawing *d, const json_t *chart, size_t file)
{
    const char *note = figures_curves_text_of(chart, "note");
    if (!*note)
        return;
    if (d->figure->note.len)
        buf_putc(&d->figure->note, ' ');
    if (d->n_charts > 1)
        buf_printf(&d->figure->note, "%c: ", figures_letter(file));
    buf_puts(&d->figure->note, note);
}

static void figures_curves_begin(struct drawing *d, const json_t *chart, const char *title)
{
    struct svg_chart *c = &d->figure->chart;
    svg_init(c, title, label_of(chart, "x"), d->places.bars ? SVG_CATEGORIES : scale_of(chart, "x"),
             label_of(chart, "y"), d->places.bars ? SVG_LINEAR : scale_of(chart, "y"));
    for (size_t i = 0; d->places.bars && i < d->places.n; i++) {
        char number[SVG_NUMBER];
        svg_add_category(c, &c->x, svg_number(number, d->places.x[i]));
    }
}

/* charts[i] is file i's, NULL where it has none. `file` SIZE_MAX: all in one. */
static void draw(struct figures *f, const json_t *const *charts, size_t n, size_t file)
{
    struct drawing d = {0};
    const json_t *first = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!charts[i] || (file != SIZE_MAX && i != file))
            continue;
        first = first ? first : charts[i];
        d.n_charts++;
        collect_places(&d.places, charts[i]);
        for (size_t k = 0; k < json_array_size(lines_of(charts[i])); k++)
            d.n_bars += style_of(json_array_get(lines_of(charts[i]), k)) == SVG_BOXES;
    }
    struct figures_source source = {.label = {file == SIZE_MAX ? '\0' : figures_letter(file)}};
    d.figure = figures_add(f, FIGURES_CURVES, figures_curves_text_of(first, "id"), &source);
    if (!d.figure)
        return;
    struct buf title = {0};
    if (file != SIZE_MAX)
        buf_printf(&title, "%c: ", figures_letter(file));
    buf_puts(&title, figures_curves_text_of(first, "title"));
    figures_curves_begin(&d, first, buf_str(&title));
    d.figure->chart.failed |= title.failed;
    buf_fini(&title);
    for (size_t i = 0; i < n; i++) {
        if (!charts[i] || (file != SIZE_MAX && i != file))
            continue;
        add_note(&d, charts[i], i);
        for (size_t k = 0; k < json_array_size(lines_of(charts[i])); k++)
            add_line(&d, json_array_get(lines_of(charts[i]), k), k, i);
        figures_curves_add_marks(&d, charts[i], i);
    }
    if (d.n_left)
        buf_printf(&d.figure->note, " %zu more lines are not drawn.", d.n_left);
}

/* ---- The same chart in several files ---- */

static const json_t *find_chart(const json_t *root, const char *id)
{
    const json_t *charts = json_object_get(root, "charts");
    for (size_t i = 0; i < json_array_size(charts); i++)
        if (strcmp(figures_curves_text_of(json_array_get(charts, i), "id"), id) == 0)
            return json_array_get(charts, i);
    return NULL;
}

/* Few enough lines to lie over each other, on axes that mean the same. */
static bool fit_together(const json_t *const *charts, size_t n)
{
    const json_t *first = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!charts[i])
            continue;
        first = first ? first : charts[i];
        if (json_array_size(lines_of(charts[i])) > OVERLAY_LINES ||
            strcmp(label_of(first, "x"), label_of(charts[i], "x")) != 0 ||
            strcmp(label_of(first, "y"), label_of(charts[i], "y")) != 0)
            return false;
    }
    return true;
}

static void figures_curves_add_chart(struct figures *f, const struct figures_file *files, size_t n,
                                     size_t owner, const json_t *chart)
{
    const json_t *same[LIMIT_REPORT_FILES] = {0};
    const char *id = figures_curves_text_of(chart, "id");
    size_t n_same = 0, from = f->n;
    for (size_t i = 0; i < n; i++) {
        same[i] = i == owner ? chart : *id ? find_chart(files[i].root, id) : NULL;
        n_same += same[i] != NULL;
        if (i < owner && same[i])
            return; /* drawn with that file's */
    }
    if (n_same == 1 && n > 1) {
        draw(f, same, n, owner);
    } else if (fit_together(same, n)) {
        draw(f, same, n, SIZE_MAX);
    } else {
        for (size_t i = 0; i < n; i++)
            if (same[i])
                draw(f, same, n, n == 1 ? SIZE_MAX : i);
        figures_same_scales(f, from);
    }
}

void figures_add_curves(struct figures *f, const struct figures_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *charts = json_object_get(files[i].root, "charts");
        for (size_t k = 0; k < json_array_size(charts) && k < LIMIT_REPORT_CHARTS; k++)
            figures_curves_add_chart(f, files, n, i, json_array_get(charts, k));
    }
}
