/* GET /v1/debug/stream: what the server does, as it does it, as server-sent events.
 *
 *     event: server     what it is; once at the start, and again when its state changes
 *     event: request    one that has ended, as GET /v1/debug/requests has it; at the start the last
 *                       LIMIT_LIVE_REQUESTS, oldest first
 *     event: stats      every second
 *     event: waiting    beside it while somebody waits, and once more when nobody does any more
 *     event: missed     so many events were dropped, because the reader had not taken others
 *
 * Whatever is told is made once for all readers. Nothing exists and nothing ticks while nobody
 * listens, and the engine is asked for nothing but its counters. I/O thread only.
 */
#ifndef FIRSTLIGHT_OBSERVE_EVENT_STREAM_H
#define FIRSTLIGHT_OBSERVE_EVENT_STREAM_H

#include "observe/request_log.h"
#include "observe/server_view.h"

#include <stdbool.h>

struct event_base;
struct event_stream_live;
struct http_exchange;

struct event_stream {
    /* the owner's, before anybody listens */
    struct event_base *base;
    void (*look)(void *arg, struct server_view *out);
    /* Who waits, the oldest first: the first LIMIT_LIVE_REQUESTS into *out. Returns how many. */
    uint32_t (*waiting)(void *arg, struct server_view_waiting *out);
    void (*ended)(void *arg); /* event_stream_is_over from now on */
    void *arg;

    struct event_stream_live *live; /* NULL while nobody listens */
};

/* A reader comes. */
void event_stream_begin(struct event_stream *e, struct http_exchange *x);
void event_stream_request(struct event_stream *e, const struct request_log_entry *q);
/* The server's state has changed; draining, it ends all streams. */
void event_stream_changed(struct event_stream *e);
/* Nobody listens, or those who did have had time enough to read the end. */
bool event_stream_is_over(const struct event_stream *e);

#endif
