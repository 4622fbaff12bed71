/* One stream of HTTP/2: an http_exchange over the frames of its connection. Private to http2*.c. */
#ifndef FIRSTLIGHT_HTTP_HTTP2_STREAM_H
#define FIRSTLIGHT_HTTP_HTTP2_STREAM_H

#include "base/limits.h"
#include "http/http2_conn.h"

struct http2_field {
    char *name; /* lower case; the value stands behind its NUL */
    const char *value;
    size_t name_len, value_len;
};

struct http2_fields {
    struct http2_field at[LIMIT_H2_FIELDS];
    uint32_t n;
    size_t bytes; /* as SETTINGS_MAX_HEADER_LIST_SIZE counts them (RFC 9113, 6.5.2) */
    bool failed;  /* too many, too long, or ... */
    bool no_memory;
};

struct http2_stream {
    struct http_exchange public; /* first: the two pointers are one */
    struct http2_conn *conn;
    struct http2_stream *next, *prev; /* of the connection's */
    struct http2_stream *todo_next;
    bool on_todo;
    int32_t id;

    /* noted inside nghttp2 */
    bool has_headers, came, whole, closed;
    bool emptied; /* all that was written has been taken */

    /* the request */
    struct http2_fields fields;
    struct evbuffer *body;
    size_t body_bytes; /* all of it so far */
    size_t unread;     /* of these, what the handler has not taken: the client's window waits */
    struct hold room;  /* of the stream itself and its headers */
    bool first;        /* it was its connection's only one when it came */
    struct timeline timeline;
    int64_t progress_us;
    bool begun; /* the handler has seen it */
    bool refused;
    bool no_room;   /* a part of the body was dropped: the requests hold too much already */
    bool no_memory; /* or there was no memory for it */

    /* the answer */
    struct http2_fields headers, trailers;
    struct evbuffer *out;
    bool started, finished;
    int64_t taken_us; /* when the client last took something of it */
    bool ended;       /* the handler was told */
    uint64_t end_at;  /* byte of the connection after which the answer is out */
    char request_id[LIMIT_REQUEST_ID_BYTES + 1];
};

/* Of each stream in its connection's session: its state, and the frames of its answer that have no
 * body. */
#define HTTP2_STREAM_SESSION (4u << 10)

/* NULL: there is no memory for it, or no room beside what all requests hold. */
struct http2_stream *http2_stream_new(struct http2_conn *c, int32_t id);
void http2_stream_free(struct http2_stream *s);
/* Works off what was noted; true: it is through, and is to be freed. */
bool http2_stream_act(struct http2_stream *s);
void http2_stream_todo(struct http2_stream *s);
/* The client is gone, or the connection. */
void http2_stream_end(struct http2_stream *s, bool gone);
/* Once a second. */
void http2_stream_tick(struct http2_stream *s, int64_t now_us);
void http2_stream_field(struct http2_stream *s, const uint8_t *name, size_t name_len,
                        const uint8_t *value, size_t value_len);
void http2_stream_data(struct http2_stream *s, const uint8_t *bytes, size_t len);

#endif
