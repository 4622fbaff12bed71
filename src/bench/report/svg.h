/* One chart, drawn as SVG without a script: for the report's page and as a file of its own.
 *
 *     title (only in a file)            ┐
 *     ■ legend  ■ legend                │ as many rows as they need
 *     y label                           │
 *            p50   p99   labels of marks┘
 *     20 ┤    ┊     ┊
 *     10 ┤────┊─────┊──  plot
 *      0 └────┴─────┴──
 *        0    10    20
 *             x label
 *
 * A chart owns its texts and data; one thread. Adding takes whatever comes from a file: what cannot
 * be drawn (NAN, beyond SERIES_HUGE) is left out, memory that is short sets `failed`, which sticks
 * and which svg_draw hands to its buffer. The same chart gives the same bytes.
 */
#ifndef FIRSTLIGHT_BENCH_REPORT_SVG_H
#define FIRSTLIGHT_BENCH_REPORT_SVG_H

#include "base/buf.h"
#include "bench/result/series.h"

#include <stdbool.h>
#include <stddef.h>

#define SVG_COLOURS 8 /* Okabe and Ito's, which colour-blind people can tell apart */
#define SVG_PALE    8 /* nearest to the paper, and apart from all of them */

enum svg_style {
    SVG_LINE,
    SVG_POINTS,
    SVG_BOTH,  /* points joined by a line */
    SVG_STEPS, /* y keeps its value until the next x */
    SVG_BOXES, /* bars of any kind: histogram, stack, phases of a request */
};

enum svg_scale {
    SVG_LINEAR,
    SVG_LOG,        /* what is not above 0 is left out */
    SVG_CATEGORIES, /* 0, 1, ... with names */
    SVG_ROWS,       /* linear, whole numbers, growing downwards */
};

struct svg_point {
    double x, y, low, high; /* low, high: the range about y; NAN: none */
};

struct svg_box {
    double x0, x1, y0, y1;
    char *title; /* shown while the pointer rests on it; may be NULL */
};

struct svg_line {
    char *name; /* in the legend; "" is not shown there */
    enum svg_style style;
    unsigned colour; /* below SVG_COLOURS, or SVG_PALE */
    bool dashed;
    bool listed; /* in the legend even without data */
    struct svg_point *points;
    size_t n_points, cap_points;
    struct svg_box *boxes;
    size_t n_boxes, cap_boxes;
};

struct svg_mark {
    double x;
    char *label;
};

struct svg_axis {
    char *label; /* with its unit */
    enum svg_scale scale;
    double min, max; /* NAN: as the data are */
    bool whole;      /* a count: its ticks are whole numbers */
    char **categories;
    size_t n_categories, cap_categories;
};

struct svg_chart {
    char *title;
    struct svg_axis x, y;
    struct svg_line *lines;
    size_t n_lines, cap_lines;
    struct svg_mark *marks;
    size_t n_marks, cap_marks;
    unsigned mark_rows; /* kept for their labels at least, so that neighbours look alike */
    double plot_height; /* in the look's units; 0: the look's own */
    bool failed;
};

void svg_init(struct svg_chart *c, const char *title, const char *x_label, enum svg_scale x_scale,
              const char *y_label, enum svg_scale y_scale);
void svg_fini(struct svg_chart *c);
/* Its index, for the calls below; those do nothing with the index of a line that failed. */
size_t svg_add_line(struct svg_chart *c, const char *name, enum svg_style style, unsigned colour);
void svg_add_point(struct svg_chart *c, size_t line, struct svg_point p);
/* Corners in any order. `title` may be NULL. */
void svg_add_box(struct svg_chart *c, size_t line, struct svg_box box, const char *title);
void svg_add_mark(struct svg_chart *c, double x, const char *label);
void svg_add_category(struct svg_chart *c, struct svg_axis *axis, const char *name);
bool svg_is_empty(const struct svg_chart *c); /* nothing to draw but axes */
/* Gives all of them the axes that hold the data of each, and legends as long as each other's, so
 * that they compare by eye. */
void svg_same_scales(struct svg_chart *const *charts, size_t n);

/* Units are CSS pixels where the drawing is shown at its own size. */
struct svg_look {
    double width, plot_height, font;
    const char *class; /* of the root element */
    bool file;         /* with title, paper and style of its own */
};
extern const struct svg_look svg_wide, svg_narrow, svg_file;

/* `summary` is what a screen reader says after the title; may be NULL. */
void svg_draw(struct buf *out, const struct svg_chart *c, const struct svg_look *look,
              const char *summary);
/* The style sheet of all charts, light and dark. Without variables, which not every viewer of SVG
 * files knows. */
extern const char svg_css[];

/* Text for XML and HTML, in elements and quoted attributes. What is no UTF-8 or what XML
 * forbids becomes U+FFFD, as do controls (utf8.h): text of a file turns none that is not its own.
 */
void svg_escape(struct buf *out, const char *text);
/* Four significant digits, all of them from 1000 on, an exponent only below 1e-6 and from
 * SERIES_HUGE on: "0.1234", "12.34", "123456". Not finite: "n/a". */
#define SVG_NUMBER 32
const char *svg_number(char text[SVG_NUMBER], double x);

#endif
