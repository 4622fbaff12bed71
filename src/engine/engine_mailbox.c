/* What the engine's owner and the engine thread tell each other: messages in, events out, and how a
 * request ends. Engine thread.
 *
 * Between layers of a long step the thread looks at its messages and deadlines too: a cancelled
 * request's rows are dropped from what is left to compute, and the request ends with the step.
 * Nothing here allocates or frees.
 */
#include "engine/internal.h"

#include "base/clock.h"

/* --- events --------------------------------------------------------------------------------- */

/* The owner is woken at once, not at the step's end: a first token does not wait for neighbours. */
static void push_event(struct engine *e, const struct request *r, bool finished)
{
    bool was_empty;
    REQUIRE(ring_push(&e->events, event_word(r->slot, finished), &was_empty));
    if (was_empty)
        wake_signal(&e->to_owner);
}

void engine_mailbox_publish(struct engine *e, struct request *r)
{
    if (e->mode == ENGINE_SYNC)
        return; /* all of it comes with the end */
    request_publish(r, false);
    /* release: whoever clears the flag sees what was published above */
    if (!atomic_exchange_explicit(&r->dirty, true, memory_order_acq_rel))
        push_event(e, r, false);
}

void engine_mailbox_end_request(struct engine *e, struct request *r, enum finish_reason reason)
{
    REQUIRE(!r->in_step);
    r->finish = reason;
    timeline_stamp(&r->params.timeline, TIMELINE_FINISHED);
    request_publish(r, true);
    prefix_sharing_publish(e, r, true);
    engine_stats_wait_ends(e, r);
    prefix_sharing_leave(e, r);
    kv_release(&e->kv, r->slot);
    e->live[r->slot] = 0;
    request_move(&e->lists, r, REQUEST_ENDED);
    admission_update(e, r);
    ENGINE_COUNT(e, finished, 1);
    ENGINE_COUNT(e, cancelled, reason == FINISH_CANCELLED);
    engine_stats_store_levels(e);
    push_event(e, r, true);
}

/* --- messages ------------------------------------------------------------------------------- */

/* Now, or with the step that it is in, of which its rows are dropped. */
static void engine_mailbox_break_off(struct engine *e, struct request *r, enum finish_reason reason)
{
    if (!r->in_step) {
        engine_mailbox_end_request(e, r, reason);
    } else if (r->ending == FINISH_NONE) {
        r->ending = reason;
        e->backend->ops->step_drop(e->backend, r->slot);
    }
}

static void break_off_all(struct engine *e, enum finish_reason reason)
{
    for (uint32_t slot = 0; slot < e->n_slots; slot++)
        if (e->live[slot] != 0)
            engine_mailbox_break_off(e, &e->slots[slot], reason);
}

void engine_mailbox_fail_all(struct engine *e)
{
    break_off_all(e, FINISH_ERROR);
}

/* Looks at all of them only when the earliest deadline there was has passed: at most once for each
 * request that has one. */
static void end_overdue(struct engine *e)
{
    if (e->deadline_us == INT64_MAX || clock_now_us() < e->deadline_us)
        return;
    int64_t now_us = clock_now_us(), next_us = INT64_MAX;
    for (uint32_t slot = 0; slot < e->n_slots; slot++) {
        struct request *r = &e->slots[slot];
        if (e->live[slot] == 0 || r->params.deadline_us == 0)
            continue;
        if (r->params.deadline_us <= now_us)
            engine_mailbox_break_off(e, r, FINISH_TIMEOUT);
        else if (r->params.deadline_us < next_us)
            next_us = r->params.deadline_us;
    }
    e->deadline_us = next_us;
}

static void note_deadline(struct engine *e, const struct request *r)
{
    int64_t deadline_us = r->params.deadline_us;
    if (deadline_us != 0 && deadline_us < e->deadline_us)
        e->deadline_us = deadline_us;
}

static void handle_message(struct engine *e, uint64_t word)
{
    uint32_t slot = (uint32_t)word >> 2, id = (uint32_t)(word >> 32);
    switch ((enum message_kind)(word & 3)) {
    case MESSAGE_SUBMIT:
        e->live[slot] = id;
        prefix_sharing_arrive(e, &e->slots[slot]);
        note_deadline(e, &e->slots[slot]);
        if (atomic_load_explicit(&e->failed, memory_order_relaxed))
            engine_mailbox_break_off(e, &e->slots[slot], FINISH_ERROR);
        break;
    case MESSAGE_CANCEL:
        if (e->live[slot] == id) /* else it has ended, and the slot may be another's */
            engine_mailbox_break_off(e, &e->slots[slot], FINISH_CANCELLED);
        break;
    case MESSAGE_STOP:
        e->stopping = true;
        break_off_all(e, FINISH_CANCELLED);
        break;
    }
}

void engine_mailbox_drain(struct engine *e)
{
    uint64_t word;
    while (ring_pop(&e->messages, &word))
        handle_message(e, word);
    end_overdue(e);
}
