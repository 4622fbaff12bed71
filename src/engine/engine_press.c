/* Backpressure: what the queue has room for, and when it will have room again.
 *
 * The backlog is what prompts have still to compute, in tokens. A request is charged with its whole
 * prompt when it is taken, as if nothing of it were cached; the engine thread corrects the charge
 * when it has looked into the cache, and takes off what is computed. Only the owner adds (but for a
 * request that is put back and has to compute again), so what it has checked stays true.
 *
 * When there will be room follows from how fast work went away over the last seconds of work
 * (WINDOW):
 *
 *     wait = max((steps for the tokens over the limit - 1/2) x time per step that takes some off,
 *                (requests over the limit - 1/2) x time per admission,
 *                (slots that are missing    - 1/2) x time per request that ends)
 *
 * where the times are those of steps, so they hold what decodes, cached prefixes and full pools do
 * to the pace. The half is the mean rest of the interval under way. Until something has gone away,
 * the cost model that the warm-up has seeded says how long it takes.
 *
 * A bound in time (--max-queue-ms) is one in tokens at that pace.
 */
#include "engine/internal.h"

#define WINDOW_US  4000000 /* of work, at most twice as much, is what a pace is taken from */
#define FEW_TOKENS 64      /* fewer in it say nothing */
#define FEW        4       /* admissions or ends: neither, and the warm-up has some */
#define CHUNK      256     /* tokens of the chunk that the cost model is asked for */
#define NS         1000

#define LOAD(field)         atomic_load_explicit(&e->press.field, memory_order_relaxed)
#define STORE(field, value) atomic_store_explicit(&e->press.field, (value), memory_order_relaxed)

/* --- room (the owner's thread) -------------------------------------------------------------- */

static uint64_t tokens_of(const struct request_params *take, uint32_t n)
{
    uint64_t tokens = 0;
    for (uint32_t i = 0; i < n; i++)
        tokens += take[i].n_prompt;
    return tokens;
}

/* Tokens that are computed within max_queue_us at the present pace. */
static uint64_t tokens_in_time(const struct engine *e)
{
    uint64_t token_ns = LOAD(token_ns);
    if (e->max_queue_us == INT64_MAX || token_ns == 0)
        return UINT64_MAX;
    return (uint64_t)e->max_queue_us * NS / token_ns;
}

static enum status too_many_tokens(struct engine *e, uint64_t backlog, uint64_t tokens,
                                   struct err *err)
{
    e->limit = "queued_tokens";
    return err_set(err, STATUS_OVERLOADED,
                   "the queue is full: %llu tokens of prompts are still to be computed, with the "
                   "%llu of this request more than %u (--max-queued-tokens)",
                   (unsigned long long)backlog, (unsigned long long)tokens, e->max_queued_tokens);
}

static enum status too_long(struct engine *e, uint64_t backlog, uint64_t tokens, struct err *err)
{
    double token_ms = (double)LOAD(token_ns) / 1e6;
    e->limit = "queue_time";
    return err_set(err, STATUS_OVERLOADED,
                   "the queue is full: the prompts that wait take %.0f ms to compute, with the "
                   "%.0f ms of this request more than %.0f (--max-queue-ms)",
                   (double)backlog * token_ms, (double)tokens * token_ms,
                   (double)e->max_queue_us / 1e3);
}

enum status engine_press_check(struct engine *e, const struct request_params *take, uint32_t n,
                               struct err *err)
{
    uint64_t backlog = LOAD(backlog), tokens = tokens_of(take, n);
    uint32_t queued = LOAD(queued);
    if (backlog == 0)
        return STATUS_OK;
    if (queued + n > e->max_queued_requests) {
        e->limit = "queued_requests";
        return err_set(err, STATUS_OVERLOADED,
                       "the queue is full: %u requests wait, at most %u may "
                       "(--max-queued-requests)",
                       queued, e->max_queued_requests);
    }
    if (backlog + tokens > e->max_queued_tokens)
        return too_many_tokens(e, backlog, tokens, err);
    if (backlog + tokens > tokens_in_time(e))
        return too_long(e, backlog, tokens, err);
    return STATUS_OK;
}

void engine_press_charge(struct engine *e, struct request *r)
{
    r->charge = r->params.n_prompt;
    atomic_fetch_add_explicit(&e->press.backlog, r->charge, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->press.queued, 1, memory_order_relaxed);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Until so many of something have gone, one of which goes every each_us. */
static int64_t until_gone(int64_t n, uint64_t each_us)
{
    return n > 0 ? (2 * n - 1) * (int64_t)each_us / 2 : 0;
}

/* The backlog falls at the end of a step, by what it computed. */
static int64_t until_computed(const struct engine *e, int64_t tokens)
{
    int64_t each_us = (int64_t)LOAD(step_us), each = (int64_t)LOAD(step_tokens);
    if (each == 0)
        return tokens * (int64_t)LOAD(token_ns) / NS;
    return until_gone((tokens + each - 1) / each, (uint64_t)each_us);
}

static int64_t most_tokens(const struct engine *e)
{
    uint64_t in_time = tokens_in_time(e);
    return in_time < e->max_queued_tokens ? (int64_t)in_time : (int64_t)e->max_queued_tokens;
}

int64_t engine_retry_after_us(const struct engine *e, uint32_t n, uint64_t n_tokens)
{
    int64_t backlog = (int64_t)LOAD(backlog), max = most_tokens(e);
    int64_t free = e->lists.of[REQUEST_FREE].n, slots = e->n_slots;
    if (e->draining)
        return larger(backlog * (int64_t)LOAD(token_ns) / NS,
                      until_gone(slots - free, LOAD(end_us)));
    int64_t over = backlog + (int64_t)n_tokens - max;
    if (over > backlog)
        over = backlog; /* it never fits beside others, but when there are none */
    int64_t us = over > 0 ? until_computed(e, over) : 0;
    int64_t queued = (int64_t)LOAD(queued) + n - e->max_queued_requests;
    us = larger(us, until_gone(queued, LOAD(admit_us)));
    us = larger(us, until_gone((int64_t)n - free, LOAD(end_us)));
    return us < LIMIT_RETRY_SECONDS * INT64_C(1000000) ? us
                                                       : LIMIT_RETRY_SECONDS * INT64_C(1000000);
}

/* --- what goes away (the engine thread) ----------------------------------------------------- */

static uint32_t to_compute(const struct request *r)
{
    bool computes = r->state == REQUEST_WAITING || r->state == REQUEST_PREFILL;
    return computes ? r->n_goal - request_past(r) : 0;
}

void engine_press_update(struct engine *e, struct request *r)
{
    uint32_t before = r->charge;
    r->charge = to_compute(r);
    if (r->state == REQUEST_ENDED)
        e->pace.ended++;
    if (r->charge == before)
        return;
    if (r->charge < before)
        e->pace.charged += before - r->charge;
    /* modulo 2^64 it may be a subtraction */
    atomic_fetch_add_explicit(&e->press.backlog, (unsigned long long)r->charge - before,
                              memory_order_relaxed);
}

/* What was found in the cache at once was never waited for, and says nothing of the pace. */
void engine_press_arrived(struct engine *e, const struct request *r)
{
    e->pace.charged -= r->params.n_prompt - r->charge;
}

void engine_press_admitted(struct engine *e)
{
    e->pace.admitted++;
    atomic_fetch_sub_explicit(&e->press.queued, 1, memory_order_relaxed);
}

/* Older work counts half. */
static void forget(struct engine_pace *p)
{
    if (p->pressed_us > 2 * WINDOW_US && p->tokens >= 2 * FEW_TOKENS && p->admits >= 2 * FEW) {
        p->pressed_us /= 2;
        p->tokens /= 2;
        p->admits /= 2;
        p->steps /= 2;
    }
    if (p->busy_us > 2 * WINDOW_US && p->ends >= 2 * FEW) {
        p->busy_us /= 2;
        p->ends /= 2;
    }
}

static int64_t prompt_token_ns(const struct engine *e)
{
    const struct engine_pace *p = &e->pace;
    struct cost_step chunk = {0};
    if (p->tokens >= FEW_TOKENS)
        return p->pressed_us * NS / (int64_t)p->tokens;
    cost_add_chunk(&chunk, CHUNK, 0);
    return cost_predict_us(&e->cost, &chunk) * NS / CHUNK;
}

/* Few have ended yet: the next to do so has generated all it may. */
static int64_t first_end_us(const struct engine *e)
{
    struct cost_step step = {0};
    uint32_t least = UINT32_MAX;
    for (const struct request *r = e->lists.of[REQUEST_DECODE].first; r; r = r->next) {
        cost_add_decode(&step, r->n_past);
        if (r->max_tokens - r->n_tokens < least)
            least = r->max_tokens - r->n_tokens;
    }
    return step.n_decode > 0 ? least * cost_predict_us(&e->cost, &step) : 0;
}

static int64_t admission_us(const struct engine *e, int64_t token_ns)
{
    const struct engine_pace *p = &e->pace;
    uint32_t queued = LOAD(queued);
    if (p->admits >= FEW)
        return p->pressed_us / (int64_t)p->admits;
    return queued > 0 ? (int64_t)LOAD(backlog) * token_ns / NS / queued : 0;
}

void engine_press_step(struct engine *e, bool pressed, int64_t us)
{
    struct engine_pace *p = &e->pace;
    p->busy_us += us;
    p->ends += p->ended;
    if (pressed) {
        p->pressed_us += us;
        p->tokens += p->charged;
        p->steps += p->charged > 0;
        p->admits += p->admitted;
    }
    p->charged = p->ended = p->admitted = 0;
    forget(p);
    int64_t token_ns = prompt_token_ns(e);
    STORE(token_ns, (unsigned long long)token_ns);
    if (p->tokens >= FEW_TOKENS && p->steps > 0) {
        STORE(step_us, (unsigned long long)p->pressed_us / p->steps);
        STORE(step_tokens, (p->tokens + p->steps - 1) / p->steps);
    }
    STORE(admit_us, (unsigned long long)admission_us(e, token_ns));
    STORE(end_us,
          (unsigned long long)(p->ends >= FEW ? p->busy_us / (int64_t)p->ends : first_end_us(e)));
}
