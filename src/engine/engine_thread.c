/* The engine thread: one step after the other while there is work, asleep otherwise.
 *
 * A step is the list in run_step. Between layers of a long step the thread looks at its messages: a
 * cancelled request's rows are dropped from what is left to compute, and the request ends with the
 * step. Nothing here allocates or frees.
 */
#include "engine/internal.h"

#include "base/mem.h"

#include <sys/resource.h>

#define ENGINE_NICE 1 /* above its creator: the I/O thread pre-empts it, as it does workers */
/* A step of this many rows takes long enough to look around after every layer. */
#define LOOK_ROWS 16

#define COUNT(field, n) atomic_fetch_add_explicit(&e->counters.field, (n), memory_order_relaxed)
#define STORE(field, n) atomic_store_explicit(&e->counters.field, (n), memory_order_relaxed)

static void store_levels(struct engine *e)
{
    STORE(running, e->lists.of[REQUEST_PREFILL].n + e->lists.of[REQUEST_DECODE].n);
    STORE(waiting, e->lists.of[REQUEST_WAITING].n);
    STORE(kv_blocks_free, e->kv.n_free);
}

/* --- events --------------------------------------------------------------------------------- */

/* The owner is woken at once, not at the step's end: a first token does not wait for neighbours. */
static void push_event(struct engine *e, const struct request *r, bool finished)
{
    bool was_empty;
    REQUIRE(ring_push(&e->events, event_word(r->slot, finished), &was_empty));
    if (was_empty)
        wake_signal(&e->to_owner);
}

static void publish(struct engine *e, struct request *r)
{
    if (e->mode == ENGINE_SYNC)
        return; /* all of it comes with the end */
    request_publish(r, false);
    /* release: whoever clears the flag sees what was published above */
    if (!atomic_exchange_explicit(&r->dirty, true, memory_order_acq_rel))
        push_event(e, r, false);
}

/* The one way out of WAITING, PREFILL and DECODE. After the push the slot is the owner's. */
static void end_request(struct engine *e, struct request *r, enum finish_reason reason)
{
    REQUIRE(!r->in_step);
    r->finish = reason;
    timeline_stamp(&r->params.timeline, TIMELINE_FINISHED);
    request_publish(r, true);
    kv_release(&e->kv, r->slot);
    e->live[r->slot] = 0;
    request_move(&e->lists, r, REQUEST_ENDED);
    COUNT(finished, 1);
    COUNT(cancelled, reason == FINISH_CANCELLED);
    store_levels(e);
    push_event(e, r, true);
}

/* --- messages ------------------------------------------------------------------------------- */

static void cancel(struct engine *e, struct request *r)
{
    if (!r->in_step) {
        end_request(e, r, FINISH_CANCELLED);
    } else if (!r->cancelled) {
        r->cancelled = true;
        e->backend->ops->step_drop(e->backend, r->slot);
    }
}

static void cancel_all(struct engine *e)
{
    for (uint32_t slot = 0; slot < e->n_slots; slot++)
        if (e->live[slot] != 0)
            cancel(e, &e->slots[slot]);
}

static void handle_message(struct engine *e, uint64_t word)
{
    uint32_t slot = (uint32_t)word >> 2, id = (uint32_t)(word >> 32);
    switch ((enum message_kind)(word & 3)) {
    case MESSAGE_SUBMIT:
        e->live[slot] = id;
        request_move(&e->lists, &e->slots[slot], REQUEST_WAITING);
        break;
    case MESSAGE_CANCEL:
        if (e->live[slot] == id) /* else it has ended, and the slot may be another's */
            cancel(e, &e->slots[slot]);
        break;
    case MESSAGE_STOP:
        e->stopping = true;
        cancel_all(e);
        break;
    }
}

static void drain_messages(struct engine *e)
{
    uint64_t word;
    while (ring_pop(&e->messages, &word))
        handle_message(e, word);
}

/* --- a step --------------------------------------------------------------------------------- */

static void plan_step(struct engine *e)
{
    const struct scheduler_view view = {
        .waiting = &e->lists.of[REQUEST_WAITING],
        .prefill = &e->lists.of[REQUEST_PREFILL],
        .decode = &e->lists.of[REQUEST_DECODE],
        .free_blocks = e->kv.n_free,
        .max_seqs = e->max_seqs,
        .max_tokens = e->max_tokens,
        .max_prompts = e->max_prompts,
        .max_prompt_tokens = e->max_prompt_tokens,
    };
    scheduler_plan(&view, &e->plan);
    REQUIRE(e->plan.n_items > 0); /* whoever waits fits into an empty engine */
}

static void admit(struct engine *e)
{
    for (uint32_t i = 0; i < e->plan.n_items; i++) {
        struct request *r = e->plan.items[i].request;
        if (!e->plan.items[i].admit)
            continue;
        timeline_stamp(&r->params.timeline, TIMELINE_ADMITTED);
        REQUIRE(kv_grow(&e->kv, r->slot, scheduler_blocks(r)));
        request_move(&e->lists, r, REQUEST_PREFILL);
    }
    store_levels(e);
}

static void fill_batch_row(struct engine *e, const struct plan_item *item, struct batch_seq *seq)
{
    struct request *r = item->request;
    bool decode = r->state == REQUEST_DECODE;
    bool last = decode || r->n_past + item->n_tokens == r->params.n_prompt;
    *seq = (struct batch_seq){
        .request = r->slot,
        .tokens = decode ? &r->tokens[r->n_tokens - 1] : &r->params.prompt[r->n_past],
        .n_tokens = item->n_tokens,
        .n_past = r->n_past,
        .blocks = kv_table(&e->kv, r->slot),
        .output = last ? OUTPUT_LAST : OUTPUT_NONE,
    };
}

static void begin(struct engine *e)
{
    for (uint32_t i = 0; i < e->plan.n_items; i++) {
        struct request *r = e->plan.items[i].request;
        fill_batch_row(e, &e->plan.items[i], &e->batch[i]);
        r->in_step = true;
        timeline_stamp(&r->params.timeline, TIMELINE_PREFILL_STARTED);
    }
    COUNT(steps, 1);
    const struct batch batch = {.seqs = e->batch, .n_seqs = e->plan.n_items};
    e->backend->ops->step_begin(e->backend, &batch);
}

static void forward(struct engine *e)
{
    uint32_t n_layers = e->backend->model->config.n_layers;
    uint32_t stride = e->plan.n_tokens >= LOOK_ROWS ? 1 : n_layers;
    while (!e->backend->ops->step_advance(e->backend, stride))
        drain_messages(e);
}

static void take_token(struct engine *e, struct request *r, int32_t token)
{
    if (token < 0) {
        end_request(e, r, FINISH_ERROR); /* the logits were not finite */
        return;
    }
    timeline_stamp(&r->params.timeline, TIMELINE_FIRST_TOKEN);
    COUNT(generated_tokens, 1);
    enum finish_reason reason = request_append(r, token, e->tokenizer);
    if (reason != FINISH_NONE)
        end_request(e, r, reason);
    else
        publish(e, r);
}

/* The request has had its turn: its KV positions count, and its row, if any, becomes a token. */
static void settle(struct engine *e, struct request *r, uint32_t n_tokens, const float *row)
{
    r->in_step = false;
    r->n_past += n_tokens;
    if (r->state == REQUEST_PREFILL)
        COUNT(prompt_tokens, n_tokens);
    if (r->cancelled) {
        end_request(e, r, FINISH_CANCELLED);
        return;
    }
    if (!row)
        return;
    if (r->state == REQUEST_PREFILL)
        request_move(&e->lists, r, REQUEST_DECODE);
    const struct sampler_input input = {
        .logits = row,
        .sampling = &r->params.sampling,
        .counts = &r->counts,
        .position = r->n_tokens,
    };
    take_token(e, r, sampler_sample(&e->sampler, &input));
}

/* From the last row to the first: new requests come last in a plan, and a first token is sampled
 * and sent before any other. */
static void finish(struct engine *e)
{
    struct step_result result;
    e->backend->ops->step_finish(e->backend, &result);
    uint32_t row = result.n_rows;
    for (uint32_t i = e->plan.n_items; i-- > 0;) {
        const float *logits = NULL;
        if (e->batch[i].output == OUTPUT_LAST)
            logits = result.logits + (size_t)--row * e->n_vocab;
        settle(e, e->plan.items[i].request, e->plan.items[i].n_tokens, logits);
    }
    REQUIRE(row == 0);
}

static void run_step(struct engine *e)
{
    plan_step(e);
    admit(e);
    begin(e);
    forward(e);
    finish(e);
#ifdef FIRSTLIGHT_DEBUG
    REQUIRE(kv_check(&e->kv));
#endif
}

static bool has_work(const struct engine *e)
{
    return e->lists.of[REQUEST_WAITING].n > 0 || e->lists.of[REQUEST_PREFILL].n > 0 ||
           e->lists.of[REQUEST_DECODE].n > 0;
}

void *engine_thread(void *engine)
{
    struct engine *e = engine;
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + ENGINE_NICE); /* of this thread */
    mem_forbid(true);
    for (;;) {
        drain_messages(e);
        if (e->stopping)
            break;
        if (has_work(e))
            run_step(e);
        else if (ring_empty(&e->messages)) /* seq_cst, see ring.c: no wake-up is lost */
            wake_wait(&e->to_engine);
    }
    return NULL;
}
