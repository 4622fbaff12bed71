/* Connections: what stands between a socket and evhttp's parser.
 *
 * evhttp makes a connection around the bufferevent that http1_conn_new gives it. The guard reads
 * every byte that arrives before evhttp does, one timer per connection holds the deadlines
 * (evhttp's own restarts with each byte), and what the guard or a deadline refuses is answered
 * here:
 *
 *     NEW ─► IDLE ─first byte─► READING ─whole request─► BUSY ─answered─► IDLE ...
 *              └──────────────────┴─────► REFUSED ─► (client closes, or LIMIT_LINGER_SECONDS)
 *
 * At the end of the head, before a byte of the body is kept, `admit` says whether it is taken; what
 * arrives of it then is held of the budget that it named. A request that is there with its head, in
 * one read, is decided by its handler alone, and bounded by the size of a read.
 *
 * A connection is freed by evhttp alone; we end it by shutting its socket down. I/O thread only.
 */
#ifndef FIRSTLIGHT_HTTP_HTTP1_CONN_H
#define FIRSTLIGHT_HTTP_HTTP1_CONN_H

#include "base/allowance.h"
#include "base/err.h"
#include "base/timeline.h"
#include "http/client_limit.h"
#include "http/http.h"
#include "http/http1_framing.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <stdbool.h>
#include <stdint.h>

struct http1_conn;

#define HTTP1_CONN_REFUSALS 9 /* kinds, by HTTP status */

/* All connections of a listener. */
struct http1_conn_set {
    struct event_base *base;
    bool resting;                    /* the listener will be looked at again in a moment */
    struct evconnlistener *listener; /* paused when far too many have come; NULL at the end */
    uint32_t max;                    /* more than these are answered 503 */
    uint32_t count;
    uint32_t taken;                 /* of these, those that are no refusals */
    struct client_limit *addresses; /* counts the connections of each; NULL: nobody does */
    struct http1_conn **by_fd;      /* n_fds entries, NULL where there is none */
    size_t n_fds;
    uint64_t refused[HTTP1_CONN_REFUSALS];
    struct allowance discards;    /* bytes that refused clients go on to send */
    void (*gone)(void *exchange); /* the client left, or was shut out, before the answer's end */
    void (*left)(void *arg);      /* a connection is gone; NULL: nobody wants to know */
    void *left_arg;
    struct byte_budget *unsent;  /* what clients have not taken of all answers; NULL: no bound */
    struct byte_budget *keyless; /* and of those for which no key is asked; both or none */
    const struct http_error_format *errors;
    http_admit *admit; /* NULL: all bodies are taken */
    void *admit_arg;
};

struct http1_conn {
    struct http1_conn_set *set;
    struct bufferevent *bev; /* evhttp's; outlives the conn */
    int fd;
    struct client peer;
    bool counted; /* among those of its address */
    bool taken;   /* one of those up to the maximum */
    enum {
        HTTP1_CONN_NEW,
        HTTP1_CONN_IDLE,
        HTTP1_CONN_READING,
        HTTP1_CONN_BUSY,
        HTTP1_CONN_REFUSED
    } phase;
    struct event timer;
    struct http1_framing guard;
    struct http1_framing_head
        *head;           /* while the current request's is read; NULL: none, or it was decided */
    struct hold unsent;  /* what waits in the bufferevent ... */
    struct hold keyless; /* ... or, of an answer for which no key was asked, here */
    struct hold held;    /* of its body */
    struct timeline timeline; /* received: the first byte of the current request */
    struct timeline next;     /* of one that came before the current was answered */
    size_t ahead;             /* bytes of that, not yet seen by the guard */
    int64_t progress_us;      /* when bytes came last; when it was refused */
    void *exchange;           /* the http_exchange under way, NULL when none */
};

/* For evhttp_set_bevcb, arg the http1_conn_set. */
struct bufferevent *http1_conn_new(struct event_base *base, void *arg);
void http1_conn_set_init(struct http1_conn_set *set); /* what begins as something else than zero */
void http1_conn_set_fini(struct http1_conn_set *set);
/* How many were refused with the i-th status; false past the end. */
bool http1_conn_refusal_at(const struct http1_conn_set *set, size_t i, int *http_status,
                           uint64_t *n);

/* The connection of a request that evhttp has just delivered. */
struct http1_conn *http1_conn_find(struct http1_conn_set *set, struct evhttp_connection *evcon);
/* What holds the answer under way. */
struct hold *http1_conn_unsent(struct http1_conn *c);
/* The request is being worked on: notices from now on when the client leaves. */
void http1_conn_begin(struct http1_conn *c, void *exchange);
/* The answer has been written. */
void http1_conn_finish(struct http1_conn *c);
/* Closes the connection, after what was written before. */
void http1_conn_shut(struct http1_conn *c);

#endif
