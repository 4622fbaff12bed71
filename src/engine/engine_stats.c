/* What the engine says of itself: why a request waited, how long steps take and how well that was
 * foreseen. Filled in by the engine thread, a few additions to a step; read by anyone. */
#include "engine/internal.h"

#include "base/clock.h"

/* --- levels (engine thread) ----------------------------------------------------------------- */

void engine_stats_store_levels(struct engine *e)
{
    ENGINE_STORE(e, running, e->lists.of[REQUEST_PREFILL].n + e->lists.of[REQUEST_DECODE].n);
    ENGINE_STORE(e, waiting, e->lists.of[REQUEST_WAITING].n);
    ENGINE_STORE(e, kv_blocks_free, e->kv.n_free + e->kv.n_idle);
    ENGINE_STORE(e, kv_blocks_cached, e->kv.n_idle);
    ENGINE_STORE(e, prefix_evicted, e->prefix.evictions);
}

/* --- why a request waited (engine thread) --------------------------------------------------- */

static uint64_t tokens_left(const struct request_list *list, const struct request *but)
{
    uint64_t n = 0;
    for (const struct request *r = list->first; r; r = r->next)
        if (r != but)
            n += r->n_goal - request_past(r);
    return n;
}

void engine_stats_wait_begins(struct engine *e, struct request *r)
{
    const struct request_list *waiting = &e->lists.of[REQUEST_WAITING];
    const struct request_list *prefill = &e->lists.of[REQUEST_PREFILL];
    r->wait = (struct request_wait){
        .waiting = waiting->n - 1,
        .running = prefill->n + e->lists.of[REQUEST_DECODE].n,
        .tokens = tokens_left(waiting, r) + tokens_left(prefill, NULL),
        .in_step = e->stepping || r->arrived_us < e->step_ended_us,
    };
    r->steps_before = e->waits;
}

/* Others that were computed since r came, but not to their end. */
static uint32_t begun_meanwhile(const struct engine *e, const struct request *r)
{
    uint32_t n = 0;
    for (const struct request *o = e->lists.of[REQUEST_PREFILL].first; o; o = o->next)
        n += o->chunk_us > r->arrived_us;
    return n;
}

void engine_stats_wait_ends(struct engine *e, struct request *r)
{
    if (r->wait.over)
        return;
    r->wait.over = true;
    admission_admitted(e, e->waits.places != r->steps_before.places);
    r->wait.steps = e->waits.steps - r->steps_before.steps;
    r->wait.steps_no_blocks = e->waits.no_blocks - r->steps_before.no_blocks;
    r->wait.steps_no_place = e->waits.no_place - r->steps_before.no_place;
    r->wait.prompts = e->waits.prompts - r->steps_before.prompts + begun_meanwhile(e, r);
    r->wait.prompt_tokens = e->waits.prompt_tokens - r->steps_before.prompt_tokens;
}

void engine_stats_count_step(struct engine *e, const struct plan *plan)
{
    e->waits.steps++;
    e->waits.no_blocks += plan->kept_out == PLAN_NO_BLOCKS;
    e->waits.no_place += plan->kept_out == PLAN_NO_PLACE;
    e->waits.places += plan->limit == PLAN_BY_PLACES;
}

void engine_stats_count_chunk(struct engine *e, struct request *r, uint32_t n)
{
    ENGINE_COUNT(e, prompt_tokens, n);
    e->pace.computed += n;
    e->waits.prompt_tokens += n;
    e->waits.prompts += r->n_past == r->n_goal;
    r->chunk_us = r->served_us;
}

/* --- steps (engine thread) ------------------------------------------------------------------ */

#define MILLION 1e6

void engine_stats_measure_step(struct engine *e, const struct cost_step *done, int64_t us)
{
    histogram_add(&e->step_time, us, 1);
    if (e->cost.n == 0 || us <= 0) /* there was nothing to foresee it with */
        return;
    double off = (double)(cost_predict_us(&e->cost, done) - us) / (double)us;
    histogram_add(&e->step_error, (int64_t)((off < 0 ? -off : off) * MILLION), 1);
}

/* --- statistics (any thread) ---------------------------------------------------------------- */

void engine_stats(const struct engine *e, struct engine_stats *out)
{
    const struct engine_stats warm_up = e->warm_up; /* which *out may be */
    *out = (struct engine_stats){
        .queued = atomic_load_explicit(&e->admission.queued, memory_order_relaxed),
        .backlog_tokens = atomic_load_explicit(&e->admission.backlog, memory_order_relaxed),
        .kv_blocks_total = e->kv.n_blocks,
    };
#define LOAD(name) out->name = atomic_load_explicit(&e->counters.name, memory_order_relaxed);
    ENGINE_LEVELS(LOAD)
    ENGINE_COUNTERS(LOAD)
#undef LOAD
#define SUBTRACT(name) out->name -= warm_up.name;
    ENGINE_COUNTERS(SUBTRACT)
#undef SUBTRACT
}

void engine_step_stats(const struct engine *e, struct engine_step_stats *out)
{
    histogram_read(&e->step_time, &out->time);
    histogram_read(&e->step_error, &out->error);
    histogram_subtract(&out->time, &e->warm_steps.time);
    histogram_subtract(&out->error, &e->warm_steps.error);
}

void engine_usage(const struct engine *e, struct pool_usage *out)
{
    *out = (struct pool_usage){0};
    if (e->backend->ops->usage)
        e->backend->ops->usage(e->backend, out);
}
