/* The record table: one row a result file, by date. */
#ifndef FIRSTLIGHT_BENCH_RESULT_HISTORY_H
#define FIRSTLIGHT_BENCH_RESULT_HISTORY_H

#include "base/buf.h"
#include "bench/result/result.h"

struct history_entry {
    const char *file; /* for the JSON */
    struct result result;
};

/* By date; of one date by file. */
void history_sort(struct history_entry *entries, size_t n);

/* Appends date, engine, model, kind, tokens/s, TTFT p50 and note of each; "-" where a result has
 * none. Sets out->failed when memory is short. */
void history_text(const struct history_entry *entries, size_t n, struct buf *out);

json_t *history_json(const struct history_entry *entries, size_t n); /* new; NULL: no memory */

#endif
