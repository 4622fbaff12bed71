/* Tokens per second of a model alone, without scheduler or sampling: a prompt fed at once, and
 * tokens decoded one at a time (as llama-bench measures pp and tg). */
#ifndef FIRSTLIGHT_BENCH_MODEL_SPEED_H
#define FIRSTLIGHT_BENCH_MODEL_SPEED_H

#include "backend/backend.h"
#include "base/err.h"
#include "bench/result.h"
#include "bench/series.h"

struct model_speed_options {
    uint32_t n_prompt;   /* tokens fed at once */
    uint32_t n_generate; /* tokens decoded */
    uint32_t depth;      /* tokens in the cache before either */
    uint32_t warmup_runs, repeat_runs;
    uint64_t seed;                  /* of the token ids */
    struct backend_options backend; /* threads, levels, types; sizes are set here */
    void (*progress)(uint32_t run, uint32_t n_runs); /* may be NULL; run counts from 0 */
};

struct model_speed {
    struct series prefill, decode; /* tokens/s of each repeat, in order */
};

/* A run is a prefill and a decode, both after `depth` tokens. *out is to be freed by
 * model_speed_fini either way. */
enum status model_speed_run(struct model_speed *out, const struct model *model,
                            const struct model_speed_options *o, struct err *err);
void model_speed_fini(struct model_speed *m);

json_t *model_speed_workload(const struct model_speed_options *o); /* new; NULL: no memory */
/* The metrics prefill_tokens_per_s and decode_tokens_per_s. */
void model_speed_result(const struct model_speed *m, struct result *out);

#endif
