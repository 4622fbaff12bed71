/* How fast an engine or a server makes tokens of a few fixed prompts.
 *
 *     one stream       a run: zh_long_text ─► code ─► maths, one after the other
 *     concurrency 100  a run: 100 requests at once, request i asks prompt i % 3
 *
 * Two rates, because they answer two questions:
 *
 *     tokens/s  completion tokens / (end - sent): what a reader gets, the wait for the first token
 *               included; over all prompts, completion tokens / how long the runs took
 *     decode/s  (completion tokens - 1) / (end - first): the pace once the text runs; of one
 *               stream, also where many run
 */
#ifndef FIRSTLIGHT_BENCH_KINDS_TOKEN_SPEED_H
#define FIRSTLIGHT_BENCH_KINDS_TOKEN_SPEED_H

#include "base/buf.h"
#include "base/err.h"
#include "bench/load/measure.h"
#include "bench/load/prompt_set.h"
#include "bench/load/target.h"
#include "bench/load/workload.h"
#include "bench/result/result.h"

#include <jansson.h>

struct token_speed_options {
    uint32_t concurrency; /* 1: one stream. More: so many requests at once, or one of each prompt */
    uint32_t max_new_tokens;
    bool ignore_eos;
    bool chat;           /* one user message; false: the prompt is continued as it stands */
    bool unique_prompts; /* a line distinct in all requests before each prompt */
    uint64_t seed, salt; /* of those lines; salt 0: none */
};
/* One stream, chat, 128 new tokens (as `llama-bench` generates) past any end of text. */
extern const struct token_speed_options token_speed_default;

/* Item i asks prompt i % n. A distinct line stands before the prompt, not after it: a prefix cache
 * would still know all of a prompt that only ends differently. */
enum status token_speed_workload(struct workload *out, const struct prompt_set *p,
                                 const struct token_speed_options *o, uint32_t run,
                                 struct err *err);
json_t *token_speed_workload_json(const struct prompt_set *p, const struct token_speed_options *o);

/* As measure_run. */
enum status token_speed_measure(struct target *t, const struct prompt_set *p,
                                const struct token_speed_options *o,
                                const struct measure_options *m, struct measurement *out,
                                struct err *err);

/* Of the requests that were answered. */
struct token_speed_figures {
    uint32_t n;
    uint64_t prompt_tokens, completion_tokens, cached_tokens;
    double tokens_per_s, decode_tokens_per_s; /* of one stream; NAN: no time passed */
    struct series ttft_ms;
};
#define TOKEN_SPEED_ALL UINT32_MAX
/* `which` of n_prompts, or TOKEN_SPEED_ALL. */
void token_speed_figures(struct token_speed_figures *out, const struct load_result *runs,
                         uint32_t n_runs, uint32_t which, uint32_t n_prompts);
void token_speed_figures_fini(struct token_speed_figures *f);

/* measure_result's and, a prompt: tokens_per_s_ID, decode_tokens_per_s_ID, ttft_ID_p50, ...; and
 * `prompts`, the figures of each over all runs. */
void token_speed_result(struct measurement *m, const struct prompt_set *p, struct result *out);
void token_speed_table(struct buf *out, struct measurement *m, const struct prompt_set *p,
                       const struct token_speed_options *o, const struct target *t);

#endif
