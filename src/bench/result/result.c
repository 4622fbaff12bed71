#include "bench/result/result.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

static const char *const better_names[] = {"lower", "higher", "neither"};

/* --- making one ----------------------------------------------------------------------------- */

/* `value` is taken; NULL is no memory. */
static void set(struct result *r, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value))
        r->failed = true;
}

static void result_append(struct result *r, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value))
        r->failed = true;
}

static json_t *now_json(void)
{
    char text[32];
    time_t now = time(NULL);
    struct tm tm;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    return json_string(text);
}

void result_init(struct result *r, const char *kind, const char *note, json_t *workload,
                 json_t *environment)
{
    *r = (struct result){.root = json_object()};
    set(r, r->root, "schema", json_string(RESULT_SCHEMA));
    set(r, r->root, "kind", json_string(kind));
    set(r, r->root, "date", now_json());
    set(r, r->root, "note", result_text(note));
    set(r, r->root, "workload", workload);
    set(r, r->root, "environment", environment);
    set(r, r->root, "metrics", json_object());
    set(r, r->root, "runs", json_array());
    set(r, r->root, "charts", json_array());
}

void result_fini(struct result *r)
{
    json_decref(r->root);
    *r = (struct result){0};
}

/* The figures of the repeats there are now. */
static void set_figures(struct result *r, json_t *metric)
{
    struct series s = {0};
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(metric, "repeats"), i, value)
        series_add(&s, json_number_value(value));
    set(r, metric, "median", result_number(series_percentile(&s, 50)));
    set(r, metric, "min", result_number(series_percentile(&s, 0)));
    set(r, metric, "max", result_number(series_percentile(&s, 100)));
    r->failed |= s.failed;
    series_fini(&s);
}

static json_t *metric_new(const char *unit, enum result_better better)
{
    return json_pack("{s:s, s:s, s:n, s:n, s:n, s:[]}", "unit", unit, "better",
                     better_names[better], "median", "min", "max", "repeats");
}

void result_metric(struct result *r, const char *name, const char *unit, enum result_better better,
                   double value)
{
    if (!isfinite(value))
        return;
    json_t *metrics = json_object_get(r->root, "metrics");
    json_t *metric = json_object_get(metrics, name);
    if (!metric) {
        set(r, metrics, name, metric_new(unit, better));
        metric = json_object_get(metrics, name);
    }
    result_append(r, json_object_get(metric, "repeats"), json_real(value));
    set_figures(r, metric);
}

void result_metric_series(struct result *r, const char *name, struct series *s)
{
    struct spread spread = series_spread(s);
    const struct {
        const char *suffix;
        double value;
    } parts[] = {{"mean", spread.mean},
                 {"p50", spread.p50},
                 {"p90", spread.p90},
                 {"p95", spread.p95},
                 {"p99", spread.p99}};
    r->failed |= s->failed;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char full[64];
        snprintf(full, sizeof full, "%s_%s", name, parts[i].suffix);
        result_metric(r, full, "ms", RESULT_LOWER, parts[i].value);
    }
}

void result_add_run(struct result *r, json_t *run)
{
    result_append(r, json_object_get(r->root, "runs"), run);
}

void result_add_chart(struct result *r, json_t *chart)
{
    result_append(r, json_object_get(r->root, "charts"), chart);
}

void result_set(struct result *r, const char *key, json_t *value)
{
    set(r, r->root, key, value);
}

json_t *result_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *result_whole(json_t *list, int bad)
{
    if (!bad)
        return list;
    json_decref(list);
    return NULL;
}

json_t *result_numbers(const struct series *s)
{
    json_t *list = json_array();
    int bad = s->failed;
    for (size_t i = 0; i < s->n; i++)
        bad |= json_array_append_new(list, result_number(s->v[i]));
    return result_whole(list, bad);
}

json_t *result_text(const char *text)
{
    if (!text)
        return json_null();
    struct buf valid = {0};
    utf8_append(&valid, text, strlen(text));
    json_t *json = valid.failed ? NULL : json_stringn(buf_str(&valid), valid.len);
    buf_fini(&valid);
    return json;
}

json_t *result_spread(struct series *s)
{
    struct spread d = series_spread(s);
    if (s->failed)
        return NULL;
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "n", (json_int_t)d.n, "mean",
                     result_number(d.mean), "sd", result_number(d.sd), "min", result_number(d.min),
                     "p50", result_number(d.p50), "p90", result_number(d.p90), "p95",
                     result_number(d.p95), "p99", result_number(d.p99), "max",
                     result_number(d.max));
}

enum status result_write(const struct result *r, FILE *f, struct err *err)
{
    if (r->failed || !r->root)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the result");
    errno = 0;
    bool failed = json_dumpf(r->root, f, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) != 0;
    failed = failed || fputc('\n', f) == EOF || fflush(f) == EOF;
    if (failed)
        return err_set(err, STATUS_IO, "cannot write the result: %s",
                       errno ? strerror(errno) : "not representable as JSON");
    return STATUS_OK;
}
