/* The engine thread: one step after the other (engine_step.c) while there is work, asleep
 * otherwise; messages in, events out.
 *
 * Between layers of a long step the thread looks at its messages and deadlines too: a cancelled
 * request's rows are dropped from what is left to compute, and the request ends with the step.
 * Nothing here allocates or frees.
 */
#include "engine/internal.h"

#include "base/clock.h"
#include "base/mem.h"

#include <sys/resource.h>

#define ENGINE_NICE 1 /* above its creator: the I/O thread pre-empts it, as it does workers */

void engine_store_levels(struct engine *e)
{
    ENGINE_STORE(e, running, e->lists.of[REQUEST_PREFILL].n + e->lists.of[REQUEST_DECODE].n);
    ENGINE_STORE(e, waiting, e->lists.of[REQUEST_WAITING].n);
    ENGINE_STORE(e, kv_blocks_free, e->kv.n_free + e->kv.n_idle);
    ENGINE_STORE(e, kv_blocks_cached, e->kv.n_idle);
    ENGINE_STORE(e, prefix_evicted, e->prefix.evictions);
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

void engine_publish(struct engine *e, struct request *r)
{
    if (e->mode == ENGINE_SYNC)
        return; /* all of it comes with the end */
    request_publish(r, false);
    /* release: whoever clears the flag sees what was published above */
    if (!atomic_exchange_explicit(&r->dirty, true, memory_order_acq_rel))
        push_event(e, r, false);
}

void engine_end_request(struct engine *e, struct request *r, enum finish_reason reason)
{
    REQUIRE(!r->in_step);
    r->finish = reason;
    timeline_stamp(&r->params.timeline, TIMELINE_FINISHED);
    request_publish(r, true);
    engine_publish_kv(e, r, true);
    engine_wait_ends(e, r);
    engine_leave_line(e, r);
    kv_release(&e->kv, r->slot);
    e->live[r->slot] = 0;
    request_move(&e->lists, r, REQUEST_ENDED);
    engine_press_update(e, r);
    ENGINE_COUNT(e, finished, 1);
    ENGINE_COUNT(e, cancelled, reason == FINISH_CANCELLED);
    engine_store_levels(e);
    push_event(e, r, true);
}

/* --- messages ------------------------------------------------------------------------------- */

/* Now, or with the step that it is in, of which its rows are dropped. */
static void break_off(struct engine *e, struct request *r, enum finish_reason reason)
{
    if (!r->in_step) {
        engine_end_request(e, r, reason);
    } else if (r->ending == FINISH_NONE) {
        r->ending = reason;
        e->backend->ops->step_drop(e->backend, r->slot);
    }
}

static void break_off_all(struct engine *e, enum finish_reason reason)
{
    for (uint32_t slot = 0; slot < e->n_slots; slot++)
        if (e->live[slot] != 0)
            break_off(e, &e->slots[slot], reason);
}

bool engine_is_sound(struct engine *e)
{
    if (!atomic_load_explicit(&e->failed, memory_order_relaxed) && e->check &&
        e->check(e->check_arg, &e->failure) != STATUS_OK)
        atomic_store_explicit(&e->failed, true, memory_order_release);
    return !atomic_load_explicit(&e->failed, memory_order_relaxed);
}

void engine_fail_all(struct engine *e)
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
            break_off(e, r, FINISH_TIMEOUT);
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
        engine_arrive(e, &e->slots[slot]);
        note_deadline(e, &e->slots[slot]);
        if (atomic_load_explicit(&e->failed, memory_order_relaxed))
            break_off(e, &e->slots[slot], FINISH_ERROR);
        break;
    case MESSAGE_CANCEL:
        if (e->live[slot] == id) /* else it has ended, and the slot may be another's */
            break_off(e, &e->slots[slot], FINISH_CANCELLED);
        break;
    case MESSAGE_STOP:
        e->stopping = true;
        break_off_all(e, FINISH_CANCELLED);
        break;
    }
}

void engine_drain_messages(struct engine *e)
{
    uint64_t word;
    while (ring_pop(&e->messages, &word))
        handle_message(e, word);
    end_overdue(e);
}

static bool has_work(const struct engine *e)
{
    return e->lists.of[REQUEST_WAITING].n > 0 || e->lists.of[REQUEST_PREFILL].n > 0 ||
           e->lists.of[REQUEST_DECODE].n > 0;
}

bool engine_turn(struct engine *e)
{
    engine_drain_messages(e);
    if (e->stopping || !has_work(e))
        return false;
    engine_measured_step(e);
    return true;
}

void *engine_thread(void *engine)
{
    struct engine *e = engine;
    pthread_setname_np(pthread_self(), "engine"); /* another thread's name is a file in /proc */
    setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + ENGINE_NICE); /* of this thread */
    mem_forbid(true);
    while (!e->stopping)
        if (!engine_turn(e) && !e->stopping && ring_empty(&e->messages))
            wake_wait(&e->to_engine); /* ring_empty is seq_cst, see ring.c: no wake-up is lost */
    return NULL;
}
