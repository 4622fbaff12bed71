/* The tables of the page: metrics, workload, environment. */
#include "bench/load/samples.h"
#include "bench/report/report_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Objects in objects that become "a.b.c"; deeper ones are shown as JSON. */
#define FACT_DEPTH 4
/* A change of more percent is written as a factor. */
#define MANY_TIMES 300

static const json_t *report_tables_metrics_of(const struct report_page *p, size_t file)
{
    return json_object_get(p->files[file].root, "metrics");
}

/* The metric `name` of a file, NULL where it has none. */
static const json_t *metric_of(const struct report_page *p, size_t file, const char *name)
{
    return json_object_get(report_tables_metrics_of(p, file), name);
}

/* The first file that has it: there its row is begun. */
static size_t owner_of(const struct report_page *p, const char *name)
{
    size_t i = 0;
    while (i < p->n_files - 1 && !metric_of(p, i, name))
        i++;
    return i;
}

static double median_of(const json_t *metric)
{
    return samples_number(json_object_get(metric, "median"));
}

static size_t repeats_of(const json_t *metric)
{
    return json_array_size(json_object_get(metric, "repeats"));
}

/* "12.3", and the range where there are repeats. */
static void report_tables_write_value(struct buf *out, const json_t *metric)
{
    char a[SVG_NUMBER], b[SVG_NUMBER];
    buf_puts(out, svg_number(a, median_of(metric)));
    if (repeats_of(metric) > 1)
        buf_printf(out, " <small>%s\u2013%s</small>",
                   svg_number(a, samples_number(json_object_get(metric, "min"))),
                   svg_number(b, samples_number(json_object_get(metric, "max"))));
}

/* What `bench compare` says of the metric; COMPARE_NONE where it says nothing. */
static enum compare_verdict report_tables_verdict_of(const struct report_page *p, size_t file,
                                                     const char *name)
{
    const struct compare *c = &p->comparisons[file];
    for (size_t i = 0; i < c->n_rows; i++)
        if (strcmp(c->rows[i].name, name) == 0)
            return c->rows[i].verdict;
    return COMPARE_NONE;
}

/* How far the file's is from A's, and the verdict where there is one. */
static void write_change(const struct report_page *p, size_t file, const char *name)
{
    double a = median_of(metric_of(p, 0, name)), b = median_of(metric_of(p, file, name));
    double change = 100 * (b - a) / fabs(a);
    enum compare_verdict verdict = report_tables_verdict_of(p, file, name);
    bool good = verdict == COMPARE_BETTER, bad = verdict == COMPARE_WORSE;
    if (!isfinite(change) || fabs(change) > SERIES_HUGE)
        return;
    buf_printf(p->out, " <small class=\"change %s\">", good ? "better" : bad ? "worse" : "");
    if (change > MANY_TIMES)
        buf_printf(p->out, "\u00d7 %.3g", b / a);
    else
        buf_printf(p->out, "%s%.1f %%", change < 0 ? "\u2212" : "+", fabs(change));
    if (verdict != COMPARE_NONE)
        buf_printf(p->out, " %s", compare_verdict_name(verdict));
    buf_puts(p->out, "</small>");
}

/* ---- Tiles ---- */

static const struct {
    const char *name, *label;
} tiles[] = {
    {"ttft_p50", "TTFT, p50"},
    {"ttft_p99", "TTFT, p99"},
    {"queue_p50", "Queue, p50"},
    {"tpot_p50", "TPOT, p50"},
    {"itl_p99", "ITL, p99"},
    {"tokens_per_s", "Throughput"},
    {"goodput_per_s", "Goodput"},
    {"requests_per_s", "Request throughput"},
    {"blocking_ttft_p50", "blocking: TTFT, p50"},
    {"sync_ttft_p50", "sync: TTFT, p50"},
    {"streaming_ttft_p50", "streaming: TTFT, p50"},
    {"improvement_p50", "streaming over blocking: TTFT, p50"},
};

static void write_tile(const struct report_page *p, const char *name, const char *label)
{
    buf_printf(p->out, "<div class=\"tile\"><h3>%s</h3>\n", label);
    for (size_t i = 0; i < p->n_files; i++) {
        const json_t *metric = metric_of(p, i, name);
        char number[SVG_NUMBER];
        buf_puts(p->out, "<div>");
        report_parts_letter(p, i);
        buf_puts(p->out, svg_number(number, median_of(metric)));
        if (metric) {
            buf_puts(p->out, " <small>");
            svg_escape(p->out, report_parts_text(metric, "unit"));
            buf_puts(p->out, "</small>");
        }
        if (i > 0 && metric_of(p, 0, name) && metric)
            write_change(p, i, name);
        buf_puts(p->out, "</div>\n");
    }
    buf_puts(p->out, "</div>\n");
}

void report_tables_tiles(const struct report_page *p)
{
    buf_puts(p->out, "<div class=\"tiles\">\n");
    for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++)
        if (metric_of(p, owner_of(p, tiles[i].name), tiles[i].name))
            write_tile(p, tiles[i].name, tiles[i].label);
    buf_puts(p->out, "</div>\n");
    if (metric_of(p, owner_of(p, "sync_ttft_p50"), "sync_ttft_p50"))
        buf_puts(p->out,
                 "<p>sync is the engine cpu-sync, which serves one request at a time.</p>\n");
}

/* ---- Metrics ---- */

static const char *const columns[] = {"mean", "p50", "p90", "p95", "p99"};
#define N_COLUMNS (sizeof columns / sizeof columns[0])

/* Length of "ttft" when `name` is "ttft_p90" and the file has a "ttft_p50" too; else 0. */
static size_t base_of(const json_t *metrics, const char *name)
{
    const char *last = strrchr(name, '_');
    char median[128];
    size_t len = last ? (size_t)(last - name) : 0;
    if (len == 0 || len > sizeof median - 8)
        return 0;
    snprintf(median, sizeof median, "%.*s_p50", (int)len, name);
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (strcmp(last + 1, columns[i]) == 0 && json_object_get(metrics, median))
            return len;
    return 0;
}

static void write_spread_row(const struct report_page *p, size_t file, const char *base, size_t len)
{
    char name[160];
    snprintf(name, sizeof name, "%.*s_p50", (int)len, base);
    const json_t *median = metric_of(p, file, name);
    buf_puts(p->out, "<tr><th scope=\"row\">");
    report_parts_letter(p, file);
    snprintf(name, sizeof name, "%.*s", (int)len, base);
    svg_escape(p->out, name);
    buf_puts(p->out, "</th>");
    for (size_t i = 0; i < N_COLUMNS; i++) {
        snprintf(name, sizeof name, "%.*s_%s", (int)len, base, columns[i]);
        buf_puts(p->out, "<td>");
        if (metric_of(p, file, name))
            report_tables_write_value(p->out, metric_of(p, file, name));
        buf_puts(p->out, "</td>");
    }
    buf_puts(p->out, "<td>");
    svg_escape(p->out, report_parts_text(median, "unit"));
    buf_puts(p->out, "</td></tr>\n");
}

static void begin_table(const struct report_page *p, const char *caption)
{
    buf_printf(p->out,
               "<div class=\"table\" tabindex=\"0\"><p>%s%s</p>\n<table>\n"
               "<thead><tr><th scope=\"col\"></th>",
               caption,
               figures_repeat(p->files, p->n_files)
                   ? ". Of several repeats: the median, and the range."
                   : "");
}

static void end_table(const struct report_page *p)
{
    buf_puts(p->out, "</tbody></table></div>\n");
}

static void write_spreads(const struct report_page *p)
{
    const char *name;
    json_t *metric;
    begin_table(p, "Distributions");
    for (size_t i = 0; i < N_COLUMNS; i++)
        buf_printf(p->out, "<th scope=\"col\">%s</th>", columns[i]);
    buf_puts(p->out, "<th scope=\"col\">unit</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < p->n_files; i++) {
        json_object_foreach((json_t *)report_tables_metrics_of(p, i), name, metric)
        {
            size_t len = base_of(report_tables_metrics_of(p, i), name);
            if (!len || strcmp(name + len, "_p50") != 0 || owner_of(p, name) != i)
                continue;
            for (size_t k = i; k < p->n_files; k++)
                if (metric_of(p, k, name))
                    write_spread_row(p, k, name, len);
        }
    }
    end_table(p);
}

static void write_single_row(const struct report_page *p, const char *name, const json_t *metric)
{
    buf_puts(p->out, "<tr><th scope=\"row\">");
    svg_escape(p->out, name);
    buf_puts(p->out, "</th>");
    for (size_t i = 0; i < p->n_files; i++) {
        const json_t *own = metric_of(p, i, name);
        buf_puts(p->out, "<td>");
        if (own)
            report_tables_write_value(p->out, own);
        if (i > 0 && own && metric_of(p, 0, name))
            write_change(p, i, name);
        buf_puts(p->out, "</td>");
    }
    buf_puts(p->out, "<td>");
    svg_escape(p->out, report_parts_text(metric, "unit"));
    buf_puts(p->out, "</td></tr>\n");
}

static void write_singles(const struct report_page *p)
{
    const char *name;
    json_t *metric;
    begin_table(p, "Single figures");
    for (size_t i = 0; i < p->n_files; i++) {
        buf_puts(p->out, "<th scope=\"col\">");
        report_parts_letter(p, i);
        buf_puts(p->out, p->n_files == 1 ? "value</th>" : "</th>");
    }
    buf_puts(p->out, "<th scope=\"col\">unit</th></tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < p->n_files; i++) {
        json_object_foreach((json_t *)report_tables_metrics_of(p, i), name, metric)
        {
            if (base_of(report_tables_metrics_of(p, i), name) == 0 && owner_of(p, name) == i)
                write_single_row(p, name, metric);
        }
    }
    end_table(p);
}

/* Which tables have rows at all. */
static void count_metrics(const struct report_page *p, size_t *spreads, size_t *singles)
{
    const char *name;
    json_t *metric;
    *spreads = *singles = 0;
    for (size_t i = 0; i < p->n_files; i++) {
        json_object_foreach((json_t *)report_tables_metrics_of(p, i), name, metric)
        {
            (void)metric;
            (*(base_of(report_tables_metrics_of(p, i), name) ? spreads : singles))++;
        }
    }
}

void report_tables_metrics(const struct report_page *p)
{
    size_t spreads, singles;
    count_metrics(p, &spreads, &singles);
    if (!spreads && !singles)
        return;
    buf_puts(p->out,
             "<section id=\"section-figures\">\n<h2>Figures</h2>\n<div class=\"tables\">\n");
    if (spreads)
        write_spreads(p);
    if (singles)
        write_singles(p);
    buf_puts(p->out, "</div></section>\n");
}

/* ---- Workload and environment ---- */

static void write_json(struct buf *out, const json_t *v)
{
    char number[SVG_NUMBER];
    if (json_is_string(v)) {
        svg_escape(out, json_string_value(v));
    } else if (json_is_integer(v)) {
        buf_printf(out, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    } else if (json_is_real(v)) {
        buf_puts(out, svg_number(number, json_real_value(v)));
    } else if (json_is_boolean(v)) {
        buf_puts(out, json_is_true(v) ? "yes" : "no");
    } else if (!v || json_is_null(v)) {
        buf_puts(out, "n/a");
    } else {
        char *text = json_dumps(v, JSON_COMPACT);
        out->failed |= !text;
        svg_escape(out, text ? text : "");
        free(text); /* jansson's own allocator */
    }
}

/* One object in each file, NULL where a file has none. */
struct fact {
    const json_t *of[LIMIT_REPORT_FILES];
};

static void write_fact_row(const struct report_page *p, const char *name, const struct fact *f)
{
    bool differs = false;
    for (size_t i = 1; i < p->n_files; i++)
        differs |= f->of[0] != f->of[i] &&
                   (!f->of[0] || !f->of[i] || !json_equal((json_t *)f->of[0], (json_t *)f->of[i]));
    buf_printf(p->out, "<tr%s><th scope=\"row\">", differs ? " class=\"differs\"" : "");
    svg_escape(p->out, name);
    buf_puts(p->out, "</th>");
    for (size_t i = 0; i < p->n_files; i++) {
        buf_puts(p->out, "<td><div>");
        write_json(p->out, f->of[i]);
        buf_puts(p->out, "</div></td>");
    }
    buf_puts(p->out, "</tr>\n");
}

static bool is_new_key(const struct fact *f, size_t file, const char *key)
{
    for (size_t i = 0; i < file; i++)
        if (json_object_get(f->of[i], key))
            return false;
    return true;
}

static void write_facts(const struct report_page *p, const char *prefix, const struct fact *f,
                        int depth)
{
    const char *key;
    json_t *value;
    for (size_t i = 0; i < p->n_files; i++) {
        json_object_foreach((json_t *)f->of[i], key, value)
        {
            struct fact inner = {0};
            struct buf name = {0};
            if (!is_new_key(f, i, key))
                continue;
            for (size_t k = 0; k < p->n_files; k++)
                inner.of[k] = json_object_get(f->of[k], key);
            buf_printf(&name, "%s%s%s", prefix, *prefix ? "." : "", key);
            if (json_is_object(value) && depth < FACT_DEPTH)
                write_facts(p, buf_str(&name), &inner, depth + 1);
            else
                write_fact_row(p, buf_str(&name), &inner);
            p->out->failed |= name.failed;
            buf_fini(&name);
        }
    }
}

static void write_fact_table(const struct report_page *p, const char *title, const char *key)
{
    struct fact f = {0};
    for (size_t i = 0; i < p->n_files; i++)
        f.of[i] = json_object_get(p->files[i].root, key);
    buf_printf(p->out, "<section>\n<h2>%s</h2>\n<div class=\"table\"><table class=\"facts\">\n",
               title);
    if (p->n_files > 1) {
        buf_puts(p->out, "<thead><tr><th scope=\"col\"></th>");
        for (size_t i = 0; i < p->n_files; i++) {
            buf_puts(p->out, "<th scope=\"col\">");
            report_parts_letter(p, i);
            buf_puts(p->out, "</th>");
        }
        buf_puts(p->out, "</tr></thead>\n");
    }
    buf_puts(p->out, "<tbody>\n");
    write_facts(p, "", &f, 1);
    buf_puts(p->out, "</tbody></table></div></section>\n");
}

void report_tables_facts(const struct report_page *p)
{
    write_fact_table(p, "Workload", "workload");
    write_fact_table(p, "Environment", "environment");
}
