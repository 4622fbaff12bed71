/* The engine without HTTP, used in two ways.
 *
 * Online: requests arrive one by one and stream; measure_run measures, what a person waits for is
 * TTFT, TPOT and latency.
 *
 * Offline: all requests are there at once and only the end counts, so there is no TTFT to speak of;
 * what counts is how long the prompts take and how long the tokens. Chunks of prompts and decodes
 * share steps, so the stamps of one run cannot tell the two apart. Each run is therefore two passes
 * over different prompts of the same lengths:
 *
 *     prefill pass   one token a request                P seconds
 *     whole pass     max_new_tokens a request           W seconds
 *
 *     prefill   P        prompt tokens / P
 *     decode    W - P    (completion tokens - requests) / (W - P)
 *
 * That is: decode is what the tokens after the first add to a run. Both passes are wall time from
 * the first request sent to the last answer's end, as someone who waits for a batch sees it.
 */
#ifndef FIRSTLIGHT_BENCH_KINDS_SCHEDULER_BENCH_H
#define FIRSTLIGHT_BENCH_KINDS_SCHEDULER_BENCH_H

#include "base/buf.h"
#include "base/err.h"
#include "bench/load/measure.h"
#include "bench/load/target.h"
#include "bench/load/workload.h"
#include "bench/result/result.h"

#include <jansson.h>
#include <stdbool.h>

enum scheduler_bench { SCHEDULER_BENCH_ONLINE, SCHEDULER_BENCH_OFFLINE };

/* What was asked, the mode included. */
json_t *scheduler_bench_workload_json(enum scheduler_bench mode, const struct workload_options *w);

/* Prompts need a length (prompt_tokens) so that every pass has its own; max_new_tokens >= 2. In
 * out->runs a prefill pass and its whole pass follow each other; an interrupted run may lack the
 * second. *out is to be freed by measure_fini either way. */
enum status scheduler_bench_measure_offline(struct target *t, const struct workload_options *w,
                                            const struct measure_options *m,
                                            struct measurement *out, struct err *err);

struct scheduler_bench_split {
    double prefill_s, whole_s;
    double decode_s; /* NAN: on a busy machine a pass took longer than the whole it is a part of */
    uint64_t prompt_tokens;  /* of the prefill pass */
    uint64_t decoded_tokens; /* of the whole pass, without the first of each request */
    double prefill_tokens_per_s, decode_tokens_per_s; /* NAN: no time passed */
    double tokens_per_s;                              /* completion tokens / whole_s */
};
/* Of one run's two passes. False: not every request was answered, so the two do not compare. */
bool scheduler_bench_split(struct scheduler_bench_split *out, const struct load_result *prefill,
                           const struct load_result *whole);

/* Metrics (one value a run) and runs. Online that is measure_result. */
void scheduler_bench_result(enum scheduler_bench mode, struct measurement *m, struct result *out);
void scheduler_bench_table(struct buf *out, enum scheduler_bench mode, struct measurement *m,
                           const struct workload_options *w, const struct target *t);

#endif
