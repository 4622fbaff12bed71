/* What the files of svg share: estimates of text, and axes. */
#ifndef FIRSTLIGHT_BENCH_REPORT_SVG_INTERNAL_H
#define FIRSTLIGHT_BENCH_REPORT_SVG_INTERNAL_H

#include "bench/report/svg.h"

#define SVG_MAX_TICKS 40

struct svg_tick {
    double at;
    char label[SVG_NUMBER + 2]; /* a suffix too */
};

/* An axis on the page: `from` is where `min` lies, in pixels, `to` where `max` lies. */
struct svg_place {
    const struct svg_axis *axis;
    bool is_y;
    double font; /* of the ticks' labels */
    double min, max;
    double from, to;
    struct svg_tick ticks[SVG_MAX_TICKS];
    size_t n_ticks; /* none of SVG_CATEGORIES, whose names are the axis's */
};

/* About as wide as a sans serif draws it: without a font nobody knows. */
double svg_text_width(const char *text, double size);
/* Escaped, and cut with an ellipsis where it is wider than `width`. */
void svg_text_fit(struct buf *out, const char *text, double size, double width);

/* The range that holds the chart's data along one axis, and its ticks, on `length` pixels. */
void svg_axis_fit(struct svg_place *p, const struct svg_chart *c, bool is_y, double length,
                  double font);
double svg_axis_at(const struct svg_place *p, double v); /* pixel of a value */
bool svg_axis_has(const struct svg_place *p, double v);  /* can be shown */
void svg_axis_data(const struct svg_chart *c, bool is_y, double *min, double *max);

#endif
