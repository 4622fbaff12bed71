/* The load generator: sends a workload to a target when it is due and waits for every answer.
 *
 *     background streams begin ─► each has its first chunk ─► the run's clock starts
 *     ─► items are sent when due, at most max_concurrency in flight ─► all have ended
 *     ─► background streams are cancelled
 *
 * Under max_concurrency an item is due when it was planned or when the earliest free place became
 * free, whichever is later, so that waiting for a place is not taken for the generator's lag.
 *
 * It measures itself too: a figure is only as good as the generator was punctual. It calls itself
 * the bottleneck when p99 of its lag, or of its turns, is above LOAD_LATE_MS and above
 * LOAD_LATE_TTFT of the median TTFT; or when in a run of LOAD_BUSY_FROM_MS or more its thread used
 * more than LOAD_BUSY of a processor. In-process, tokenizing is part of sending and counts.
 */
#ifndef FIRSTLIGHT_BENCH_LOAD_LOAD_H
#define FIRSTLIGHT_BENCH_LOAD_LOAD_H

#include "bench/load/record.h"
#include "bench/load/target.h"
#include "bench/load/workload.h"
#include "bench/result/machine.h"
#include "bench/result/series.h"

#include <stdatomic.h>

#define LOAD_LATE_MS      5.0
#define LOAD_LATE_TTFT    0.1
#define LOAD_BUSY         0.9
#define LOAD_BUSY_FROM_MS 100.0

/* max_tokens of a background stream: an engine reserves KV memory for all of them. */
#define LOAD_BACKGROUND_TOKENS 1024

struct load_options {
    uint32_t max_concurrency;                     /* 0: no bound */
    uint32_t n_background;                        /* streams that run meanwhile; one that ends
                                                     before the run does is started again with
                                                     another prompt, one that fails is counted and
                                                     stays down */
    const struct workload_options *background_of; /* their prompts; needed when n_background > 0 */
    const atomic_bool *stop; /* may be NULL; once true, nothing is sent any more and what runs is
                                cancelled: the result holds what there is */
    /* May be NULL. Once before anything is sent, then whenever requests have ended. */
    void (*progress)(void *arg, uint32_t ended, uint32_t failed, uint32_t n);
    void *arg;
};

struct load_generator {
    struct series lag_ms;  /* sent - due of each request */
    struct series turn_ms; /* from a poll's waking to the next poll: how late a stamp can be, but
                              for the time that the thread is ready and not let run */
    double cpu_share;      /* of one processor, by the generator's thread; [0, 1] */
    bool bottleneck;       /* the figures say more of the generator than of the target */
    char why[160];         /* in words, "" if not */
};

struct load_result {
    struct record *records; /* (n) in the workload's order; RECORD_UNSENT only if interrupted */
    uint32_t n;
    struct series background_gap_ms; /* gaps between the chunks of background streams that end while
                                        the run lasted */
    uint32_t background_failed, n_background;
    int64_t start_us, end_us; /* first due moment; last end */
    int64_t submit_wall_us;   /* start to the last request sent */
    uint64_t received_bytes;  /* by the target's connections meanwhile, of background streams too */
    bool on_wire;             /* it has connections */
    struct load_generator generator;
    bool interrupted;
    uint32_t start; /* of the target, for whoever starts it again (measure.h); load_run leaves 0 */
    struct machine_run machine; /* the same: of whoever orders the run */
};

/* Fails only when nothing could be run (no items, no memory, a background stream that did not come
 * up, which is named with its reason): requests that fail are records. *out is to be freed by
 * load_fini either way. */
enum status load_run(struct target *t, const struct workload *w, const struct load_options *o,
                     struct load_result *out, struct err *err);
void load_fini(struct load_result *r);

#endif
