/* Flags of a workload of requests, for the benchmarks that make one: `bench streaming`, `bench ab`.
 */
#ifndef FIRSTLIGHT_CLI_BENCH_WORKLOAD_H
#define FIRSTLIGHT_CLI_BENCH_WORKLOAD_H

#include "bench/load/workload.h"
#include "cli/bench_common.h"

struct bench_workload {
    struct workload_options options;
    int endpoint; /* 1: chat */
};

/* The help shows what is in *w as the defaults. */
struct flag_group bench_workload_flags(struct bench_workload *w);
/* After the flags were read: what follows from them. */
void bench_workload_settle(struct bench_workload *w, const struct bench_common *c, uint64_t salt);
/* Requests that are in flight at once, background streams included. */
uint32_t bench_workload_at_once(const struct workload_options *w);

#endif
