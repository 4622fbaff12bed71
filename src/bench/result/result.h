/* A result file: one schema for every kind of benchmark, so that compare, history and report read
 * them all. docs/bench-results.md documents it field by field.
 *
 *     {"schema": "firstlight-bench/1", "kind": "streaming", "date": "2026-11-21T17:00:00Z",
 *      "note": null, "workload": {...}, "environment": {...},
 *      "metrics": {"ttft_p50": {"unit": "ms", "better": "lower", "median": 1, "min": 1, "max": 1,
 *                               "repeats": [1, 1, 1]}, ...},
 *      "runs": [...], "charts": [...],   and per kind: vLLM's names, `fit`, ...}
 *
 * Functions that take a json_t as value steal it and treat NULL as "no memory": the result then
 * fails as a whole, once, in result_write.
 */
#ifndef FIRSTLIGHT_BENCH_RESULT_RESULT_H
#define FIRSTLIGHT_BENCH_RESULT_RESULT_H

#include "base/err.h"
#include "bench/result/series.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#define RESULT_SCHEMA "firstlight-bench/1"

enum result_better { RESULT_LOWER, RESULT_HIGHER, RESULT_NEITHER };

struct result {
    json_t *root;
    bool failed;
};

/* `workload` holds what was asked and nothing of who answered; note may be NULL. */
void result_init(struct result *r, const char *kind, const char *note, json_t *workload,
                 json_t *environment);
void result_fini(struct result *r);

/* One repeat's value of a metric; a NAN or infinite value is left out. Names: "ttft_p50" (ms),
 * "tokens_per_s", ...; the unit says the rest. */
void result_metric(struct result *r, const char *name, const char *unit, enum result_better better,
                   double value);
/* mean, p50, p90, p95, p99 of a series of milliseconds as NAME_mean, NAME_p50, ... */
void result_metric_series(struct result *r, const char *name, struct series *s);
void result_add_run(struct result *r, json_t *run);
void result_add_chart(struct result *r, json_t *chart); /* see chart.h */
void result_set(struct result *r, const char *key, json_t *value);

/* Pretty-printed to `f`, numbers with 15 digits. */
enum status result_write(const struct result *r, FILE *f, struct err *err);
/* Reads and checks one (result_read.c): an empty file, no JSON, another schema, a kind or metric of
 * the wrong type are STATUS_INVALID naming the file and the field. */
enum status result_read(struct result *out, const char *path, struct err *err);

/* Number or null, so that NAN never reaches jansson. */
json_t *result_number(double x);
/* The list, or nothing of it when something could not be added. Steals it. */
json_t *result_whole(json_t *list, int bad);
json_t *result_numbers(const struct series *s); /* a list; NULL: memory is or was short */
/* A string with what is no UTF-8 replaced; null for NULL. */
json_t *result_text(const char *text);
json_t *result_spread(struct series *s); /* {"n", "mean", "sd", "min", "p50", ...} */

#endif
