/* The engine in virtual time: the real scheduler, KV pool and prefix cache, run by hand on a
 * backend that computes nothing and moves a clock instead. So that policies can be compared over
 * the same arrivals at any load, thousands of times faster than it would take.
 *
 *     simulate_run:  arrivals due ─► engine_submit ─► engine_thread_turn ─► events ─► token times
 *                        ▲                                  │
 *                        └─ clock += what the machine takes ┘   between layers, too
 *
 * Single-threaded; the calling thread's clock is the simulated one meanwhile (base/clock.h).
 */
#ifndef FIRSTLIGHT_ENGINE_SIMULATE_H
#define FIRSTLIGHT_ENGINE_SIMULATE_H

#include "engine/engine.h"

#define SIMULATE_VOCAB 1024 /* token ids below this */

/* What a step takes, in microseconds; the terms of engine/cost.h. */
struct simulate_machine {
    double step_us;   /* each */
    double token_us;  /* a prompt token */
    double pair_us;   /* and each position before it */
    double decode_us; /* a decode */
    double read_us;   /* and each position before it */
    double noise;     /* +- this share of a step, evenly distributed; [0, 1) */
};
extern const struct simulate_machine simulate_machine_default;
/* Of a request alone, without what a step takes by itself. */
int64_t simulate_machine_us(const struct simulate_machine *m, uint32_t n_cached, uint32_t n_prompt,
                            uint32_t n_new);

struct simulate_request {
    int64_t at_us;
    const int32_t *tokens; /* (n_tokens), borrowed */
    uint32_t n_tokens, max_tokens;
    int32_t priority;
    /* Filled in. */
    bool refused;                  /* no slot was free */
    int64_t admitted_us, first_us; /* 0: never */
    int64_t end_us;                /* its last token */
    int64_t last_us, worst_gap_us; /* between two of its tokens */
    uint32_t n_cached, n_seen;
};

struct simulate_options {
    struct engine_options engine; /* no kind, no KV memory: */
    uint32_t kv_blocks;           /* of the pool */
    struct simulate_machine machine;
    uint64_t seed; /* of the noise */
};

struct simulate_result {
    struct engine_stats stats;
    int64_t start_us, end_us;
    uint64_t n_steps;    /* of the arrays below */
    double *plan_us;     /* (n_steps) real time: messages, plan and admission of a step */
    double *overhead_us; /* (n_steps) real time of all that is not the backend's */
    uint32_t *waiting;   /* (n_steps) requests that waited then */
};

/* Runs all requests (by at_us) to their ends. *out is to be freed by simulate_fini either way. */
enum status simulate_run(const struct simulate_options *o, struct simulate_request *requests,
                         uint32_t n, struct simulate_result *out, struct err *err);
void simulate_fini(struct simulate_result *r);

#endif
