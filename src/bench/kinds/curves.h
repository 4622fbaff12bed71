/* How a target's figures change with one thing at a time: prompt length, requests at once, context
 * length, request rate; and what a million tokens cost.
 *
 *     prompt   one request at a time, a few tokens each: TTFT against n, with a + b n + c n^2
 *     batch    n requests at the same moment: TTFT and output throughput against n
 *     context  one request at a time: decode throughput (1 / TPOT) after a prompt of n tokens
 *     rate     Poisson arrivals of n requests a second: TTFT and achieved rate up to saturation
 *
 * A rate holds when in the median of the repeats
 *
 *     TTFT p50 is at most `knee_factor` times that of one request at a time, and
 *     the run took at most 1 / CURVES_KEPT_UP of what an unloaded target would need
 *
 * which is until its last arrival and one unloaded latency more: achieved and offered rate are
 * compared over the same stretch, and the wait for the last answer is not held against the target.
 * Rates double from half of what one request at a time makes until a rate is far from holding; the
 * knee is the highest that holds below the first that does not, narrowed by bisection.
 */
#ifndef FIRSTLIGHT_BENCH_KINDS_CURVES_H
#define FIRSTLIGHT_BENCH_KINDS_CURVES_H

#include "base/buf.h"
#include "bench/load/measure.h"
#include "bench/result/fit.h"

enum curves_kind { CURVES_PROMPT, CURVES_BATCH, CURVES_CONTEXT, CURVES_RATE, CURVES_KINDS };
extern const char *const curves_names[CURVES_KINDS + 1]; /* "prompt", ..., NULL */

#define CURVES_KEPT_UP       0.95 /* part of the offered rate at which it still holds */
#define CURVES_PROMPT_NEW    4    /* tokens after a prompt of its curve: one may be no text */
#define CURVES_FIRST_PROMPT  32
#define CURVES_FIRST_CONTEXT 128
#define CURVES_MAX_POINTS    32 /* of a curve: every doubling of a uint32_t fits */

struct curves_options {
    bool which[CURVES_KINDS];
    uint64_t seed, salt; /* as in workload_options */
    uint32_t n_ctx;      /* positions of a request; 0: not known, nothing is skipped */
    uint32_t max_prompt_tokens, max_context, max_batch; /* last points */
    uint32_t prompt_tokens;  /* of a request in the batch and rate curves */
    uint32_t max_new_tokens; /* of every request but the prompt curve's */
    uint32_t samples;        /* requests of a point of the prompt and context curves */
    uint32_t num_requests;   /* of a point of the rate curve */
    double start_rate;       /* per second; 0: what one request at a time makes */
    double max_rate;         /* no doubling past it */
    double knee_factor;
    double cost_per_hour; /* of the machine, in any currency; 0: no costs */
};
extern const struct curves_options curves_default;
enum status curves_check(const struct curves_options *o, struct err *err); /* names the flag */
/* The most requests that are in flight at once. */
uint32_t curves_at_once(const struct curves_options *o);

/* One point; series have one value a repeat, and are empty when it failed. */
struct curves_point {
    double x; /* tokens, requests, tokens, requests per second */
    bool failed;
    char why[512];                              /* if it failed */
    bool bottleneck;                            /* the load generator was, in one of the repeats */
    bool holds;                                 /* rate */
    struct series ttft_ms, tpot_ms, latency_ms; /* medians of the requests */
    struct series tokens_per_s, requests_per_s; /* of the run; tokens of the output */
    struct series kept_up; /* rate: what an unloaded target would need / what it took, at most 1 */
};

struct curve {
    bool asked;
    struct curves_point *points; /* (n), by x */
    uint32_t n;
    uint32_t skipped_from; /* tokens that did not fit the context; 0: all did */
};

struct curves {
    struct curve of[CURVES_KINDS];
    struct curves_point unloaded; /* rate: one request at a time */
    bool has_fit;
    struct fit fit;    /* TTFT in ms of prompt tokens; sigma is the TTFT */
    double knee;       /* requests per second; NAN: no rate held */
    bool knee_reached; /* false: the last rate held too */
    bool interrupted;  /* what there is came before */
};

/* Runs a workload with prompts that no call before had: warm-ups if asked, repeats. `what` names
 * the point to a person: "batch 8". Tests script it. */
struct curves_source {
    enum status (*measure)(void *arg, const char *what, const struct workload_options *w,
                           bool warm_up, struct measurement *out, struct err *err);
    void *arg;
};

/* A point that fails is a point with its reason; only no memory is an error. *out is to be freed by
 * curves_fini either way. */
enum status curves_run(const struct curves_options *o, const struct curves_source *source,
                       struct curves *out, struct err *err);
void curves_fini(struct curves *c);
bool curves_failed(const struct curves *c, struct err *err); /* err: how many, the first why */

json_t *curves_workload_json(const struct curves_options *o); /* new; NULL: no memory */
/* Metrics, charts, `points`, `fit`, `knee`, `cost`. */
void curves_result(struct curves *c, const struct curves_options *o, struct result *out);
/* One table a curve. False: no memory. */
bool curves_table(struct buf *out, struct curves *c, const struct curves_options *o);

/* Cost of a million tokens at the best measured rate, nothing where there is none: input at the
 * prompt curve's best prompt tokens / TTFT, output at the batch curve's best throughput, prompts
 * included. One value a repeat, in *out, which the caller frees. */
enum curves_cost { CURVES_COST_INPUT, CURVES_COST_OUTPUT };
void curves_cost(struct curves *c, const struct curves_options *o, enum curves_cost which,
                 struct series *out);

#endif
