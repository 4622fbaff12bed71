#include "bench/report/chart.h"

#include <math.h>

void chart_init(struct chart *c, const char *id, const char *title, struct chart_axis x,
                struct chart_axis y)
{
    *c = (struct chart){
        .json = json_pack("{s:s, s:s, s:s, s:{s:s, s:s}, s:{s:s, s:s}, s:[], s:[]}", "id", id,
                          "title", title, "note", "", "x", "label", x.label, "scale", x.scale, "y",
                          "label", y.label, "scale", y.scale, "lines", "marks"),
    };
    c->failed = !c->json;
}

static void chart_append(struct chart *c, json_t *list, json_t *value)
{
    if (json_array_append_new(list, value))
        c->failed = true;
}

void chart_line(struct chart *c, const char *name, const char *style)
{
    json_t *line = json_pack("{s:s, s:s, s:[]}", "name", name, "style", style, "points");
    c->points = json_object_get(line, "points");
    chart_append(c, json_object_get(c->json, "lines"), line);
    if (c->failed) /* the line may be gone */
        c->points = NULL;
}

void chart_point(struct chart *c, double x, double y)
{
    if (isfinite(x) && isfinite(y))
        chart_append(c, c->points, json_pack("[f, f]", x, y));
}

void chart_point_range(struct chart *c, double x, double y, double low, double high)
{
    if (isfinite(x) && isfinite(y) && isfinite(low) && isfinite(high))
        chart_append(c, c->points, json_pack("[f, f, f, f]", x, y, low, high));
}

void chart_mark(struct chart *c, double x, const char *label)
{
    if (isfinite(x))
        chart_append(c, json_object_get(c->json, "marks"),
                     json_pack("{s:f, s:s}", "x", x, "label", label));
}

void chart_note(struct chart *c, const char *text)
{
    if (json_object_set_new(c->json, "note", json_string(text)))
        c->failed = true;
}

json_t *chart_take(struct chart *c)
{
    json_t *json = c->json;
    if (c->failed) {
        json_decref(json);
        json = NULL;
    }
    *c = (struct chart){0};
    return json;
}
