/* The table of `bench streaming`: what was asked, where a request's time went, how punctual the
 * generator was. */
#ifndef FIRSTLIGHT_BENCH_KINDS_STREAMING_TABLE_H
#define FIRSTLIGHT_BENCH_KINDS_STREAMING_TABLE_H

#include "base/buf.h"
#include "bench/load/measure.h"

struct streaming_setup {
    const char *model;
    const char *engine; /* with its device, or the server's URL */
    bool in_process;    /* false: paged attention and batch settings cannot be known */
    bool sync;          /* one request at a time: there is no batch */
    uint32_t max_batch, prefill_batch, prefill_tokens; /* of a step; 0: no bound */
    uint32_t repeat_runs;                              /* asked for */
};

/* Appends the table; a figure that cannot be known is "n/a". False: no memory. */
bool streaming_table(struct buf *out, struct measurement *m, const struct streaming_setup *setup,
                     const struct goodput *goodput /* may be NULL */);

#endif
