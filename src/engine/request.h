/* A request inside the engine: a slot, its state and its output.
 *
 *     FREE ─submit─► QUEUED ─drain─► WAITING ─admit─► PREFILL ─last chunk─► DECODE ─┐ in turns
 *       ▲                              │ ▲               │ │                     │  ▲───┘
 *       │                              │ └───preempt─────┴─│─────────────────────┤
 *       └──────────release──────── ENDED ◄─────────────────┴─────────────────────┘
 *
 * One state is one list (QUEUED's is the message ring, ENDED's the event ring and then the owner's
 * hands), and request_move is the only thing that changes it. The owner's thread has FREE and
 * ENDED, the engine thread WAITING, PREFILL and DECODE; a request passes between them through the
 * rings, whose release and acquire order everything plain in here.
 *
 * Output is append-only memory sized at submission, by the owner's thread. The engine writes past
 * what is published, then publishes with a release store; the owner reads up to what it loaded with
 * acquire.
 *
 *     text    |■■■■■■■■■■■■■■■■■■■■|▒▒▒▒▒▒▒▒▒|              |
 *             read_text ─►  text_visible  text_len (held)    text_cap
 */
#ifndef FIRSTLIGHT_ENGINE_REQUEST_H
#define FIRSTLIGHT_ENGINE_REQUEST_H

#include "engine/engine.h"
#include "engine/sampling/logprobs.h"
#include "engine/sampling/stop.h"
#include "engine/sampling/token_counts.h"
#include "text/tokenizer/detok.h"
#include "text/tokenizer/tokenizer.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum request_state {
    REQUEST_FREE,
    REQUEST_QUEUED,
    REQUEST_WAITING,
    REQUEST_PREFILL,
    REQUEST_DECODE,
    REQUEST_ENDED,
    REQUEST_STATES,
};

/* Steps so far, and those that left somebody out; differences of it tell what a wait was for. */
struct wait_count {
    uint32_t steps, no_blocks, no_place;
    uint32_t places;                 /* steps that had too few places for the prompts there were */
    uint32_t prompts, prompt_tokens; /* computed: whole prompts, and tokens of any */
};

struct request {
    uint32_t slot;
    uint32_t id; /* counts submissions, so that a late cancel cannot hit the slot's next user */
    enum request_state state;
    struct request *prev, *next;

    /* Set by the owner at submission, constant until release. */
    struct request_params params; /* its timeline is stamped by both sides, each its own stages */
    uint32_t max_tokens;
    size_t text_cap;
    struct stop *stop; /* NULL without stop strings */

    /* The owner's: a ring of the requests of one call with the same prompt, see admission.c. */
    struct request *copy_before, *copy_behind;

    /* The engine thread's, read by the scheduler. */
    int64_t arrived_us;
    int64_t served_us;      /* arrival, then the end of its last chunk or decode */
    int64_t chunk_us;       /* the end of its last chunk; 0: it has had none */
    int32_t priority;       /* of the policy of that name: lower goes first */
    uint32_t n_past;        /* positions in the KV cache */
    uint32_t n_goal;        /* positions to compute before the next token: the prompt, and after a
                               preemption the tokens generated so far */
    uint32_t n_cached;      /* while WAITING: of them in the prefix cache, when last looked */
    uint32_t n_blocks;      /* KV blocks it holds */
    struct request *leader; /* computes the prefix that this one waits for; NULL: nobody */
    struct request
        *urgent_follower; /* of those who wait for this one, who is the most urgent; NULL: nobody */
    uint32_t follow_at;   /* positions that the first of them waits for; 0: nobody waits */

    /* The engine thread's, from arrival on. */
    uint32_t charge; /* its part of the engine's backlog */

    /* The engine thread's. */
    uint64_t first_hash;    /* of the prompt's first block; 0: it is shorter than one */
    uint32_t leader_tokens; /* positions of the leader that this one waits for ... */
    uint32_t leader_gain;   /* ... and its own that it will then find in the cache */
    uint32_t n_published;   /* blocks that are in the prefix cache */
    uint32_t n_hit;         /* prompt tokens that were in it at admission */
    uint32_t n_tokens;
    size_t text_len;
    int32_t *tokens; /* (max_tokens) */
    char *text;      /* (text_cap) */
    struct detok detok;
    struct token_counts counts; /* only with penalties */
    struct logprobs logprobs;   /* only when asked for; a row is written before its token */
    bool was_evicted;           /* its beginning was in the prefix cache, but not any more */
    bool in_step;               /* its rows are in the running step */
    enum finish_reason ending;  /* while in_step: not FINISH_NONE when it ends with the step */
    struct request_wait wait;   /* of its first admission */
    struct wait_count steps_before;
    enum finish_reason finish; /* written before the finished event, read after */

    /* Published: engine stores with release, owner loads with acquire. */
    atomic_size_t text_visible;
    atomic_uint tokens_visible;
    atomic_bool dirty;    /* an event is on its way that the owner has not taken yet */
    atomic_bool admitted; /* it has left the queue; relaxed: it orders nothing */

    /* The owner's, away from what the engine writes at every step. */
    alignas(64) bool cancel_sent;
    bool finished;  /* the finished event was taken */
    bool discarded; /* nobody reads it */
    size_t read_text;
    uint32_t read_tokens;
};

struct request_list {
    struct request *first, *last;
    uint32_t n;
};

/* One per state; each list belongs to the thread that has the state. */
struct request_lists {
    struct request_list of[REQUEST_STATES];
};

/* Positions that its next chunk finds in the cache, as far as is known. */
static inline uint32_t request_past(const struct request *r)
{
    return r->state == REQUEST_WAITING ? r->n_cached : r->n_past;
}

/* Rows of its prompt are wanted: they are computed, whatever is cached, until it has tokens. */
static inline bool request_wants_prompt_logprobs(const struct request *r)
{
    return r->logprobs.prompt && r->n_tokens == 0;
}

/* Moves r to the end of the state's list; REQUIREs that the edge is in the picture above. */
void request_move(struct request_lists *lists, struct request *r, enum request_state to);
/* Puts a new slot on the list of free ones. */
void request_put(struct request_lists *lists, struct request *r);
bool request_edge(enum request_state from, enum request_state to);

/* Owner's thread. Takes *take's contents and allocates the output. On failure *take is untouched
 * and r stays empty. max_tokens is final here. */
enum status request_fill(struct request *r, struct request_params *take, uint32_t max_tokens,
                         const struct tokenizer *tokenizer, struct err *err);
/* Owner's thread: undoes request_fill; the seed may have been chosen. */
void request_give_back(struct request *r, struct request_params *out);
/* Owner's thread: frees what request_fill made; the slot's number and links stay. */
void request_clear(struct request *r);

/* Engine thread: takes a sampled token into tokens and text. The reason to finish, if any. */
enum finish_reason request_append(struct request *r, int32_t token,
                                  const struct tokenizer *tokenizer);
/* Engine thread: shows everything that may be shown; all of it when the request ends. */
void request_publish(struct request *r, bool all);

#endif
