/* The load generator: sends a workload to a target when it is due and waits for every answer.
 *
 *     background streams begin ─► each has its first chunk ─► the run's clock starts
 *     ─► items are sent when due, at most max_concurrency in flight ─► all have ended
 *     ─► background streams are cancelled
 *
 * It measures itself too: a figure is only as good as the generator was punctual.
 */
#ifndef FIRSTLIGHT_BENCH_LOAD_H
#define FIRSTLIGHT_BENCH_LOAD_H

#include "bench/record.h"
#include "bench/series.h"
#include "bench/target.h"
#include "bench/workload.h"

#include <stdatomic.h>

struct load_options {
    uint32_t max_concurrency;                     /* 0: no bound */
    uint32_t n_background;                        /* streams that run meanwhile; restarted when one
                                                     ends before the run does */
    const struct workload_options *background_of; /* their prompts; needed when n_background > 0 */
    const atomic_bool *stop; /* may be NULL; once true, nothing is sent any more and what runs is
                                cancelled: the result holds what there is */
    void (*progress)(void *arg, uint32_t ended, uint32_t failed, uint32_t n); /* may be NULL */
    void *arg;
};

struct load_generator {
    struct series lag_ms;  /* sent - due of each request */
    struct series turn_ms; /* between two polls: how late a stamp can be */
    double cpu_share;      /* of one processor, by the generator's thread; [0, 1] */
    bool bottleneck;       /* the figures say more of the generator than of the target */
    char why[160];         /* in words, "" if not */
};

struct load_result {
    struct record *records; /* (n) in the workload's order */
    uint32_t n;
    struct series background_gap_ms; /* gaps between the chunks of background streams that end while
                                        the run lasted */
    uint32_t background_failed;
    int64_t start_us, end_us; /* first due moment; last end */
    int64_t submit_wall_us;   /* start to the last request sent */
    struct load_generator generator;
    bool interrupted;
};

/* Fails only when nothing could be run (no memory, no background stream came up): requests that
 * fail are records. *out is to be freed by load_fini either way. */
enum status load_run(struct target *t, const struct workload *w, const struct load_options *o,
                     struct load_result *out, struct err *err);
void load_fini(struct load_result *r);

#endif
