/* Two servers compared on a noisy machine: both are up, their runs alternate in random order, and
 * it goes on until the difference is known well enough.
 *
 *     block:  start A and B ─► warm both up ─► A B ─► B A ─► B A ...    so many pairs
 *     block:  start A and B ─► ...
 *
 * A pair is a run of the workload on each side, one right after the other: what slows the machine
 * for a second slows both. The shorter the runs (one request), the more of the noise they share. A
 * block's figure is that of all requests of its runs; its difference is the logarithm of the ratio
 * B / A. Blocks are what is independent, since starts of one program differ by more than runs of a
 * start do; so the interval is theirs (signed_rank.h). Where neither side is ours to start, the
 * difference is that of these two starts.
 */
#ifndef FIRSTLIGHT_BENCH_KINDS_AB_H
#define FIRSTLIGHT_BENCH_KINDS_AB_H

#include "base/buf.h"
#include "bench/load/measure.h"
#include "bench/result/result.h"
#include "bench/result/signed_rank.h"

#include <sys/types.h>

/* Fewer blocks are never judged. */
#define AB_LEAST_BLOCKS 10
/* So many blocks in a row with failures end it. */
#define AB_MOST_FAILURES 5

enum ab_metric {
    AB_TTFT_P50,
    AB_TTFT_P95,
    AB_TTFT_P99,
    AB_ITL_P99,
    AB_TPOT_P50,
    AB_TOKENS_PER_S,
    AB_PROCESSOR, /* seconds of the server's process in the block's runs */
    AB_METRICS,
};
extern const char *const ab_metric_names[AB_METRICS + 1]; /* "ttft_p50", ...; then NULL */

enum { AB_A, AB_B, AB_SIDES };

/* Why it ended. */
enum ab_end { AB_NARROW, AB_TIME, AB_INTERRUPTED, AB_FAILED };

struct ab_options {
    const char *names[AB_SIDES]; /* URLs or commands, for the table */
    const struct workload_options *workload;
    const struct measure_options *measure; /* tokenizer, stop, warm-ups of each start */
    uint32_t pairs;                        /* of a block, >= 1 */
    enum ab_metric metric;                 /* whose interval ends it */
    double width_percent;                  /* the whole interval, of A's figure */
    double time_limit_s;
    uint64_t seed; /* of the order */
    /* Starts side `side`, or starts it anew; *pid is its process, 0: unknown. */
    enum status (*start)(void *arg, int side, struct target **t, pid_t *pid, struct err *err);
    bool anew[AB_SIDES]; /* `start` starts the side anew, before each block */
    bool one_cache;      /* both sides are one server: their prompts have to differ */
    /* May be NULL. After each block. */
    void (*progress)(void *arg, uint32_t n_blocks, const struct signed_rank *difference,
                     double seconds);
    void *arg;
};

/* All runs of one side in one block; NAN: there is no such figure. */
struct ab_runs {
    double figures[AB_METRICS];
    double stolen_percent; /* of the machine, while they ran */
};

struct ab_block {
    uint32_t n_pairs, n_b_first;
    struct ab_runs runs[AB_SIDES];
};

struct ab_side {
    struct target *target; /* borrowed from whoever started it; NULL: it does not come up again */
    char model[128];
    pid_t pid;
    uint32_t n_requests, n_failed;
    uint64_t prompt_tokens, cached_tokens;
    char first_error[256];
};

struct ab {
    struct ab_side sides[AB_SIDES];
    struct ab_block *blocks; /* (n_blocks) that count: no request of theirs failed */
    uint32_t n_blocks, n_starts;
    double seconds;
    enum ab_end end;
};

/* What is known of one metric. */
struct ab_difference {
    double medians[AB_SIDES];   /* over the blocks */
    struct signed_rank percent; /* B against A, with its interval */
    double confidence;          /* of the interval */
    uint32_t n;                 /* blocks that have it; 0: nothing else here counts */
};

/* What was measured before an error is in *out, which ab_fini frees either way. */
enum status ab_run(struct ab *out, const struct ab_options *o, struct err *err);
void ab_fini(struct ab *ab);

/* The metric that ends it has an interval of 95 percent. Those of the others are wider, so that all
 * of them together hold with 95 percent. */
bool ab_difference(const struct ab *ab, const struct ab_options *o, enum ab_metric metric,
                   struct ab_difference *out); /* false: no memory */

/* The table: the differences, and what each side used and lost. False: no memory. */
bool ab_table(struct buf *out, const struct ab *ab, const struct ab_options *o);
/* Metrics (B against A in percent, a value a block), `runs`, which are the blocks, and `ab`. */
void ab_result(const struct ab *ab, const struct ab_options *o, struct result *out);

#endif
