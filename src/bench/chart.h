/* A chart as data, kept in a result's `charts` and drawn by the report.
 *
 *     {"id": "ttft_by_prompt", "title": "TTFT by prompt length", "note": "",
 *      "x": {"label": "prompt tokens", "scale": "linear" | "log"},
 *      "y": {"label": "TTFT, ms", "scale": "linear" | "log"},
 *      "lines": [{"name": "measured", "style": "points" | "line" | "both" | "bars",
 *                 "points": [[x, y], [x, y, low, high], ...]}],
 *      "marks": [{"x": 12.5, "label": "knee"}]}
 */
#ifndef FIRSTLIGHT_BENCH_CHART_H
#define FIRSTLIGHT_BENCH_CHART_H

#include <jansson.h>

struct chart_axis {
    const char *label; /* with its unit: "TTFT, ms" */
    const char *scale; /* "linear", "log" */
};

/* All new references; NULL when memory is short, and every call takes NULL for a chart or line and
 * does nothing, so that one check at the end (result_add_chart's) is enough. */
json_t *chart_new(const char *id, const char *title, struct chart_axis x, struct chart_axis y);
json_t *chart_line(json_t *chart, const char *name, const char *style); /* borrowed from chart */
void chart_point(json_t *line, double x, double y);
void chart_point_range(json_t *line, double x, double y, double low, double high);
void chart_mark(json_t *chart, double x, const char *label);
void chart_note(json_t *chart, const char *text);

#endif
