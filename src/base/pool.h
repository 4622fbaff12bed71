/* The workers: threads that run one function together, slice by slice, between barriers.
 *
 * The thread that calls pool_run is worker 0 and takes part. Workers spin briefly after a run
 * (about 20 us, not at all when there are more threads than processors), then sleep on a futex: an
 * idle pool uses no CPU. Inside a run, pool_barrier waits for all workers of the pool.
 *
 * Where there is a processor for each, workers keep to different ones (cpu_topology.h): their
 * affinity masks are parts of the creating thread's, worker 0's until pool_leave.
 */
#ifndef FIRSTLIGHT_BASE_POOL_H
#define FIRSTLIGHT_BASE_POOL_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct pool;

/* `worker` counts 0 .. n-1. */
typedef void pool_fn(void *arg, int worker);

/* Starts n_threads - 1 workers (n_threads >= 1). */
enum status pool_create(struct pool **out, int n_threads, struct err *err);
void pool_destroy(struct pool *p);
int pool_threads(const struct pool *p);

/* Runs fn(arg, worker) on every worker and returns when all have returned. One run at a time, from
 * one thread. What the caller wrote before is visible to the workers, and theirs to it after. */
void pool_run(struct pool *p, pool_fn *fn, void *arg);

/* The calling thread, which has called pool_run, may use all processors again, until it calls it
 * the next time. pool_destroy does it too. */
void pool_leave(const struct pool *p);

/* Inside a run: returns when all workers have called it, with each one's writes visible to all. */
void pool_barrier(struct pool *p);

/* Of the workers' time since the pool was made, in ticks of the processor's counter: how much there
 * was, and how much of it they computed in, waits at barriers left out. Any thread. */
struct pool_usage {
    uint64_t capacity;
    uint64_t busy;
};
void pool_usage(const struct pool *p, struct pool_usage *out);

/* The slice [*begin, *end) of n items, in units of `grain`, that belongs to one of n_workers. */
void pool_slice(size_t n, size_t grain, int worker, int n_workers, size_t *begin, size_t *end);

#endif
