/* Flags that only mirror those of the reference's tool, so that its command lines work here too.
 * Its table, bench_aliases.c, is the one place that knows them: a row is all that another one
 * needs, and docs/benchmarks.md shows the same table. */
#ifndef FIRSTLIGHT_CLI_BENCH_ALIASES_H
#define FIRSTLIGHT_CLI_BENCH_ALIASES_H

#include "cli/bench_common.h"

struct bench_alias {
    const char *command;   /* "bench streaming" */
    const char *reference; /* what the reference's tool means by it */
    struct flag flag;      /* its help says what it does here */
    /* Why it is an error when given (a FLAG_CHOICE: with another value than the first); NULL where
     * it is none. */
    const char *refusal;
};
const struct bench_alias *bench_aliases_at(size_t i); /* NULL past the end */

/* What was given of bench streaming's. All 0: nothing. */
struct bench_aliases {
    const char *hf_model_id;
    int device;
    bool paged_attn, cuda_graph, nvtx;
};

struct flag_group bench_aliases_streaming(struct bench_aliases *a);
struct flag_group bench_aliases_token_speed(struct bench_common *c);

/* STATUS_UNSUPPORTED names a flag that asks for what is not here. */
enum status bench_aliases_check(const struct bench_aliases *a, struct err *err);
/* Sets *model where --hf-model-id names one. *path, when it is not NULL, is the caller's to free.
 */
enum status bench_aliases_model(const struct bench_aliases *a, const char **model, char **path,
                                struct err *err);

#endif
