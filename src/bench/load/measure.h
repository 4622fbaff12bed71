/* Warm-up runs, then repeats of one workload on one target.
 *
 * Repeats of one start of an engine are not independent: memory and threads lie where they came to
 * lie. With a restart each repeat has a start, and warm-ups, of its own.
 *
 *     without   warm-up  repeat  repeat  repeat
 *     with      warm-up  repeat  restart  warm-up  repeat  restart  warm-up  repeat
 */
#ifndef FIRSTLIGHT_BENCH_LOAD_MEASURE_H
#define FIRSTLIGHT_BENCH_LOAD_MEASURE_H

#include "bench/load/load.h"
#include "bench/load/summary.h"
#include "bench/result/result.h"

struct measure_options {
    uint32_t warmup_runs; /* of each start; their results are thrown away; their prompts are
                             their own */
    uint32_t repeat_runs; /* >= 1 */
    uint32_t first_run;   /* workload_make's `run` of the first one: measurements of one server that
                             must not find each other's prompts in its cache count on */
    const struct tokenizer *tokenizer; /* for exact prompt lengths; may be NULL */
    const struct goodput *goodput;     /* may be NULL */
    const atomic_bool *stop;           /* may be NULL; see load_options */
    /* Before each repeat but the first; afterwards *t is a target started anew. May be NULL. */
    enum status (*restart)(void *arg, struct target **t, struct err *err);
    void *restart_arg;
    /* May be NULL. `run` counts from 0; warm-ups come first. */
    void (*progress)(void *arg, uint32_t run, uint32_t n_runs, uint32_t ended, uint32_t failed,
                     uint32_t n);
    void *arg;
};

struct measurement {
    struct load_result *runs; /* (n_runs) repeats that were started */
    uint32_t n_runs;
    struct summary pooled; /* of all of them */
};

/* An interrupted run is the last one; an interrupted warm-up is an error only before the first
 * repeat. After a failure *out holds the repeats before it. It is to be
 * freed by measure_fini either way. */
enum status measure_run(struct target *t, const struct workload_options *w,
                        const struct measure_options *o, struct measurement *out, struct err *err);
void measure_fini(struct measurement *m);
/* The same for items that `make` makes anew for each run, warm-ups first; measure frees them. */
typedef enum status measure_make(void *arg, uint32_t run, struct workload *out, struct err *err);
enum status measure_made(struct target *t, measure_make *make, void *make_arg,
                         uint32_t max_concurrency, const struct measure_options *o,
                         struct measurement *out, struct err *err);

/* One run of a measurement whose runs the caller orders, among those of other targets: `run` is
 * added to first_run. It is appended to *out; NULL: a warm-up, of which an interruption is
 * STATUS_CANCELLED. Nothing is restarted. */
enum status measure_one(struct target *t, const struct workload_options *w,
                        const struct measure_options *o, uint32_t run, struct measurement *out,
                        struct err *err);
/* Then m->pooled, of all runs there are. False: no memory. */
bool measure_pool(struct measurement *m, const struct goodput *goodput);

/* Metrics (one value a repeat), runs with every request, and vLLM's names over all repeats. */
void measure_result(struct measurement *m, const struct goodput *goodput, struct result *out);
/* One of them, as measure_result adds it; new, NULL when memory is short. */
json_t *measure_run_json(struct load_result *run, const struct goodput *goodput);
/* Any request or background stream that failed makes the program's exit status 1. */
bool measure_failed(const struct measurement *m,
                    struct err *err); /* err: how many, the first why */

#endif
