/* What of a connection its streams use too: frames go out, and nothing acts. */
#include "http/http2_conn.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#define OUT_BYTES (64u << 10) /* in the bufferevent; streams wait beyond that */

/* Frames into the bufferevent, as long as that does not hold too much. None before it is known that
 * the client speaks HTTP/2. */
bool http2_conn_send(struct http2_conn *c)
{
    struct evbuffer *out = bufferevent_get_output(c->bev);
    bool any = false;
    while (!c->over && c->begun && evbuffer_get_length(out) < OUT_BYTES) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(c->session, &bytes);
        if (n == 0)
            break;
        if (n < 0 || evbuffer_add(out, bytes, (size_t)n) != 0) {
            c->over = true;
            break;
        }
        c->queued += (uint64_t)n;
        any = true;
    }
    return any;
}

void http2_conn_enter(struct http2_conn *c)
{
    c->depth++;
}

void http2_conn_flush(struct http2_conn *c)
{
    if (c->depth == 1)
        http2_conn_send(c);
    c->depth--;
    if (c->depth == 0 && (c->todo || c->over))
        event_active(&c->turn, EV_TIMEOUT, 0);
}
