/* The engine: requests in, tokens out, on its own thread.
 *
 * One thread (the owner: the server's I/O thread, or main in the command line) submits, cancels,
 * takes events and releases. The engine thread owns scheduling, KV blocks and the sampler, and is
 * worker 0 of the backend. Between them are two rings (messages, events) and two eventfds; no
 * lock is taken and the owner never waits for a step.
 *
 * Life of a request, owner's side:
 *
 *     engine_submit ─► [engine_next_event ─► request_read]* ─► (finished) ─► engine_release
 *                      engine_cancel at any time; the finished event still comes
 *
 * Output goes to an array inside the request, sized at submission: the engine appends, marks the
 * request dirty and pushes it once, so the event ring can never overflow and a slow reader simply
 * finds more when it looks.
 */
#ifndef FIRSTLIGHT_ENGINE_ENGINE_H
#define FIRSTLIGHT_ENGINE_ENGINE_H

#include "backend/backend.h"
#include "base/err.h"
#include "base/histogram.h"
#include "base/limits.h"
#include "base/pool.h"
#include "base/timeline.h"
#include "engine/prefix_salt.h"
#include "engine/sampling/token_logprob.h"
#include "model/load/loader.h"
#include "params/sampling.h"

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct request_params;
struct request; /* a slot of the engine; the owner holds it from submit to release */

/* Scheduling modes: an engine by name is a mode plus a backend. */
enum engine_mode {
    ENGINE_CONTINUOUS, /* prefill chunks and decodes of many requests share every step */
    ENGINE_SYNC,       /* one request at a time, its text delivered at the end: the baseline */
};

/* One row per engine name ("cpu", "cpu-sync"). */
struct engine_kind {
    const char *name;
    enum engine_mode mode;
    const char *backend;
    const char *about;
};
const struct engine_kind *engine_kind_at(size_t i); /* NULL past the end */
/* "auto" gives the first available one. NULL and *err when unknown or not available (with why). */
const struct engine_kind *engine_kind_find(const char *name, struct err *err);
bool engine_kind_available(const struct engine_kind *k, char *why, size_t why_size);

/* A number of struct engine_options that is ENGINE_UNSET gets the default that its comment names,
 * so a struct that is all zero but for a few fields says only those. ENGINE_NONE, where a comment
 * has it, is the opposite of a default: nothing is promised, or there is no bound. */
#define ENGINE_UNSET 0
#define ENGINE_NONE  UINT32_MAX

struct engine_options {
    const struct engine_kind *kind; /* NULL: auto's */
    uint32_t n_threads;             /* unset: all usable processors */
    uint32_t cpu_levels;
    enum activations activations;
    enum kv_type kv_type;
    uint32_t n_ctx;            /* positions of one request; unset: the model's, if memory allows */
    size_t kv_memory;          /* bytes of the KV pool; unset: chosen from what is available */
    uint32_t n_slots;          /* requests known at once; unset: LIMIT_SLOTS */
    uint32_t max_batch_seqs;   /* unset: LIMIT_BATCH_SEQS */
    uint32_t max_batch_tokens; /* unset: LIMIT_BATCH_TOKENS */
    uint32_t max_step_prompts; /* prompts that one step computes a part of; unset: no bound */
    uint32_t max_step_prompt_tokens; /* and their tokens in one step; unset: no bound */
    const char *policy;              /* NULL: the default; see engine_policy_at */
    const char *profile;             /* NULL: the default; see engine_profile_at */
    uint32_t max_active; /* admitted at once; unset: while a promised gap is kept, else one batch */
    bool no_prefix_cache;
    uint32_t max_queued_requests; /* not yet admitted; unset: as many as there are slots */
    uint32_t max_queued_tokens;   /* of prompts, still to be computed; unset: ENGINE_NONE */
    /* Unset, these are the profile's: profile_fill. */
    uint32_t decode_gap_ms; /* promised between two tokens of a stream; or ENGINE_NONE */
    uint32_t max_queue_ms;  /* that the prompts which wait take to compute; or ENGINE_NONE */
    double efficiency;      /* see scheduler_limits */
};

/* The names that `policy` and `profile` take, and what each is for; false past the end. */
bool engine_policy_at(size_t i, const char **name, const char **about);
bool engine_profile_at(size_t i, const char **name, const char **about);

/* What was sized at start, for the log and /metrics. */
struct engine_info {
    uint32_t n_ctx;
    uint32_t n_kv_blocks;
    uint32_t n_slots;
    int n_threads;
    bool prefix_cache;            /* it is on */
    const char *policy, *profile; /* static */
    int64_t decode_gap_us;        /* promised; 0: nothing is */
    uint32_t max_queued_requests;
    struct backend_memory memory;
    size_t slots_memory;
    size_t expect_memory; /* counters of what prompts will find in the prefix cache */
};

/* Opens the backend, sizes everything, starts the engine thread. `loader` must outlive the engine.
 * Too little memory is an error that names what is needed and what there is. */
enum status engine_open(struct engine **out, const struct loader *loader,
                        const struct engine_options *options, struct err *err);
/* Cancels what runs, stops the thread, frees. Every request must have been released, or is. */
void engine_close(struct engine *e);
void engine_info(const struct engine *e, struct engine_info *out);

/* Whether what it computes can be believed: STATUS_OK, or for good STATUS_UNAVAILABLE with the
 * reason once the model's weights were lost. Then every request has ended, or ends, with
 * FINISH_ERROR, and engine_submit refuses with the same. Any thread. */
enum status engine_failure(const struct engine *e, struct err *err);

/* Runs a few throw-away steps so that the first request finds everything warm, then the n prompts,
 * which it takes as engine_submit does, so that the prefix cache holds them: those of the salt
 * prefix_salt_public for everybody, which go first; returns when done.
 * Before the first submit, on the thread that called engine_open: the owner may be another one from
 * here on, if something (a join, a wake-up) orders this before what it does. */
enum status engine_warm(struct engine *e, struct request_params *prompts, uint32_t n,
                        struct err *err);

/* Ranges are checked by engine_submit too: STATUS_INVALID names the parameter. */
struct request_params {
    int32_t *prompt; /* n_prompt ids, n_prompt >= 1 */
    uint32_t n_prompt;
    struct prefix_salt salt;
    int32_t priority;      /* lower goes first, under the policy "priority" (as vLLM has it) */
    uint32_t max_tokens;   /* 0: up to the context's end; more than fits is cut to what fits */
    uint32_t min_tokens;   /* before so many no end token is drawn and no stop string counts */
    bool logprobs;         /* of every token, and of top_logprobs alternatives */
    uint32_t top_logprobs; /* at most LIMIT_TOP_LOGPROBS */
    bool prompt_logprobs;  /* of the prompt's tokens too: it is computed whole, nothing is cached */
    struct sampling sampling;
    char *stop[LIMIT_STOP_STRINGS]; /* UTF-8, never empty */
    uint32_t n_stop;
    bool ignore_eos;
    int64_t deadline_us; /* of clock_now_us; from then on it ends with FINISH_TIMEOUT, and is not
                            prefilled if it was not yet; 0: none */
    struct timeline timeline; /* received, parsed, tokenized already stamped */
    void *user;               /* the owner's own, see request_user */
};
/* Frees prompt, bias and stop strings and zeroes *p. */
void request_params_fini(struct request_params *p);
/* All of p but its prompt, which is a copy of the n ids given. */
enum status request_params_copy(struct request_params *out, const struct request_params *p,
                                const int32_t *prompt, uint32_t n, struct err *err);

/* Takes the request over: on STATUS_OK everything in *take belongs to the engine and *take is
 * zeroed; on failure *take is untouched. STATUS_INVALID: a parameter, or a prompt longer than the
 * context; STATUS_OVERLOADED: no slot free, or a limit of the queue is reached, see engine_limit;
 * STATUS_UNAVAILABLE: draining, or engine_failure. Where no prompt waits or is being computed only
 * slots count. */
enum status engine_submit(struct engine *e, struct request_params *take, struct request **out,
                          struct err *err);
/* The same for n requests, 1 or more, one behind the other: all of them or none. */
enum status engine_submit_all(struct engine *e, struct request_params *take, uint32_t n,
                              struct request **out, struct err *err);

/* Which limit the last STATUS_OVERLOADED was about: "slots", "queued_requests", "queued_tokens",
 * "queue_time"; static text. Owner's thread. */
const char *engine_limit(const struct engine *e);

/* Microseconds after which n requests with so many prompt tokens in all, refused just now with
 * STATUS_OVERLOADED, are expected to be taken; owner's thread, see admission.c. Of the tokens
 * only those count that were not expected in the cache when they were refused. While draining:
 * until everything has ended. */
int64_t engine_retry_after_us(const struct engine *e, uint32_t n, uint64_t n_tokens);

/* Asks for the request's end; idempotent. It stops within one step, its KV blocks are freed by that
 * step's end, and its finished event comes with FINISH_CANCELLED. */
void engine_cancel(struct engine *e, struct request *r);

/* Nobody will read this request any more: it is cancelled if it still runs, and released as soon as
 * it has ended; no event of it comes. Not to be touched afterwards. */
void engine_discard(struct engine *e, struct request *r);

/* From now on engine_submit answers STATUS_UNAVAILABLE. */
void engine_drain(struct engine *e);

/* Readable while there may be events: clear with engine_events_clear, then take events until NULL.
 */
int engine_event_fd(const struct engine *e);
void engine_events_clear(struct engine *e);
/* The next request with news, NULL when there is none. However much is new, a request comes once
 * for it, and once more, last of all, when it has finished: only then does request_read say so. */
struct request *engine_next_event(struct engine *e);
/* Sleeps until there may be events (for owners without an event loop). */
void engine_wait(struct engine *e);

enum finish_reason {
    FINISH_NONE,
    FINISH_STOP,
    FINISH_LENGTH,
    FINISH_CANCELLED,
    FINISH_TIMEOUT, /* its deadline passed */
    FINISH_ERROR,
};
/* "stop", "length", "cancelled", "timeout", "error" */
const char *finish_reason_name(enum finish_reason r);

/* What is new since the last read. Pointers stay valid until engine_release. */
struct request_news {
    const char *text; /* whole UTF-8 characters; never part of a stop string */
    size_t text_len;
    const int32_t *tokens;
    uint32_t n_tokens;
    /* NULL unless asked for. A row per token: itself, then the likeliest, best first. */
    const struct token_logprob *logprobs; /* (n_tokens, logprobs_width) */
    uint32_t logprobs_width;
    /* The same of the prompt, once there are tokens; the first one's means nothing. */
    const struct token_logprob *prompt_logprobs; /* (n_prompt, logprobs_width) */
    const size_t *text_before; /* (n_tokens) bytes of the whole text before each token's own */
    enum finish_reason finish; /* FINISH_NONE while running */
};
void request_read(struct request *r, struct request_news *out);

/* Everything so far, for unstreamed answers. */
void request_all(const struct request *r, struct request_news *out);
struct timeline *request_timeline(struct request *r);
void *request_user(const struct request *r);
const int32_t *request_prompt(const struct request *r);
uint32_t request_prompt_tokens(const struct request *r);
uint32_t request_cached_tokens(const struct request *r); /* of the prompt; once it has news */

/* It has left the queue, at least once. Any time while the owner has it. */
bool request_is_admitted(const struct request *r);

/* None of its prompt was cached, though its beginning had been, as far as is remembered. */
bool request_was_evicted(const struct request *r);

/* What stood before a request when it came, and what it waited for. Once it has news or has ended.
 */
struct request_wait {
    uint32_t waiting, running; /* requests before it */
    uint64_t tokens;           /* that these had still to compute before their next token */
    bool in_step;              /* it came while a step was running */
    bool followed;             /* for a request with the same beginning, to find that cached */
    bool over;                 /* false: it ended before it was admitted and before it waited */
    uint32_t steps;            /* begun meanwhile */
    uint32_t steps_no_blocks;  /* of these, where the next in order found too few KV blocks ... */
    uint32_t steps_no_place;   /* ... or as many as may be active were */
    uint32_t prompts;          /* of others, computed meanwhile, some of them in part ... */
    uint32_t prompt_tokens;    /* ... and so many tokens of them */
};
void request_waited(const struct request *r, struct request_wait *out);
/* The first that holds of "leader", "kv_blocks", "max_active", "turn" (steps with others in them),
 * "step" (the one under way when it came), "nothing". */
const char *request_wait_reason(const struct request_wait *w);

/* Gives the slot back; only after the finished event was read. */
void engine_release(struct engine *e, struct request *r);

/* What the engine thread says of itself: levels, and counters that only grow. All of them are
 * fields of struct engine_stats; a new one is its row here, and whoever stores or counts it
 * (ENGINE_STORE, ENGINE_COUNT). Of the counters what engine_warm did is left out. */
#define ENGINE_LEVELS(X)                                                                           \
    X(running)                                                                                     \
    X(waiting)                                                                                     \
    X(kv_blocks_free)   /* nobody uses them */                                                     \
    X(kv_blocks_cached) /* of these, kept for prompts to come */
#define ENGINE_COUNTERS(X)                                                                         \
    X(steps)                                                                                       \
    X(prompt_tokens)                                                                               \
    X(generated_tokens)                                                                            \
    X(finished)                                                                                    \
    X(cancelled)                                                                                   \
    X(prefix_queried) /* prompt tokens looked up at admission, and found */                        \
    X(prefix_hit)                                                                                  \
    X(prefix_evicted) /* blocks dropped from it */                                                 \
    X(preempted)                                                                                   \
    X(parked)     /* times that a step stood aside for another */                                  \
    X(gap_missed) /* steps whose decodes alone take longer than promised */                        \
    X(busy_us)    /* in steps */

/* A snapshot for /metrics, /health and tests; any thread. */
struct engine_stats {
#define X(name) uint32_t name;
    ENGINE_LEVELS(X)
#undef X
    uint32_t queued;         /* submitted and never yet admitted */
    uint64_t backlog_tokens; /* of prompts, still to be computed */
    uint32_t kv_blocks_total;
#define X(name) uint64_t name;
    ENGINE_COUNTERS(X)
#undef X
};
void engine_stats(const struct engine *e, struct engine_stats *out);

/* What steps took, in us, and how far off the cost model was, in millionths of that. Any thread. */
struct engine_step_stats {
    struct histogram_view time, error;
};
void engine_step_stats(const struct engine *e, struct engine_step_stats *out);

/* Of the backend's workers; all zero when it does not know. Any thread. */
void engine_usage(const struct engine *e, struct pool_usage *out);

#endif
