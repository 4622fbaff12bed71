/* A call (struct completion): one request for completions and its choices, from its body to its log
 * line.
 *
 *     completion.c         from the body to the engine
 *     completion_output.c  what is written of it
 *     completion_end.c     how it ends: who holds it, what is kept of it
 *
 * A call has one choice or several, each a request of its own: those of the first prompt, then
 * those of the next. All of them are submitted at once or none. Each is written, or kept as JSON,
 * as it comes; the answer ends with the last of them.
 */
#ifndef FIRSTLIGHT_API_COMPLETION_H
#define FIRSTLIGHT_API_COMPLETION_H

#include "api/client_admission.h"
#include "api/openai_logprobs.h"
#include "api/server_state.h"
#include "api/wire_format.h"
#include "base/buf.h"
#include "http/request_id.h"

#include <event2/event_struct.h>

struct choice {
    struct text_job job; /* first: an unstreamed choice with many log probabilities becomes JSON */
    struct completion *call;
    struct request *r; /* NULL before submission and after release */
    uint32_t index;
    bool making;                          /* the text workers have the job */
    bool begun;                           /* some of it was written, or is in the call's `out` */
    bool begins;                          /* its first content is in the call's `out` */
    uint32_t cached_tokens;               /* once released */
    struct openai_logprobs_cursor cursor; /* of its log probabilities */
    struct metrics_track track;
    struct buf json; /* unstreamed: what it became */
};

struct completion {
    struct text_job job; /* first: parsing and tokenizing */
    struct server *server;
    struct completion *next, *prev;
    struct http_exchange *x; /* NULL once it has ended */
    struct choice *choices;  /* (n_choices); NULL before submission, and once all is told */
    uint32_t n_choices;
    uint32_t n_live; /* choices whose requests are the engine's */
    bool preparing;  /* the text workers have it */

    const struct wire_format *form;
    bool stream_asked; /* beside the question */
    float timeout_s;   /* that came beside the question; 0: none */
    struct evbuffer *body;
    struct hold held; /* of the body and what it becomes, until it is tokens; then of what echo
                         gives back */
    struct hold kept; /* of finished choices that wait for others, as part of the unsent answers */
    size_t kept_bytes;
    struct hold traced; /* of a long line of the trace, in the same budget */
    struct openai_request ask;
    uint64_t tokens_read;     /* of its prompts, also of those that are refused then */
    struct timeline timeline; /* until the answer; then that of the choice that came first */
    enum status prepared;
    struct err err;
    const char *code; /* of err, for the client */

    struct openai_response answer;
    bool streaming;
    bool lost;          /* there was no memory for a part of the stream: it ends with that */
    bool answered;      /* nothing more is written */
    bool behind;        /* news waits until the client has taken what was written */
    struct event timer; /* the next comment, or what gathers */
    int64_t written_us;
    int64_t coalesce_us; /* tokens gather for so long after each message */
    char id[REQUEST_ID_DIGITS + 16];
    struct buf out, logprobs;

    struct trace_line *trace; /* what --record will say of it; NULL without, or without memory */

    struct admitted admitted;
    bool keyed;                   /* its cached prompts are those of its API key ... */
    struct key_secret key_secret; /* ... which this makes the salts of */

    bool measured;            /* the call's first token */
    struct request_wait wait; /* of the first choice */
    bool was_evicted;         /* what was cached of its prompt */

    /* for the log line, the trace and the ring of recent requests */
    char request_id[LIMIT_REQUEST_ID_BYTES + 1];
    int status;
    bool gone;
    uint32_t prompt_tokens, completion_tokens, max_tokens; /* max: of each choice */
    uint32_t first_tokens;                                 /* of the first choice */
    uint32_t cached_tokens;                                /* and why: once choices is NULL */
    const char *cache;
    enum finish_reason finish;
    uint32_t n_gaps; /* between tokens */
    int64_t gaps_us;
};

/* --- completion.c --------------------------------------------------------------------------- */

struct completion_question {
    const struct api_kind *kind;
    const struct wire_format *form;
    struct evbuffer *body; /* taken over; NULL: there was no memory for it */
    bool stream;           /* the answer is a stream, whatever the body says */
    float timeout_s;       /* that came beside it; 0: none */
    int64_t coalesce_us;   /* tokens of a stream gather for so long after each message */
};
void completion_begin(struct server *s, struct http_exchange *x,
                      const struct completion_question *question);
void completion_cancel_all(struct server *s);
/* Who is not admitted yet, the oldest first: the first LIMIT_LIVE_REQUESTS into *out. How many. */
uint32_t completion_waiting(const struct server *s, struct server_view_waiting *out);

/* --- completion_output.c -------------------------------------------------------------------- */

/* The exchange may end inside each of these, and the call with it. */
void completion_output_start_stream(struct completion *c);
void completion_output_news(struct choice *ch);          /* the engine has news of the choice */
void completion_output_drained(struct http_exchange *x); /* http_exchange's */
void completion_output_timer(evutil_socket_t fd, short what, void *call); /* the timer's */

/* --- completion_end.c ----------------------------------------------------------------------- */

/* Refuses what does not become a call; reason: for /metrics. */
void completion_turn_away(struct server *s, struct http_exchange *x, const struct api_kind *kind,
                          const struct err *e, const char *reason);
void completion_on_ended(struct http_exchange *x, bool gone); /* http_exchange's */
void completion_cancel(struct completion *c);                 /* all that still run */
bool completion_is_broken(enum finish_reason finish);
/* Takes what the log and the answer need of a choice, and gives its slot back. */
void completion_release(struct choice *ch);
/* Nobody is told of its choices any more: those that are made go, those that wait to be made end,
 * and one that is being made goes when it is. */
void completion_drop(struct completion *c);
void completion_forget_body(struct completion *c);
uint32_t completion_cached_tokens(const struct completion *c); /* of what was released */
const char *completion_cache(const struct completion *c); /* why so many: see request_log_cache */
void completion_let_go(struct completion *c);             /* frees it if nobody holds it any more */

#endif
