#include "bench/report/svg_internal.h"

#include <math.h>
#include <stdio.h>

/* An axis of values no smaller than 0 begins at 0. An x axis does not if they are far from it. */
#define ZERO_SHARE 0.6
/* Fewer different x on a logarithmic axis (batch sizes, prompt lengths) are its ticks. */
#define OWN_TICKS 12
/* Ticks that are enough on a logarithmic axis, and on one whose range is at most NARROW. */
#define LOG_TICKS    4
#define NARROW       4
#define NARROW_TICKS 3
/* What ticks are to be apart, and what labels take along a y axis, in em. */
#define SPACING_X_EM 4.8
#define SPACING_Y_EM 3.4
#define LABEL_Y_EM   1.3
#define LABEL_GAP_EM 0.5 /* between labels along an x axis */

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

static void svg_axis_widen(double *min, double *max, double v, bool is_log)
{
    if (!isfinite(v) || fabs(v) > SERIES_HUGE || (is_log && v < 1 / SERIES_HUGE))
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
            svg_axis_widen(min, max, is_y ? p->y : p->x, is_log);
            svg_axis_widen(min, max, is_y ? p->low : NAN, is_log);
            svg_axis_widen(min, max, is_y ? p->high : NAN, is_log);
        }
        for (size_t k = 0; k < line->n_boxes; k++) {
            svg_axis_widen(min, max, is_y ? line->boxes[k].y0 : line->boxes[k].x0, is_log);
            svg_axis_widen(min, max, is_y ? line->boxes[k].y1 : line->boxes[k].x1, is_log);
        }
    }
    for (size_t i = 0; !is_y && i < c->n_marks; i++)
        svg_axis_widen(min, max, c->marks[i].x, is_log);
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
static double svg_axis_unit_of(double largest, const char **suffix)
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
    double unit = svg_axis_unit_of(fmax(fabs(p->min), fabs(p->max)), &suffix);
    double first = ceil(p->min / step - 1e-9);
    for (double i = 0; i < SVG_MAX_TICKS && (first + i) * step <= p->max + step * 1e-9; i++)
        add_value_tick(p, (first + i) * step, unit, suffix);
}

static double label_length(const struct svg_place *p, const struct svg_tick *t)
{
    return p->is_y ? LABEL_Y_EM * p->font
                   : svg_text_width(t->label, p->font) + LABEL_GAP_EM * p->font;
}

/* Neighbours are at least `spacing` pixels apart, and their labels do not meet. */
static bool ticks_are_apart(const struct svg_place *p, double spacing)
{
    for (size_t i = 1; i < p->n_ticks; i++) {
        const struct svg_tick *a = &p->ticks[i - 1], *b = &p->ticks[i];
        double labels = (label_length(p, a) + label_length(p, b)) / 2;
        if (svg_axis_at(p, b->at) - svg_axis_at(p, a->at) < fmax(spacing, labels))
            return false;
    }
    return true;
}

static void add_log_tick(struct svg_place *p, double at)
{
    const char *suffix;
    double unit = svg_axis_unit_of(at, &suffix);
    add_value_tick(p, at, unit, suffix);
}

/* The distinct x of points, sorted, at most OWN_TICKS of them. False: there are more. */
static bool own_values(const struct svg_place *p, const struct svg_chart *c, double x[OWN_TICKS],
                       size_t *n)
{
    *n = 0;
    for (size_t i = 0; i < c->n_lines; i++) {
        for (size_t k = 0; k < c->lines[i].n_points; k++) {
            double v = c->lines[i].points[k].x;
            size_t at = 0;
            while (at < *n && x[at] < v)
                at++;
            if (!svg_axis_has(p, v) || (at < *n && x[at] == v) || c->lines[i].style == SVG_LINE)
                continue;
            if (*n == OWN_TICKS)
                return false;
            for (size_t j = (*n)++; j > at; j--)
                x[j] = x[j - 1];
            x[at] = v;
        }
    }
    return true;
}

/* From coarse to fine: one tick in several decades, or several in each. */
static const struct log_step {
    int decades;
    size_t n;
    double times[6];
} log_steps[] = {
    {10, 1, {1}},         {6, 1, {1}},
    {4, 1, {1}},          {3, 1, {1}},
    {2, 1, {1}},          {1, 1, {1}},
    {1, 2, {1, 3}},       {1, 3, {1, 2, 5}},
    {1, 4, {1, 2, 3, 5}}, {1, 6, {1, 1.5, 2, 3, 5, 7}},
};

static void step_ticks(struct svg_place *p, const struct log_step *step)
{
    double first = floor(log10(p->min) / step->decades) * step->decades;
    for (double e = first; e <= log10(p->max); e += step->decades)
        for (size_t i = 0; i < step->n; i++)
            add_log_tick(p, step->times[i] * pow(10, e));
}

/* Where `finer` has more ticks and they have room. Usual room once p's are enough. */
static void take_finer(struct svg_place *p, const struct svg_place *finer, size_t enough,
                       double spacing)
{
    if (finer->n_ticks > p->n_ticks && ticks_are_apart(finer, p->n_ticks < enough ? 0 : spacing))
        *p = *finer;
}

/* The finest steps that leave room, or where these are too few the coarsest of which there are
 * enough. Within a decade there may be none, and linear ones are. */
static void log_ticks(struct svg_place *p, size_t enough, double spacing)
{
    const struct svg_place none = *p;
    struct svg_place finer;
    for (size_t i = 0; i < sizeof log_steps / sizeof log_steps[0]; i++) {
        finer = none;
        step_ticks(&finer, &log_steps[i]);
        take_finer(p, &finer, enough, spacing);
    }
    for (double n = 2; p->n_ticks < enough && n < SVG_MAX_TICKS; n++) {
        for (double times = 2; p->n_ticks < enough && times >= 1; times--) {
            finer = none;
            linear_ticks(&finer, nice_step(p->max - p->min, n) * times);
            take_finer(p, &finer, enough, spacing);
        }
    }
}

/* `t` in its place among p's ticks, if it has room there. */
static void insert_tick(struct svg_place *p, const struct svg_tick *t, double spacing)
{
    struct svg_place more = *p;
    size_t at = 0;
    if (p->n_ticks == SVG_MAX_TICKS)
        return;
    while (at < p->n_ticks && p->ticks[at].at < t->at)
        at++;
    for (size_t i = more.n_ticks++; i > at; i--)
        more.ticks[i] = more.ticks[i - 1];
    more.ticks[at] = *t;
    if (ticks_are_apart(&more, spacing))
        *p = more;
}

/* The data's own x where they are few, less those without room. Where these are not enough, p's
 * ticks stay between them. */
static void prefer_own_ticks(struct svg_place *p, const struct svg_chart *c, size_t enough,
                             double spacing)
{
    double x[OWN_TICKS];
    size_t n;
    struct svg_place values = *p, own = *p;
    values.n_ticks = own.n_ticks = 0;
    if (!own_values(p, c, x, &n))
        return;
    for (size_t i = 0; i < n; i++)
        add_log_tick(&values, x[i]);
    for (size_t i = 0; i < values.n_ticks; i++)
        insert_tick(&own, &values.ticks[i], spacing * 0.7);
    bool too_few = own.n_ticks < enough;
    for (size_t i = 0; i < p->n_ticks && too_few; i++)
        insert_tick(&own, &p->ticks[i], 0);
    if (own.n_ticks >= enough)
        *p = own;
}

static void fit_log(struct svg_place *p, const struct svg_chart *c, double spacing)
{
    size_t enough = p->max / p->min <= NARROW ? NARROW_TICKS : LOG_TICKS;
    double pad = pow(p->max / p->min, 0.03); /* points clear of the frame */
    p->min /= pad;
    p->max *= pad;
    log_ticks(p, enough, spacing);
    if (!p->is_y)
        prefer_own_ticks(p, c, enough, spacing);
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
    bool far = p->min > ZERO_SHARE * p->max;
    if (p->min > 0 && (!far || (p->is_y && p->axis->scale == SVG_LINEAR)))
        p->min = 0;
    if (p->max - p->min <= 1e-6 * fmax(fabs(p->min), fabs(p->max)) || p->max == p->min) {
        double pad = fmax(0.5 * fabs(p->max), 0.5);
        p->min = p->min >= 0 && p->min < pad ? 0 : p->min - pad;
        p->max += pad;
    }
}

void svg_axis_fit(struct svg_place *p, const struct svg_chart *c, bool is_y, double length,
                  double font)
{
    double min, max, spacing = font * (is_y ? SPACING_Y_EM : SPACING_X_EM);
    *p = (struct svg_place){.axis = is_y ? &c->y : &c->x, .is_y = is_y, .font = font, .to = length};
    const struct svg_axis *a = p->axis;
    if (a->scale == SVG_CATEGORIES) {
        p->min = -0.5;
        p->max = fmax((double)a->n_categories, 1) - 0.5;
        return;
    }
    svg_axis_data(c, is_y, &min, &max);
    set_range(p, isnan(a->min) ? min : a->min, isnan(a->max) ? max : a->max);
    if (a->scale == SVG_LOG) {
        fit_log(p, c, spacing);
        return;
    }
    double step = nice_step(p->max - p->min, length / spacing);
    if (a->whole)
        step = fmax(step, 1);
    if (is_y && a->scale == SVG_LINEAR) {
        p->min = floor(p->min / step + 1e-9) * step;
        p->max = ceil(p->max / step - 1e-9) * step;
    }
    linear_ticks(p, step);
}
