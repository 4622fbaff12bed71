/* Two servers compared on a noisy machine: both are up, their runs alternate in random order, and
 * it goes on until the difference is known well enough.
 *
 *     block:  start A and B ─► warm both up ─► A B ─► B A ─► B A ...    pairs_per_start pairs
 *     block:  start A and B ─► ...
 *
 * A pair is two runs of the same workload, one after the other: what slows the machine for seconds
 * slows both. Its difference is the logarithm of the ratio B / A of a figure; a block's is the mean
 * of its pairs'. Blocks are what is independent (starts of one program differ by more than runs of
 * a start), so the interval of the difference is theirs (signed_rank.h). Where a side is not ours
 * to start, each pair is a block and the difference is that of these two starts.
 */
#ifndef FIRSTLIGHT_BENCH_AB_H
#define FIRSTLIGHT_BENCH_AB_H

#include "base/buf.h"
#include "bench/measure.h"
#include "bench/result.h"
#include "bench/signed_rank.h"

#include <sys/types.h>

/* Fewer blocks are never judged. */
#define AB_LEAST_BLOCKS 10
/* So many pairs in a row with failures end it. */
#define AB_MOST_FAILURES 5

enum ab_metric {
    AB_TTFT_P50,
    AB_TTFT_P95,
    AB_TTFT_P99,
    AB_ITL_P99,
    AB_TPOT_P50,
    AB_TOKENS_PER_S,
    AB_PROCESSOR, /* seconds of the server's process in a run */
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
    uint32_t pairs_per_start;              /* >= 1 */
    enum ab_metric metric;                 /* whose interval ends it */
    double width_percent;                  /* the whole interval, of A's figure */
    double time_limit_s;
    uint64_t seed; /* of the order */
    /* Starts side `side`, or starts it anew; *pid is its process, 0: unknown. */
    enum status (*start)(void *arg, int side, struct target **t, pid_t *pid, struct err *err);
    bool restarts;  /* there is a side that `start` starts anew: a block each time */
    bool one_cache; /* both sides are one server: their prompts have to differ */
    /* May be NULL. After each block. */
    void (*progress)(void *arg, uint32_t n_blocks, const struct signed_rank *difference,
                     double seconds);
    void *arg;
};

/* One run of one side; NAN: there is no such figure. */
struct ab_run {
    double figures[AB_METRICS];
    double stolen_percent; /* of the machine, meanwhile */
};

struct ab_pair {
    uint32_t block;
    bool b_first;
    struct ab_run runs[AB_SIDES];
};

struct ab_side {
    struct target *target; /* borrowed from whoever started it */
    pid_t pid;
    uint32_t n_requests, n_failed;
    uint64_t prompt_tokens, cached_tokens;
    char first_error[256];
};

struct ab {
    struct ab_side sides[AB_SIDES];
    struct ab_pair *pairs; /* (n_pairs) that count: no request of theirs failed */
    uint32_t n_pairs, n_blocks, n_starts;
    double seconds;
    enum ab_end end;
};

/* What is known of one metric. */
struct ab_difference {
    double medians[AB_SIDES];   /* over the runs */
    struct signed_rank percent; /* B against A, with its interval */
    double confidence;          /* of the interval */
    bool known;                 /* false: no blocks with it, and nothing else here counts */
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
/* Metrics (the change in percent, a value a block), runs (the pairs), and `ab`. */
void ab_result(const struct ab *ab, const struct ab_options *o, struct result *out);

#endif
