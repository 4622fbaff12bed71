/* Warm-up runs, then repeats of one workload on one target. */
#ifndef FIRSTLIGHT_BENCH_MEASURE_H
#define FIRSTLIGHT_BENCH_MEASURE_H

#include "bench/load.h"
#include "bench/result.h"
#include "bench/summary.h"

struct measure_options {
    uint32_t warmup_runs; /* their results are thrown away; their prompts are their own */
    uint32_t repeat_runs; /* >= 1 */
    uint32_t first_run;   /* workload_make's `run` of the first one: measurements of one server that
                             must not find each other's prompts in its cache count on */
    const struct tokenizer *tokenizer; /* for exact prompt lengths; may be NULL */
    const struct goodput *goodput;     /* may be NULL */
    const atomic_bool *stop;           /* may be NULL; see load_options */
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

/* An interrupted run is the last one; after a failure *out holds the repeats before it. It is to be
 * freed by measure_fini either way. */
enum status measure_run(struct target *t, const struct workload_options *w,
                        const struct measure_options *o, struct measurement *out, struct err *err);
void measure_fini(struct measurement *m);
/* The same for items that `make` makes anew for each run, warm-ups first; measure frees them. */
typedef enum status measure_make(void *arg, uint32_t run, struct workload *out, struct err *err);
enum status measure_made(struct target *t, measure_make *make, void *make_arg,
                         uint32_t max_concurrency, const struct measure_options *o,
                         struct measurement *out, struct err *err);

/* Metrics (one value a repeat), runs with every request, and vLLM's names over all repeats. */
void measure_result(struct measurement *m, const struct goodput *goodput, struct result *out);
/* One of them, as measure_result adds it; new, NULL when memory is short. */
json_t *measure_run_json(struct load_result *run, const struct goodput *goodput);
/* Any request or background stream that failed makes the program's exit status 1. */
bool measure_failed(const struct measurement *m,
                    struct err *err); /* err: how many, the first why */

#endif
