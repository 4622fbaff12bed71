/* A chart's data: adding to it, and freeing it. */
#include "bench/report/svg_internal.h"

#include "base/mem.h"

#include <math.h>
#include <stdint.h>

/* Room for one more of `size` bytes in *list. */
static bool svg_chart_grow(struct svg_chart *c, void **list, size_t n, size_t *cap, size_t size)
{
    if (c->failed)
        return false;
    if (n < *cap)
        return true;
    size_t more = *cap ? *cap * 2 : 8, bytes;
    void *p = mem_mul(more, size, &bytes) ? mem_resize(*list, bytes) : NULL;
    if (!p) {
        c->failed = true;
        return false;
    }
    *list = p;
    *cap = more;
    return true;
}

#define GROW(c, list, n, cap) svg_chart_grow((c), (void **)&(list), (n), &(cap), sizeof *(list))

static char *svg_chart_copy(struct svg_chart *c, const char *text)
{
    char *p = mem_strdup(text);
    c->failed |= text && !p;
    return p;
}

static bool is_drawn(double v)
{
    return isfinite(v) && fabs(v) <= SERIES_HUGE;
}

void svg_init(struct svg_chart *c, const char *title, const char *x_label, enum svg_scale x_scale,
              const char *y_label, enum svg_scale y_scale)
{
    *c = (struct svg_chart){
        .x = {.scale = x_scale, .min = NAN, .max = NAN},
        .y = {.scale = y_scale, .min = NAN, .max = NAN, .whole = y_scale == SVG_ROWS},
    };
    c->title = svg_chart_copy(c, title);
    c->x.label = svg_chart_copy(c, x_label);
    c->y.label = svg_chart_copy(c, y_label);
}

static void free_axis(struct svg_axis *a)
{
    for (size_t i = 0; i < a->n_categories; i++)
        mem_free(a->categories[i]);
    mem_free(a->categories);
    mem_free(a->label);
}

static void free_line(struct svg_line *line)
{
    for (size_t i = 0; i < line->n_boxes; i++)
        mem_free(line->boxes[i].title);
    mem_free(line->boxes);
    mem_free(line->points);
    mem_free(line->name);
}

void svg_fini(struct svg_chart *c)
{
    for (size_t i = 0; i < c->n_lines; i++)
        free_line(&c->lines[i]);
    for (size_t i = 0; i < c->n_marks; i++)
        mem_free(c->marks[i].label);
    mem_free(c->lines);
    mem_free(c->marks);
    mem_free(c->title);
    free_axis(&c->x);
    free_axis(&c->y);
    *c = (struct svg_chart){0};
}

size_t svg_add_line(struct svg_chart *c, const char *name, enum svg_style style, unsigned colour)
{
    if (!GROW(c, c->lines, c->n_lines, c->cap_lines))
        return SIZE_MAX;
    c->lines[c->n_lines] =
        (struct svg_line){.name = svg_chart_copy(c, name), .style = style, .colour = colour};
    return c->n_lines++;
}

void svg_add_point(struct svg_chart *c, size_t line, struct svg_point p)
{
    if (line >= c->n_lines || !is_drawn(p.x) || !is_drawn(p.y))
        return;
    if (!is_drawn(p.low) || !is_drawn(p.high) || p.low > p.high)
        p.low = p.high = NAN;
    struct svg_line *l = &c->lines[line];
    if (GROW(c, l->points, l->n_points, l->cap_points))
        l->points[l->n_points++] = p;
}

void svg_add_box(struct svg_chart *c, size_t line, struct svg_box box, const char *title)
{
    if (line >= c->n_lines || !is_drawn(box.x0) || !is_drawn(box.x1) || !is_drawn(box.y0) ||
        !is_drawn(box.y1))
        return;
    struct svg_line *l = &c->lines[line];
    if (!GROW(c, l->boxes, l->n_boxes, l->cap_boxes))
        return;
    box.title = svg_chart_copy(c, title);
    l->boxes[l->n_boxes++] = box;
}

void svg_add_mark(struct svg_chart *c, double x, const char *label)
{
    if (is_drawn(x) && GROW(c, c->marks, c->n_marks, c->cap_marks))
        c->marks[c->n_marks++] = (struct svg_mark){x, svg_chart_copy(c, label)};
}

void svg_add_category(struct svg_chart *c, struct svg_axis *axis, const char *name)
{
    if (GROW(c, axis->categories, axis->n_categories, axis->cap_categories))
        axis->categories[axis->n_categories++] = svg_chart_copy(c, name);
}

static bool has_data(const struct svg_chart *c, size_t line)
{
    return line < c->n_lines && (c->lines[line].n_points || c->lines[line].n_boxes);
}

bool svg_is_empty(const struct svg_chart *c)
{
    for (size_t i = 0; i < c->n_lines; i++)
        if (has_data(c, i))
            return false;
    return true;
}

static void svg_chart_widen(double *min, double *max, double low, double high)
{
    *min = isnan(*min) || low < *min ? low : *min;
    *max = isnan(*max) || high > *max ? high : *max;
}

static void same_legends(struct svg_chart *const *charts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t line = 0; line < charts[i]->n_lines; line++)
            for (size_t k = 0; k < n; k++)
                charts[i]->lines[line].listed |= has_data(charts[k], line);
}

void svg_same_scales(struct svg_chart *const *charts, size_t n)
{
    same_legends(charts, n);
    double x0 = NAN, x1 = NAN, y0 = NAN, y1 = NAN, low, high;
    for (size_t i = 0; i < n; i++) {
        svg_axis_data(charts[i], false, &low, &high);
        svg_chart_widen(&x0, &x1, low, high);
        svg_axis_data(charts[i], true, &low, &high);
        svg_chart_widen(&y0, &y1, low, high);
    }
    for (size_t i = 0; i < n; i++) {
        charts[i]->x.min = x0;
        charts[i]->x.max = x1;
        charts[i]->y.min = y0;
        charts[i]->y.max = y1;
    }
}
