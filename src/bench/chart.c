#include "bench/chart.h"

json_t *chart_new(const char *id, const char *title, struct chart_axis x, struct chart_axis y)
{
    return json_pack("{s:s, s:s, s:s, s:{s:s, s:s}, s:{s:s, s:s}, s:[], s:[]}", "id", id, "title",
                     title, "note", "", "x", "label", x.label, "scale", x.scale, "y", "label",
                     y.label, "scale", y.scale, "lines", "marks");
}

json_t *chart_line(json_t *chart, const char *name, const char *style)
{
    json_t *line = json_pack("{s:s, s:s, s:[]}", "name", name, "style", style, "points");
    json_t *lines = json_object_get(chart, "lines");
    /* Takes `line` over also when it fails. */
    return json_array_append_new(lines, line) == 0 ? line : NULL;
}

void chart_point(json_t *line, double x, double y)
{
    json_array_append_new(json_object_get(line, "points"), json_pack("[f, f]", x, y));
}

void chart_point_range(json_t *line, double x, double y, double low, double high)
{
    json_array_append_new(json_object_get(line, "points"),
                          json_pack("[f, f, f, f]", x, y, low, high));
}

void chart_mark(json_t *chart, double x, const char *label)
{
    json_array_append_new(json_object_get(chart, "marks"),
                          json_pack("{s:f, s:s}", "x", x, "label", label));
}

void chart_note(json_t *chart, const char *text)
{
    json_object_set_new(chart, "note", json_string(text));
}
