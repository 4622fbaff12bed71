/* The engine's inside, shared by the files of engine/ and its tests.
 *
 *     owner's thread                                                       engine thread
 *     engine_submit, engine_cancel, close ──── messages ring, eventfd ───► engine_mailbox_drain
 *     engine_next_event ◄───────────────────── events ring, eventfd ────── engine_mailbox_publish
 *
 * A message is kind, slot and request id in one word; an event is slot and "finished". Per slot at
 * most three messages (a late cancel, the next user's submission and its cancel) and two events
 * (news, finished) are under way, which sizes the rings: a push never fails.
 */
#ifndef FIRSTLIGHT_ENGINE_INTERNAL_H
#define FIRSTLIGHT_ENGINE_INTERNAL_H

#include "base/histogram.h"
#include "base/ring.h"
#include "base/wake.h"
#include "engine/cost.h"
#include "engine/engine.h"
#include "engine/kv.h"
#include "engine/policy.h"
#include "engine/prefix.h"
#include "engine/request.h"
#include "engine/sampling/sampler.h"
#include "engine/scheduler.h"

#include <pthread.h>

enum message_kind { MESSAGE_SUBMIT, MESSAGE_CANCEL, MESSAGE_STOP };

static inline uint64_t message_word(enum message_kind kind, uint32_t slot, uint32_t id)
{
    return (uint64_t)id << 32 | (uint64_t)slot << 2 | kind;
}

static inline uint64_t event_word(uint32_t slot, bool finished)
{
    return (uint64_t)slot << 1 | finished;
}

/* What engine_stats reads: stored relaxed by the engine thread, loaded by anyone. */
struct engine_counters {
#define X(name) atomic_uint name;
    ENGINE_LEVELS(X)
#undef X
#define X(name) atomic_ullong name;
    ENGINE_COUNTERS(X)
#undef X
};
#define ENGINE_COUNT(e, field, n)                                                                  \
    atomic_fetch_add_explicit(&(e)->counters.field, (n), memory_order_relaxed)
#define ENGINE_STORE(e, field, n)                                                                  \
    atomic_store_explicit(&(e)->counters.field, (n), memory_order_relaxed)

/* How fast work goes away, over the last seconds: admission.c. */
struct engine_pace {
    int64_t pressed_us;           /* in steps that had prompts to compute or to admit ... */
    uint64_t admits;              /* ... and who was admitted */
    int64_t token_us;             /* in steps that took as many tokens of prompts as they may ... */
    uint64_t tokens, token_steps; /* ... these tokens, and the steps */
    int64_t place_us;      /* in steps that had too few places for the prompts there were ... */
    uint64_t place_admits; /* ... and requests admitted that they had kept out */
    int64_t busy_us;       /* in any step ... */
    uint64_t ends;         /* ... and who ended */
    uint64_t computed;     /* in the step under way: tokens of prompts, and the others */
    uint32_t admitted, kept_out, ended;
};

/* What waits, and how long until one less of each does: microseconds, of tokens nanoseconds. */
struct engine_admission {
    atomic_ullong backlog; /* prompt tokens: the owner charges, the engine thread takes off */
    atomic_uint queued;    /* requests: the same */
    atomic_ullong token_ns, admit_us, end_us; /* relaxed, by the engine thread ... */
    atomic_ullong place_us, places;           /* ... who finds no place; how many are free ... */
    atomic_ullong step_us, step_tokens;       /* ... a step short of tokens; 0: not yet known */
};

/* A step: what was planned, as the backend sees it, and how far it is. */
struct engine_step {
    struct plan plan;
    struct batch_seq *batch; /* (max_seqs) */
    uint32_t n_layers;       /* done */
    int64_t spent_us;        /* on it, without what others took while it was parked */
};

struct engine {
    /* Constant after open. */
    const struct tokenizer *tokenizer;
    struct backend *backend;
    struct kernels kernels;
    enum engine_mode mode;
    uint32_t n_ctx;
    uint32_t n_vocab;
    uint32_t n_slots;
    struct scheduler_limits limits;
    const struct policy *policy;
    const char *profile;
    bool cache_on;
    uint32_t max_queued_requests, max_queued_tokens;
    int64_t max_queue_us;                                   /* INT64_MAX: no bound */
    enum status (*check)(const void *arg, struct err *err); /* engine_parts has them */
    const void *check_arg;
    int32_t *ends; /* (n_ends) tokens that end an answer */
    uint32_t n_ends;
    pthread_t thread;
    bool started;

    /* Between the threads. */
    struct ring messages;
    struct ring events;
    struct wake to_engine;
    struct wake to_owner;
    struct engine_counters counters;
    struct engine_admission admission;
    struct err failure; /* written by the engine thread before the store (release) of ... */
    atomic_bool failed; /* ... this: what it computes is not to be believed any more */
    struct histogram step_time, step_error;
    struct request *slots;      /* (n_slots); who may touch one: request.h */
    struct request_lists lists; /* each list belongs to one thread: request.h */

    /* The owner's. */
    uint32_t last_id;
    bool draining;
    const char *limit;           /* see engine_limit */
    uint64_t refused_tokens;     /* that the refused one had to compute; UINT64_MAX: not known */
    struct engine_stats warm_up; /* what engine_warm did, left out of engine_stats ... */
    struct engine_step_stats warm_steps; /* ... and of engine_step_stats */

    /* The engine thread's. */
    uint32_t *live; /* (n_slots) id of the request that this thread has in the slot, 0: none */
    struct kv kv;
    struct prefix prefix;
    struct cost cost;
    struct sampler sampler;
    struct engine_step step;       /* the long one, which may be parked */
    struct engine_step short_step; /* the one that it stands aside for */
    struct wait_count waits;
    struct engine_pace pace;
    int64_t deadline_us; /* no request's is earlier; INT64_MAX: there is none */
    bool stepping;
    int64_t step_ended_us; /* the last one */
    bool stopping;
};

/* What an engine is made of besides its options: the seam that tests put a scripted backend in. */
struct engine_parts {
    const struct backend_ops *ops;
    const struct model *model;
    const struct tokenizer *tokenizer; /* NULL: answers have tokens but no text */
    enum engine_mode mode;
    bool by_hand; /* no thread is started: whoever opened it calls engine_thread_turn */
    /* Whether what was computed so far is good, see loader_check; NULL: always. Engine thread,
     * after every step and before anything of it is sampled, published or sent. */
    enum status (*check)(const void *arg, struct err *err);
    const void *check_arg;
};
enum status engine_open_parts(struct engine **out, const struct engine_parts *parts,
                              const struct engine_options *options, struct err *err);

/* engine_thread.c */
void *engine_thread(void *engine); /* pthread_create's function */
/* Takes the messages and runs one step; false when there was nothing to run. */
bool engine_thread_turn(struct engine *e);

/* engine_step.c */
void engine_step_run(struct engine *e);

/* engine_mailbox.c */
void engine_mailbox_drain(struct engine *e);
void engine_mailbox_publish(struct engine *e, struct request *r);
/* The one way out of WAITING, PREFILL and DECODE. After it the slot is the owner's. */
void engine_mailbox_end_request(struct engine *e, struct request *r, enum finish_reason reason);
/* Ends all requests with FINISH_ERROR: those in a step that is parked end with that. */
void engine_mailbox_fail_all(struct engine *e);

/* preempt.c */
/* Puts the youngest running request back among the waiting ones; false when none can be. */
bool preempt_youngest(struct engine *e);

/* prefix_sharing.c */
uint32_t prefix_sharing_cacheable(const struct request *r);
/* How many tokens of r are in the prefix cache now: r->n_cached. */
void prefix_sharing_look_up(struct engine *e, struct request *r);
void prefix_sharing_arrive(struct engine *e, struct request *r);
/* n_past has grown, and is published. */
void prefix_sharing_progressed(struct engine *e, struct request *r);
void prefix_sharing_leave(struct engine *e, struct request *r);
/* What the request's blocks hold is written for good: others may share it. */
void prefix_sharing_publish(struct engine *e, struct request *r, bool partial);

/* engine_stats.c */
void engine_stats_store_levels(struct engine *e);
void engine_stats_wait_begins(struct engine *e, struct request *r);
void engine_stats_wait_ends(struct engine *e, struct request *r); /* harmless a second time */
void engine_stats_count_step(struct engine *e, const struct plan *plan);
/* n more tokens of its prompt are in n_past. */
void engine_stats_count_chunk(struct engine *e, struct request *r, uint32_t n);
/* Before the cost model has seen it. */
void engine_stats_measure_step(struct engine *e, const struct cost_step *done, int64_t us);

/* admission.c */
/* Owner's thread: refuses (STATUS_OVERLOADED) what the queue has no room for; charges for a request
 * that was taken, behind the one `before` of the same call (NULL: it is the first); and forgets one
 * that has ended. */
enum status admission_check(struct engine *e, const struct request_params *take, uint32_t n,
                            struct err *err);
void admission_charge(struct engine *e, struct request *r, struct request *before);
void admission_released(struct engine *e, struct request *r);
/* Engine thread: what r has still to compute of its prompt, or again, is its charge from here on.
 */
void admission_update(struct engine *e, struct request *r);
void admission_admitted(struct engine *e, bool kept_out); /* in a step before for want of places */
void admission_step(struct engine *e, bool pressed, enum plan_limit limit, int64_t us);

#endif
