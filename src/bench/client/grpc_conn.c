#include "bench/client/grpc_conn.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define WINDOW     (1 << 30)
#define READ_BYTES (64 << 10) /* at once */
#define OUT_BYTES  (64 << 10) /* gathered into one send */

static void set_over(struct grpc_conn *c, const char *why)
{
    if (!c->over && !c->why[0])
        snprintf(c->why, sizeof c->why, "%s", why);
    c->over = true;
}

/* ---- Streams ---- */

static void grpc_conn_add(struct grpc_conn *c, struct grpc_call *x, int32_t id)
{
    x->conn = c;
    x->stream_id = id;
    x->prev = NULL;
    x->next = c->exchanges;
    if (x->next)
        x->next->prev = x;
    c->exchanges = x;
    c->n_exchanges++;
}

static void take_out(struct grpc_conn *c, struct grpc_call *x)
{
    nghttp2_session_set_stream_user_data(c->session, x->stream_id, NULL);
    *(x->prev ? &x->prev->next : &c->exchanges) = x->next;
    if (x->next)
        x->next->prev = x->prev;
    x->conn = NULL;
    c->n_exchanges--;
}

/* ---- What nghttp2 tells ---- */

static struct grpc_call *exchange_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

static int grpc_conn_on_header(nghttp2_session *session, const nghttp2_frame *frame,
                               const uint8_t *name, size_t name_len, const uint8_t *value,
                               size_t value_len, uint8_t flags, void *arg)
{
    struct grpc_call *x = exchange_of(session, frame->hd.stream_id);
    (void)name_len; /* nghttp2 ends names with a NUL */
    (void)flags;
    (void)arg;
    if (x)
        grpc_call_field(x, (const char *)name, (const char *)value, value_len);
    return 0;
}

static int grpc_conn_on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_conn *c = arg;
    struct grpc_call *x = exchange_of(session, frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_HEADERS && x)
        grpc_call_head(x, c->now_us);
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        c->going = true;
        if (frame->goaway.error_code != NGHTTP2_NO_ERROR && !c->why[0])
            snprintf(c->why, sizeof c->why, "the server went away: GOAWAY with %s",
                     nghttp2_http2_strerror(frame->goaway.error_code));
    }
    return 0;
}

static int grpc_conn_on_data(nghttp2_session *session, uint8_t flags, int32_t id,
                             const uint8_t *bytes, size_t len, void *arg)
{
    struct grpc_conn *c = arg;
    struct grpc_call *x = exchange_of(session, id);
    (void)flags;
    if (x && !x->base.refused && !grpc_call_data(x, (const char *)bytes, len, c->now_us))
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    return 0;
}

static int grpc_conn_on_stream_close(nghttp2_session *session, int32_t id, uint32_t error,
                                     void *arg)
{
    struct grpc_conn *c = arg;
    struct grpc_call *x = exchange_of(session, id);
    char why[96];
    if (!x)
        return 0;
    take_out(c, x);
    snprintf(why, sizeof why, "%sRST_STREAM with %s", c->going ? "after a GOAWAY, " : "",
             nghttp2_http2_strerror(error));
    grpc_call_end(x, error == NGHTTP2_NO_ERROR ? NULL : why);
    return 0;
}

/* In words what nghttp2 then ends the connection for. */
static int on_error(nghttp2_session *session, int code, const char *text, size_t len, void *arg)
{
    struct grpc_conn *c = arg;
    (void)session;
    (void)code;
    if (!c->why[0])
        snprintf(c->why, sizeof c->why, "HTTP/2: %.*s", (int)len, text);
    return 0;
}

/* ---- The socket ---- */

static void grpc_conn_watch(struct grpc_conn *c, bool wants_out)
{
    struct epoll_event e = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.ptr = c};
    if (c->wants_out != wants_out)
        epoll_ctl(c->epoll_fd, EPOLL_CTL_MOD, c->fd, &e);
    c->wants_out = wants_out;
}

static bool grpc_conn_gather(struct grpc_conn *c)
{
    while (c->out.len < OUT_BYTES) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(c->session, &bytes);
        if (n == 0)
            break;
        if (n < 0 || !buf_append(&c->out, bytes, (size_t)n)) {
            set_over(c, n < 0 ? nghttp2_strerror((int)n) : "no memory for frames");
            return false;
        }
    }
    return c->out.len > 0;
}

/* False: the socket takes no more now, or the connection is over. */
static bool send_out(struct grpc_conn *c)
{
    while (c->out_sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->out_sent, c->out.len - c->out_sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            set_over(c, strerror(errno));
        if (n < 0)
            return false;
        c->out_sent += (size_t)n;
    }
    buf_clear(&c->out);
    c->out_sent = 0;
    return true;
}

static void grpc_conn_flush(struct grpc_conn *c)
{
    if (!c->connected)
        return;
    while (!c->over && send_out(c) && grpc_conn_gather(c))
        ;
    if (!c->over)
        grpc_conn_watch(c, c->out.len > 0);
}

static void receive(struct grpc_conn *c)
{
    uint8_t bytes[READ_BYTES];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        set_over(c, n < 0 ? strerror(errno) : "the server closed the connection");
        return;
    }
    c->now_us = clock_now_us();
    c->received += (uint64_t)n;
    ssize_t took = nghttp2_session_mem_recv(c->session, bytes, (size_t)n);
    if (took < 0)
        set_over(c, nghttp2_strerror((int)took));
}

/* False: not yet, or never. */
static bool has_connected(struct grpc_conn *c)
{
    int error = 0;
    socklen_t len = sizeof error;
    struct sockaddr_storage address;
    socklen_t address_len = sizeof address;
    if (c->connected)
        return true;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error) {
        set_over(c, strerror(error));
        return false;
    }
    c->connected = getpeername(c->fd, (struct sockaddr *)&address, &address_len) == 0;
    return c->connected;
}

void grpc_conn_turn(struct grpc_conn *c)
{
    if (c->over || !has_connected(c))
        return;
    receive(c);
    if (!c->over)
        grpc_conn_flush(c);
    if (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session))
        set_over(c, "the connection was ended");
}

/* ---- The life of one ---- */

static enum status new_session(struct grpc_conn *c)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW},
    };
    nghttp2_session_callbacks *cb;
    if (nghttp2_session_callbacks_new(&cb) != 0)
        return STATUS_NO_MEMORY;
    nghttp2_session_callbacks_set_on_header_callback(cb, grpc_conn_on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, grpc_conn_on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, grpc_conn_on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, grpc_conn_on_stream_close);
    nghttp2_session_callbacks_set_error_callback2(cb, on_error);
    int code = nghttp2_session_client_new(&c->session, cb, c);
    nghttp2_session_callbacks_del(cb);
    if (code == 0)
        code = nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings,
                                       sizeof settings / sizeof *settings);
    if (code == 0)
        code = nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, WINDOW);
    return code == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status connect_it(struct grpc_conn *c, struct err *err)
{
    const struct addrinfo *a = c->peer->address;
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
    int on = 1;
    c->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        return err_set(err, STATUS_IO, "socket: %s", strerror(errno));
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(c->fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
        return err_set(err, STATUS_UNAVAILABLE, "no answer: %s", strerror(errno));
    if (epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, c->fd, &e) != 0)
        return err_set(err, STATUS_IO, "epoll: %s", strerror(errno));
    c->wants_out = true;
    return STATUS_OK;
}

enum status grpc_conn_open(struct grpc_conn **out, const struct grpc_peer *p, int epoll_fd,
                           struct err *err)
{
    struct grpc_conn *c = mem_zalloc(sizeof *c);
    enum status st = STATUS_NO_MEMORY;
    if (c) {
        *c = (struct grpc_conn){.peer = p, .epoll_fd = epoll_fd, .fd = -1};
        st = new_session(c);
    }
    if (st)
        err_set(err, st, "no memory for a connection");
    else
        st = connect_it(c, err);
    if (st) {
        grpc_conn_close(c);
        return st;
    }
    *out = c;
    return STATUS_OK;
}

void grpc_conn_close(struct grpc_conn *c)
{
    if (!c)
        return;
    REQUIRE(!c->exchanges);
    if (c->connected && !c->over) { /* as one who leaves in good order */
        nghttp2_session_terminate_session(c->session, NGHTTP2_NO_ERROR);
        grpc_conn_flush(c);
    }
    nghttp2_session_del(c->session);
    if (c->fd >= 0)
        close(c->fd); /* out of the epoll too */
    buf_fini(&c->out);
    mem_free(c);
}

/* ---- Calls ---- */

uint32_t grpc_conn_room(const struct grpc_conn *c)
{
    uint32_t most =
        nghttp2_session_get_remote_settings(c->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    most = most < LIMIT_BENCH_STREAMS ? most : LIMIT_BENCH_STREAMS;
    if (c->over || c->going || !nghttp2_session_check_request_allowed(c->session))
        return 0;
    return c->n_exchanges < most ? most - c->n_exchanges : 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *out, size_t size,
                         uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct grpc_call *x = source->ptr;
    size_t left = x->body.len - x->body_sent, n = left < size ? left : size;
    (void)arg;
    if (exchange_of(session, id) != x)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* it was taken out */
    memcpy(out, x->body.data + x->body_sent, n);
    x->body_sent += n;
    if (n == left)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static nghttp2_nv grpc_conn_field(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

enum status grpc_conn_start(struct grpc_conn *c, struct grpc_call *x, struct err *err)
{
    const nghttp2_nv fields[] = {
        grpc_conn_field(":method", "POST"),
        grpc_conn_field(":scheme", "http"),
        grpc_conn_field(":path", x->path),
        grpc_conn_field(":authority", c->peer->authority),
        grpc_conn_field("te", "trailers"),
        grpc_conn_field("content-type", "application/grpc"),
        grpc_conn_field("authorization", c->peer->authorization),
    };
    size_t n = sizeof fields / sizeof *fields - !c->peer->authorization[0];
    const nghttp2_data_provider body = {.source.ptr = x, .read_callback = read_body};
    int32_t id = nghttp2_submit_request(c->session, NULL, fields, n, &body, x);
    if (id < 0)
        return err_set(err, STATUS_UNAVAILABLE, "no answer: HTTP/2: %s", nghttp2_strerror(id));
    grpc_conn_add(c, x, id);
    grpc_conn_flush(c);
    return STATUS_OK;
}

void grpc_conn_stop(struct grpc_conn *c, struct grpc_call *x)
{
    nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, x->stream_id, NGHTTP2_CANCEL);
    take_out(c, x);
    grpc_conn_flush(c);
}

void grpc_conn_fail_all(struct grpc_conn *c)
{
    while (c->exchanges) {
        struct grpc_call *x = c->exchanges;
        take_out(c, x);
        grpc_call_end(x, c->why[0] ? c->why : "the connection was ended");
    }
}
