#include "bench/report/svg_internal.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PAD        6    /* between things, in pixels */
#define LINE_EM    1.35 /* height of a row of text */
#define NAME_EM    15   /* longest name of a category that does not lie flat */
#define NAME_SLOPE (35 * M_PI / 180)
#define MARK_ROWS  4 /* of labels above the plot; a label without room is only a tooltip */

const struct svg_look svg_wide = {600, 240, 12.5, "chart wide", false};
const struct svg_look svg_narrow = {344, 210, 12, "chart narrow", false};
const struct svg_look svg_file = {720, 330, 13, "chart", true};

const char svg_css[] =
    ".chart{font-family:system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\n"
    ".chart text{fill:#3a3f45}.chart .title{font-weight:600;fill:#1b1f23}\n"
    ".chart .paper{fill:#fff}.chart .grid{stroke:#e3e6e9}.chart .axis{stroke:#8a9097}\n"
    ".chart .over{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}\n"
    ".chart .mark{stroke:#5b6168;stroke-dasharray:3 3}\n"
    ".chart .line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}\n"
    ".chart .dashed{stroke-dasharray:6 4}.chart .dot{fill:currentColor}\n"
    ".chart .range{stroke:currentColor;stroke-width:1.5;fill:none}\n"
    ".chart .box{fill:currentColor;shape-rendering:crispEdges}\n"
    ".chart .c0{color:#0072b2}.chart .c1{color:#e69f00}.chart .c2{color:#009e73}\n"
    ".chart .c3{color:#cc79a7}.chart .c4{color:#d55e00}.chart .c5{color:#56b4e9}\n"
    ".chart .c6{color:#c9b800}.chart .c7{color:#8c9198}.chart .c8{color:#c3c9d0}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".chart text{fill:#c3c8ce}.chart .title{fill:#eceff2}.chart .paper{fill:#15181c}\n"
    ".chart .grid{stroke:#2b3036}.chart .axis{stroke:#767d85}.chart .mark{stroke:#a4abb3}\n"
    ".chart .over{stroke:#15181c}\n"
    ".chart .c0{color:#56b4e9}.chart .c5{color:#2a86c8}.chart .c6{color:#f0e442}\n"
    ".chart .c4{color:#e8743b}.chart .c2{color:#22b58b}.chart .c8{color:#4a525b}}\n";

/* Where everything lies. */
struct plan {
    const struct svg_chart *chart;
    const struct svg_look *look;
    double left, top, width, height; /* of the plot */
    double total_height;
    double legend_y, y_label_y; /* baselines */
    struct svg_place x, y;
    bool turned;  /* names of categories, where they are too long to lie flat */
    double below; /* height of the x axis's labels */
    unsigned mark_row[SVG_MAX_TICKS];
    unsigned mark_rows;
};

static double row_height(const struct plan *p)
{
    return p->look->font * LINE_EM;
}

/* ---- Legend ---- */

static bool in_legend(const struct svg_line *line)
{
    return line->name && *line->name && (line->listed || line->n_points || line->n_boxes);
}

static size_t named_lines(const struct svg_chart *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_lines; i++)
        n += in_legend(&c->lines[i]);
    return n;
}

static double entry_width(const struct plan *p, const struct svg_line *line)
{
    double width = svg_text_width(line->name, p->look->font) + p->look->font * 2.6;
    return fmin(width, p->look->width - 2 * PAD);
}

static void draw_key(struct buf *out, const struct svg_line *line, double x, double y, double font)
{
    double mid = y - font * 0.35;
    if (line->style == SVG_BOXES) {
        buf_printf(out,
                   "<rect class=\"box\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>", x,
                   mid - font * 0.4, font * 0.9, font * 0.8);
        return;
    }
    if (line->style != SVG_POINTS)
        buf_printf(out, "<path class=\"line%s\" d=\"M%.1f %.1fh%.1f\"/>",
                   line->dashed ? " dashed" : "", x, mid, font * 1.4);
    if (line->style == SVG_POINTS || line->style == SVG_BOTH)
        buf_printf(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>", x + font * 0.7,
                   mid);
}

/* Lays the legend's entries out in rows; draws them when `out` is given. Returns the rows. */
static unsigned legend(struct buf *out, const struct plan *p)
{
    const struct svg_chart *c = p->chart;
    double x = PAD, font = p->look->font;
    unsigned row = 0;
    if (named_lines(c) < 2)
        return 0;
    for (size_t i = 0; i < c->n_lines; i++) {
        const struct svg_line *line = &c->lines[i];
        if (!in_legend(line))
            continue;
        double width = entry_width(p, line);
        if (x > PAD && x + width > p->look->width - PAD) {
            x = PAD;
            row++;
        }
        if (out) {
            double y = p->legend_y + row * row_height(p);
            buf_printf(out, "<g class=\"c%u\">", line->colour);
            draw_key(out, line, x, y, font);
            buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\">", x + font * 1.8, y);
            svg_text_fit(out, line->name, font, width - font * 1.8);
            buf_puts(out, "</text></g>\n");
        }
        x += width;
    }
    return row + 1;
}

/* ---- Marks: labels in rows above the plot, so that near ones do not lie on each other ---- */

static int compare_marks(const void *a, const void *b)
{
    double x = (*(const struct svg_mark *const *)a)->x, y = (*(const struct svg_mark *const *)b)->x;
    return (x > y) - (x < y);
}

/* Those that the axis can show. */
static size_t sorted_marks(const struct plan *p, const struct svg_mark *marks[SVG_MAX_TICKS])
{
    size_t n = 0;
    for (size_t i = 0; i < p->chart->n_marks && n < SVG_MAX_TICKS; i++)
        if (svg_axis_has(&p->x, p->chart->marks[i].x))
            marks[n++] = &p->chart->marks[i];
    qsort(marks, n, sizeof marks[0], compare_marks);
    return n;
}

/* Left end of a mark's label: to the right of its line, or to the left where there is no room. */
static double mark_label_x(const struct plan *p, double x, double width)
{
    double right = p->look->width - PAD;
    return x + 3 + width <= right ? x + 3 : fmax(x - 3 - width, PAD);
}

static void place_marks(struct plan *p)
{
    const struct svg_mark *marks[SVG_MAX_TICKS];
    double end[MARK_ROWS] = {0};
    size_t n = sorted_marks(p, marks);
    p->mark_rows = p->chart->mark_rows < MARK_ROWS ? p->chart->mark_rows : MARK_ROWS;
    for (size_t i = 0; i < n; i++) {
        const char *label = marks[i]->label ? marks[i]->label : "";
        double width = svg_text_width(label, p->look->font);
        double from = mark_label_x(p, svg_axis_at(&p->x, marks[i]->x), width);
        unsigned row = 0;
        while (row < MARK_ROWS && end[row] > from)
            row++;
        p->mark_row[i] = row;
        if (row == MARK_ROWS)
            continue;
        end[row] = from + width + PAD;
        p->mark_rows = row + 1 > p->mark_rows ? row + 1 : p->mark_rows;
    }
}

static void draw_mark_label(struct buf *out, const struct plan *p, const struct svg_mark *mark,
                            double y)
{
    const char *label = mark->label ? mark->label : "";
    double font = p->look->font, width = svg_text_width(label, font);
    double x = mark_label_x(p, svg_axis_at(&p->x, mark->x), width);
    buf_printf(out, "<text class=\"over\" x=\"%.1f\" y=\"%.1f\">", x, y);
    svg_text_fit(out, label, font, p->look->width - 2 * PAD);
    buf_puts(out, "</text>\n");
}

/* All lines, then all labels, which stay readable over them. */
static void draw_marks(struct buf *out, const struct plan *p)
{
    const struct svg_mark *marks[SVG_MAX_TICKS];
    size_t n = sorted_marks(p, marks);
    double y[SVG_MAX_TICKS];
    for (size_t i = 0; i < n; i++) {
        bool shown = p->mark_row[i] < MARK_ROWS;
        y[i] = p->top - PAD - p->mark_row[i] * row_height(p);
        buf_puts(out, "<g><title>");
        svg_escape(out, marks[i]->label ? marks[i]->label : "");
        buf_printf(out, "</title><path class=\"mark\" d=\"M%.1f %.1fV%.1f\"/></g>\n",
                   svg_axis_at(&p->x, marks[i]->x), shown ? y[i] - p->look->font * 0.8 : p->top,
                   p->top + p->height);
    }
    for (size_t i = 0; i < n; i++)
        if (p->mark_row[i] < MARK_ROWS)
            draw_mark_label(out, p, marks[i], y[i]);
}

/* ---- Axes ---- */

static void text_at(struct buf *out, const char *anchor, double x, double y, const char *text,
                    double font, double width)
{
    buf_printf(out, "<text text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">", anchor, x, y);
    svg_text_fit(out, text, font, width);
    buf_puts(out, "</text>");
}

/* A logarithmic axis says so, however long its label is. */
static void draw_axis_label(struct buf *out, const struct plan *p, const struct svg_axis *axis,
                            const char *anchor, double x, double y, double width)
{
    const char *scale = axis->scale == SVG_LOG ? " (log scale)" : "";
    double font = p->look->font;
    if (!axis->label)
        return;
    buf_printf(out, "<text text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">", anchor, x, y);
    svg_text_fit(out, axis->label, font, width - svg_text_width(scale, font));
    buf_printf(out, "%s</text>", scale);
}

static void draw_y_axis(struct buf *out, const struct plan *p)
{
    double font = p->look->font;
    for (size_t i = 0; i < p->y.n_ticks; i++) {
        double y = svg_axis_at(&p->y, p->y.ticks[i].at);
        buf_printf(out, "<path class=\"grid\" d=\"M%.1f %.1fh%.1f\"/>", p->left, y, p->width);
        text_at(out, "end", p->left - PAD, y + font * 0.35, p->y.ticks[i].label, font,
                p->look->width);
        buf_puts(out, "\n");
    }
    draw_axis_label(out, p, &p->chart->y, "start", PAD, p->y_label_y, p->look->width - 2 * PAD);
}

/* A name under its place on the axis, or sloping down to it from the left. */
static void draw_category(struct buf *out, const struct plan *p, size_t i)
{
    const char *name = p->chart->x.categories[i] ? p->chart->x.categories[i] : "";
    double x = svg_axis_at(&p->x, (double)i), y = p->top + p->height + PAD + p->look->font * 0.8;
    if (!p->turned) {
        text_at(out, "middle", x, y, name, p->look->font, p->width);
        return;
    }
    buf_printf(out, "<text text-anchor=\"end\" transform=\"translate(%.1f %.1f) rotate(-35)\">",
               x + 4, y);
    svg_text_fit(out, name, p->look->font,
                 fmin(NAME_EM * p->look->font, (x - PAD) / cos(NAME_SLOPE)));
    buf_puts(out, "</text>");
}

static void draw_x_axis(struct buf *out, const struct plan *p)
{
    double font = p->look->font, bottom = p->top + p->height, end = -INFINITY;
    for (size_t i = 0; i < p->x.n_ticks; i++) {
        const char *label = p->x.ticks[i].label;
        double x = svg_axis_at(&p->x, p->x.ticks[i].at), half = svg_text_width(label, font) / 2;
        buf_printf(out, "<path class=\"grid\" d=\"M%.1f %.1fv%.1f\"/>", x, p->top, p->height);
        double middle = fmax(fmin(x, p->look->width - half - 1), half + 1); /* on the drawing */
        if (middle - half < end)
            continue;
        text_at(out, "middle", middle, bottom + PAD + font * 0.8, label, font, p->width);
        end = middle + half + PAD / 2.0;
    }
    for (size_t i = 0; i < p->chart->x.n_categories; i++)
        draw_category(out, p, i);
    buf_printf(out, "<path class=\"axis\" fill=\"none\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", p->left,
               p->top, bottom, p->left + p->width);
    draw_axis_label(out, p, &p->chart->x, "middle", p->left + p->width / 2, p->total_height - PAD,
                    p->width);
}

/* ---- Data ---- */

static bool can_place(const struct plan *p, double x, double y)
{
    return svg_axis_has(&p->x, x) && svg_axis_has(&p->y, y);
}

static void draw_path(struct buf *out, const struct plan *p, const struct svg_line *line)
{
    bool begun = false;
    for (size_t i = 0; i < line->n_points; i++) {
        const struct svg_point *v = &line->points[i];
        if (!can_place(p, v->x, v->y))
            continue;
        double x = svg_axis_at(&p->x, v->x), y = svg_axis_at(&p->y, v->y);
        if (!begun)
            buf_printf(out, "<path class=\"line%s\" d=\"M%.1f %.1f", line->dashed ? " dashed" : "",
                       x, y);
        else if (line->style == SVG_STEPS)
            buf_printf(out, "H%.1fV%.1f", x, y);
        else
            buf_printf(out, "L%.1f %.1f", x, y);
        begun = true;
    }
    if (begun)
        buf_puts(out, "\"/>\n");
}

static void draw_range(struct buf *out, const struct plan *p, const struct svg_point *v, double x)
{
    if (!svg_axis_has(&p->y, v->low) || !svg_axis_has(&p->y, v->high))
        return;
    double low = svg_axis_at(&p->y, v->low), high = svg_axis_at(&p->y, v->high);
    buf_printf(out, "<path class=\"range\" d=\"M%.1f %.1fh6m-3 0V%.1fm-3 0h6\"/>", x - 3, low,
               high);
}

static void draw_points(struct buf *out, const struct plan *p, const struct svg_line *line)
{
    char a[SVG_NUMBER], b[SVG_NUMBER];
    for (size_t i = 0; i < line->n_points; i++) {
        const struct svg_point *v = &line->points[i];
        if (!can_place(p, v->x, v->y))
            continue;
        double x = svg_axis_at(&p->x, v->x), y = svg_axis_at(&p->y, v->y);
        buf_puts(out, "<g><title>");
        svg_escape(out, line->name ? line->name : "");
        buf_printf(out, "%s%s: %s", line->name && *line->name ? " at " : "", svg_number(a, v->x),
                   svg_number(b, v->y));
        if (!isnan(v->low))
            buf_printf(out, " (%s to %s)", svg_number(a, v->low), svg_number(b, v->high));
        buf_puts(out, "</title>");
        draw_range(out, p, v, x);
        buf_printf(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/></g>\n", x, y);
    }
}

static void draw_box(struct buf *out, const struct plan *p, const struct svg_box *b)
{
    if (!can_place(p, b->x0, b->y0) || !can_place(p, b->x1, b->y1))
        return;
    double x0 = svg_axis_at(&p->x, b->x0), x1 = svg_axis_at(&p->x, b->x1);
    double y0 = svg_axis_at(&p->y, b->y0), y1 = svg_axis_at(&p->y, b->y1);
    double x = fmin(x0, x1), y = fmin(y0, y1), w = fabs(x1 - x0), h = fabs(y1 - y0);
    /* Neighbours stay apart, and a bar is as high as its value. */
    bool rows = p->y.axis->scale == SVG_ROWS;
    double gap_x = !rows && w > 5 ? 0.5 : 0, gap_y = rows && h > 5 ? 0.5 : 0;
    buf_printf(out, "<rect class=\"box\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"",
               x + gap_x, y + gap_y, fmax(w - 2 * gap_x, 0.3), h - 2 * gap_y);
    if (b->title) {
        buf_puts(out, "><title>");
        svg_escape(out, b->title);
        buf_puts(out, "</title></rect>\n");
    } else {
        buf_puts(out, "/>\n");
    }
}

static void draw_line(struct buf *out, const struct plan *p, const struct svg_line *line)
{
    buf_printf(out, "<g class=\"c%u\">\n", line->colour);
    for (size_t i = 0; i < line->n_boxes; i++)
        draw_box(out, p, &line->boxes[i]);
    if (line->style != SVG_POINTS && line->style != SVG_BOXES)
        draw_path(out, p, line);
    if (line->style == SVG_POINTS || line->style == SVG_BOTH)
        draw_points(out, p, line);
    buf_puts(out, "</g>\n");
}

/* ---- The whole ---- */

static double widest_tick(const struct plan *p)
{
    double widest = 0;
    for (size_t i = 0; i < p->y.n_ticks; i++)
        widest = fmax(widest, svg_text_width(p->y.ticks[i].label, p->look->font));
    return widest;
}

/* How high the names of categories are, and whether they lie flat. */
static void plan_categories(struct plan *p)
{
    const struct svg_axis *a = &p->chart->x;
    double widest = 0, font = p->look->font;
    for (size_t i = 0; i < a->n_categories; i++)
        widest = fmax(widest, svg_text_width(a->categories[i] ? a->categories[i] : "", font));
    p->turned = a->n_categories && widest > p->width / (double)a->n_categories - PAD;
    p->below = p->turned ? fmin(widest, NAME_EM * font) * sin(NAME_SLOPE) : 0;
    p->below = fmax(p->below, row_height(p));
}

static void make_plan(struct plan *p)
{
    const struct svg_look *look = p->look;
    double row = row_height(p);
    p->height = p->chart->plot_height > 0 ? p->chart->plot_height : look->plot_height;
    svg_axis_fit(&p->y, p->chart, true, p->height, look->font);
    p->left = 2 * PAD + widest_tick(p);
    p->width = look->width - p->left - 2 * PAD;
    plan_categories(p);
    if (p->turned) /* the first name reaches to the left of its place */
        p->left = fmax(p->left, fmin(p->below * 1.2, look->width / 5));
    p->width = look->width - p->left - 2 * PAD;
    svg_axis_fit(&p->x, p->chart, false, p->width, look->font);
    p->x.from = p->left;
    p->x.to = p->left + p->width;
    place_marks(p);
    double y = look->file && p->chart->title ? row * 1.5 : 0;
    p->legend_y = y + row;
    unsigned legend_rows = legend(NULL, p);
    y += legend_rows * row + (legend_rows ? PAD : 0);
    p->y_label_y = y + row;
    y += p->chart->y.label ? row : 0;
    y += p->mark_rows * row + PAD * 2;
    p->top = y;
    bool down = p->chart->y.scale == SVG_ROWS;
    p->y.from = p->top + (down ? 0 : p->height);
    p->y.to = p->top + (down ? p->height : 0);
    p->total_height =
        p->top + p->height + PAD + p->below + (p->chart->x.label ? row : 0) + PAD * 1.5;
}

static void draw_head(struct buf *out, const struct plan *p, const char *summary)
{
    const struct svg_look *look = p->look;
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"%s\" viewBox=\"0 0 %.0f %.0f\" ",
               look->class, look->width, ceil(p->total_height));
    if (look->file)
        buf_printf(out, "width=\"%.0f\" height=\"%.0f\" ", look->width, ceil(p->total_height));
    buf_printf(out, "font-size=\"%g\" role=\"img\" aria-label=\"", look->font);
    svg_escape(out, p->chart->title ? p->chart->title : "");
    if (summary && *summary) {
        buf_puts(out, ". ");
        svg_escape(out, summary);
    }
    buf_puts(out, "\">\n");
    if (!look->file)
        return;
    buf_printf(out, "<style>%s</style>\n<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n",
               svg_css);
    if (!p->chart->title)
        return;
    buf_printf(out, "<text class=\"title\" font-size=\"%g\" x=\"%d\" y=\"%.1f\">",
               look->font * 1.15, PAD, row_height(p) * 1.1);
    svg_text_fit(out, p->chart->title, look->font * 1.15, look->width - 2 * PAD);
    buf_puts(out, "</text>\n");
}

void svg_draw(struct buf *out, const struct svg_chart *c, const struct svg_look *look,
              const char *summary)
{
    struct plan *p = c->failed ? NULL : mem_zalloc(sizeof *p);
    if (!p) {
        out->failed = true;
        return;
    }
    *p = (struct plan){.chart = c, .look = look};
    make_plan(p);
    draw_head(out, p, summary);
    legend(out, p);
    draw_y_axis(out, p);
    draw_x_axis(out, p);
    for (size_t i = 0; i < c->n_lines; i++)
        draw_line(out, p, &c->lines[i]);
    draw_marks(out, p);
    if (svg_is_empty(c))
        text_at(out, "middle", p->left + p->width / 2, p->top + p->height / 2, "no data",
                look->font, p->width);
    buf_puts(out, "</svg>\n");
    mem_free(p);
}
