/* What this machine can do at most: reading, and arithmetic of each kind, on some threads.
 *
 * A run lets every thread go for the same short time, in loops of kernels/peak.h, and adds up their
 * rates. Reading goes round and round in memory of a given size, each thread in its own part:
 *
 *     thread 0 |------>-------| thread 1 |------>-------|    a run goes on where the last one ended
 */
#ifndef FIRSTLIGHT_BENCH_KINDS_ROOFLINE_H
#define FIRSTLIGHT_BENCH_KINDS_ROOFLINE_H

#include "base/buf.h"
#include "base/err.h"
#include "bench/result/result.h"
#include "bench/result/series.h"
#include "kernels/peak.h"

#define ROOFLINE_FOOTPRINT 98000000          /* bytes: SmolLM2-135M in Q4_1, the default model */
#define ROOFLINE_DRAM      ((size_t)1 << 30) /* bytes */

struct roofline_options {
    uint32_t n_threads;  /* >= 1; measured are 1, 2, 4 .. and this many */
    uint32_t cpu_levels; /* as masked */
    size_t footprint;    /* bytes of a model that are read again and again */
    size_t dram;         /* bytes that no cache holds; left out where they are under four L3 */
    uint32_t warmup_runs, repeat_runs;
    uint32_t run_ms;                              /* of one run */
    void (*progress)(uint32_t point, uint32_t n); /* may be NULL; point counts from 0 */
};

/* One thing on some threads. */
struct roofline_point {
    const struct peak *peak; /* NULL: reading */
    const char *memory;      /* of reading: "l2", "l3", "footprint", "dram" */
    size_t bytes;            /* of reading, over all threads */
    uint32_t threads;
    /* Of each repeat, in order: GOP/s (a multiply-add is two), or GB/s. Empty: not to be had. */
    struct series rates;
};

struct roofline {
    struct roofline_point *points; /* (n), by what they measure, then by threads */
    uint32_t n;
};

/* Levels that o->cpu_levels lacks have no points, memories that the machine lacks no rates. *out is
 * to be freed by roofline_fini either way. */
enum status roofline_run(struct roofline *out, const struct roofline_options *o, struct err *err);
void roofline_fini(struct roofline *r);

/* Fills `rates` of a point that is otherwise set. */
enum status roofline_measure(struct roofline_point *p, const struct roofline_options *o,
                             struct err *err);
/* So much is read of so many bytes: at least a page, at most ROOFLINE_DRAM and half of what is
 * free. */
size_t roofline_memory(size_t bytes);

/* Rows of medians, columns of threads. */
void roofline_table(struct buf *out, const struct roofline *r);
json_t *roofline_workload(const struct roofline_options *o); /* new; NULL: no memory */
void roofline_result(const struct roofline *r, struct result *out);

#endif
