/* One connection of HTTP/2: a bufferevent below, a session of nghttp2, its streams above.
 *
 *     bytes ─► bufferevent ─► nghttp2_session_mem_recv ─► callbacks note what came of each stream
 *                                                         │ todo
 *     bytes ◄─ bufferevent ◄─ nghttp2_session_mem_send ◄──┴─ streams act: handlers answer
 *
 * Nothing that a handler does happens inside nghttp2: callbacks put streams on a list, and
 * whatever entered the connection works it off before it leaves. Private to http2*.c.
 */
#ifndef FIRSTLIGHT_HTTP_HTTP2_CONN_H
#define FIRSTLIGHT_HTTP_HTTP2_CONN_H

#include "base/allowance.h"
#include "base/timeline.h"
#include "http/client_limit.h"
#include "http/http.h"
#include "http/http2_memory.h"

#include <event2/event_struct.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

struct bufferevent;
struct http2_stream;

/* What connections share: their listener's. */
struct http2_set {
    struct event_base *base;
    struct byte_budget *unsent;  /* what clients have not taken of all answers; NULL: no bound */
    struct byte_budget *keyless; /* and of those for which no key is asked; both or none */
    struct byte_budget *streams; /* what streams and their headers take; NULL: no bound */
    const struct http_error_format *errors;
    http_handler *handler;
    void *arg;
    http_is_probe *is_probe; /* NULL: no path does */
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    struct http2_conn *first;
    uint32_t count;
    uint64_t other_protocols;       /* connections refused for speaking one */
    struct client_limit *addresses; /* counts the connections of each; NULL: nobody does */
    struct allowance discards;      /* bytes that are of no body that anybody will read */
    bool draining;
    void (*left)(void *arg); /* a connection has gone */
    void *left_arg;
};

struct http2_conn {
    struct http2_set *set;
    struct http2_conn *next, *prev;
    struct bufferevent *bev;
    struct client peer; /* counted with set->addresses, if there are such */
    nghttp2_session *session;
    struct http2_memory memory;   /* the session's */
    struct http2_stream *streams; /* all of them */
    struct http2_stream *todo;    /* those that have something to do, the oldest first */
    struct http2_stream **todo_end;
    uint32_t n_streams;
    uint32_t n_closed;   /* of these, whose answer is not yet in the socket */
    struct hold unsent;  /* bytes of answers that wait in them ... */
    struct hold keyless; /* ... and of those for which no key was asked */
    uint32_t depth;      /* how often it was entered */
    bool begun;          /* the client's preface has come */
    bool over;           /* to be freed when it is left */
    bool told;           /* of the drain, for good */
    uint64_t kept;       /* bytes of bodies, that somebody will read */
    size_t for_nothing;  /* other bytes since set->discards was used up */
    uint64_t queued;     /* bytes that went to the bufferevent */
    uint64_t written;    /* of these, to the socket */
    int64_t heard_us;    /* when bytes came last */
    bool pinged;         /* and nothing came since */
    int64_t calm_us;     /* start of the second that `frames` counts */
    uint32_t frames;     /* that ask for work and bring nothing */
    struct event tick, turn, read_on;
};

/* Takes over the bufferevent, and its place among set->addresses (peer; NULL: unknown, where there
 * are none). False: no memory, and both are still the caller's. */
bool http2_conn_new(struct http2_set *set, struct bufferevent *bev, const struct client *peer);
void http2_conn_free(struct http2_conn *c); /* its exchanges end first, gone */
void http2_conn_drain(struct http2_conn *c);
enum status http2_conn_set_init(struct http2_set *set, struct err *err);
void http2_conn_set_fini(struct http2_set *set);

/* Around everything that may make a connection send, act or end. What handlers call leaves by
 * http2_conn_flush: that only sends, and streams act, or end, on the event loop's next turn. */
void http2_conn_enter(struct http2_conn *c);
void http2_conn_leave(struct http2_conn *c);
void http2_conn_flush(struct http2_conn *c);
/* Frames into the bufferevent; true: there were some. */
bool http2_conn_send(struct http2_conn *c);

#endif
