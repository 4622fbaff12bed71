/* What the next step computes, and who is admitted to it.
 *
 * Pure functions of what they are shown: no I/O, no clock, nothing allocated, nothing changed but
 * *plan.
 *
 *     rows of a step:  | one for each decode | chunks of prompts, in the order of the policy  |
 *                        first, always         as much as the promised decode gap leaves time for
 *
 * A step is budgeted in milliseconds: what the cost model says the decodes take is taken off the
 * gap they were promised, and the rest is filled with prompt tokens. When the decodes alone take
 * longer (the gap counts as missed), prefill still gets half of their time, and whenever there is a
 * prompt at least SCHEDULER_MIN_CHUNK tokens. Without decodes a step takes as much of one prompt as
 * it may; further prompts join only while it does not saturate the machine, since from there on
 * each only delays the first token of the one before it.
 *
 * A step without decodes may be parked between two layers (scheduler_parks) for a short step: for
 * decodes that are due, or for a prompt of smaller rank that is shorter than what is left.
 */
#ifndef FIRSTLIGHT_ENGINE_SCHEDULER_H
#define FIRSTLIGHT_ENGINE_SCHEDULER_H

#include "engine/cost.h"
#include "engine/policy.h"
#include "engine/request.h"

#include <stdbool.h>
#include <stdint.h>

#define SCHEDULER_MIN_CHUNK 16

/* Under a policy that passes prompts over for others that fit better: who has waited for so long
 * goes first. */
#define SCHEDULER_PATIENCE_US 1000000

struct scheduler_limits {
    uint32_t max_seqs;           /* sequences in a step */
    uint32_t max_prefill_seqs;   /* of them, prompts */
    uint32_t max_tokens;         /* rows in a step; >= max_seqs */
    uint32_t max_prefill_tokens; /* of them, of prompts */
    uint32_t max_active;         /* admitted at once */
    int64_t decode_gap_us;       /* promised between two tokens of a stream; 0: nothing promised */
    int64_t park_slice_us; /* of a step without decodes that may stand aside: its layers, the points
                        where it can, are to be close; 0: no bound. Only where a gap is promised. */
    double efficiency; /* a step whose tokens take this share of its time is saturated; (0, 1) */
};

struct scheduler_view {
    const struct scheduler_limits *limits;
    const struct policy *policy;
    const struct cost *cost;
    const struct request_list *waiting, *prefill, *decode;
    uint32_t blocks; /* that can be had: free or idle */
    int64_t now_us;
    /* While a step is parked: its requests (in_step) are left alone, and the short step may take
     * this long. 0: no step is parked. */
    int64_t short_us;
};

struct plan_item {
    struct request *request;
    uint32_t n_tokens;
    bool admit; /* it was waiting */
};

struct plan_candidate {
    double rank;
    struct request *request;
};

enum plan_kept_out { PLAN_NOBODY, PLAN_NO_BLOCKS, PLAN_NO_PLACE };

/* Why prompts are not computed sooner. */
enum plan_limit {
    PLAN_UNLIMITED, /* the step takes all there is of them */
    PLAN_BY_TOKENS, /* it takes as many tokens of them as it may, and there are more */
    PLAN_BY_PLACES, /* there are more prompts than seats in the step, places or KV blocks */
};

struct plan {
    struct plan_item *items; /* room for max_seqs; decodes come first */
    uint32_t n_items;
    uint32_t n_decodes;
    uint32_t n_tokens;
    struct cost_step cost;
    int64_t planned_us;
    bool gap_missed;             /* the decodes alone take longer than promised */
    enum plan_kept_out kept_out; /* why the next in order was not admitted */
    enum plan_limit limit;
    struct plan_candidate *candidates; /* scratch, room for all slots */
    uint32_t n_candidates;
};

void scheduler_plan(const struct scheduler_view *v, struct plan *plan);

/* Should the prefill step under way, with left_us still to go by the cost model, stand aside now?
 * Then *short_us is what to plan the short step with. `layer_us`: until it can be asked again. */
bool scheduler_parks(const struct scheduler_view *v, const struct plan *running, int64_t left_us,
                     int64_t layer_us, int64_t *short_us);

/* Blocks that a chunk of n tokens needs besides those that the request has. */
uint32_t scheduler_blocks(const struct request *r, uint32_t n_tokens);

#endif
