/* Tokens per second of a model alone, without scheduler or sampling: a prompt fed at once, several
 * prompts in one step, and sequences that decode a token each a step (as llama-bench measures pp
 * and tg, and llama-batched-bench both of several sequences). */
#ifndef FIRSTLIGHT_BENCH_KINDS_MODEL_SPEED_H
#define FIRSTLIGHT_BENCH_KINDS_MODEL_SPEED_H

#include "backend/backend.h"
#include "base/err.h"
#include "bench/result/result.h"
#include "bench/result/series.h"

struct model_speed_options {
    uint32_t n_prompt;   /* tokens of a prompt */
    uint32_t n_prompts;  /* >= 1: with more, so many in one step beside one as long as all */
    uint32_t n_generate; /* tokens decoded of each sequence */
    uint32_t batch;      /* >= 1: sequences that decode together */
    uint32_t depth;      /* tokens of each sequence in the cache before any of it */
    uint32_t warmup_runs, repeat_runs;
    uint64_t seed;                  /* of the token ids */
    struct backend_options backend; /* threads, levels, types; sizes are set here */
    void (*progress)(uint32_t run, uint32_t n_runs); /* may be NULL; run counts from 0 */
};

/* Tokens/s of each repeat, in order, of all sequences together. */
struct model_speed {
    struct series prefill;         /* of one prompt of n_prompts * n_prompt tokens */
    struct series prompts;         /* of n_prompts of them in one step; empty when that is one */
    struct series prompts_percent; /* the latter of the former */
    struct series decode;
};

/* A run is a prefill, the prompts and a decode, each after `depth` tokens. *out is to be freed by
 * model_speed_fini either way. */
enum status model_speed_run(struct model_speed *out, const struct model *model,
                            const struct model_speed_options *o, struct err *err);
void model_speed_fini(struct model_speed *m);

json_t *model_speed_workload(const struct model_speed_options *o); /* new; NULL: no memory */
/* The metrics prefill_tokens_per_s and decode_tokens_per_s; with several prompts
 * prompts_tokens_per_s and prompts_of_prefill. */
void model_speed_result(const struct model_speed *m, struct result *out);

#endif
