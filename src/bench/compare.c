#include "bench/compare.h"

#include "base/mem.h"
#include "bench/table.h"
#include "text/utf8.h"

#include <math.h>
#include <string.h>

#define VALUE_BYTES 100 /* of a field's value in a message */

const char *compare_verdict_name(enum compare_verdict v)
{
    static const char *const names[] = {"better", "worse", "changed", "noise",
                                        "one run: no spread"};
    return names[v];
}

/* --- is it the same question ---------------------------------------------------------------- */

/* The first place where two values differ. */
struct difference {
    char path[200];
    const json_t *before, *after; /* NULL: absent */
};

static bool find_difference(const json_t *a, const json_t *b, struct difference *d);

/* The same with `key` behind the path while it looks. */
static bool differ_below(const json_t *a, const json_t *b, const char *key, struct difference *d)
{
    size_t len = strlen(d->path);
    snprintf(d->path + len, sizeof d->path - len, ".%s", key);
    if (find_difference(a, b, d))
        return true;
    d->path[len] = '\0';
    return false;
}

static bool objects_differ(const json_t *a, const json_t *b, struct difference *d)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)a, key, value)
    {
        if (differ_below(value, json_object_get(b, key), key, d))
            return true;
    }
    json_object_foreach((json_t *)b, key, value)
    {
        if (differ_below(json_object_get(a, key), value, key, d))
            return true;
    }
    return false;
}

static bool arrays_differ(const json_t *a, const json_t *b, struct difference *d)
{
    size_t n = json_array_size(a) > json_array_size(b) ? json_array_size(a) : json_array_size(b);
    for (size_t i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "%zu", i);
        if (differ_below(json_array_get(a, i), json_array_get(b, i), key, d))
            return true;
    }
    return false;
}

static bool find_difference(const json_t *a, const json_t *b, struct difference *d)
{
    if (json_is_object(a) && json_is_object(b))
        return objects_differ(a, b, d);
    if (json_is_array(a) && json_is_array(b))
        return arrays_differ(a, b, d);
    if (json_is_number(a) && json_is_number(b)) { /* 1 and 1.0 are the same */
        if (json_number_value(a) == json_number_value(b))
            return false;
    } else if (json_equal(a, b)) {
        return false;
    }
    d->before = a;
    d->after = b;
    return true;
}

/* JSON on one line, cut to fit; returns out. */
static const char *value_text(const json_t *v, char out[VALUE_BYTES])
{
    char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(out, VALUE_BYTES, "%s", text ? text : "absent");
    if (text && strlen(text) >= VALUE_BYTES)
        memcpy(out + VALUE_BYTES - 4, "...", 4);
    free(text);
    return out;
}

/* The objectives of --goodput are nobody's workload, but goodput of others is another figure. */
static bool both_have(const struct compare *c, const char *key)
{
    return json_object_get(c->before.result->root, key) &&
           json_object_get(c->after.result->root, key);
}

static enum status check_same(const struct compare *c, const char *key, struct err *err)
{
    struct difference d = {0};
    char before[VALUE_BYTES], after[VALUE_BYTES];
    snprintf(d.path, sizeof d.path, "%s", key);
    if (!find_difference(json_object_get(c->before.result->root, key),
                         json_object_get(c->after.result->root, key), &d))
        return STATUS_OK;
    return err_param(
        err, STATUS_INVALID, d.path, "not the same measurement: %s is %s in %s, %s in %s", d.path,
        value_text(d.before, before), c->before.name, value_text(d.after, after), c->after.name);
}

/* --- the rows ------------------------------------------------------------------------------- */

static const json_t *metrics_of(struct compare_side side)
{
    return json_object_get(side.result->root, "metrics");
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static struct compare_figure figure_of(const json_t *metric)
{
    return (struct compare_figure){
        .median = json_number_value(json_object_get(metric, "median")),
        .min = json_number_value(json_object_get(metric, "min")),
        .max = json_number_value(json_object_get(metric, "max")),
        .n = json_array_size(json_object_get(metric, "repeats")),
    };
}

static enum compare_verdict judge(const struct compare_figure *a, const struct compare_figure *b,
                                  const char *better)
{
    if (a->n < 2 || b->n < 2)
        return COMPARE_ONE_RUN;
    if (a->min <= b->max && b->min <= a->max)
        return COMPARE_NOISE;
    if (strcmp(better, "neither") == 0)
        return COMPARE_CHANGED;
    bool lower = b->max < a->min;
    return lower == (strcmp(better, "lower") == 0) ? COMPARE_BETTER : COMPARE_WORSE;
}

static enum status add_row(struct compare *c, const char *name, const json_t *before,
                           const json_t *after, struct err *err)
{
    struct compare_row row = {
        .name = name,
        .unit = text_of(before, "unit"),
        .before = figure_of(before),
        .after = figure_of(after),
    };
    if (strcmp(row.unit, text_of(after, "unit")) != 0)
        return err_param(err, STATUS_INVALID, name, "metrics.%s.unit is \"%s\" in %s, \"%s\" in %s",
                         name, row.unit, c->before.name, text_of(after, "unit"), c->after.name);
    row.change = row.after.median - row.before.median;
    row.percent = row.before.median != 0 ? 100 * row.change / fabs(row.before.median) : NAN;
    row.verdict = judge(&row.before, &row.after, text_of(before, "better"));
    c->rows[c->n_rows++] = row;
    return STATUS_OK;
}

enum status compare_make(struct compare *out, struct compare_side before, struct compare_side after,
                         struct err *err)
{
    *out = (struct compare){.before = before, .after = after};
    enum status st = check_same(out, "kind", err);
    if (!st)
        st = check_same(out, "workload", err);
    if (!st && both_have(out, "goodput"))
        st = check_same(out, "goodput", err);
    if (st)
        return st;
    const char *name;
    json_t *metric;
    size_t n = json_object_size(metrics_of(before));
    out->rows = mem_array(n ? n : 1, sizeof *out->rows);
    if (!out->rows)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %zu metrics", n);
    json_object_foreach((json_t *)metrics_of(before), name, metric)
    {
        const json_t *other = json_object_get(metrics_of(after), name);
        st = other ? add_row(out, name, metric, other, err) : STATUS_OK;
        if (st)
            return st;
    }
    return STATUS_OK;
}

void compare_fini(struct compare *c)
{
    mem_free(c->rows);
    *c = (struct compare){0};
}

/* --- what a side says against itself -------------------------------------------------------- */

/* Figures of a run with failures, or of a generator that was late, are not the target's alone. */
static json_t *warnings_json(struct compare_side side)
{
    json_int_t n = 0, failed = 0, late = 0, interrupted = 0;
    size_t i;
    json_t *run, *list = json_array();
    json_array_foreach(json_object_get(side.result->root, "runs"), i, run)
    {
        n += json_integer_value(json_object_get(run, "n"));
        failed += json_integer_value(json_object_get(run, "failed"));
        const json_t *generator = json_object_get(run, "generator");
        late += json_is_true(json_object_get(generator, "bottleneck"));
        interrupted += json_is_true(json_object_get(run, "interrupted"));
    }
    int bad = 0;
    if (failed)
        bad |=
            json_array_append_new(list, json_sprintf("%" JSON_INTEGER_FORMAT
                                                     " of %" JSON_INTEGER_FORMAT " requests failed",
                                                     failed, n));
    if (interrupted)
        bad |= json_array_append_new(
            list,
            json_sprintf("%" JSON_INTEGER_FORMAT " of %zu runs was interrupted", interrupted, i));
    if (late)
        bad |= json_array_append_new(
            list, json_sprintf("the load generator was the bottleneck in %" JSON_INTEGER_FORMAT
                               " of %zu runs",
                               late, i));
    return result_whole(list, bad);
}

void compare_warnings(struct compare_side side, struct buf *out)
{
    json_t *list = warnings_json(side), *text;
    size_t i;
    out->failed |= !list;
    json_array_foreach(list, i, text)
    {
        buf_printf(out, "%s: %s\n", side.name, json_string_value(text));
    }
    json_decref(list);
}

/* --- as text -------------------------------------------------------------------------------- */

static void put_environment(const struct compare *c, struct buf *out)
{
    static const char *const key = "environment";
    const json_t *a = json_object_get(c->before.result->root, key);
    const json_t *b = json_object_get(c->after.result->root, key);
    const json_t *const sides[] = {a, b};
    char before[VALUE_BYTES], after[VALUE_BYTES];
    const char *field;
    json_t *value;
    size_t n = 0;
    for (int side = 0; side < 2; side++) {
        json_object_foreach((json_t *)sides[side], field, value)
        {
            const json_t *x = json_object_get(a, field), *y = json_object_get(b, field);
            struct difference d = {0};
            bool seen = side == 1 && x;
            /* When each was measured is no difference of where. */
            if (seen || strcmp(field, "date") == 0 || !find_difference(x, y, &d))
                continue;
            buf_puts(out, n++ ? "" : "the environments differ:\n");
            buf_printf(out, "  %-14s %s -> %s\n", field, value_text(x, before),
                       value_text(y, after));
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
    char before[100], after[100], number[32], change[40], percent[40] = "-";
    number_text(r->change, number);
    snprintf(change, sizeof change, "%s%s", r->change > 0 ? "+" : "", number);
    if (!isnan(r->percent))
        snprintf(percent, sizeof percent, "%+.1f %%", r->percent);
    buf_printf(out, "%-20s %-9s %24s %24s %10s %9s  %s\n", r->name, r->unit,
               figure_text(&r->before, before), figure_text(&r->after, after), change, percent,
               compare_verdict_name(r->verdict));
}

/* Calls put for each metric of `side` that the other one does not have. */
static size_t put_only(struct compare_side side, struct compare_side other, struct buf *out)
{
    const char *name;
    json_t *metric;
    size_t n = 0;
    json_object_foreach((json_t *)metrics_of(side), name, metric)
    {
        if (json_object_get(metrics_of(other), name))
            continue;
        if (n++ == 0)
            buf_printf(out, "only in %s: %s", side.name, name);
        else
            buf_printf(out, ", %s", name);
    }
    buf_puts(out, n ? "\n" : "");
    return n;
}

static void put_counts(const struct compare *c, struct buf *out)
{
    size_t n[COMPARE_ONE_RUN + 1] = {0};
    const char *separator = "";
    for (size_t i = 0; i < c->n_rows; i++)
        n[c->rows[i].verdict]++;
    for (int v = 0; v <= COMPARE_ONE_RUN; v++) {
        if (n[v] == 0)
            continue;
        buf_printf(out, "%s%zu %s", separator, n[v], compare_verdict_name((enum compare_verdict)v));
        separator = ", ";
    }
    buf_puts(out, c->n_rows ? "\n" : "no metric is in both files\n");
}

void compare_text(const struct compare *c, struct buf *out)
{
    const json_t *a = c->before.result->root, *b = c->after.result->root;
    buf_printf(out, "%s, before %s (%s), after %s (%s)\n\n", text_of(a, "kind"), c->before.name,
               text_of(a, "date"), c->after.name, text_of(b, "date"));
    put_environment(c, out);
    compare_warnings(c->before, out);
    compare_warnings(c->after, out);
    if (c->n_rows)
        buf_printf(out, "%-20s %-9s %24s %24s %10s\n", "metric", "unit", "before [min, max]",
                   "after [min, max]", "change");
    for (size_t i = 0; i < c->n_rows; i++)
        put_row(&c->rows[i], out);
    put_only(c->before, c->after, out);
    put_only(c->after, c->before, out);
    buf_putc(out, '\n');
    put_counts(c, out);
    if (out->data)
        utf8_make_plain(out->data, true);
}

/* --- as JSON -------------------------------------------------------------------------------- */

static json_t *side_json(struct compare_side side)
{
    const json_t *root = side.result->root;
    return json_pack("{s:o, s:O?, s:O?, s:O?, s:o}", "file", result_text(side.name), "date",
                     json_object_get(root, "date"), "note", json_object_get(root, "note"),
                     "environment", json_object_get(root, "environment"), "warnings",
                     warnings_json(side));
}

static json_t *figure_json(const struct compare_figure *f)
{
    return json_pack("{s:o, s:o, s:o, s:I}", "median", result_number(f->median), "min",
                     result_number(f->min), "max", result_number(f->max), "n", (json_int_t)f->n);
}

static json_t *row_json(const struct compare_row *r)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:s}", "unit", r->unit, "before",
                     figure_json(&r->before), "after", figure_json(&r->after), "change",
                     result_number(r->change), "percent", result_number(r->percent), "verdict",
                     compare_verdict_name(r->verdict));
}

static json_t *only_json(struct compare_side side, struct compare_side other)
{
    json_t *list = json_array();
    const char *name;
    json_t *metric;
    int bad = 0;
    json_object_foreach((json_t *)metrics_of(side), name, metric)
    {
        if (!json_object_get(metrics_of(other), name))
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
    return json_pack("{s:O, s:o, s:o, s:o, s:o, s:o}", "kind",
                     json_object_get(c->before.result->root, "kind"), "before",
                     side_json(c->before), "after", side_json(c->after), "metrics", metrics,
                     "only_before", only_json(c->before, c->after), "only_after",
                     only_json(c->after, c->before));
}
