/* Backpressure: what the queue has room for, and when it will have room again.
 *
 * The backlog is what prompts have still to compute, in tokens. A request is charged when it is
 * taken with what it will probably have to compute (expected_cache.h); the engine thread corrects
 * the charge when it has looked into the cache, and takes off what is computed. Only the owner adds
 * (but for corrections, and for a request that is put back and has to compute again), so what it
 * has checked stays true.
 *
 * A bound in time (--max-queue-ms) is one on what prompts wait for:
 *
 *     wait = tokens x time per token + requests that find no place free x time per place
 *
 * Each time is taken from those steps alone that were short of the thing (enum plan_limit), over
 * the last seconds of work (WINDOW). A step that computed all the prompts there were does not say
 * how much it could have done: a hundred cached prompts, a token each, do not make tokens dear.
 * Until steps were short of tokens, one costs what the cost model says, beside the decodes there
 * are; until they were short of places, those cost nothing.
 *
 * When there will be room for who is refused:
 *
 *     wait = max(until the above has fallen to the bound in time,
 *                (steps for the tokens over the limit - 1/2) x time per step that is short of them,
 *                (requests over the limit - 1/2) x time per admission,
 *                (slots that are missing    - 1/2) x time per request that ends)
 *
 * where the times are those of steps, so they hold what decodes, cached prefixes and full pools do
 * to the pace. The half is the mean rest of the interval under way.
 */
#include "engine/internal.h"

#include <string.h>

#define WINDOW_US  4000000 /* of work, at most twice as much, is what a pace is taken from */
#define FEW_TOKENS 64      /* fewer in it say nothing */
#define FEW        4       /* admissions or ends: neither, and the warm-up has some */
#define CHUNK      256     /* tokens of the chunk that the cost model is asked for */
#define NS         1000

#define LOAD(field) atomic_load_explicit(&e->admission.field, memory_order_relaxed)
#define STORE(field, value)                                                                        \
    atomic_store_explicit(&e->admission.field, (value), memory_order_relaxed)

/* --- charges (the owner's thread) ----------------------------------------------------------- */

static bool finds_nothing(const struct engine *e, const struct request_params *p)
{
    return !e->cache_on || p->prompt_logprobs;
}

static uint32_t charge_of(const struct engine *e, const struct request_params *p)
{
    if (finds_nothing(e, p))
        return p->n_prompt;
    return expected_cache_left(&e->prefix.expect, &p->salt, p->prompt, p->n_prompt);
}

/* The charge too. */
static uint32_t admission_begin(struct engine *e, const struct request_params *p)
{
    if (!e->cache_on)
        return p->n_prompt;
    uint32_t left = expected_cache_begin(&e->prefix.expect, &p->salt, p->prompt, p->n_prompt);
    return finds_nothing(e, p) ? p->n_prompt : left;
}

static void admission_end(struct engine *e, const struct request_params *p)
{
    if (e->cache_on)
        expected_cache_end(&e->prefix.expect, &p->salt, p->prompt, p->n_prompt);
}

/* Several answers to one prompt come as so many requests, one behind the other. The prompt is
 * hashed and counted once for all of them: a hash takes far longer than to see that they are the
 * same. */
static bool same_prompt(const struct request_params *a, const struct request_params *b)
{
    return a->n_prompt == b->n_prompt && memcmp(&a->salt, &b->salt, sizeof a->salt) == 0 &&
           memcmp(a->prompt, b->prompt, a->n_prompt * sizeof *a->prompt) == 0;
}

/* Of a prompt that another request computes: its last token. */
static uint32_t charge_of_copy(const struct engine *e, const struct request_params *p)
{
    return finds_nothing(e, p) ? p->n_prompt : 1;
}

/* The first behind `from` with another prompt; n: there is none. *copies: what the others add. */
static uint32_t after_copies(const struct engine *e, const struct request_params *take,
                             uint32_t from, uint32_t n, uint64_t *copies)
{
    uint32_t i = from + 1;
    for (*copies = 0; i < n && same_prompt(&take[i], &take[from]); i++)
        *copies += charge_of_copy(e, &take[i]);
    return i;
}

/* Each finds what those before it compute. Only what somebody comes behind is begun. */
static uint64_t tokens_of(struct engine *e, const struct request_params *take, uint32_t n)
{
    uint64_t tokens = 0, copies;
    uint32_t last = 0;
    for (uint32_t i = 0, next; i < n; i = next) {
        next = after_copies(e, take, i, n, &copies);
        tokens += copies + (next < n ? admission_begin(e, &take[i]) : charge_of(e, &take[i]));
        last = i;
    }
    for (uint32_t i = 0; i < last; i = after_copies(e, take, i, n, &copies))
        admission_end(e, &take[i]);
    return tokens;
}

/* Those that were counted together are in a ring. */
static void admission_join(struct request *r, struct request *before)
{
    r->copy_before = before;
    r->copy_behind = before->copy_behind;
    before->copy_behind->copy_before = r;
    before->copy_behind = r;
}

void admission_charge(struct engine *e, struct request *r, struct request *before)
{
    r->copy_before = r->copy_behind = r;
    if (before && same_prompt(&r->params, &before->params)) {
        admission_join(r, before);
        r->charge = charge_of_copy(e, &r->params);
    } else {
        r->charge = admission_begin(e, &r->params);
    }
    atomic_fetch_add_explicit(&e->admission.backlog, r->charge, memory_order_relaxed);
    atomic_fetch_add_explicit(&e->admission.queued, 1, memory_order_relaxed);
}

void admission_released(struct engine *e, struct request *r)
{
    if (r->copy_behind == r) /* the last of them */
        admission_end(e, &r->params);
    r->copy_before->copy_behind = r->copy_behind;
    r->copy_behind->copy_before = r->copy_before;
}

/* --- room (the owner's thread) -------------------------------------------------------------- */

/* Until so many tokens of prompts are computed and so many requests admitted. The times are those
 * of a queue that goes on as it did: each request holds a place for as long as others have. */
static int64_t admission_wait_us(const struct engine *e, uint64_t tokens, uint64_t requests)
{
    uint64_t places = LOAD(places);
    uint64_t us = tokens * LOAD(token_ns) / NS;
    if (requests > places)
        us += (requests - places) * LOAD(place_us);
    return us < INT64_MAX ? (int64_t)us : INT64_MAX;
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

static enum status admission_too_long(struct engine *e, int64_t before_us, int64_t with_us,
                                      struct err *err)
{
    e->limit = "queue_time";
    return err_set(err, STATUS_OVERLOADED,
                   "the queue is full: the prompts that wait take %.0f ms to compute, with the "
                   "%.0f ms of this request more than %.0f (--max-queue-ms)",
                   (double)before_us / 1e3, (double)(with_us - before_us) / 1e3,
                   (double)e->max_queue_us / 1e3);
}

enum status admission_check(struct engine *e, const struct request_params *take, uint32_t n,
                            struct err *err)
{
    uint64_t backlog = LOAD(backlog);
    uint32_t queued = LOAD(queued);
    if (backlog == 0)
        return STATUS_OK;
    uint64_t tokens = tokens_of(e, take, n);
    e->refused_tokens = tokens;
    if (queued + n > e->max_queued_requests) {
        e->limit = "queued_requests";
        return err_set(err, STATUS_OVERLOADED,
                       "the queue is full: %u requests wait, at most %u may "
                       "(--max-queued-requests)",
                       queued, e->max_queued_requests);
    }
    if (backlog + tokens > e->max_queued_tokens)
        return too_many_tokens(e, backlog, tokens, err);
    int64_t with_us = admission_wait_us(e, backlog + tokens, (uint64_t)queued + n);
    if (with_us > e->max_queue_us)
        return admission_too_long(e, admission_wait_us(e, backlog, queued), with_us, err);
    return STATUS_OK;
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

static int64_t admission_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The backlog falls at the end of a step, by what it computed, and no further while those who have
 * the rest of it find no place. */
static int64_t until_computed(const struct engine *e, int64_t backlog, int64_t tokens)
{
    int64_t each_us = (int64_t)LOAD(step_us), each = (int64_t)LOAD(step_tokens);
    int64_t us = each > 0 ? until_gone((tokens + each - 1) / each, (uint64_t)each_us)
                          : tokens * (int64_t)LOAD(token_ns) / NS;
    if (LOAD(places) == 0)
        us += (int64_t)LOAD(queued) * tokens / backlog * (int64_t)LOAD(place_us);
    return us;
}

static int64_t until_few_tokens(const struct engine *e, int64_t backlog, int64_t tokens)
{
    int64_t over = backlog + tokens - e->max_queued_tokens;
    over =
        admission_smaller(over, backlog); /* it never fits beside others, but when there are none */
    return over > 0 ? until_computed(e, backlog, over) : 0;
}

static int64_t until_short_wait(const struct engine *e, int64_t backlog, int64_t tokens, uint32_t n)
{
    int64_t wait = admission_wait_us(e, (uint64_t)backlog, LOAD(queued));
    int64_t with = admission_wait_us(e, (uint64_t)(backlog + tokens), (uint64_t)LOAD(queued) + n);
    return with > e->max_queue_us ? admission_smaller(with - e->max_queue_us, wait) : 0;
}

int64_t engine_retry_after_us(const struct engine *e, uint32_t n, uint64_t n_tokens)
{
    int64_t backlog = (int64_t)LOAD(backlog);
    int64_t tokens = (int64_t)(n_tokens < e->refused_tokens ? n_tokens : e->refused_tokens);
    int64_t free = e->lists.of[REQUEST_FREE].n, slots = e->n_slots;
    if (e->draining)
        return larger(admission_wait_us(e, (uint64_t)backlog, LOAD(queued)),
                      until_gone(slots - free, LOAD(end_us)));
    int64_t us = until_few_tokens(e, backlog, tokens);
    us = larger(us, until_short_wait(e, backlog, tokens, n));
    int64_t queued = (int64_t)LOAD(queued) + n - e->max_queued_requests;
    us = larger(us, until_gone(queued, LOAD(admit_us)));
    us = larger(us, until_gone((int64_t)n - free, LOAD(end_us)));
    return admission_smaller(us, LIMIT_RETRY_SECONDS * INT64_C(1000000));
}

/* --- what goes away (the engine thread) ----------------------------------------------------- */

/* Who waits for another to compute the beginning of its prompt will find it in the cache. */
static uint32_t past_of(const struct request *r)
{
    uint32_t past = request_past(r);
    return r->leader && r->leader_gain > past ? r->leader_gain : past;
}

static uint32_t to_compute(const struct request *r)
{
    bool computes = r->state == REQUEST_WAITING || r->state == REQUEST_PREFILL;
    return computes ? r->n_goal - past_of(r) : 0;
}

void admission_update(struct engine *e, struct request *r)
{
    uint32_t before = r->charge;
    r->charge = to_compute(r);
    if (r->state == REQUEST_ENDED)
        e->pace.ended++;
    if (r->charge != before) /* modulo 2^64 it may be a subtraction */
        atomic_fetch_add_explicit(&e->admission.backlog, (unsigned long long)r->charge - before,
                                  memory_order_relaxed);
}

void admission_admitted(struct engine *e, bool kept_out)
{
    e->pace.admitted++;
    e->pace.kept_out += kept_out;
    atomic_fetch_sub_explicit(&e->admission.queued, 1, memory_order_relaxed);
}

/* Older work counts half. */
static void admission_forget(struct engine_pace *p)
{
    if (p->pressed_us > 2 * WINDOW_US && p->admits >= 2 * FEW) {
        p->pressed_us /= 2;
        p->admits /= 2;
        p->token_us /= 2;
        p->tokens /= 2;
        p->token_steps /= 2;
        p->place_us /= 2;
        p->place_admits /= 2;
    }
    if (p->busy_us > 2 * WINDOW_US && p->ends >= 2 * FEW) {
        p->busy_us /= 2;
        p->ends /= 2;
    }
}

/* Of a prompt of CHUNK tokens beside the decodes there are, as much as a step takes of it. */
static int64_t foreseen_token_ns(const struct engine *e)
{
    int64_t gap_us = e->limits.decode_gap_us;
    struct cost_step step = {0};
    const struct request *r = e->lists.of[REQUEST_DECODE].first;
    for (; r && step.n_decode < e->limits.max_seqs; r = r->next)
        cost_add_decode(&step, r->n_past);
    uint32_t n = CHUNK;
    if (step.n_decode > 0 && gap_us > 0) {
        int64_t decodes_us = cost_predict_us(&e->cost, &step);
        n = cost_fit(&e->cost, &step, 0, CHUNK, larger(gap_us, decodes_us + decodes_us / 2));
        n = n > SCHEDULER_MIN_CHUNK ? n : SCHEDULER_MIN_CHUNK;
    }
    cost_add_chunk(&step, n, 0);
    return cost_predict_us(&e->cost, &step) * NS / n;
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

static void admission_add_step(struct engine_pace *p, enum plan_limit limit, int64_t us)
{
    p->pressed_us += us;
    p->admits += p->admitted;
    p->place_admits += p->kept_out;
    if (limit == PLAN_BY_TOKENS) {
        p->token_us += us;
        p->tokens += p->computed;
        p->token_steps++;
    } else if (limit == PLAN_BY_PLACES) {
        p->place_us += us;
    }
}

/* The time per token, which is also the answer, and what a step that is short of them takes. */
static int64_t store_token_times(struct engine *e)
{
    const struct engine_pace *p = &e->pace;
    if (p->tokens < FEW_TOKENS || p->token_steps == 0) {
        int64_t foreseen_ns = foreseen_token_ns(e);
        STORE(token_ns, (unsigned long long)foreseen_ns);
        STORE(step_tokens, 0);
        return foreseen_ns;
    }
    uint64_t token_ns = (uint64_t)p->token_us * NS / p->tokens;
    STORE(token_ns, token_ns);
    STORE(step_us, (unsigned long long)p->token_us / p->token_steps);
    STORE(step_tokens, (p->tokens + p->token_steps - 1) / p->token_steps);
    return (int64_t)token_ns;
}

static void store_place_times(struct engine *e, enum plan_limit limit)
{
    const struct engine_pace *p = &e->pace;
    uint32_t active = e->lists.of[REQUEST_PREFILL].n + e->lists.of[REQUEST_DECODE].n;
    uint32_t most = (uint32_t)admission_smaller(e->limits.max_active, e->limits.max_seqs);
    uint64_t admits = p->place_admits > FEW ? p->place_admits : FEW;
    STORE(place_us, (unsigned long long)p->place_us / admits);
    STORE(places, limit == PLAN_BY_PLACES || active > most ? 0 : most - active);
}

void admission_step(struct engine *e, bool pressed, enum plan_limit limit, int64_t us)
{
    struct engine_pace *p = &e->pace;
    p->busy_us += us;
    p->ends += p->ended;
    if (pressed)
        admission_add_step(p, limit, us);
    p->computed = p->ended = p->admitted = p->kept_out = 0;
    admission_forget(p);
    int64_t token_ns = store_token_times(e);
    store_place_times(e, limit);
    STORE(admit_us, (unsigned long long)admission_us(e, token_ns));
    STORE(end_us,
          (unsigned long long)(p->ends >= FEW ? p->busy_us / (int64_t)p->ends : first_end_us(e)));
}
