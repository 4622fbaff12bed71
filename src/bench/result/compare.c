/* Whether two sides ask the same question, and the rows of their figures. */
#include "bench/result/compare.h"

#include "base/mem.h"
#include "bench/result/compare_internal.h"

#include <math.h>
#include <string.h>

const char *compare_verdict_name(enum compare_verdict v)
{
    static const char *const names[] = {"better", "worse", "changed", "noise", "no verdict"};
    return names[v];
}

/* --- is it the same question ---------------------------------------------------------------- */

/* Of file `file` of a side with the first file of `before`. */
static enum status check_field(const struct compare *c, struct compare_side side, size_t file,
                               const char *key, struct err *err)
{
    const struct result *first = c->before.results, *other = &side.results[file];
    struct compare_difference d = {0};
    char before[COMPARE_VALUE], after[COMPARE_VALUE];
    snprintf(d.path, sizeof d.path, "%s", key);
    if (!compare_differ(json_object_get(first->root, key), json_object_get(other->root, key), &d))
        return STATUS_OK;
    return err_param(err, STATUS_INVALID, d.path,
                     "not the same measurement: %s is %s in %s, %s in %s", d.path,
                     compare_value(d.before, before), c->before.names[0],
                     compare_value(d.after, after), side.names[file]);
}

/* The objectives of --goodput are nobody's workload, but goodput of others is another figure. */
static enum status check_side(const struct compare *c, struct compare_side side, struct err *err)
{
    enum status st = STATUS_OK;
    for (size_t i = 0; i < side.n && !st; i++) {
        st = check_field(c, side, i, "kind", err);
        if (!st)
            st = check_field(c, side, i, "workload", err);
        if (!st && json_object_get(c->before.results->root, "goodput") &&
            json_object_get(side.results[i].root, "goodput"))
            st = check_field(c, side, i, "goodput", err);
    }
    return st;
}

/* --- the rows ------------------------------------------------------------------------------- */

/* "" where a file that nobody checked has none. */
static const char *compare_text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool all_have(struct compare_side side, const char *name)
{
    bool have = true;
    for (size_t i = 0; i < side.n; i++)
        have = have && compare_metric(side, i, name);
    return have;
}

static enum status check_units(const struct compare *c, struct compare_side side, const char *name,
                               struct err *err)
{
    const char *unit = compare_text_of(compare_metric(c->before, 0, name), "unit");
    for (size_t i = 0; i < side.n; i++) {
        const char *other = compare_text_of(compare_metric(side, i, name), "unit");
        if (strcmp(unit, other) != 0)
            return err_param(err, STATUS_INVALID, name,
                             "metrics.%s.unit is \"%s\" in %s, \"%s\" in %s", name, unit,
                             c->before.names[0], other, side.names[i]);
    }
    return STATUS_OK;
}

/* Over the repeats of all files of a side. */
static enum status add_figure(struct compare_figure *out, struct compare_side side,
                              const char *name, struct err *err)
{
    struct series all = {0};
    for (size_t i = 0; i < side.n; i++) {
        size_t k;
        json_t *value;
        json_array_foreach(json_object_get(compare_metric(side, i, name), "repeats"), k, value)
        {
            series_add(&all, json_number_value(value));
        }
    }
    *out = (struct compare_figure){.median = series_percentile(&all, 50),
                                   .min = series_percentile(&all, 0),
                                   .max = series_percentile(&all, 100),
                                   .n = all.n};
    bool failed = all.failed;
    series_fini(&all);
    return failed ? err_set(err, STATUS_NO_MEMORY, "no memory for %s", name) : STATUS_OK;
}

static enum status compare_add_row(struct compare *c, const char *name, const json_t *metric,
                                   struct err *err)
{
    struct compare_row *row = &c->rows[c->n_rows];
    *row = (struct compare_row){
        .name = name,
        .unit = compare_text_of(metric, "unit"),
        .better = compare_text_of(metric, "better"),
        .p = NAN,
        .verdict = COMPARE_NONE,
    };
    enum status st = check_units(c, c->before, name, err);
    if (!st)
        st = check_units(c, c->after, name, err);
    if (!st)
        st = add_figure(&row->before, c->before, name, err);
    if (!st)
        st = add_figure(&row->after, c->after, name, err);
    if (st)
        return st;
    row->change = row->after.median - row->before.median;
    row->percent = row->before.median != 0 ? 100 * row->change / fabs(row->before.median) : NAN;
    c->n_rows++;
    return STATUS_OK;
}

static enum status compare_add_rows(struct compare *c, struct err *err)
{
    const json_t *metrics = json_object_get(c->before.results->root, "metrics");
    const char *name;
    json_t *metric;
    size_t n = json_object_size(metrics);
    enum status st = STATUS_OK;
    c->rows = mem_array(n ? n : 1, sizeof *c->rows);
    if (!c->rows)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %zu metrics", n);
    json_object_foreach((json_t *)metrics, name, metric)
    {
        if (all_have(c->before, name) && all_have(c->after, name))
            st = compare_add_row(c, name, metric, err);
        if (st)
            return st;
    }
    return STATUS_OK;
}

enum status compare_make(struct compare *out, struct compare_side before, struct compare_side after,
                         struct err *err)
{
    *out = (struct compare){.before = before, .after = after};
    enum status st = check_side(out, before, err);
    if (!st)
        st = check_side(out, after, err);
    if (!st)
        st = compare_add_rows(out, err);
    return st ? st : compare_judge(out, err);
}

void compare_fini(struct compare *c)
{
    mem_free(c->rows);
    json_decref(c->doubts);
    json_decref(c->notes);
    *c = (struct compare){0};
}
