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

#include "base/buf.h"
#include "observe/event_window.h"
#include "observe/request_log.h"

#include <stdbool.h>

struct http_exchange;
struct event_stream;
struct server;

/* A reader comes. */
void event_stream_begin(struct server *s, struct http_exchange *x);
void event_stream_request(struct server *s, const struct request_log_entry *q);
/* The server's state has changed; draining, it ends all streams. */
void event_stream_changed(struct server *s);
/* Nobody listens, or those who did have had time enough to read the end. */
bool event_stream_is_over(const struct event_stream *live);

/* live_json.c: the JSON of events. */
void event_json_put_server(struct buf *out, const struct server *s);
void event_json_put_stats(struct buf *out, struct server *s, struct event_window *window);
/* How many wait, at most LIMIT_LIVE_REQUESTS of them told. */
uint32_t event_json_put_waiting(struct buf *out, const struct server *s);

#endif
