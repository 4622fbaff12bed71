/* Metrics as bars, where a result has the same one for several prompts, modes or phases. */
#include "bench/report/figures_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SERIES_MOST 3

/* The name of a metric: what is compared stands between prefix and suffix. */
struct pattern {
    const char *prefix, *suffix, *name;
};

/* Bars side by side. The first pattern says what is compared. */
static const struct comparison {
    const char *id, *title, *unit;
    struct pattern series[SERIES_MOST];
} comparisons[] = {
    {"compared-ttft",
     "TTFT",
     "ms",
     {{"", "_ttft_p50", "p50"}, {"", "_ttft_p90", "p90"}, {"", "_ttft_p95", "p95"}}},
    {"compared-ttft",
     "TTFT",
     "ms",
     {{"ttft_", "_p50", "p50"}, {"ttft_", "_p90", "p90"}, {"ttft_", "_p95", "p95"}}},
    {"compared-throughput", "Throughput", "tokens/s", {{"", "_tokens_per_s", ""}}},
    {"compared-throughput",
     "Throughput",
     "tokens/s",
     {{"tokens_per_s_", "", "all tokens"}, {"decode_tokens_per_s_", "", "decode"}}},
};

static const char *figures_comparison_unit_of(const json_t *metric)
{
    const char *unit = json_string_value(json_object_get(metric, "unit"));
    return unit ? unit : "";
}

/* Length of what stands between prefix and suffix; 0: the name is another. */
static size_t middle_of(const struct pattern *p, const char *name)
{
    size_t before = strlen(p->prefix), after = strlen(p->suffix), len = strlen(name);
    if (len <= before + after || strncmp(name, p->prefix, before) != 0 ||
        strcmp(name + len - after, p->suffix) != 0)
        return 0;
    return len - before - after;
}

static bool has_category(const struct svg_axis *a, const char *name)
{
    for (size_t i = 0; i < a->n_categories; i++)
        if (a->categories[i] && strcmp(a->categories[i], name) == 0)
            return true;
    return false;
}

/* What the first pattern finds in any of the files. Returns how many had no room. */
static size_t add_categories(struct svg_chart *c, const struct comparison *of,
                             const struct figures_file *files, size_t n)
{
    const char *name;
    json_t *metric;
    size_t n_left = 0;
    for (size_t i = 0; i < n; i++) {
        json_object_foreach(json_object_get(files[i].root, "metrics"), name, metric)
        {
            char middle[64];
            size_t len = middle_of(&of->series[0], name);
            if (len == 0 || len >= sizeof middle ||
                strcmp(figures_comparison_unit_of(metric), of->unit) != 0)
                continue;
            snprintf(middle, sizeof middle, "%.*s", (int)len, name + strlen(of->series[0].prefix));
            if (has_category(&c->x, middle))
                continue;
            if (c->x.n_categories == LIMIT_CHART_BARS)
                n_left++;
            else
                svg_add_category(c, &c->x, middle);
        }
    }
    return n_left;
}

/* Bars of one pattern in one file: the index-th of n beside each other. */
static void add_bars(struct svg_chart *c, const struct pattern *p, const char *unit,
                     const json_t *root, const char *label, unsigned colour, size_t index, size_t n)
{
    const json_t *metrics = json_object_get(root, "metrics");
    size_t line = svg_add_line(c, label, SVG_BOXES, colour);
    double width = 0.8 / (double)n;
    for (size_t i = 0; i < c->x.n_categories; i++) {
        char name[128], title[192], number[SVG_NUMBER];
        const char *category = c->x.categories[i] ? c->x.categories[i] : "";
        snprintf(name, sizeof name, "%s%s%s", p->prefix, category, p->suffix);
        const json_t *metric = json_object_get(metrics, name);
        double v = samples_number(json_object_get(metric, "median"));
        double from = (double)i - 0.4 + width * (double)index;
        snprintf(title, sizeof title, "%s: %s %s", name, svg_number(number, v), unit);
        if (strcmp(figures_comparison_unit_of(metric), unit) == 0)
            svg_add_box(c, line, (struct svg_box){from, from + width, 0, v, NULL}, title);
    }
}

static bool figures_comparison_has_any(const json_t *root, const struct pattern *p)
{
    const char *name;
    json_t *metric;
    json_object_foreach(json_object_get(root, "metrics"), name, metric)
    {
        if (middle_of(p, name))
            return true;
    }
    return false;
}

/* One file: all patterns that it has in one chart. */
static void add_patterns(struct svg_chart *c, const struct comparison *of, const json_t *root)
{
    const struct pattern *found[SERIES_MOST];
    size_t n = 0;
    for (size_t i = 0; i < SERIES_MOST && of->series[i].name; i++)
        if (figures_comparison_has_any(root, &of->series[i]))
            found[n++] = &of->series[i];
    for (size_t i = 0; i < n; i++)
        add_bars(c, found[i], of->unit, root, found[i]->name, figures_colour(i), i, n);
}

/* Several files: the first pattern of each. */
static void add_files(struct svg_chart *c, const struct comparison *of,
                      const struct figures_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char letter[2] = {figures_letter(i), '\0'};
        add_bars(c, &of->series[0], of->unit, files[i].root, letter, figures_colour(i), i, n);
    }
}

static void add_comparison(struct figures *f, const struct comparison *of,
                           const struct figures_file *files, size_t n)
{
    char title[64];
    struct svg_chart found;
    svg_init(&found, "", NULL, SVG_CATEGORIES, NULL, SVG_LINEAR);
    size_t n_left = add_categories(&found, of, files, n), n_found = found.x.n_categories;
    f->failed |= found.failed;
    svg_fini(&found);
    struct figure *figure = n_found > 1 ? figures_add(f, FIGURES_COMPARISON, of->id, NULL) : NULL;
    if (!figure)
        return;
    struct svg_chart *c = &figure->chart;
    bool of_median = n > 1 && *of->series[0].name;
    snprintf(title, sizeof title, "%s%s%s", of->title, of_median ? ", " : "",
             of_median ? of->series[0].name : "");
    svg_init(c, title, NULL, SVG_CATEGORIES, of->unit, SVG_LINEAR);
    add_categories(c, of, files, n);
    if (n == 1)
        add_patterns(c, of, files[0].root);
    else
        add_files(c, of, files, n);
    if (figures_repeat(files, n))
        buf_puts(&figure->note, "The median of the repeats.");
    if (n_left)
        buf_printf(&figure->note, "%s%zu more are in the table only.", figure->note.len ? " " : "",
                   n_left);
}

void figures_add_comparison(struct figures *f, const struct figures_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (json_array_size(json_object_get(files[i].root, "charts")))
            return; /* which say it better than bars */
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++)
        add_comparison(f, &comparisons[i], files, n);
}
