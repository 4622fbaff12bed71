/* How long a context and how many KV blocks: decided once at start from what memory there is. */
#ifndef FIRSTLIGHT_ENGINE_MEMORY_PLAN_H
#define FIRSTLIGHT_ENGINE_MEMORY_PLAN_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct memory_plan_wish {
    uint32_t n_ctx;       /* asked for; 0: the model's, or what memory allows */
    uint32_t n_ctx_train; /* the model's */
    uint32_t n_seqs;      /* sequences that run at once */
    size_t kv_memory;     /* bytes asked for; 0: chosen here */
    size_t block_bytes;
    size_t available; /* bytes of memory that may be used */
};

struct memory_plan {
    uint32_t n_ctx;
    uint32_t n_blocks;
};

/* Without kv_memory the pool holds MEMORY_PLAN_SEQ_POSITIONS for each sequence, at least one full
 * context, at most a quarter of what is available (more only for a context that was asked for). A
 * context that was not asked for shrinks to the pool; one that was is an error naming what it
 * needs. */
#define MEMORY_PLAN_SEQ_POSITIONS 1024
#define MEMORY_PLAN_MIN_CTX       64 /* a shorter one serves nobody: an error */
enum status memory_plan_choose(struct memory_plan *out, const struct memory_plan_wish *w,
                               struct err *err);

#endif
