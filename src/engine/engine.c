/* The owner's side: requests in, events out. Every function here belongs to the owner's thread. */
#include "engine/internal.h"

#include <string.h>

/* --- requests in ---------------------------------------------------------------------------- */

static enum status engine_check_prompt(const struct engine *e, const struct request_params *p,
                                       struct err *err)
{
    if (p->n_prompt == 0)
        return err_param(err, STATUS_INVALID, "prompt", "the prompt is empty");
    if (p->n_prompt >= e->n_ctx)
        return err_param(err, STATUS_INVALID, "prompt",
                         "the prompt has %u tokens; the context holds %u, at least one of them for "
                         "the answer",
                         p->n_prompt, e->n_ctx);
    for (uint32_t i = 0; i < p->n_prompt; i++)
        if (p->prompt[i] < 0 || (uint32_t)p->prompt[i] >= e->n_vocab)
            return err_param(err, STATUS_INVALID, "prompt",
                             "token %d at position %u; the vocabulary has %u", p->prompt[i], i,
                             e->n_vocab);
    return STATUS_OK;
}

static enum status check_stop(const struct request_params *p, struct err *err)
{
    if (p->n_stop > LIMIT_STOP_STRINGS)
        return err_param(err, STATUS_INVALID, "stop", "%u stop strings, at most %d", p->n_stop,
                         LIMIT_STOP_STRINGS);
    for (uint32_t i = 0; i < p->n_stop; i++) {
        size_t len = strlen(p->stop[i]);
        if (len == 0 || len > LIMIT_STOP_BYTES)
            return err_param(err, STATUS_INVALID, "stop",
                             "a stop string of %zu bytes; it must have 1 to %d", len,
                             LIMIT_STOP_BYTES);
        if (((unsigned char)p->stop[i][0] & 0xc0) == 0x80)
            return err_param(err, STATUS_INVALID, "stop", "a stop string is not UTF-8");
    }
    return STATUS_OK;
}

static enum status check_counts(const struct request_params *p, struct err *err)
{
    if (p->top_logprobs > LIMIT_TOP_LOGPROBS)
        return err_param(err, STATUS_INVALID, "top_logprobs", "top_logprobs is %u, at most %d",
                         p->top_logprobs, LIMIT_TOP_LOGPROBS);
    if (p->max_tokens > 0 && p->min_tokens > p->max_tokens)
        return err_param(err, STATUS_INVALID, "min_tokens",
                         "min_tokens is %u, more than max_tokens, which is %u", p->min_tokens,
                         p->max_tokens);
    return STATUS_OK;
}

static enum status engine_check(const struct engine *e, const struct request_params *p,
                                struct err *err)
{
    if (e->draining)
        return err_set(err, STATUS_UNAVAILABLE, "the server is shutting down");
    enum status status = engine_failure(e, err);
    if (status == STATUS_OK)
        status = engine_check_prompt(e, p, err);
    if (status == STATUS_OK)
        status = check_stop(p, err);
    if (status == STATUS_OK)
        status = sampling_check(&p->sampling, e->n_vocab, err);
    if (status == STATUS_OK)
        status = check_counts(p, err);
    return status;
}

static enum status check_slots(struct engine *e, uint32_t n, struct err *err)
{
    uint32_t n_free = e->lists.of[REQUEST_FREE].n;
    if (n_free >= n)
        return STATUS_OK;
    e->limit = "slots";
    e->refused_tokens = UINT64_MAX;
    if (n == 1)
        return err_set(err, STATUS_OVERLOADED, "all %u request slots are taken", e->n_slots);
    return err_set(err, STATUS_OVERLOADED, "%u of %u request slots are free, %u are needed at once",
                   n_free, e->n_slots, n);
}

static void send_message(struct engine *e, enum message_kind kind, const struct request *r)
{
    bool was_empty;
    REQUIRE(ring_push(&e->messages, message_word(kind, r->slot, r->id), &was_empty));
    if (was_empty)
        wake_signal(&e->to_engine);
}

/* Ids start at 1 and skip 0, which means "no request" to the engine thread. */
static uint32_t next_id(struct engine *e)
{
    if (++e->last_id == 0)
        ++e->last_id;
    return e->last_id;
}

/* Fills the first n free slots, which stay where they are; none when one cannot be filled. */
static enum status fill_all(struct engine *e, struct request_params *take, uint32_t n,
                            struct request **out, struct err *err)
{
    struct request *r = e->lists.of[REQUEST_FREE].first;
    for (uint32_t i = 0; i < n; i++, r = r->next) {
        uint32_t room = e->n_ctx - take[i].n_prompt;
        uint32_t asked = take[i].max_tokens;
        out[i] = r;
        enum status status =
            request_fill(r, &take[i], asked > 0 && asked < room ? asked : room, e->tokenizer, err);
        if (status == STATUS_OK)
            continue;
        while (i-- > 0)
            request_give_back(out[i], &take[i]);
        return status;
    }
    return STATUS_OK;
}

enum status engine_submit_all(struct engine *e, struct request_params *take, uint32_t n,
                              struct request **out, struct err *err)
{
    enum status status = STATUS_OK;
    REQUIRE(n > 0);
    for (uint32_t i = 0; i < n && status == STATUS_OK; i++)
        status = engine_check(e, &take[i], err);
    if (status == STATUS_OK)
        status = check_slots(e, n, err);
    if (status == STATUS_OK)
        status = admission_check(e, take, n, err);
    if (status == STATUS_OK)
        status = fill_all(e, take, n, out, err);
    for (uint32_t i = 0; i < n && status == STATUS_OK; i++) {
        struct request *r = out[i];
        r->id = next_id(e);
        request_move(&e->lists, r, REQUEST_QUEUED);
        timeline_stamp(&r->params.timeline, TIMELINE_QUEUED);
        admission_charge(e, r, i > 0 ? out[i - 1] : NULL);
        send_message(e, MESSAGE_SUBMIT, r);
    }
    return status;
}

enum status engine_submit(struct engine *e, struct request_params *take, struct request **out,
                          struct err *err)
{
    return engine_submit_all(e, take, 1, out, err);
}

const char *engine_limit(const struct engine *e)
{
    return e->limit;
}

void engine_cancel(struct engine *e, struct request *r)
{
    if (r->cancel_sent || r->finished)
        return;
    r->cancel_sent = true;
    send_message(e, MESSAGE_CANCEL, r);
}

enum status engine_failure(const struct engine *e, struct err *err)
{
    if (!atomic_load_explicit(&e->failed, memory_order_acquire))
        return STATUS_OK;
    if (err)
        *err = e->failure;
    return e->failure.code;
}

void engine_drain(struct engine *e)
{
    e->draining = true;
}

void engine_release(struct engine *e, struct request *r)
{
    REQUIRE(r->finished);
    admission_released(e, r);
    request_clear(r);
    request_move(&e->lists, r, REQUEST_FREE);
}

void engine_discard(struct engine *e, struct request *r)
{
    if (r->finished) {
        engine_release(e, r);
        return;
    }
    r->discarded = true;
    engine_cancel(e, r);
}

/* --- events out ----------------------------------------------------------------------------- */

int engine_event_fd(const struct engine *e)
{
    return e->to_owner.fd;
}

void engine_events_clear(struct engine *e)
{
    wake_clear(&e->to_owner);
}

void engine_wait(struct engine *e)
{
    wake_wait(&e->to_owner);
}

/* NULL: there was none. */
static struct request *take_event(struct engine *e)
{
    uint64_t word;
    /* ring_empty's look is seq_cst, ring_pop's is not: the owner may sleep after this NULL */
    if (ring_empty(&e->events) || !ring_pop(&e->events, &word))
        return NULL;
    struct request *r = &e->slots[word >> 1];
    if (word & 1)
        r->finished = true;
    else /* acquire: see what was published before; later news makes an event of its own */
        atomic_exchange_explicit(&r->dirty, false, memory_order_acq_rel);
    return r;
}

struct request *engine_next_event(struct engine *e)
{
    struct request *r;
    while ((r = take_event(e)) && r->discarded)
        if (r->finished)
            engine_release(e, r);
    return r;
}
