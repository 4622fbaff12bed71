/* Who answers: an engine in this process or a server over HTTP or gRPC, behind one table.
 *
 * One thread, the load generator's. A record stays where it is from send until it has ended
 * (state past RECORD_RUNNING).
 */
#ifndef FIRSTLIGHT_BENCH_LOAD_TARGET_H
#define FIRSTLIGHT_BENCH_LOAD_TARGET_H

#include "bench/load/record.h"
#include "bench/load/workload.h"

struct target;

struct target_ops {
    /* Starts one request and returns at once; a failure is the record's. Stamps sent_us itself, as
     * late as it can. The item is borrowed until the record has ended. */
    void (*send)(struct target *t, const struct work_item *item, struct record *r);
    /* Takes what has come, or sleeps until something comes or `until_us` (on the clock) passes.
     * Says in woke_us when it began to take. */
    void (*poll)(struct target *t, int64_t until_us);
    /* The record ends with RECORD_CANCELLED in a poll to come, or with what came before. */
    void (*cancel)(struct target *t, struct record *r);
    void (*close)(struct target *t);
    /* Bytes that its connections have received so far, whatever they were: heads, frames, what TLS
     * adds, answers of requests that were cancelled. NULL: it has no connections. */
    uint64_t (*received)(const struct target *t);
};

struct target {
    const struct target_ops *ops;
    bool in_process;
    int64_t woke_us;  /* when the last poll stopped sleeping: what it then took was stamped later */
    char model[128];  /* the name for tables */
    char engine[128]; /* engine's name and device, or the URL */
};

#endif
