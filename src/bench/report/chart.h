/* A chart as data, kept in a result's `charts` and drawn by the report.
 *
 *     {"id": "ttft_by_prompt", "title": "TTFT by prompt length", "note": "",
 *      "x": {"label": "prompt tokens", "scale": "linear" | "log"},
 *      "y": {"label": "TTFT, ms", "scale": "linear" | "log"},
 *      "lines": [{"name": "measured", "style": "points" | "line" | "both" | "bars",
 *                 "points": [[x, y], [x, y, low, high], ...]}],
 *      "marks": [{"x": 12.5, "label": "knee"}]}
 */
#ifndef FIRSTLIGHT_BENCH_REPORT_CHART_H
#define FIRSTLIGHT_BENCH_REPORT_CHART_H

#include <jansson.h>
#include <stdbool.h>

struct chart_axis {
    const char *label; /* with its unit: "TTFT, ms" */
    const char *scale; /* "linear", "log" */
};

/* One that is being made. What is not finite is no point and no mark. */
struct chart {
    json_t *json;
    json_t *points; /* of the line begun last; borrowed from json */
    bool failed;    /* memory was short; sticks */
};

void chart_init(struct chart *c, const char *id, const char *title, struct chart_axis x,
                struct chart_axis y);
void chart_line(struct chart *c, const char *name, const char *style);
void chart_point(struct chart *c, double x, double y);
void chart_point_range(struct chart *c, double x, double y, double low, double high);
void chart_mark(struct chart *c, double x, const char *label);
void chart_note(struct chart *c, const char *text);
/* The chart, for result_add_chart; NULL when memory was short. */
json_t *chart_take(struct chart *c);

#endif
