#include "bench/result/require.h"

#include "base/buf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Longer operators first: each begins with a shorter one. */
static const char *const operators[] = {[REQUIRE_LE] = "<=",
                                        [REQUIRE_LT] = "<",
                                        [REQUIRE_GE] = ">=",
                                        [REQUIRE_GT] = ">",
                                        [REQUIRE_EQ] = "=="};
#define N_OPERATORS (sizeof operators / sizeof operators[0])

const char *require_operator_text(enum require_operator op)
{
    return operators[op];
}

static const char *require_skip_blanks(const char *p)
{
    return p + strspn(p, " ");
}

static bool take_operator(const char **p, enum require_operator *op)
{
    for (size_t i = 0; i < N_OPERATORS; i++) {
        if (strncmp(*p, operators[i], strlen(operators[i])) == 0) {
            *op = (enum require_operator)i;
            *p += strlen(operators[i]);
            return true;
        }
    }
    return false;
}

enum status require_parse(const char *text, struct require *out, struct err *err)
{
    struct require r = {0};
    const char *p = require_skip_blanks(text);
    size_t len = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (len == 0 || len >= sizeof r.metric)
        return err_set(err, STATUS_INVALID,
                       "expected a metric's name, an operator and a number such as "
                       "\"ttft_p50<=200\", found \"%.80s\"",
                       text);
    memcpy(r.metric, p, len);
    p = require_skip_blanks(p + len);
    if (!take_operator(&p, &r.op))
        return err_set(err, STATUS_INVALID,
                       "expected one of < <= > >= == after %s, found \"%.80s\"", r.metric, p);
    p = require_skip_blanks(p);
    char *end;
    r.bound = strtod(p, &end);
    if (end == p || *require_skip_blanks(end) != '\0' || !isfinite(r.bound))
        return err_set(err, STATUS_INVALID, "expected a number after %s%s, found \"%.80s\"",
                       r.metric, operators[r.op], p);
    *out = r;
    return STATUS_OK;
}

static size_t common_prefix(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

/* Those that begin most like the one asked for; all of them when none begins like it. */
static enum status unknown_metric(const char *metric, const json_t *metrics, const char *file,
                                  struct err *err)
{
    const char *name;
    json_t *value;
    size_t most = 0;
    struct buf near = {.limit = 300};
    json_object_foreach((json_t *)metrics, name, value)
    {
        if (common_prefix(metric, name) > most)
            most = common_prefix(metric, name);
    }
    json_object_foreach((json_t *)metrics, name, value)
    {
        if (common_prefix(metric, name) == most)
            buf_printf(&near, "%s%s", near.len ? ", " : "", name);
    }
    err_param(err, STATUS_INVALID, metric, "%s has no metric %s; %s: %s%s", file, metric,
              most ? "near it" : "it has", near.len ? buf_str(&near) : "none",
              near.failed ? ", ..." : "");
    buf_fini(&near);
    return STATUS_INVALID;
}

static bool require_compare(double value, enum require_operator op, double bound)
{
    switch (op) {
    case REQUIRE_LT:
        return value < bound;
    case REQUIRE_LE:
        return value <= bound;
    case REQUIRE_GT:
        return value > bound;
    case REQUIRE_GE:
        return value >= bound;
    case REQUIRE_EQ:
        return value == bound;
    }
    return false;
}

enum status require_check(const struct require *r, const struct result *result, const char *name,
                          double *value, bool *holds, struct err *err)
{
    const json_t *metrics = json_object_get(result->root, "metrics");
    const json_t *metric = json_object_get(metrics, r->metric);
    if (!metric)
        return unknown_metric(r->metric, metrics, name, err);
    *value = json_number_value(json_object_get(metric, "median"));
    *holds = require_compare(*value, r->op, r->bound);
    return STATUS_OK;
}
