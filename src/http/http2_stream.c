#include "http/http2_stream.h"

#include "base/clock.h"
#include "base/mem.h"
#include "http/http_transport.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define SECOND_US      INT64_C(1000000)
#define FIELD_OVERHEAD 32 /* that each field counts beyond its bytes */
/* Of a stream until it is freed: with the session's part, its buffers, the headers of an answer,
 * the call that answers it, and what of an answer (http_has_room) and of an echo may always wait.
 */
#define STREAM_BYTES                                                                               \
    (sizeof(struct http2_stream) + HTTP2_STREAM_SESSION + (8u << 10) + 3 * LIMIT_STREAM_BUFFER)

/* Fields */

static void fields_add(struct http2_fields *f, const char *name, size_t name_len, const char *value,
                       size_t value_len)
{
    f->bytes += name_len + value_len + FIELD_OVERHEAD;
    char *both = NULL;
    if (!f->failed && f->n < LIMIT_H2_FIELDS && f->bytes <= LIMIT_HEADER_BYTES)
        f->no_memory = !(both = mem_alloc(name_len + value_len + 2));
    if (!both) {
        f->failed = true;
        return;
    }
    for (size_t i = 0; i < name_len; i++)
        both[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + ('a' - 'A') : name[i]);
    both[name_len] = '\0';
    memcpy(both + name_len + 1, value, value_len);
    both[name_len + 1 + value_len] = '\0';
    f->at[f->n++] = (struct http2_field){both, both + name_len + 1, name_len, value_len};
}

static const char *fields_find(const struct http2_fields *f, const char *name)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (strcasecmp(f->at[i].name, name) == 0)
            return f->at[i].value;
    return NULL;
}

static void fields_fini(struct http2_fields *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        mem_free(f->at[i].name);
    f->n = 0;
}

static size_t fields_nv(const struct http2_fields *f, nghttp2_nv *nv)
{
    for (uint32_t i = 0; i < f->n; i++)
        nv[i] = (nghttp2_nv){(uint8_t *)f->at[i].name, (uint8_t *)(uintptr_t)f->at[i].value,
                             f->at[i].name_len, f->at[i].value_len, NGHTTP2_NV_FLAG_NONE};
    return f->n;
}

/* What an exchange asks of its protocol */

static struct http2_stream *http2_stream_inside(const struct http_exchange *x)
{
    return (struct http2_stream *)(uintptr_t)x;
}

static bool http2_stream_via_peer(const struct http_exchange *x, struct sockaddr_storage *out)
{
    socklen_t len = sizeof *out;
    int fd = bufferevent_getfd(http2_stream_inside(x)->conn->bev);
    return getpeername(fd, (struct sockaddr *)out, &len) == 0;
}

static const char *http2_stream_via_header(const struct http_exchange *x, const char *name)
{
    return fields_find(&http2_stream_inside(x)->fields, name);
}

static struct evbuffer *http2_stream_via_take_body(struct http_exchange *x)
{
    struct http2_stream *s = http2_stream_inside(x);
    struct evbuffer *body = evbuffer_new();
    if (!body || evbuffer_add_buffer(body, s->body) != 0) {
        if (body)
            evbuffer_free(body);
        return NULL;
    }
    /* the client may send as much again */
    http2_conn_enter(s->conn);
    nghttp2_session_consume(s->conn->session, s->id, s->unread);
    s->unread = 0;
    http2_conn_flush(s->conn);
    return body;
}

static void http2_stream_via_add_header(struct http_exchange *x, const char *name,
                                        const char *value)
{
    fields_add(&http2_stream_inside(x)->headers, name, strlen(name), value, strlen(value));
}

static void http2_stream_via_add_trailer(struct http_exchange *x, const char *name,
                                         const char *value)
{
    fields_add(&http2_stream_inside(x)->trailers, name, strlen(name), value, strlen(value));
}

static struct hold *http2_stream_via_unsent(const struct http_exchange *x)
{
    struct http2_conn *c = http2_stream_inside(x)->conn;
    return x->keyless ? &c->keyless : &c->unsent;
}

static void add_unsent(const struct http2_stream *s, size_t more)
{
    struct hold *unsent = http2_stream_via_unsent(&s->public);
    byte_budget_force(unsent, unsent->bytes + more);
}

/* nghttp2 asks for the next part of the body, at most len bytes. */
static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t len,
                        uint32_t *flags, nghttp2_data_source *source, void *conn)
{
    struct http2_stream *s = source->ptr;
    (void)conn;
    int n = evbuffer_remove(s->out, bytes, len);
    size_t left = evbuffer_get_length(s->out);
    if (n > 0) {
        s->taken_us = clock_now_us();
        add_unsent(s, -(size_t)n);
    }
    if (left == 0 && !s->finished) {
        s->emptied |= n > 0;
        http2_stream_todo(s);
        return n > 0 ? n : NGHTTP2_ERR_DEFERRED;
    }
    if (left == 0) {
        nghttp2_nv nv[LIMIT_H2_FIELDS];
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (s->trailers.n > 0)
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
        size_t n_fields = fields_nv(&s->trailers, nv);
        if (s->trailers.failed ||
            (n_fields > 0 && nghttp2_submit_trailer(session, id, nv, n_fields) != 0))
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* which resets the stream */
    }
    return n > 0 ? n : 0;
}

/* Without memory even for that the connection ends: nobody is to wait for an answer. */
static void http2_stream_reset(struct http2_stream *s, uint32_t code)
{
    if (nghttp2_submit_rst_stream(s->conn->session, NGHTTP2_FLAG_NONE, s->id, code) != 0)
        s->conn->over = true;
}

/* Headers go out. Without a body they are all there is, trailers among them. */
static void submit_headers(struct http2_stream *s, bool with_body)
{
    const nghttp2_data_provider out = {.source.ptr = s, .read_callback = read_out};
    nghttp2_nv nv[1 + 2 * LIMIT_H2_FIELDS];
    char status[12];
    int n = snprintf(status, sizeof status, "%d", s->public.status);
    nv[0] = (nghttp2_nv){(uint8_t *)":status", (uint8_t *)status, 7, (size_t)n, 0};
    size_t count = 1 + fields_nv(&s->headers, nv + 1);
    if (!with_body)
        count += fields_nv(&s->trailers, nv + count);
    s->started = true;
    s->taken_us = clock_now_us();
    if (s->headers.failed || s->trailers.failed ||
        nghttp2_submit_response(s->conn->session, s->id, nv, count, with_body ? &out : NULL) != 0)
        http2_stream_reset(s, NGHTTP2_INTERNAL_ERROR);
}

static void add_out(struct http2_stream *s, const char *bytes, size_t len)
{
    if (evbuffer_get_length(s->out) == 0)
        s->taken_us = clock_now_us();
    if (len > 0 && evbuffer_add(s->out, bytes, len) != 0)
        http2_stream_reset(s, NGHTTP2_INTERNAL_ERROR);
    else
        add_unsent(s, len);
}

static void http2_stream_via_reply(struct http_exchange *x, int status, const char *body,
                                   size_t len)
{
    struct http2_stream *s = http2_stream_inside(x);
    char length[24];
    (void)status; /* the exchange has it */
    http2_conn_enter(s->conn);
    s->finished = true;
    if (strcmp(x->method, "HEAD") == 0) {
        snprintf(length, sizeof length, "%zu", len);
        http2_stream_via_add_header(x, "Content-Length", length);
        len = 0;
    }
    add_out(s, body, len);
    submit_headers(s, len > 0);
    http2_conn_flush(s->conn);
}

static void http2_stream_via_stream_start(struct http_exchange *x)
{
    struct http2_stream *s = http2_stream_inside(x);
    http2_conn_enter(s->conn);
    submit_headers(s, true);
    http2_conn_flush(s->conn);
}

static void http2_stream_via_stream_write(struct http_exchange *x, const char *bytes, size_t len)
{
    struct http2_stream *s = http2_stream_inside(x);
    if (s->finished)
        return;
    http2_conn_enter(s->conn);
    add_out(s, bytes, len);
    nghttp2_session_resume_data(s->conn->session, s->id);
    http2_conn_flush(s->conn);
}

static void http2_stream_via_stream_end(struct http_exchange *x, bool cut)
{
    struct http2_stream *s = http2_stream_inside(x);
    http2_conn_enter(s->conn);
    (void)cut; /* the stream's own end says it all */
    s->finished = true;
    nghttp2_session_resume_data(s->conn->session, s->id);
    http2_conn_flush(s->conn);
}

static size_t http2_stream_via_stream_waiting(const struct http_exchange *x)
{
    return evbuffer_get_length(http2_stream_inside(x)->out);
}

static const struct http_transport http2 = {
    .peer = http2_stream_via_peer,
    .header = http2_stream_via_header,
    .take_body = http2_stream_via_take_body,
    .add_header = http2_stream_via_add_header,
    .add_trailer = http2_stream_via_add_trailer,
    .reply = http2_stream_via_reply,
    .stream_start = http2_stream_via_stream_start,
    .stream_write = http2_stream_via_stream_write,
    .stream_end = http2_stream_via_stream_end,
    .stream_waiting = http2_stream_via_stream_waiting,
    .unsent = http2_stream_via_unsent,
};

/* The life of a stream */

/* Room for a stream, of what its address may have: whose key it brings is not known yet. The only
 * stream of a connection always has it, so that others with many cannot shut anybody out. */
static bool take_room(const struct http2_conn *c, struct hold *room)
{
    if (c->set->streams)
        (void)byte_budget_open(room, c->set->streams, &c->peer); /* nothing fits always */
    if (c->n_streams > 0)
        return byte_budget_set(room, STREAM_BYTES);
    byte_budget_force(room, STREAM_BYTES);
    return true;
}

/* Its headers, whose sum is bounded, are those of a connection's only stream too. */
static bool take_more_room(struct http2_stream *s, size_t more)
{
    if (!s->first)
        return byte_budget_set(&s->room, s->room.bytes + more);
    byte_budget_force(&s->room, s->room.bytes + more);
    return true;
}

struct http2_stream *http2_stream_new(struct http2_conn *c, int32_t id)
{
    struct hold room = {0};
    struct http2_stream *s = take_room(c, &room) ? mem_zalloc(sizeof *s) : NULL;
    if (!s) {
        byte_budget_end(&room);
        return NULL;
    }
    s->conn = c;
    s->id = id;
    s->room = room;
    s->first = c->n_streams == 0;
    s->body = evbuffer_new();
    s->out = evbuffer_new();
    if (!s->body || !s->out) {
        http2_stream_free(s);
        return NULL;
    }
    timeline_stamp(&s->timeline, TIMELINE_RECEIVED);
    s->progress_us = s->timeline.at_us[TIMELINE_RECEIVED];
    s->public.via = &http2;
    s->public.errors = c->set->errors;
    s->public.timeline = &s->timeline;
    return s;
}

void http2_stream_free(struct http2_stream *s)
{
    fields_fini(&s->fields);
    fields_fini(&s->headers);
    fields_fini(&s->trailers);
    byte_budget_end(&s->public.held);
    byte_budget_end(&s->room);
    if (s->body)
        evbuffer_free(s->body);
    if (s->out) {
        add_unsent(s, -evbuffer_get_length(s->out));
        evbuffer_free(s->out);
    }
    mem_free(s);
}

void http2_stream_todo(struct http2_stream *s)
{
    struct http2_conn *c = s->conn;
    if (s->on_todo)
        return;
    s->on_todo = true;
    s->todo_next = NULL;
    *c->todo_end = s;
    c->todo_end = &s->todo_next;
}

void http2_stream_field(struct http2_stream *s, const uint8_t *name, size_t name_len,
                        const uint8_t *value, size_t value_len)
{
    size_t more = name_len + value_len + FIELD_OVERHEAD;
    if (s->fields.failed)
        return;
    s->no_room = s->no_room || !take_more_room(s, more);
    if (!s->no_room)
        fields_add(&s->fields, (const char *)name, name_len, (const char *)value, value_len);
}

/* Nobody will read of its body: it was answered, or never asked for. */
static bool is_unwanted(const struct http2_stream *s)
{
    return s->refused || s->finished || (s->begun && !s->public.arrived);
}

/* What came of such a body before that was known goes, and the client's window opens. */
static void drop_unwanted(struct http2_stream *s)
{
    size_t len = evbuffer_get_length(s->body);
    if (!is_unwanted(s) || len == 0)
        return;
    evbuffer_drain(s->body, len);
    if (s->unread > 0)
        nghttp2_session_consume(s->conn->session, s->id, s->unread);
    s->unread = 0;
    struct hold *held = &s->public.held;
    byte_budget_force(held, held->bytes > len ? held->bytes - len : 0);
}

void http2_stream_data(struct http2_stream *s, const uint8_t *bytes, size_t len)
{
    struct hold *held = &s->public.held;
    s->progress_us = clock_now_us();
    s->body_bytes += len;
    s->came = true;
    if (is_unwanted(s) || s->no_memory || s->no_room || s->body_bytes > LIMIT_BODY_BYTES) {
        nghttp2_session_consume(s->conn->session, s->id, len); /* nobody will read it */
    } else if (!byte_budget_set(held, held->bytes + len)) {
        s->no_room = true;
        nghttp2_session_consume(s->conn->session, s->id, len);
    } else if (evbuffer_add(s->body, bytes, len) != 0) {
        s->no_memory = true;
        nghttp2_session_consume(s->conn->session, s->id, len);
    } else {
        s->unread += len;
        s->conn->kept += len;
    }
    http2_stream_todo(s);
}

static void refuse_for(struct http2_stream *s, const struct err *e, const char *code)
{
    s->refused = true;
    if (s->started)
        http2_stream_reset(s, NGHTTP2_CANCEL);
    else
        http_fail(&s->public, e, code);
}

static void http2_stream_refuse(struct http2_stream *s, enum status code, const char *why)
{
    struct err e;
    err_set(&e, code, "%s", why);
    refuse_for(s, &e, NULL);
}

static void refuse_room(struct http2_stream *s)
{
    struct err e;
    http_no_room(&s->public.held, &e);
    refuse_for(s, &e, http_code_memory);
}

static bool is_probe(const struct http2_stream *s)
{
    const struct http2_set *set = s->conn->set;
    return set->is_probe && set->is_probe(s->public.path);
}

/* Why it cannot be served at all; NULL: it can. Whether there is room for its answer is asked when
 * that is there, and its size known. */
static const struct err *http2_stream_refusal(const struct http2_stream *s)
{
    static const struct err headers = {STATUS_TOO_LARGE, "",
                                       "the request's headers are too many or too long"};
    static const struct err memory = {STATUS_NO_MEMORY, "", "no memory for the request's headers"};
    static const struct err unread = {
        STATUS_OVERLOADED, "",
        "the answers to earlier requests on this connection have not been read"};
    static const struct err room = {
        STATUS_UNAVAILABLE, "",
        "there is no room for the request's headers beside all others (--max-request-memory)"};
    if (s->fields.no_memory)
        return &memory;
    if (s->no_room)
        return &room;
    if (s->fields.failed)
        return &headers;
    size_t waiting = s->conn->unsent.bytes + s->conn->keyless.bytes;
    return waiting > LIMIT_H2_UNSENT && !is_probe(s) ? &unread : NULL;
}

/* Headers are there. The query is cut off the path, where both stand in one field. */
static void http2_stream_begin(struct http2_stream *s)
{
    struct http_exchange *x = &s->public;
    struct http2_set *set = s->conn->set;
    const char *method = fields_find(&s->fields, ":method");
    const char *path = fields_find(&s->fields, ":path");
    char *query = path ? strchr(path, '?') : NULL;
    if (query)
        *query++ = '\0';
    s->begun = true;
    x->method = method ? method : "?";
    x->path = path ? path : "";
    x->query = query;
    http_name_request(x, s->request_id);
    x->refused = http2_stream_refusal(s);
    s->refused = x->refused != NULL;
    set->handler(set->arg, x);
}

void http2_stream_end(struct http2_stream *s, bool gone)
{
    if (s->ended || !s->begun)
        return;
    s->ended = true;
    if (s->public.ended)
        s->public.ended(&s->public, gone);
    if (s->public.over)
        s->public.over(s->public.over_arg);
}

/* The end of the answer is in the bufferevent: wait until the socket has it. */
static bool is_out(struct http2_stream *s)
{
    if (s->end_at == 0)
        s->end_at = s->conn->queued;
    return s->conn->written >= s->end_at;
}

/* A body larger than allowed, or its next part, or its end. */
static void arrived(struct http2_stream *s)
{
    s->came = false;
    if (s->refused || s->finished)
        return;
    if (s->body_bytes > LIMIT_BODY_BYTES)
        http2_stream_refuse(s, STATUS_TOO_LARGE, "the body is larger than this server takes");
    else if (s->no_room)
        refuse_room(s);
    else if (s->no_memory)
        http2_stream_refuse(s, STATUS_NO_MEMORY, "no memory for the request");
    else if (s->public.arrived)
        s->public.arrived(&s->public, s->whole);
}

bool http2_stream_act(struct http2_stream *s)
{
    struct http_exchange *x = &s->public;
    if (s->closed) {
        bool whole = s->finished && evbuffer_get_length(s->out) == 0;
        if (whole && !is_out(s) && !s->conn->over)
            return false; /* the connection's next writing brings it back */
        http2_stream_end(s, !whole);
        return true;
    }
    if (s->has_headers && !s->begun)
        http2_stream_begin(s);
    if (s->came && s->begun)
        arrived(s);
    drop_unwanted(s);
    if (s->emptied) {
        s->emptied = false;
        if (!s->finished && x->drained)
            x->drained(x);
    }
    return false;
}

/* Requests that do not arrive, answers that nobody takes. */
void http2_stream_tick(struct http2_stream *s, int64_t now_us)
{
    bool late = now_us - s->timeline.at_us[TIMELINE_RECEIVED] > LIMIT_REQUEST_SECONDS * SECOND_US ||
                now_us - s->progress_us > LIMIT_IDLE_SECONDS * SECOND_US;
    if (late && !s->begun) /* its headers have not come whole */
        http2_stream_reset(s, NGHTTP2_CANCEL);
    else if (late && !s->whole && !s->started && !s->refused && !s->public.unhurried)
        http2_stream_refuse(s, STATUS_TIMEOUT, "the request did not arrive in time");
    if (evbuffer_get_length(s->out) > 0 && now_us - s->taken_us > LIMIT_WRITE_SECONDS * SECOND_US)
        http2_stream_reset(s, NGHTTP2_CANCEL);
}
