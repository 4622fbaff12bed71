/* What the server has measured: histograms of all requests, counts of what became of them.
 *
 *     completion*.c ─► metrics_first, metrics_tokens, metrics_end, metrics_refuse
 *     measurements.c: what is shown of them, and where
 *
 * Written and read on the I/O thread alone, from timelines that are taken anyway: neither a request
 * nor a scrape costs the engine thread anything.
 */
#ifndef FIRSTLIGHT_OBSERVE_METRICS_H
#define FIRSTLIGHT_OBSERVE_METRICS_H

#include "base/histogram.h"
#include "base/timeline.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

/* Histograms; the first METRICS_PARTS are the parts of TTFT in their order, but for `decode`: TTFT
 * ends before it here. */
enum metrics_id {
    METRICS_RECEIVE,
    METRICS_TOKENIZE,
    METRICS_SUBMIT,
    METRICS_QUEUE,
    METRICS_CACHE,
    METRICS_PREFILL,
    METRICS_FIRST_WRITE,
    METRICS_PARTS,
    METRICS_TTFT = METRICS_PARTS, /* received -> first content; unstreamed: -> first token */
    METRICS_ADMITTED,             /* admitted -> first token: vLLM's prefill time */
    METRICS_ITL,                  /* between tokens, as the I/O thread saw them */
    METRICS_TPOT,                 /* of a request: first token -> finished, per token after it */
    METRICS_DECODE,               /* first token -> finished */
    METRICS_E2E,                  /* received -> finished */
    METRICS_HISTOGRAMS,
};

/* A moving average of a growing total: how much a second, with METRICS_TAU_US to forget. Brought
 * up to date whenever somebody looks or a request ends, so it needs no timer. */
#define METRICS_TAU_US INT64_C(10000000)
struct metrics_rate {
    double per_second;
    double total;
    int64_t at_us; /* 0: never looked */
};
void metrics_rate_update(struct metrics_rate *r, double total, int64_t now_us);

struct metrics_refusal {
    int http_status;
    const char *reason; /* static */
    uint64_t n;
};
#define METRICS_REFUSALS 32 /* kinds that are told apart; others count as "other" */

struct metrics {
    struct histogram histograms[METRICS_HISTOGRAMS];
    uint64_t finished[FINISH_ERROR + 1];
    uint64_t prompt_tokens; /* of requests with a first token */
    uint64_t cached_tokens; /* of these, from the prefix cache; counted when a request ends */
    struct metrics_refusal refusals[METRICS_REFUSALS];
    uint32_t n_refusals;
    struct metrics_rate prompt_rate, generated_rate, request_rate, engine_busy;
    struct metrics_rate workers_busy, workers_capacity; /* ticks; their ratio is what counts */
};

void metrics_init(struct metrics *m);

/* The parts of TTFT and, behind them, all of it. The text of an unstreamed answer waits for the
 * end, which says nothing of its first token: then it is up to that. */
void metrics_parts(const struct timeline *t, bool streamed, int64_t us[METRICS_TTFT + 1]);

/* The request has its first token (first content if it is streamed). */
void metrics_first(struct metrics *m, const struct timeline *t, bool streamed,
                   uint32_t prompt_tokens);

/* How far one answer has been seen. Starts zeroed. */
struct metrics_track {
    uint32_t n_tokens;
    int64_t at_us;
};
/* The answer has n_tokens now. Tokens that came together share their gap. */
void metrics_tokens(struct metrics *m, struct metrics_track *track, const struct timeline *t,
                    uint32_t n_tokens, int64_t now_us);

/* It ended. Latencies count only when it was finished. */
void metrics_end(struct metrics *m, const struct timeline *t, enum finish_reason finish,
                 uint32_t n_tokens);

/* It was not taken. reason: static text. */
void metrics_refuse(struct metrics *m, int http_status, const char *reason);

/* Brings the moving averages up to date. */
void metrics_tick(struct metrics *m, const struct engine *e, int64_t now_us);

void metrics_read(const struct metrics *m, enum metrics_id id, struct histogram_view *out);
/* "receive", "tokenize", ... as in the `ttft` object, "ttft", "itl", ... */
const char *metrics_name(enum metrics_id id);
/* "stop", "length", "abort" (as vLLM calls it), ... */
const char *metrics_finish_name(enum finish_reason finish);

#endif
