/* What the next step computes, and who is admitted to it.
 *
 * scheduler_plan is a pure function of what it is shown: no I/O, no clock, nothing allocated,
 * nothing changed but *plan. First come, first served:
 *
 *     rows of a step:  | one for each decode | chunks of started prompts | of newly admitted ones |
 *                        always all of them    in the order of their arrival, max_tokens in total
 *
 * Chunks may be bounded besides, in number and in rows: then decodes see shorter steps, and prompts
 * wait longer.
 *
 * A request is admitted when a place among the running is free, KV blocks for its prompt and all
 * the tokens it may generate are free, and its first chunk has a place and rows in the step. When
 * the oldest waiting one does not fit, those behind it wait too.
 */
#ifndef FIRSTLIGHT_ENGINE_SCHEDULER_H
#define FIRSTLIGHT_ENGINE_SCHEDULER_H

#include "engine/request.h"

#include <stdbool.h>
#include <stdint.h>

struct scheduler_view {
    const struct request_list *waiting, *prefill, *decode;
    uint32_t free_blocks;
    uint32_t max_seqs;          /* running at once */
    uint32_t max_tokens;        /* rows in a step; >= max_seqs, so that every decode has its turn */
    uint32_t max_prompts;       /* chunks in a step; 0: no bound */
    uint32_t max_prompt_tokens; /* their rows; 0: no bound */
};

struct plan_item {
    struct request *request;
    uint32_t n_tokens;
    bool admit; /* it was waiting */
};

struct plan {
    struct plan_item *items; /* room for max_seqs */
    uint32_t n_items;
    uint32_t n_tokens;
};

void scheduler_plan(const struct scheduler_view *v, struct plan *plan);

/* KV blocks a request needs to run to its end whatever happens. */
uint32_t scheduler_blocks(const struct request *r);

#endif
