/* A comparison as text and as JSON. */
#include "bench/result/compare_internal.h"

#include "base/utf8.h"
#include "bench/result/permutation.h"
#include "bench/result/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const json_t *compare_text_metrics_of(struct compare_side side)
{
    return json_object_get(side.results->root, "metrics");
}

static const char *compare_text_text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* --- what a side says against itself -------------------------------------------------------- */

struct flaws {
    uint64_t n, failed;
    size_t runs, late, interrupted;
};

static struct flaws find_flaws(const struct result *r)
{
    struct flaws f = {0};
    size_t i;
    json_t *run;
    json_array_foreach(json_object_get(r->root, "runs"), i, run)
    {
        const json_t *generator = json_object_get(run, "generator");
        f.n += (uint64_t)json_integer_value(json_object_get(run, "n"));
        f.failed += (uint64_t)json_integer_value(json_object_get(run, "failed"));
        f.late += json_is_true(json_object_get(generator, "bottleneck"));
        f.interrupted += json_is_true(json_object_get(run, "interrupted"));
        f.runs++;
    }
    return f;
}

/* Figures of a run with failures, or of a generator that was late, are not the target's alone. */
static json_t *warnings_json(const struct result *r)
{
    struct flaws f = find_flaws(r);
    json_t *list = json_array();
    int bad = 0;
    if (f.failed)
        bad |= json_array_append_new(
            list, json_sprintf("%" PRIu64 " of %" PRIu64 " requests failed", f.failed, f.n));
    if (f.interrupted)
        bad |= json_array_append_new(
            list, json_sprintf("%zu of %zu runs were interrupted", f.interrupted, f.runs));
    if (f.late)
        bad |= json_array_append_new(
            list, json_sprintf("the load generator was the bottleneck in %zu of %zu runs", f.late,
                               f.runs));
    return result_whole(list, bad);
}

void compare_warnings(struct compare_side side, struct buf *out)
{
    for (size_t file = 0; file < side.n; file++) {
        json_t *list = warnings_json(&side.results[file]), *text;
        size_t i;
        out->failed |= !list;
        json_array_foreach(list, i, text)
        {
            buf_printf(out, "%s: %s\n", side.names[file], json_string_value(text));
        }
        json_decref(list);
    }
}

/* --- as text -------------------------------------------------------------------------------- */

static void put_environment(const struct compare *c, struct buf *out)
{
    static const char *const key = "environment";
    const json_t *a = json_object_get(c->before.results->root, key);
    const json_t *b = json_object_get(c->after.results->root, key);
    const json_t *const sides[] = {a, b};
    char before[COMPARE_VALUE], after[COMPARE_VALUE];
    const char *field;
    json_t *value;
    size_t n = 0;
    for (int side = 0; side < 2; side++) {
        json_object_foreach((json_t *)sides[side], field, value)
        {
            const json_t *x = json_object_get(a, field), *y = json_object_get(b, field);
            struct compare_difference d = {0};
            bool seen = side == 1 && x;
            /* When each was measured is no difference of where. */
            if (seen || strcmp(field, "date") == 0 || !compare_differ(x, y, &d))
                continue;
            buf_puts(out, n++ ? "" : "the environments differ:\n");
            buf_printf(out, "  %-14s %s -> %s\n", field, compare_value(x, before),
                       compare_value(y, after));
        }
    }
    buf_puts(out, n ? "\n" : "");
}

/* Four digits or so, without exponents. */
static const char *number_text(double x, char out[32])
{
    double size = fabs(x);
    int decimals = size >= 1000 || x == 0 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4;
    snprintf(out, 32, "%.*f", decimals, x);
    return out;
}

static const char *figure_text(const struct compare_figure *f, char out[100])
{
    char median[32], min[32], max[32];
    if (f->n > 1)
        snprintf(out, 100, "%s [%s, %s]", number_text(f->median, median), number_text(f->min, min),
                 number_text(f->max, max));
    else
        snprintf(out, 100, "%s", number_text(f->median, median));
    return out;
}

static void put_row(const struct compare_row *r, struct buf *out)
{
    char before[100], after[100], number[32], change[40], percent[40] = "-", p[32] = "-";
    number_text(r->change, number);
    snprintf(change, sizeof change, "%s%s", r->change > 0 ? "+" : "", number);
    if (!isnan(r->percent))
        snprintf(percent, sizeof percent, "%+.1f %%", r->percent);
    if (!isnan(r->p))
        snprintf(p, sizeof p, "%.3f", r->p);
    buf_printf(out, "%-20s %-9s %24s %24s %10s %9s %6s  %s\n", r->name, r->unit,
               figure_text(&r->before, before), figure_text(&r->after, after), change, percent, p,
               compare_verdict_name(r->verdict));
}

static void put_rows(const struct compare *c, bool headline, struct buf *out)
{
    for (size_t i = 0; i < c->n_rows; i++)
        if (c->rows[i].headline == headline)
            put_row(&c->rows[i], out);
}

/* Metrics that the first file of `side` has and the other side's does not. */
static void put_only(struct compare_side side, struct compare_side other, struct buf *out)
{
    const char *name;
    json_t *metric;
    size_t n = 0;
    json_object_foreach((json_t *)compare_text_metrics_of(side), name, metric)
    {
        if (json_object_get(compare_text_metrics_of(other), name))
            continue;
        if (n++ == 0)
            buf_printf(out, "only in %s: %s", side.names[0], name);
        else
            buf_printf(out, ", %s", name);
    }
    buf_puts(out, n ? "\n" : "");
}

static void put_counts(const struct compare *c, bool all, struct buf *out)
{
    size_t n[COMPARE_NONE + 1] = {0}, n_rows = 0, hidden = 0;
    const char *separator = "";
    for (size_t i = 0; i < c->n_rows; i++) {
        bool shown = all || c->rows[i].headline;
        n[c->rows[i].verdict] += shown;
        n_rows += shown;
        hidden += !shown;
    }
    for (int v = 0; v <= COMPARE_NONE; v++) {
        if (n[v] == 0)
            continue;
        buf_printf(out, "%s%zu %s", separator, n[v], compare_verdict_name((enum compare_verdict)v));
        separator = ", ";
    }
    if (hidden)
        buf_printf(out, "; %zu more metrics with --all", hidden);
    buf_puts(out, n_rows ? "\n" : "no metric is in all files\n");
}

static void compare_text_put_cached(const struct compare *c, struct buf *out)
{
    if (c->prompt_tokens[0] == 0 || c->prompt_tokens[1] == 0)
        return;
    buf_printf(out,
               "cached prompt tokens: %" PRIu64 " of %" PRIu64 " before, %" PRIu64 " of %" PRIu64
               " after\n",
               c->cached_tokens[0], c->prompt_tokens[0], c->cached_tokens[1], c->prompt_tokens[1]);
}

static void put_sentences(const json_t *list, const char *what, struct buf *out)
{
    size_t i;
    json_t *text;
    json_array_foreach((json_t *)list, i, text)
    {
        buf_printf(out, "%s: %s\n", what, json_string_value(text));
    }
}

static void put_side(struct compare_side side, const char *which, struct buf *out)
{
    buf_printf(out, ", %s %s (%s", which, side.names[0],
               compare_text_text_of(side.results->root, "date"));
    if (side.n > 1)
        buf_printf(out, ", and %zu more files", side.n - 1);
    buf_putc(out, ')');
}

void compare_text(const struct compare *c, bool all, struct buf *out)
{
    buf_puts(out, compare_text_text_of(c->before.results->root, "kind"));
    put_side(c->before, "before", out);
    put_side(c->after, "after", out);
    buf_puts(out, "\n\n");
    put_environment(c, out);
    compare_warnings(c->before, out);
    compare_warnings(c->after, out);
    if (c->n_rows)
        buf_printf(out, "%-20s %-9s %24s %24s %10s %9s %6s\n", "metric", "unit",
                   "before [min, max]", "after [min, max]", "change", "", "p");
    put_rows(c, true, out);
    if (all)
        put_rows(c, false, out);
    compare_text_put_cached(c, out);
    if (all) {
        put_only(c->before, c->after, out);
        put_only(c->after, c->before, out);
    }
    buf_putc(out, '\n');
    put_sentences(c->notes, "note", out);
    put_sentences(c->doubts, "no verdict", out);
    put_counts(c, all, out);
    if (out->data)
        utf8_make_plain(out->data, true);
}

/* --- as JSON -------------------------------------------------------------------------------- */

static json_t *file_json(struct compare_side side, size_t file)
{
    const json_t *root = side.results[file].root;
    return json_pack("{s:o, s:O?, s:O?, s:O?, s:o}", "file", result_text(side.names[file]), "date",
                     json_object_get(root, "date"), "note", json_object_get(root, "note"),
                     "environment", json_object_get(root, "environment"), "warnings",
                     warnings_json(&side.results[file]));
}

static json_t *compare_text_side_json(const struct compare *c, size_t which)
{
    struct compare_side side = which == 0 ? c->before : c->after;
    json_t *files = json_array();
    int bad = 0;
    for (size_t i = 0; i < side.n; i++)
        bad |= json_array_append_new(files, file_json(side, i));
    return json_pack("{s:o, s:I, s:I}", "files", result_whole(files, bad), "prompt_tokens",
                     (json_int_t)c->prompt_tokens[which], "cached_tokens",
                     (json_int_t)c->cached_tokens[which]);
}

static json_t *figure_json(const struct compare_figure *f)
{
    return json_pack("{s:o, s:o, s:o, s:I}", "median", result_number(f->median), "min",
                     result_number(f->min), "max", result_number(f->max), "n", (json_int_t)f->n);
}

static json_t *row_json(const struct compare_row *r)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:s}", "unit", r->unit, "before",
                     figure_json(&r->before), "after", figure_json(&r->after), "change",
                     result_number(r->change), "percent", result_number(r->percent), "headline",
                     r->headline, "p", result_number(r->p), "verdict",
                     compare_verdict_name(r->verdict));
}

static json_t *only_json(struct compare_side side, struct compare_side other)
{
    json_t *list = json_array();
    const char *name;
    json_t *metric;
    int bad = 0;
    json_object_foreach((json_t *)compare_text_metrics_of(side), name, metric)
    {
        if (!json_object_get(compare_text_metrics_of(other), name))
            bad |= json_array_append_new(list, json_string(name));
    }
    return result_whole(list, bad);
}

json_t *compare_json(const struct compare *c)
{
    json_t *metrics = json_object();
    for (size_t i = 0; i < c->n_rows; i++) {
        if (json_object_set_new(metrics, c->rows[i].name, row_json(&c->rows[i]))) {
            json_decref(metrics);
            return NULL;
        }
    }
    return json_pack("{s:O, s:o, s:o, s:o, s:O, s:O, s:o, s:o}", "kind",
                     json_object_get(c->before.results->root, "kind"), "before",
                     compare_text_side_json(c, 0), "after", compare_text_side_json(c, 1), "metrics",
                     metrics, "doubts", c->doubts, "notes", c->notes, "only_before",
                     only_json(c->before, c->after), "only_after", only_json(c->after, c->before));
}
