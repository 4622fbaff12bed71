#include "bench/svg_internal.h"

#include <math.h>
#include <stdio.h>

/* An axis of values no smaller than 0 begins at 0, unless they are all far from it. */
#define ZERO_SHARE 0.6
/* Fewer different x on a logarithmic axis (batch sizes, prompt lengths) are its ticks. */
#define OWN_TICKS 12

static double linear(const struct svg_place *p, double v)
{
    return p->axis->scale == SVG_LOG ? log10(v) : v;
}

double svg_axis_at(const struct svg_place *p, double v)
{
    double min = linear(p, p->min), max = linear(p, p->max);
    return p->from + (p->to - p->from) * (linear(p, v) - min) / (max - min);
}

bool svg_axis_has(const struct svg_place *p, double v)
{
    /* A sum of parts may round past the end. */
    double slack = p->axis->scale == SVG_LOG ? 0 : 1e-9 * (p->max - p->min);
    return isfinite(v) && v >= p->min - slack && v <= p->max + slack;
}

static void widen(double *min, double *max, double v, bool is_log)
{
    if (!isfinite(v) || fabs(v) > SVG_HUGE || (is_log && v < 1 / SVG_HUGE))
        return;
    *min = isnan(*min) || v < *min ? v : *min;
    *max = isnan(*max) || v > *max ? v : *max;
}

void svg_axis_data(const struct svg_chart *c, bool is_y, double *min, double *max)
{
    bool is_log = (is_y ? &c->y : &c->x)->scale == SVG_LOG;
    *min = *max = NAN;
    for (size_t i = 0; i < c->n_lines; i++) {
        const struct svg_line *line = &c->lines[i];
        for (size_t k = 0; k < line->n_points; k++) {
            const struct svg_point *p = &line->points[k];
            widen(min, max, is_y ? p->y : p->x, is_log);
            widen(min, max, is_y ? p->low : NAN, is_log);
            widen(min, max, is_y ? p->high : NAN, is_log);
        }
        for (size_t k = 0; k < line->n_boxes; k++) {
            widen(min, max, is_y ? line->boxes[k].y0 : line->boxes[k].x0, is_log);
            widen(min, max, is_y ? line->boxes[k].y1 : line->boxes[k].x1, is_log);
        }
    }
    for (size_t i = 0; !is_y && i < c->n_marks; i++)
        widen(min, max, c->marks[i].x, is_log);
}

static void add_tick(struct svg_place *p, double at, const char *label)
{
    if (p->n_ticks == SVG_MAX_TICKS || !svg_axis_has(p, at))
        return;
    struct svg_tick *t = &p->ticks[p->n_ticks++];
    t->at = at;
    snprintf(t->label, sizeof t->label, "%s", label);
}

/* "12k" from 10000 on: 2000 is still read at a glance. */
static double unit_of(double largest, const char **suffix)
{
    static const struct {
        double from, unit;
        const char *suffix;
    } units[] = {{1e12, 1e12, "T"}, {1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}};
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (largest >= units[i].from) {
            *suffix = units[i].suffix;
            return units[i].unit;
        }
    }
    *suffix = "";
    return 1;
}

static void add_value_tick(struct svg_place *p, double at, double unit, const char *suffix)
{
    char number[SVG_NUMBER], label[SVG_NUMBER + 2];
    snprintf(label, sizeof label, "%s%s", svg_number(number, at / unit), at == 0 ? "" : suffix);
    add_tick(p, at, label);
}

/* 1, 2 or 5 times a power of ten: the smallest that leaves at most n steps in the range. */
static double nice_step(double range, double n)
{
    double rough = range / (n < 1 ? 1 : n);
    double power = pow(10, floor(log10(rough)));
    double times = rough / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

static void linear_ticks(struct svg_place *p, double step)
{
    const char *suffix;
    double unit = unit_of(fmax(fabs(p->min), fabs(p->max)), &suffix);
    double first = ceil(p->min / step - 1e-9);
    for (double i = 0; i < SVG_MAX_TICKS && (first + i) * step <= p->max + step * 1e-9; i++)
        add_value_tick(p, (first + i) * step, unit, suffix);
}

/* The data's own x where they are few and leave room. True: they are the ticks. */
static bool own_ticks(struct svg_place *p, const struct svg_chart *c, double spacing)
{
    double x[OWN_TICKS];
    size_t n = 0;
    for (size_t i = 0; i < c->n_lines; i++) {
        for (size_t k = 0; k < c->lines[i].n_points; k++) {
            size_t at = 0;
            double v = c->lines[i].points[k].x;
            while (at < n && x[at] < v)
                at++;
            if (!svg_axis_has(p, v) || (at < n && x[at] == v) || c->lines[i].style == SVG_LINE)
                continue;
            if (n == OWN_TICKS)
                return false;
            for (size_t j = n++; j > at; j--)
                x[j] = x[j - 1];
            x[at] = v;
        }
    }
    double last = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        const char *suffix;
        double at = svg_axis_at(p, x[i]), unit = unit_of(x[i], &suffix);
        if (at - last < spacing * 0.7)
            continue;
        add_value_tick(p, x[i], unit, suffix);
        last = at;
    }
    return n > 1;
}

static void log_ticks(struct svg_place *p, double spacing)
{
    static const double times[] = {1, 2, 5};
    double low = floor(log10(p->min)), high = ceil(log10(p->max));
    double decade = fabs(p->to - p->from) / (log10(p->max) - log10(p->min));
    size_t n_times = decade > 3.3 * spacing ? 3 : 1;
    double every = fmax(1, ceil(spacing / decade));
    for (double e = ceil(low / every) * every; e <= high; e += every) {
        for (size_t i = 0; i < n_times; i++) {
            const char *suffix;
            double at = times[i] * pow(10, e), unit = unit_of(at, &suffix);
            add_value_tick(p, at, unit, suffix);
        }
    }
}

/* A range that is no range becomes one. */
static void set_range(struct svg_place *p, double min, double max)
{
    bool is_log = p->axis->scale == SVG_LOG;
    p->min = isnan(min) ? (is_log ? 1 : 0) : min;
    p->max = isnan(max) ? (is_log ? 10 : 1) : max;
    if (is_log) {
        if (p->max / p->min < 1.2) {
            p->min /= 1.5;
            p->max *= 1.5;
        }
        return;
    }
    if (p->min > 0 && p->min <= ZERO_SHARE * p->max)
        p->min = 0;
    if (p->max - p->min <= 1e-6 * fmax(fabs(p->min), fabs(p->max)) || p->max == p->min) {
        double pad = fmax(0.5 * fabs(p->max), 0.5);
        p->min = p->min >= 0 && p->min < pad ? 0 : p->min - pad;
        p->max += pad;
    }
}

void svg_axis_fit(struct svg_place *p, const struct svg_chart *c, bool is_y, double length,
                  double spacing)
{
    double min, max;
    *p = (struct svg_place){.axis = is_y ? &c->y : &c->x, .to = length};
    const struct svg_axis *a = p->axis;
    if (a->scale == SVG_CATEGORIES) {
        p->min = -0.5;
        p->max = fmax((double)a->n_categories, 1) - 0.5;
        return;
    }
    svg_axis_data(c, is_y, &min, &max);
    set_range(p, isnan(a->min) ? min : a->min, isnan(a->max) ? max : a->max);
    if (a->scale == SVG_LOG) {
        double pad = pow(p->max / p->min, 0.03); /* points clear of the frame */
        p->min /= pad;
        p->max *= pad;
        if (is_y || !own_ticks(p, c, spacing))
            log_ticks(p, spacing);
        if (p->n_ticks >= 2)
            return;
        p->n_ticks = 0; /* a range that holds no two of 1, 2, 5 */
    }
    double step = nice_step(p->max - p->min, length / spacing);
    if (a->scale == SVG_ROWS)
        step = fmax(step, 1);
    else if (is_y && a->scale == SVG_LINEAR) {
        p->min = floor(p->min / step + 1e-9) * step;
        p->max = ceil(p->max / step - 1e-9) * step;
    }
    linear_ticks(p, step);
}
