/* Reading a result file: what comes back has the types that compare, history and the report rely
 * on. Fields that are not known are left alone: a newer program may add some. */
#include "base/buf.h"
#include "base/limits.h"
#include "bench/result/result.h"

#include <errno.h>
#include <string.h>

/* Where a check is: the path of the field inside the file. */
struct place {
    const char *file;
    char field[128];
    struct err *err;
};

static const char *type_name(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
    return v ? names[json_typeof(v)] : "nothing";
}

static enum status result_read_wrong(const struct place *p, const char *key, const char *expected,
                                     const json_t *found)
{
    return err_param(p->err, STATUS_INVALID, key, "%s: %s%s%s: expected %s, found %s", p->file,
                     p->field, *p->field ? "." : "", key, expected, type_name(found));
}

enum want {
    WANT_OBJECT,
    WANT_ARRAY,
    WANT_TEXT,
    WANT_TEXT_OR_NULL,
    WANT_NUMBER,
    WANT_NUMBER_OR_NULL,
};

static enum status result_read_want(const struct place *p, const json_t *object, const char *key,
                                    enum want w)
{
    static const char *const names[] = {"an object",        "an array", "a string",
                                        "a string or null", "a number", "a number or null"};
    const json_t *v = json_object_get(object, key);
    const bool fits[] = {json_is_object(v), json_is_array(v),
                         json_is_string(v), json_is_string(v) || json_is_null(v),
                         json_is_number(v), json_is_number(v) || json_is_null(v)};
    return fits[w] ? STATUS_OK : result_read_wrong(p, key, names[w], v);
}

struct field {
    const char *key;
    enum want want;
};

static enum status want_all(const struct place *p, const json_t *object, const struct field *fields,
                            size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum status st = result_read_want(p, object, fields[i].key, fields[i].want);
        if (st)
            return st;
    }
    return STATUS_OK;
}

/* The array at `key` exists and all in it pass `check`. */
static enum status each(struct place *p, const json_t *array, const char *key,
                        enum status (*check)(struct place *p, const json_t *item))
{
    size_t i;
    json_t *item;
    json_array_foreach(array, i, item)
    {
        struct place inner = *p;
        snprintf(inner.field, sizeof inner.field, "%.80s%s%s[%zu]", p->field, *p->field ? "." : "",
                 key, i);
        if (!json_is_object(item))
            return result_read_wrong(p, key, "an array of objects", item);
        enum status st = check(&inner, item);
        if (st)
            return st;
    }
    return STATUS_OK;
}

/* --- metrics -------------------------------------------------------------------------------- */

static enum status check_metric(const struct place *p, const json_t *metric)
{
    static const struct field fields[] = {{"unit", WANT_TEXT},     {"better", WANT_TEXT},
                                          {"median", WANT_NUMBER}, {"min", WANT_NUMBER},
                                          {"max", WANT_NUMBER},    {"repeats", WANT_ARRAY}};
    enum status st = want_all(p, metric, fields, sizeof fields / sizeof fields[0]);
    if (st)
        return st;
    const char *better = json_string_value(json_object_get(metric, "better"));
    if (strcmp(better, "lower") != 0 && strcmp(better, "higher") != 0 &&
        strcmp(better, "neither") != 0)
        return err_param(p->err, STATUS_INVALID, "better",
                         "%s: %s.better: expected lower, higher or neither, found \"%.40s\"",
                         p->file, p->field, better);
    const json_t *repeats = json_object_get(metric, "repeats");
    if (json_array_size(repeats) == 0)
        return result_read_wrong(p, "repeats", "at least one number", NULL);
    for (size_t i = 0; i < json_array_size(repeats); i++)
        if (!json_is_number(json_array_get(repeats, i)))
            return result_read_wrong(p, "repeats", "numbers", json_array_get(repeats, i));
    return STATUS_OK;
}

static enum status check_metrics(const struct place *p, json_t *metrics)
{
    const char *name;
    json_t *metric;
    json_object_foreach(metrics, name, metric)
    {
        struct place inner = *p;
        snprintf(inner.field, sizeof inner.field, "metrics.%.80s", name);
        if (!json_is_object(metric))
            return result_read_wrong(p, inner.field, "an object", metric);
        enum status st = check_metric(&inner, metric);
        if (st)
            return st;
    }
    return STATUS_OK;
}

/* --- runs and charts ------------------------------------------------------------------------ */

/* Fields that a kind of benchmark may leave out, but not give another type. */
static enum status optional_all(const struct place *p, const json_t *object,
                                const struct field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool there = json_object_get(object, fields[i].key) != NULL;
        enum status st =
            there ? result_read_want(p, object, fields[i].key, fields[i].want) : STATUS_OK;
        if (st)
            return st;
    }
    return STATUS_OK;
}

static enum status check_ttft(const struct place *p, const json_t *ttft)
{
    static const struct field fields[] = {
        {"receive_ms", WANT_NUMBER}, {"tokenize_ms", WANT_NUMBER},    {"submit_ms", WANT_NUMBER},
        {"queue_ms", WANT_NUMBER},   {"cache_ms", WANT_NUMBER},       {"prefill_ms", WANT_NUMBER},
        {"decode_ms", WANT_NUMBER},  {"first_write_ms", WANT_NUMBER}, {"total_ms", WANT_NUMBER}};
    struct place inner = *p;
    if (!ttft || json_is_null(ttft))
        return STATUS_OK;
    snprintf(inner.field, sizeof inner.field, "%.100s.ttft", p->field);
    if (!json_is_object(ttft))
        return result_read_wrong(p, "ttft", "an object or null", ttft);
    return optional_all(&inner, ttft, fields, sizeof fields / sizeof fields[0]);
}

static enum status check_request(struct place *p, const json_t *request)
{
    static const struct field fields[] = {{"due_ms", WANT_NUMBER_OR_NULL},
                                          {"sent_ms", WANT_NUMBER_OR_NULL},
                                          {"accepted_ms", WANT_NUMBER_OR_NULL},
                                          {"first_ms", WANT_NUMBER_OR_NULL},
                                          {"end_ms", WANT_NUMBER_OR_NULL},
                                          {"state", WANT_TEXT},
                                          {"error", WANT_TEXT_OR_NULL},
                                          {"prompt_tokens", WANT_NUMBER},
                                          {"completion_tokens", WANT_NUMBER},
                                          {"cached_tokens", WANT_NUMBER},
                                          {"chunks_ms", WANT_ARRAY}};
    const json_t *chunks = json_object_get(request, "chunks_ms");
    enum status st = optional_all(p, request, fields, sizeof fields / sizeof fields[0]);
    for (size_t i = 0; !st && i < json_array_size(chunks); i++)
        if (!json_is_number(json_array_get(chunks, i)))
            st = result_read_wrong(p, "chunks_ms", "numbers", json_array_get(chunks, i));
    return st ? st : check_ttft(p, json_object_get(request, "ttft"));
}

static enum status check_run(struct place *p, const json_t *run)
{
    const json_t *requests = json_object_get(run, "requests");
    if (!requests)
        return STATUS_OK; /* benchmarks without single requests */
    if (!json_is_array(requests))
        return result_read_wrong(p, "requests", "an array", requests);
    return each(p, requests, "requests", check_request);
}

static enum status check_line(struct place *p, const json_t *line)
{
    static const struct field fields[] = {
        {"name", WANT_TEXT}, {"style", WANT_TEXT}, {"points", WANT_ARRAY}};
    enum status st = want_all(p, line, fields, sizeof fields / sizeof fields[0]);
    size_t i;
    json_t *point;
    if (st)
        return st;
    json_array_foreach(json_object_get(line, "points"), i, point)
    {
        if (json_array_size(point) != 2 && json_array_size(point) != 4)
            return result_read_wrong(p, "points", "arrays of 2 or 4 numbers", point);
        for (size_t k = 0; k < json_array_size(point); k++)
            if (!json_is_number(json_array_get(point, k)))
                return result_read_wrong(p, "points", "arrays of numbers",
                                         json_array_get(point, k));
    }
    return STATUS_OK;
}

static enum status check_mark(struct place *p, const json_t *mark)
{
    static const struct field fields[] = {{"x", WANT_NUMBER}, {"label", WANT_TEXT}};
    return want_all(p, mark, fields, sizeof fields / sizeof fields[0]);
}

static enum status check_chart(struct place *p, const json_t *chart)
{
    static const struct field fields[] = {
        {"id", WANT_TEXT},  {"title", WANT_TEXT},  {"note", WANT_TEXT},  {"x", WANT_OBJECT},
        {"y", WANT_OBJECT}, {"lines", WANT_ARRAY}, {"marks", WANT_ARRAY}};
    static const struct field axis[] = {{"label", WANT_TEXT}, {"scale", WANT_TEXT}};
    enum status st = want_all(p, chart, fields, sizeof fields / sizeof fields[0]);
    if (!st)
        st = want_all(p, json_object_get(chart, "x"), axis, 2);
    if (!st)
        st = want_all(p, json_object_get(chart, "y"), axis, 2);
    if (!st)
        st = each(p, json_object_get(chart, "lines"), "lines", check_line);
    if (!st)
        st = each(p, json_object_get(chart, "marks"), "marks", check_mark);
    return st;
}

/* --- the file ------------------------------------------------------------------------------- */

static enum status check_root(struct place *p, const json_t *root)
{
    static const struct field fields[] = {{"kind", WANT_TEXT},          {"date", WANT_TEXT},
                                          {"note", WANT_TEXT_OR_NULL},  {"workload", WANT_OBJECT},
                                          {"environment", WANT_OBJECT}, {"metrics", WANT_OBJECT},
                                          {"runs", WANT_ARRAY},         {"charts", WANT_ARRAY}};
    enum status st = result_read_want(p, root, "schema", WANT_TEXT);
    if (st)
        return st;
    const char *schema = json_string_value(json_object_get(root, "schema"));
    if (strcmp(schema, RESULT_SCHEMA) != 0)
        return err_param(p->err, STATUS_INVALID, "schema",
                         "%s: schema: expected \"" RESULT_SCHEMA "\", found \"%.60s\"", p->file,
                         schema);
    st = want_all(p, root, fields, sizeof fields / sizeof fields[0]);
    if (!st)
        st = check_metrics(p, json_object_get(root, "metrics"));
    if (!st)
        st = each(p, json_object_get(root, "runs"), "runs", check_run);
    if (!st)
        st = each(p, json_object_get(root, "charts"), "charts", check_chart);
    return st;
}

static enum status read_bytes(const char *path, struct buf *out, struct err *err)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return err_set(err, STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    bool ok = buf_read(out, f);
    int cause = errno; /* of a directory: EISDIR */
    fclose(f);
    if (ok && out->len > 0)
        return STATUS_OK;
    if (ok)
        return err_set(err, STATUS_INVALID, "%s is empty", path);
    if (out->failed)
        return err_set(err, STATUS_INVALID, "%s is larger than the %u MiB of a result file", path,
                       LIMIT_RESULT_BYTES >> 20);
    return err_set(err, STATUS_IO, "cannot read %s: %s", path, strerror(cause));
}

enum status result_read(struct result *out, const char *path, struct err *err)
{
    struct buf text = {.limit = LIMIT_RESULT_BYTES};
    struct place place = {.file = path, .err = err};
    json_error_t at;
    *out = (struct result){0};
    enum status st = read_bytes(path, &text, err);
    json_t *root = st ? NULL : json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, &at);
    buf_fini(&text);
    if (st)
        return st;
    if (!root)
        return err_set(err, STATUS_INVALID, "%s, line %d: no JSON: %s", path, at.line, at.text);
    if (json_is_object(root))
        st = check_root(&place, root);
    else
        st =
            err_set(err, STATUS_INVALID, "%s: expected an object, found %s", path, type_name(root));
    if (st)
        json_decref(root);
    else
        out->root = root;
    return st;
}
