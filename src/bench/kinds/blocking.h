/* Blocking against streaming: the same requests in three ways, one table.
 *
 *     warm-ups of each mode  ─►  repeat: streaming, blocking, sync  ─►  repeat: sync, ...  ─►  ...
 *
 * What the machine does meanwhile is not to fall on one mode, so each repeat asks all of them, in
 * an order of its own.
 *
 * The figure is the time until a person sees the first token: of an answer that comes whole that is
 * the answer, of a stream its first chunk with content.
 */
#ifndef FIRSTLIGHT_BENCH_KINDS_BLOCKING_H
#define FIRSTLIGHT_BENCH_KINDS_BLOCKING_H

#include "base/buf.h"
#include "bench/load/measure.h"
#include "bench/result/random.h"

enum blocking_mode {
    BLOCKING_WHOLE,  /* `stream` off on the engine */
    BLOCKING_SYNC,   /* one request at a time through cpu-sync; not known of other servers */
    BLOCKING_STREAM, /* what is to be judged */
    BLOCKING_MODES,
};

struct blocking {
    struct measurement of[BLOCKING_MODES]; /* pooled; of no runs: the mode was not measured */
};

const char *blocking_mode_name(enum blocking_mode mode); /* "blocking", "sync", "streaming" */
void blocking_fini(struct blocking *b);
/* All modes, in the order of the next repeat. */
void blocking_order(struct random *r, enum blocking_mode order[BLOCKING_MODES]);

/* False: no memory. */
bool blocking_table(struct buf *out, struct blocking *b);

/* Metrics (streaming_ttft_p50, blocking_ttft_p50, sync_ttft_p50, ..., improvement_p50,
 * improvement_percent_p50, ...) of each repeat that the modes concerned have, and all runs with
 * their `mode`, mode by mode. */
void blocking_result(struct blocking *b, const struct goodput *goodput, struct result *out);

/* Any request that failed, in any mode. */
bool blocking_failed(const struct blocking *b, struct err *err);

#endif
