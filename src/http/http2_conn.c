#include "http/http2_conn.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/http2_stream.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define SECOND_US   INT64_C(1000000)
#define FRAME_BYTES (16u << 10) /* of what clients send (SETTINGS_MAX_FRAME_SIZE's default) */
#define PREFACE     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define PREFACE_LEN 3 /* enough of it to tell it from a request of HTTP/1.1 */

/* What nghttp2 tells: noted, and worked off when it has returned. */

static struct http2_stream *http2_conn_stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http2_conn *c = arg;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct http2_stream *s = http2_stream_new(c, frame->hd.stream_id);
    if (!s) /* nothing was done of it: the client may ask again */
        return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                         NGHTTP2_REFUSED_STREAM) == 0
                   ? 0
                   : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    s->next = c->streams;
    if (s->next)
        s->next->prev = s;
    c->streams = s;
    c->n_streams++;
    nghttp2_session_set_stream_user_data(session, s->id, s);
    return 0;
}

static int http2_conn_on_header(nghttp2_session *session, const nghttp2_frame *frame,
                                const uint8_t *name, size_t name_len, const uint8_t *value,
                                size_t value_len, uint8_t flags, void *arg)
{
    struct http2_stream *s = http2_conn_stream_of(session, frame->hd.stream_id);
    (void)flags;
    (void)arg;
    if (s && !s->has_headers) /* trailers of a request say nothing here */
        http2_stream_field(s, name, name_len, value, value_len);
    return 0;
}

/* Frames that make work and bring nothing, counted by the second. A client of gRPC pings now and
 * then; one that does nothing else is told to go. */
static void count_idle_frame(struct http2_conn *c)
{
    int64_t now = clock_now_us();
    if (now - c->calm_us > SECOND_US) {
        c->calm_us = now;
        c->frames = 0;
    }
    if (++c->frames != LIMIT_H2_IDLE_FRAMES)
        return;
    log_info("connection.flood", "frames=%u", c->frames);
    nghttp2_session_terminate_session(c->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static bool brings_nothing(const nghttp2_frame *frame)
{
    switch (frame->hd.type) {
    case NGHTTP2_PING:
    case NGHTTP2_SETTINGS:
        return (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0;
    case NGHTTP2_PRIORITY:
        return true;
    case NGHTTP2_DATA:
        return frame->hd.length == 0 && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0;
    default:
        return false;
    }
}

static int http2_conn_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http2_conn *c = arg;
    struct http2_stream *s = http2_conn_stream_of(session, frame->hd.stream_id);
    if (brings_nothing(frame))
        count_idle_frame(c);
    if (!s || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS)
        s->has_headers = true;
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        s->came = s->whole = true;
    http2_stream_todo(s);
    return 0;
}

static int http2_conn_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
                              const uint8_t *bytes, size_t len, void *arg)
{
    struct http2_stream *s = http2_conn_stream_of(session, id);
    (void)flags;
    (void)arg;
    if (s)
        http2_stream_data(s, bytes, len);
    else
        nghttp2_session_consume_connection(session, len);
    return 0;
}

/* An answer that ends before its request: the client need not send the rest. */
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct http2_stream *s = http2_conn_stream_of(session, frame->hd.stream_id);
    bool ends = (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
                (frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
    (void)arg;
    if (s && ends && !s->whole)
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
    return 0;
}

static int http2_conn_on_stream_close(nghttp2_session *session, int32_t id, uint32_t error,
                                      void *arg)
{
    struct http2_stream *s = http2_conn_stream_of(session, id);
    (void)error;
    (void)arg;
    if (!s)
        return 0;
    nghttp2_session_set_stream_user_data(session, id, NULL);
    if (s->unread > 0) /* the window of the connection is for the others */
        nghttp2_session_consume_connection(session, s->unread);
    s->unread = 0;
    s->closed = true;
    s->conn->n_closed++;
    http2_stream_todo(s);
    return 0;
}

/* Out, and acting */

static void unlink_stream(struct http2_stream *s)
{
    struct http2_conn *c = s->conn;
    *(s->prev ? &s->prev->next : &c->streams) = s->next;
    if (s->next)
        s->next->prev = s->prev;
    c->n_streams--;
    if (s->closed)
        c->n_closed--;
    http2_stream_free(s);
}

static bool act(struct http2_conn *c)
{
    bool any = c->todo != NULL;
    while (c->todo) {
        struct http2_stream *s = c->todo;
        c->todo = s->todo_next;
        if (!c->todo)
            c->todo_end = &c->todo;
        s->on_todo = false;
        if (!http2_stream_act(s))
            continue;
        REQUIRE(!s->on_todo);
        unlink_stream(s);
    }
    return any;
}

static bool http2_conn_is_over(struct http2_conn *c)
{
    bool through = !nghttp2_session_want_read(c->session) &&
                   !nghttp2_session_want_write(c->session) && c->written >= c->queued;
    if (nghttp2_session_get_outbound_queue_size(c->session) > LIMIT_H2_QUEUED ||
        c->memory.bytes > LIMIT_H2_SESSION + (size_t)c->n_streams * HTTP2_STREAM_SESSION) {
        log_info("connection.flood", "reason=\"it takes no answers\"");
        return true;
    }
    return c->over || through;
}

void http2_conn_leave(struct http2_conn *c)
{
    while (c->depth == 1 && (http2_conn_send(c) || act(c)))
        ;
    if (c->depth == 1)
        c->over = http2_conn_is_over(c);
    c->depth--;
    if (c->over) /* not here: a handler may be in the middle of an answer */
        event_active(&c->turn, EV_TIMEOUT, 0);
}

/* Bytes */

/* Who speaks another protocol is most likely a client of HTTP/1.1. */
static bool tell_wrong_protocol(const struct http2_conn *c)
{
    static const struct err e = {STATUS_INVALID, "", "This port speaks HTTP/2 and gRPC only."};
    const struct http_error_format *errors = c->set->errors;
    struct buf out = {0};
    buf_printf(&out, "HTTP/1.1 400 Bad Request\r\nContent-Type: %s\r\nConnection: close\r\n\r\n",
               errors->content_type);
    errors->write(&out, &e, NULL);
    bool told = !out.failed &&
                send(bufferevent_getfd(c->bev), out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
    buf_fini(&out);
    return told;
}

/* True: this is no HTTP/2, and who sent it was told so. */
static bool is_other_protocol(struct http2_conn *c, struct evbuffer *in)
{
    char first[PREFACE_LEN];
    if (c->begun || evbuffer_copyout(in, first, sizeof first) < (ev_ssize_t)sizeof first)
        return false;
    c->begun = memcmp(first, PREFACE, sizeof first) == 0;
    if (c->begun)
        return false;
    c->set->other_protocols++;
    log_info("request.refused", "reason=\"no HTTP/2\" told=%d", tell_wrong_protocol(c));
    return true;
}

static void read_on(evutil_socket_t fd, short what, void *arg)
{
    struct http2_conn *c = arg;
    (void)fd;
    (void)what;
    bufferevent_enable(c->bev, EV_READ);
}

/* Of the len bytes that were just read, `kept` belong to bodies that somebody will read. The rest
 * uses an allowance that all connections share. While that is used up, a connection that sends much
 * of such bytes is not read, for a second at most. */
static void pay(struct http2_conn *c, size_t len, uint64_t kept)
{
    struct allowance *may = &c->set->discards;
    size_t rest = len - (size_t)kept;
    allowance_use(may, (int64_t)rest);
    int64_t us = allowance_wait_us(may);
    c->for_nothing = us == 0 ? 0 : c->for_nothing + rest;
    if (c->for_nothing < FRAME_BYTES / 4)
        return;
    c->for_nothing = 0;
    struct timeval wait = {.tv_sec = us / SECOND_US, .tv_usec = us % SECOND_US};
    bufferevent_disable(c->bev, EV_READ);
    event_add(&c->read_on, &wait);
}

static void on_read(struct bufferevent *bev, void *arg)
{
    struct http2_conn *c = arg;
    struct evbuffer *in = bufferevent_get_input(bev);
    size_t came = evbuffer_get_length(in);
    uint64_t kept = c->kept;
    http2_conn_enter(c);
    c->heard_us = clock_now_us();
    c->pinged = false;
    if (is_other_protocol(c, in))
        c->over = true;
    while (!c->over && c->begun && evbuffer_get_length(in) > 0) {
        size_t len = evbuffer_get_contiguous_space(in);
        ssize_t n = nghttp2_session_mem_recv(c->session, evbuffer_pullup(in, (ev_ssize_t)len), len);
        if (n < 0)
            c->over = true;
        else
            evbuffer_drain(in, (size_t)n);
    }
    pay(c, came - evbuffer_get_length(in), c->kept - kept);
    http2_conn_leave(c);
}

/* The socket took everything. */
static void on_written(struct bufferevent *bev, void *arg)
{
    struct http2_conn *c = arg;
    (void)bev;
    http2_conn_enter(c);
    http2_conn_leave(c);
}

/* Streams whose answer is out end: not here, in the middle of libevent's writing, but next. */
static void http2_conn_on_output(struct evbuffer *out, const struct evbuffer_cb_info *info,
                                 void *arg)
{
    struct http2_conn *c = arg;
    (void)out;
    c->written += info->n_deleted;
    if (info->n_deleted > 0)
        event_active(&c->turn, EV_TIMEOUT, 0);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
    struct http2_conn *c = arg;
    (void)fd;
    (void)what;
    if (c->over) {
        http2_conn_free(c);
        return;
    }
    http2_conn_enter(c);
    for (struct http2_stream *s = c->streams; s && c->n_closed > 0; s = s->next)
        if (s->closed)
            http2_stream_todo(s);
    http2_conn_leave(c);
}

/* The client left, or does not read; everything else comes as bytes. */
static void http2_conn_on_event(struct bufferevent *bev, short what, void *arg)
{
    struct http2_conn *c = arg;
    (void)bev;
    (void)what;
    http2_conn_enter(c);
    c->over = true;
    http2_conn_leave(c);
}

/* Once a second: what did not arrive, who does not answer, connections without use. */
static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    static const struct timeval second = {.tv_sec = 1};
    struct http2_conn *c = arg;
    int64_t now = clock_now_us(), silent = now - c->heard_us;
    (void)fd;
    (void)what;
    http2_conn_enter(c);
    event_add(&c->tick, &second);
    for (struct http2_stream *s = c->streams; s; s = s->next)
        http2_stream_tick(s, now);
    if (!c->begun && silent > LIMIT_REQUEST_SECONDS * SECOND_US)
        c->over = true;
    else if (c->pinged && silent > (LIMIT_H2_PING_SECONDS + LIMIT_H2_PONG_SECONDS) * SECOND_US)
        c->over = true;
    else if (c->n_streams == 0 && silent > LIMIT_H2_IDLE_SECONDS * SECOND_US)
        nghttp2_session_terminate_session(c->session, NGHTTP2_NO_ERROR);
    else if (c->n_streams > 0 && !c->pinged && silent > LIMIT_H2_PING_SECONDS * SECOND_US)
        c->pinged = nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL) == 0;
    if (c->set->draining && !c->told) { /* a second after the notice, whoever has seen it knows */
        c->told = true;
        nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
                              nghttp2_session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR,
                              NULL, 0);
    }
    http2_conn_leave(c);
}

/* The life of a connection */

static bool submit_settings(struct http2_conn *c)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, LIMIT_H2_STREAMS},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, LIMIT_BODY_BYTES + FRAME_BYTES}, /* who sends too
                                                                much can send enough to be told */
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, LIMIT_HEADER_BYTES},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
    };
    return nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof *settings) == 0 &&
           nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                                 LIMIT_H2_UNREAD) == 0;
}

static void http2_conn_hold_unsent(struct http2_conn *c)
{
    if (c->set->unsent) {
        byte_budget_open(&c->unsent, c->set->unsent, &c->peer);
        byte_budget_open(&c->keyless, c->set->keyless, &c->peer);
    }
}

bool http2_conn_new(struct http2_set *set, struct bufferevent *bev, const struct client *peer)
{
    static const struct timeval second = {.tv_sec = 1}, stalled = {.tv_sec = LIMIT_WRITE_SECONDS};
    struct http2_conn *c = mem_zalloc(sizeof *c);
    int on = 1;
    if (c)
        http2_memory_init(&c->memory);
    if (!c ||
        nghttp2_session_server_new3(&c->session, set->callbacks, c, set->option, &c->memory.mem) !=
            0 ||
        !submit_settings(c)) {
        if (c)
            nghttp2_session_del(c->session);
        mem_free(c);
        return false;
    }
    c->set = set;
    c->bev = bev;
    c->peer = peer ? *peer : client_limit_of_address(NULL);
    c->todo_end = &c->todo;
    http2_conn_hold_unsent(c);
    c->heard_us = clock_now_us();
    c->next = set->first;
    if (c->next)
        c->next->prev = c;
    set->first = c;
    set->count++;
    event_assign(&c->tick, set->base, -1, 0, on_tick, c);
    event_assign(&c->turn, set->base, -1, 0, on_turn, c);
    event_assign(&c->read_on, set->base, -1, 0, read_on, c);
    event_add(&c->tick, &second);
    setsockopt(bufferevent_getfd(bev), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    bufferevent_setcb(bev, on_read, on_written, http2_conn_on_event, c);
    bufferevent_set_timeouts(bev, NULL, &stalled);
    evbuffer_add_cb(bufferevent_get_output(bev), http2_conn_on_output, c);
    bufferevent_enable(bev, EV_READ | EV_WRITE);
    return true;
}

void http2_conn_free(struct http2_conn *c)
{
    struct http2_set *set = c->set;
    c->over = true;
    c->depth++; /* who is told that it ends cannot make it end again */
    for (struct http2_stream *s = c->streams; s; s = s->next)
        http2_stream_end(s, !s->closed || !s->finished || evbuffer_get_length(s->out) > 0);
    while (c->streams)
        unlink_stream(c->streams);
    *(c->prev ? &c->prev->next : &set->first) = c->next;
    if (c->next)
        c->next->prev = c->prev;
    set->count--;
    if (set->addresses)
        client_limit_leave(set->addresses, &c->peer);
    event_del(&c->tick);
    event_del(&c->turn);
    event_del(&c->read_on);
    nghttp2_session_del(c->session);
    evbuffer_remove_cb(bufferevent_get_output(c->bev), http2_conn_on_output, c);
    bufferevent_free(c->bev);
    byte_budget_end(&c->unsent);
    byte_budget_end(&c->keyless);
    mem_free(c);
    set->left(set->left_arg);
}

void http2_conn_drain(struct http2_conn *c)
{
    http2_conn_enter(c);
    nghttp2_submit_shutdown_notice(c->session);
    http2_conn_leave(c);
}

enum status http2_conn_set_init(struct http2_set *set, struct err *err)
{
    allowance_init(&set->discards, LIMIT_DISCARD_PER_SECOND, LIMIT_DISCARD_PER_SECOND);
    if (nghttp2_session_callbacks_new(&set->callbacks) != 0 ||
        nghttp2_option_new(&set->option) != 0)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the HTTP/2 server");
    nghttp2_session_callbacks *cb = set->callbacks;
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, http2_conn_on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, http2_conn_on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, http2_conn_on_data);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, http2_conn_on_stream_close);
    nghttp2_option_set_no_auto_window_update(set->option, 1);
    nghttp2_option_set_no_closed_streams(set->option, 1); /* of which priorities alone would know */
    nghttp2_option_set_max_outbound_ack(set->option, LIMIT_H2_IDLE_FRAMES);
    /* a client that cancels all its streams at once is no attack (CVE-2023-44487) */
    nghttp2_option_set_stream_reset_rate_limit(set->option, LIMIT_H2_STREAMS, LIMIT_H2_RESETS);
    return STATUS_OK;
}

void http2_conn_set_fini(struct http2_set *set)
{
    while (set->first)
        http2_conn_free(set->first);
    if (set->callbacks)
        nghttp2_session_callbacks_del(set->callbacks);
    if (set->option)
        nghttp2_option_del(set->option);
}
