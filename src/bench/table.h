/* What the tables of several benchmarks share. */
#ifndef FIRSTLIGHT_BENCH_TABLE_H
#define FIRSTLIGHT_BENCH_TABLE_H

#include "base/buf.h"
#include "bench/load.h"

/* A space, then x right-aligned; "n/a" when it is not finite. */
void table_number(struct buf *out, int width, int digits, double x);
/* "1 run", "3 runs". */
void table_count(struct buf *out, uint32_t n, const char *noun);
/* How punctual the load generator was: a figure is only as good as that. Says so where it was the
 * bottleneck. */
void table_generator(struct buf *out, struct load_result *runs, uint32_t n_runs);

#endif
