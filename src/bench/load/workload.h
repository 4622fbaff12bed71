/* What is asked of a target: prompts and the moments they are due.
 *
 * A workload is a function of its options, the seed and salt among them, and the number of the run,
 * and of nothing else. Each run has prompts of its own (a warm-up or an earlier run must not fill a
 * prefix cache for the next), drawn alike, so that runs of two programs ask for the same. A salt
 * makes other words of the same lengths: so an earlier invocation does not fill that cache either.
 */
#ifndef FIRSTLIGHT_BENCH_LOAD_WORKLOAD_H
#define FIRSTLIGHT_BENCH_LOAD_WORKLOAD_H

#include "base/err.h"
#include "text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* What a result calls its `workload`: files are compared only when all of this is the same. */
struct workload_options {
    const char *prompt;            /* when prompt_tokens is 0; never NULL */
    bool unique_prompts;           /* the prompt plus a suffix distinct in all runs */
    uint32_t prompt_tokens;        /* words that make so many tokens instead; always unique */
    uint32_t shared_prefix_tokens; /* and before them as many that all requests of a run share */
    uint32_t num_requests;
    uint32_t max_new_tokens;
    double submit_interval_ms; /* between due times; only when request_rate is 0 */
    double request_rate;       /* per second; 0: submit_interval_ms decides */
    double burstiness;         /* shape of the gamma distribution of gaps: 1 is Poisson, below 1 is
                                  burstier (`vllm bench serve`) */
    uint32_t max_concurrency;  /* in flight at once; 0: no bound */
    uint32_t background;       /* long decodes that run meanwhile */
    bool ignore_eos;
    bool chat;     /* one user message in the chat template, instead of a plain completion */
    bool stream;   /* false: the whole answer at once */
    uint64_t seed; /* of arrivals and words */
    uint64_t salt; /* of words only; 0: none */
};
extern const struct workload_options
    workload_default; /* "Hello", 256 requests, 64 tokens, stream */

struct work_item {
    int64_t due_us; /* after the run's start */
    char *prompt;   /* UTF-8, owned by the workload */
    uint32_t max_tokens;
    bool ignore_eos;
    bool chat;
    bool stream;
};

struct workload {
    struct work_item *items; /* (n) by due time */
    uint32_t n;
};

/* STATUS_INVALID names the flag ("--num-requests"). `tokenizer` makes token counts exact; with NULL
 * (a server whose tokenizer is not known) a token is taken for a short common word, and what the
 * server counts is what the result says. */
enum status workload_make(struct workload *out, const struct workload_options *o,
                          const struct tokenizer *tokenizer, uint32_t run, struct err *err);
void workload_fini(struct workload *w);

/* The prompt of a background stream: distinct per (seed, index), the rest as `o` says. Freed by
 * mem_free; NULL when memory is short. */
char *workload_background_prompt(const struct workload_options *o, uint32_t index);

/* Text of exactly n_tokens tokens (as near as `tokenizer`, NULL for one per word, allows: *exact
 * says whether). The first bytes differ between streams of `r`. Freed by mem_free; NULL: no memory.
 */
struct random;
char *workload_text(struct random *r, uint32_t n_tokens, const struct tokenizer *tokenizer,
                    bool *exact);

json_t *workload_json(const struct workload_options *o); /* new; NULL: no memory */

#endif
