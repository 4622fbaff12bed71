#include "http/http1_conn.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "http/http_transport.h"
#include "http/request_id.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define SECOND_US INT64_C(1000000)
/* Connections beyond the maximum that are told so; then the listener rests. */
#define OVERFLOW_CONNECTIONS 64

static void set_timer(struct http1_conn *c, int64_t us)
{
    struct timeval tv = {.tv_sec = us / SECOND_US, .tv_usec = us % SECOND_US};
    event_add(&c->timer, &tv);
}

void http1_conn_shut(struct http1_conn *c)
{
    /* evhttp reads the end of the stream next, and frees the connection */
    shutdown(c->fd, SHUT_RDWR);
}

/* What is refused here of connections; the first also stands for what is not in the list. */
static const struct {
    int status;
    const char *phrase;
} refusals[HTTP1_CONN_REFUSALS] = {
    {400, "Bad Request"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {417, "Expectation Failed"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

static size_t refusal_of(int http_status)
{
    for (size_t i = 1; i < HTTP1_CONN_REFUSALS; i++)
        if (refusals[i].status == http_status)
            return i;
    return 0;
}

bool http1_conn_refusal_at(const struct http1_conn_set *set, size_t i, int *http_status,
                           uint64_t *n)
{
    if (i >= HTTP1_CONN_REFUSALS)
        return false;
    *http_status = refusals[i].status;
    *n = set->refused[i];
    return true;
}

static const char *phrase_of(int http_status)
{
    return http_status == 401   ? "Unauthorized"
           : http_status == 403 ? "Forbidden"
           : http_status == 404 ? "Not Found"
           : http_status == 405 ? "Method Not Allowed"
                                : refusals[refusal_of(http_status)].phrase;
}

static void forget_head(struct http1_conn *c)
{
    http1_framing_keep(&c->guard, NULL);
    mem_free(c->head);
    c->head = NULL;
}

static void put_header(void *out, const char *name, const char *value)
{
    buf_printf(out, "%s: %s\r\n", name, value);
}

/* Answers past evhttp, which knows of no request yet: there is nothing else in the way of these few
 * bytes. Then waits for the client to close, so that no reset overtakes them. The name that the
 * client gave its request is not kept of a head, so the answer has a new one. */
static void http1_conn_answer(struct http1_conn *c, int http_status, const struct http_refusal *why)
{
    struct buf body = {0}, out = {0};
    const struct err *e = &why->err;
    char reason[2 * sizeof e->text + 3], request_id[REQUEST_ID_DIGITS + 1];
    struct http_error_header also = http_error_header(http_status);
    const struct http_error_format *errors = c->set->errors;
    errors->write(&body, e, why->code);
    request_id_random(request_id);
    buf_printf(&out,
               "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
               "Connection: close\r\n",
               http_status, phrase_of(http_status), errors->content_type, body.len);
    http_common_headers(request_id, why->origin, put_header, &out);
    if (also.name)
        put_header(&out, also.name, also.value);
    if (why->allow)
        put_header(&out, "Allow", why->allow);
    buf_printf(&out, "\r\n%s", buf_str(&body));
    out.failed |= body.failed;
    if (!out.failed && send(c->fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_debug("connection.refusal_lost", "status=%d", http_status);
    log_info("request.refused", "request_id=%s status=%d reason=%s", request_id, http_status,
             log_quote(e->text, reason, sizeof reason));
    buf_fini(&body);
    buf_fini(&out);
    shutdown(c->fd, SHUT_WR);
    forget_head(c);
    c->phase = HTTP1_CONN_REFUSED;
    c->progress_us = clock_now_us();
    set_timer(c, LIMIT_LINGER_SECONDS * SECOND_US);
}

/* For what is wrong with the connection, not with what is asked; counted as that. */
static void http1_conn_refuse(struct http1_conn *c, int http_status, const struct err *e)
{
    c->set->refused[refusal_of(http_status)]++;
    http1_conn_answer(c, http_status, &(struct http_refusal){.err = *e});
}

static void refuse_framing(struct http1_conn *c)
{
    struct err e;
    enum status code = c->guard.http_status == 413 ? STATUS_TOO_LARGE : STATUS_INVALID;
    if (c->guard.http_status == 413)
        err_set(&e, code, "%s: at most %u bytes", c->guard.why, LIMIT_BODY_BYTES);
    else if (c->guard.http_status == 431)
        err_set(&e, code, "%s: at most %u bytes", c->guard.why, LIMIT_HEADER_BYTES);
    else
        err_set(&e, code, "%s", c->guard.why);
    http1_conn_refuse(c, c->guard.http_status, &e);
}

/* The path of a request target, as evhttp finds it. */
static void find_path(const struct http1_framing_head *head, struct evhttp_uri **uri,
                      const char **path)
{
    bool cut;
    const char *target = http1_framing_kept(head, HTTP1_FRAMING_TARGET, &cut);
    *uri = evhttp_uri_parse_with_flags(target ? target : "", EVHTTP_URI_NONCONFORMANT);
    const char *found = *uri ? evhttp_uri_get_path(*uri) : NULL;
    *path = found ? found : "";
}

/* The head has ended and the body has not: is it to be taken? What was cut is longer than any key
 * or name that is allowed: a wrong key, and a name that is nobody's. */
static bool http1_conn_admit(struct http1_conn *c, struct http_refusal *why)
{
    struct http1_conn_set *set = c->set;
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    struct evhttp_uri *uri;
    bool cut, cut_name, known = getpeername(c->fd, (struct sockaddr *)&peer, &len) == 0;
    struct http_head head = {
        .method = c->head->method,
        .announced = c->guard.chunked ? HTTP_UNANNOUNCED : c->guard.remaining + c->guard.body_got};
    head.authorization = http1_framing_kept(c->head, HTTP1_FRAMING_AUTHORIZATION, &cut);
    if (cut)
        head.authorization = "Bearer ";
    head.origin = http1_framing_kept(c->head, HTTP1_FRAMING_ORIGIN, &cut_name);
    head.host = http1_framing_kept(c->head, HTTP1_FRAMING_HOST_NAME, &cut_name);
    find_path(c->head, &uri, &head.path);
    bool taken =
        set->admit(set->admit_arg, &head, known ? (struct sockaddr *)&peer : NULL, &c->held, why);
    if (uri)
        evhttp_uri_free(uri);
    return taken;
}

/* Some of the body, or all of it, came behind a head that had come before. */
static bool take_body(struct http1_conn *c)
{
    struct http_refusal why = {.code = http_code_memory};
    if (c->head && c->set->admit && !c->guard.done) {
        if (!http1_conn_admit(c, &why)) {
            http1_conn_answer(c, status_http(why.err.code), &why);
            return false;
        }
        forget_head(c);
    }
    if (!c->held.of || byte_budget_set(&c->held, c->guard.body_got))
        return true;
    http_no_room(&c->held, &why.err);
    http1_conn_answer(c, 503, &why);
    return false;
}

/* Nothing of what came is for evhttp. Chunks that it has already go with the connection. */
static void throw_away(struct http1_conn *c, struct evbuffer *input)
{
    evbuffer_drain(input, evbuffer_get_length(input));
    if (!c->guard.chunked)
        byte_budget_end(&c->held);
}

/* Shows the guard the last n bytes of the input. */
static void scan(struct http1_conn *c, struct evbuffer *input, size_t n)
{
    struct evbuffer_ptr at;
    size_t left = n - http1_framing_skip(&c->guard, n);
    if (left > 0) /* finding the place takes time when much of a body has come before */
        evbuffer_ptr_set(input, &at, evbuffer_get_length(input) - left, EVBUFFER_PTR_SET);
    while (left > 0 && !c->guard.done && c->guard.http_status == 0) {
        struct evbuffer_iovec piece;
        if (evbuffer_peek(input, (ev_ssize_t)left, &at, &piece, 1) < 1)
            break;
        size_t len = piece.iov_len < left ? piece.iov_len : left;
        size_t took = http1_framing_feed(&c->guard, piece.iov_base, len);
        left -= took;
        if (took == 0 || evbuffer_ptr_set(input, &at, took, EVBUFFER_PTR_ADD) != 0)
            break;
    }
    if (c->guard.http_status != 0) {
        refuse_framing(c);
        throw_away(c, input);
    } else if (c->guard.body && !take_body(c)) {
        throw_away(c, input);
    } else if (c->guard.done) {
        forget_head(c);
        c->phase = HTTP1_CONN_BUSY;
        event_del(&c->timer);
        c->ahead = left;
        if (left > 0)
            timeline_stamp(&c->next, TIMELINE_RECEIVED);
    }
}

/* The request must be whole in LIMIT_REQUEST_SECONDS, with progress every LIMIT_IDLE_SECONDS. */
static int64_t reading_left_us(const struct http1_conn *c)
{
    int64_t whole = c->timeline.at_us[TIMELINE_RECEIVED] + LIMIT_REQUEST_SECONDS * SECOND_US;
    int64_t progress = c->progress_us + LIMIT_IDLE_SECONDS * SECOND_US;
    return (whole < progress ? whole : progress) - clock_now_us();
}

static void first_byte(struct http1_conn *c)
{
    timeline_stamp(&c->timeline, TIMELINE_RECEIVED);
    c->phase = HTTP1_CONN_READING;
    set_timer(c, reading_left_us(c));
    c->head = mem_zalloc(sizeof *c->head);
    http1_framing_keep(&c->guard, c->head);
    if (c->head)
        return;
    struct err e;
    err_set(&e, STATUS_NO_MEMORY, "no memory for the request");
    http1_conn_refuse(c, 503, &e);
}

/* More of what a client sends before its answer has come (pipelining). */
static void run_ahead(struct http1_conn *c, size_t n)
{
    timeline_stamp(&c->next, TIMELINE_RECEIVED);
    c->ahead += n;
    if (c->ahead > LIMIT_PIPELINED_BYTES)
        http1_conn_shut(c);
}

/* How long a refused connection still stays. */
static int64_t linger_left_us(const struct http1_conn *c)
{
    return c->progress_us + LIMIT_LINGER_SECONDS * SECOND_US - clock_now_us();
}

/* A refused client sends on. Its bytes are read and dropped, because a connection that ends with
 * unread bytes may lose the answer. All refused clients share one allowance for that; when it is
 * used up, the connection is not read until some has come back, or until its stay is over. */
static void discard(struct http1_conn *c, struct evbuffer *input)
{
    struct allowance *may = &c->set->discards;
    int64_t left_us = linger_left_us(c);
    allowance_use(may, (int64_t)evbuffer_get_length(input));
    evbuffer_drain(input, evbuffer_get_length(input));
    int64_t wait_us = allowance_wait_us(may);
    if (wait_us == 0 || left_us <= 0)
        return;
    bufferevent_disable(c->bev, EV_READ);
    set_timer(c, wait_us < left_us ? wait_us : left_us);
}

/* The stay is over, or the wait for the allowance. A client that still sends when the stay is over
 * is reset: without that it would wait for room in a buffer that nobody empties. */
static void linger(struct http1_conn *c)
{
    static const struct linger reset = {.l_onoff = 1};
    int64_t left_us = linger_left_us(c);
    bool waited = !(bufferevent_get_enabled(c->bev) & EV_READ);
    bufferevent_enable(c->bev, EV_READ); /* or the end would not be read either */
    if (left_us > 0) {
        set_timer(c, left_us);
        return;
    }
    if (waited)
        setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    http1_conn_shut(c);
}

/* Called by libevent when bytes have come in, before evhttp looks at them. */
static void on_input(struct evbuffer *input, const struct evbuffer_cb_info *info, void *arg)
{
    struct http1_conn *c = arg;
    if (info->n_added == 0)
        return;
    if (c->phase == HTTP1_CONN_REFUSED) {
        discard(c, input);
        return;
    }
    if (c->phase == HTTP1_CONN_BUSY) {
        run_ahead(c, info->n_added);
        return;
    }
    c->progress_us = clock_now_us();
    if (c->phase == HTTP1_CONN_IDLE)
        first_byte(c);
    if (c->phase == HTTP1_CONN_READING)
        scan(c, input, info->n_added);
    else
        throw_away(c, input);
}

struct hold *http1_conn_unsent(struct http1_conn *c)
{
    const struct http_exchange *x = c->exchange;
    return x && x->keyless ? &c->keyless : &c->unsent;
}

/* More of the answer waits for the client, or the client took some. */
static void http1_conn_on_output(struct evbuffer *output, const struct evbuffer_cb_info *info,
                                 void *arg)
{
    struct http1_conn *c = arg;
    (void)info;
    byte_budget_force(&c->unsent, 0);
    byte_budget_force(&c->keyless, 0);
    byte_budget_force(http1_conn_unsent(c), evbuffer_get_length(output));
}

static void http1_conn_hold_unsent(struct http1_conn *c)
{
    if (c->set->unsent && byte_budget_open(&c->unsent, c->set->unsent, &c->peer) &&
        byte_budget_open(&c->keyless, c->set->keyless, &c->peer))
        evbuffer_add_cb(bufferevent_get_output(c->bev), http1_conn_on_output, c);
}

static void pause_listener(struct http1_conn_set *set);

static void look_again(evutil_socket_t fd, short what, void *arg)
{
    struct http1_conn_set *set = arg;
    (void)fd;
    (void)what;
    set->resting = false;
    pause_listener(set);
}

/* Memory comes back without a connection's end. */
static void rest(struct http1_conn_set *set)
{
    static const struct timeval pause = {.tv_usec = 100000};
    if (!set->resting)
        set->resting = event_base_once(set->base, -1, EV_TIMEOUT, look_again, set, &pause) == 0;
}

static void pause_listener(struct http1_conn_set *set)
{
    if (!set->listener)
        return;
    bool short_of_memory = reserve_is_low();
    if (short_of_memory)
        rest(set);
    if (set->count >= set->max + OVERFLOW_CONNECTIONS || short_of_memory)
        evconnlistener_disable(set->listener);
    else
        evconnlistener_enable(set->listener);
}

/* evhttp is about to free the connection: the client left, it was shut, or the server ends. */
static void on_close(struct evhttp_connection *evcon, void *arg)
{
    struct http1_conn *c = arg;
    struct http1_conn_set *set = c->set;
    (void)evcon;
    evbuffer_remove_cb(bufferevent_get_input(c->bev), on_input, c);
    evbuffer_remove_cb(bufferevent_get_output(c->bev), http1_conn_on_output, c);
    event_del(&c->timer);
    forget_head(c);
    byte_budget_end(&c->held);
    byte_budget_end(&c->unsent);
    byte_budget_end(&c->keyless);
    if ((size_t)c->fd < set->n_fds)
        set->by_fd[c->fd] = NULL;
    set->count--;
    if (c->counted)
        client_limit_leave(set->addresses, &c->peer);
    set->taken -= c->taken;
    pause_listener(set);
    if (c->exchange)
        set->gone(c->exchange);
    if (set->left)
        set->left(set->left_arg);
    reserve_free(c);
}

static bool http1_conn_remember(struct http1_conn_set *set, struct http1_conn *c)
{
    size_t need = (size_t)c->fd + 1;
    if (need > set->n_fds) {
        struct http1_conn **by_fd = mem_resize(set->by_fd, 2 * need * sizeof *by_fd);
        if (!by_fd)
            return false;
        memset(by_fd + set->n_fds, 0, (2 * need - set->n_fds) * sizeof *by_fd);
        set->by_fd = by_fd;
        set->n_fds = 2 * need;
    }
    set->by_fd[c->fd] = c;
    return true;
}

static struct client peer_of(int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof peer;
    bool known = getpeername(fd, (struct sockaddr *)&peer, &len) == 0;
    return client_limit_of_address(known ? (const struct sockaddr *)&peer : NULL);
}

/* Counts it among those of its address. False: there are too many, and it was told so or, when
 * others want the place that it would have meanwhile, shut. */
static bool count_address(struct http1_conn *c)
{
    struct err e;
    if (!c->set->addresses)
        return true;
    c->counted = client_limit_enter(c->set->addresses, &c->peer, NULL) == STATUS_OK;
    if (c->counted)
        return true;
    err_set(&e, STATUS_OVERLOADED,
            "this address has as many connections as one may (--max-connections-per-address): "
            "close one, or try again");
    http1_conn_refuse(c, 429, &e);
    if (c->set->count > c->set->max / 2)
        http1_conn_shut(c);
    return false;
}

/* In the order in which they came; a client that only stays to read its refusal takes no place. */
static bool take_place(struct http1_conn *c)
{
    c->taken = c->set->taken < c->set->max;
    c->set->taken += c->taken;
    return c->taken;
}

/* Runs once evhttp has made its connection around the bufferevent. evhttp 2.1 hands out that
 * connection only with a first whole request; but it is the argument of the callbacks it has set,
 * and with it the end of connections that never get so far is seen too. */
static void http1_conn_attach(struct http1_conn *c)
{
    void *evcon;
    int on = 1;
    bufferevent_getcb(c->bev, NULL, NULL, NULL, &evcon);
    REQUIRE(evcon != NULL);
    evhttp_connection_set_closecb(evcon, on_close, c);
    c->fd = bufferevent_getfd(c->bev);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->peer = peer_of(c->fd);
    http1_conn_hold_unsent(c);
    c->phase = HTTP1_CONN_IDLE;
    set_timer(c, LIMIT_REQUEST_SECONDS * SECOND_US);
    if (!http1_conn_remember(c->set, c)) {
        http1_conn_shut(c);
    } else if (count_address(c) && !take_place(c)) {
        struct err e;
        err_set(&e, STATUS_UNAVAILABLE, "too many connections (%u): try again", c->set->max);
        http1_conn_refuse(c, 503, &e);
    }
}

static void reading_timer(struct http1_conn *c)
{
    int64_t left = reading_left_us(c);
    if (left > 0) {
        set_timer(c, left);
        return;
    }
    struct err e;
    err_set(&e, STATUS_TIMEOUT,
            "the request did not arrive in time: it must be whole after %d seconds, without a "
            "pause of %d",
            LIMIT_REQUEST_SECONDS, LIMIT_IDLE_SECONDS);
    http1_conn_refuse(c, 408, &e);
}

static void http1_conn_on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http1_conn *c = arg;
    (void)fd;
    (void)what;
    switch (c->phase) {
    case HTTP1_CONN_NEW:
        http1_conn_attach(c);
        break;
    case HTTP1_CONN_READING:
        reading_timer(c);
        break;
    case HTTP1_CONN_IDLE:
        http1_conn_shut(c);
        break;
    case HTTP1_CONN_REFUSED:
        linger(c);
        break;
    case HTTP1_CONN_BUSY:
        break;
    }
}

struct bufferevent *http1_conn_new(struct event_base *base, void *arg)
{
    static const struct timeval stalled = {.tv_sec = LIMIT_WRITE_SECONDS};
    struct http1_conn_set *set = arg;
    struct http1_conn *c = reserve_zalloc(sizeof *c);
    struct bufferevent *bev = c ? bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE) : NULL;
    /* evhttp would make a bufferevent of its own, past the guard; but the listener rests long
     * before the reserve is empty */
    REQUIRE(bev != NULL);
    bufferevent_set_timeouts(bev, NULL, &stalled);
    evbuffer_add_cb(bufferevent_get_input(bev), on_input, c);
    c->set = set;
    c->bev = bev;
    c->fd = -1;
    http1_framing_reset(&c->guard);
    event_assign(&c->timer, base, -1, 0, http1_conn_on_timer, c);
    event_active(&c->timer, EV_TIMEOUT, 0);
    set->count++;
    pause_listener(set);
    return bev;
}

void http1_conn_set_init(struct http1_conn_set *set)
{
    allowance_init(&set->discards, LIMIT_DISCARD_PER_SECOND, LIMIT_DISCARD_PER_SECOND);
}

void http1_conn_set_fini(struct http1_conn_set *set)
{
    mem_free(set->by_fd);
    set->by_fd = NULL;
}

struct http1_conn *http1_conn_find(struct http1_conn_set *set, struct evhttp_connection *evcon)
{
    int fd = bufferevent_getfd(evhttp_connection_get_bufferevent(evcon));
    REQUIRE(fd >= 0 && (size_t)fd < set->n_fds && set->by_fd[fd] != NULL);
    return set->by_fd[fd];
}

void http1_conn_begin(struct http1_conn *c, void *exchange)
{
    bufferevent_data_cb write_cb;
    bufferevent_event_cb event_cb;
    void *evcon;
    REQUIRE(c->phase == HTTP1_CONN_BUSY && c->exchange == NULL);
    c->exchange = exchange;
    /* evhttp reads nothing while a request is worked on, and so would not see the client leave.
     * Read, but without its read callback, which takes bytes in this state for a reason to exit. */
    bufferevent_getcb(c->bev, NULL, &write_cb, &event_cb, &evcon);
    bufferevent_setcb(c->bev, NULL, write_cb, event_cb, evcon);
    bufferevent_enable(c->bev, EV_READ);
}

void http1_conn_finish(struct http1_conn *c)
{
    c->exchange = NULL;
    byte_budget_end(&c->held);
    http1_framing_reset(&c->guard);
    c->timeline = c->next;
    c->next = (struct timeline){0};
    c->phase = HTTP1_CONN_IDLE;
    set_timer(c, LIMIT_KEEPALIVE_SECONDS * SECOND_US);
    if (c->ahead > 0) {
        size_t n = c->ahead;
        c->ahead = 0;
        c->progress_us = clock_now_us();
        first_byte(c);
        if (c->phase == HTTP1_CONN_READING)
            scan(c, bufferevent_get_input(c->bev), n);
        else
            throw_away(c, bufferevent_get_input(c->bev));
    }
}
