#ifndef FIRSTLIGHT_BENCH_LOAD_LOAD_TABLE_H
#define FIRSTLIGHT_BENCH_LOAD_LOAD_TABLE_H

#include "base/buf.h"
#include "bench/load/load.h"

/* How punctual the load generator was in all runs (a figure is only as good as that), behind a
 * label of so many columns, and in which runs it was the bottleneck. False: memory was short. */
bool load_table_generator(struct buf *out, int columns, const struct load_result *runs,
                          uint32_t n_runs);

#endif
