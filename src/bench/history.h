/* The record table: one row a result file, by date. */
#ifndef FIRSTLIGHT_BENCH_HISTORY_H
#define FIRSTLIGHT_BENCH_HISTORY_H

#include "base/buf.h"
#include "bench/result.h"

/* Appends date, engine, model, kind, tokens/s, TTFT p50 and note of results[n]; "-" where a result
 * has none. Sets out->failed when memory is short. */
void history_text(const struct result *results, size_t n, struct buf *out);

#endif
