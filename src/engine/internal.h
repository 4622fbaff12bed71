/* The engine's inside, shared by the files of engine/ and its tests.
 *
 *     owner's thread                                                       engine thread
 *     engine_submit, engine_cancel, close ──── messages ring, eventfd ───► drain_messages
 *     engine_next_event ◄───────────────────── events ring, eventfd ────── publish, end_request
 *
 * A message is kind, slot and request id in one word; an event is slot and "finished". Per slot at
 * most three messages (a late cancel, the next user's submission and its cancel) and two events
 * (news, finished) are under way, which sizes the rings: a push never fails.
 */
#ifndef FIRSTLIGHT_ENGINE_INTERNAL_H
#define FIRSTLIGHT_ENGINE_INTERNAL_H

#include "base/ring.h"
#include "base/wake.h"
#include "engine/engine.h"
#include "engine/kv.h"
#include "engine/request.h"
#include "engine/sampler.h"
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
    atomic_uint running, waiting, kv_blocks_free;
    atomic_ullong steps, prompt_tokens, generated_tokens, finished, cancelled;
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
    uint32_t max_seqs;
    uint32_t max_tokens;
    uint32_t max_prompts, max_prompt_tokens; /* see scheduler.h */
    pthread_t thread;
    bool started;

    /* Between the threads. */
    struct ring messages;
    struct ring events;
    struct wake to_engine;
    struct wake to_owner;
    struct engine_counters counters;
    struct request *slots;      /* (n_slots); who may touch one: request.h */
    struct request_lists lists; /* each list belongs to one thread: request.h */

    /* The owner's. */
    uint32_t last_id;
    bool draining;
    struct engine_stats warm_up; /* what engine_warm did, left out of engine_stats */

    /* The engine thread's. */
    uint32_t *live; /* (n_slots) id of the request that this thread has in the slot, 0: none */
    struct kv kv;
    struct sampler sampler;
    struct plan plan;
    struct batch_seq *batch; /* (max_seqs) */
    bool stopping;
};

/* What an engine is made of besides its options: the seam that tests put a scripted backend in. */
struct engine_parts {
    const struct backend_ops *ops;
    const struct model *model;
    const struct tokenizer *tokenizer;
    enum engine_mode mode;
};
enum status engine_open_parts(struct engine **out, const struct engine_parts *parts,
                              const struct engine_options *options, struct err *err);

void *engine_thread(void *engine); /* pthread_create's function */

#endif
