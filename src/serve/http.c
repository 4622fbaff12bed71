#include "serve/http.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "serve/answer.h"
#include "serve/conn.h"
#include "serve/id.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct http {
    struct evhttp *evhttp;
    struct conn_set conns;
    http_handler *handler;
    void *arg;
    struct evbuffer *scratch; /* carries one chunk of a stream */
    bool draining;
    char url[300];
};

/* What an http_exchange is inside. */
struct exchange {
    struct http_exchange public; /* first: the two pointers are one */
    struct http *http;
    struct conn *conn;
    struct evhttp_request *req;
    bool cut;
    char request_id[LIMIT_REQUEST_ID_BYTES + 1];
};

static struct exchange *inside(const struct http_exchange *x)
{
    return (struct exchange *)(uintptr_t)x;
}

/* The end of an exchange */

static void end(struct exchange *x, bool gone)
{
    if (x->public.ended)
        x->public.ended(&x->public, gone);
    mem_free(x);
}

/* evhttp has written the answer; the request is freed after this. */
static void on_complete(struct evhttp_request *req, void *arg)
{
    struct exchange *x = arg;
    struct conn *c = x->conn;
    bool cut = x->cut;
    (void)req;
    end(x, false);
    conn_finish(c);
    if (cut)
        conn_shut(c);
}

/* The connection goes, before the answer's end. */
static void on_gone(void *exchange)
{
    struct exchange *x = exchange;
    /* evhttp lets go of a request that was not yet answered in full; it is ours to free then */
    if (evhttp_request_get_connection(x->req) == NULL)
        evhttp_request_free(x->req);
    end(x, true);
}

/* Answers */

void http_add_header(struct http_exchange *x, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(inside(x)->req), name, value);
}

static void add_common_headers(struct http_exchange *x)
{
    http_add_header(x, "X-Request-Id", x->request_id);
    http_add_header(x, "Access-Control-Allow-Origin", "*");
    http_add_header(x, "Access-Control-Expose-Headers", "X-Request-Id, Retry-After, Server-Timing");
    if (inside(x)->http->draining)
        http_add_header(x, "Connection", "close");
}

void http_reply(struct http_exchange *x, int status, const char *content_type, const char *body,
                size_t len)
{
    struct exchange *in = inside(x);
    struct evbuffer *out = evbuffer_new();
    char length[24];
    x->status = status;
    add_common_headers(x);
    if (content_type)
        http_add_header(x, "Content-Type", content_type);
    if (strcmp(x->method, "HEAD") == 0) {
        /* evhttp sends any body it is given, so it gets the length alone */
        snprintf(length, sizeof length, "%zu", len);
        http_add_header(x, "Content-Length", length);
    } else if (!out || evbuffer_add(out, body, len) != 0) {
        conn_shut(in->conn);
    }
    evhttp_send_reply(in->req, status, NULL, out);
    if (out)
        evbuffer_free(out);
}

static const char *retry_after(enum status code)
{
    return code == STATUS_OVERLOADED ? "1" : code == STATUS_UNAVAILABLE ? "5" : NULL;
}

void http_fail(struct http_exchange *x, const struct err *err, const char *code)
{
    struct buf body = {0};
    answer_error(&body, err, code);
    struct evkeyvalq *headers = evhttp_request_get_output_headers(inside(x)->req);
    if (retry_after(err->code) && !evhttp_find_header(headers, "Retry-After"))
        http_add_header(x, "Retry-After", retry_after(err->code));
    if (err->code == STATUS_UNAUTHENTICATED)
        http_add_header(x, "WWW-Authenticate", "Bearer");
    http_reply(x, status_http(err->code), "application/json", buf_str(&body), body.len);
    buf_fini(&body);
}

/* Streams */

void http_stream_start(struct http_exchange *x, const char *content_type)
{
    struct exchange *in = inside(x);
    x->status = 200;
    /* a stream to HTTP/1.0 has no chunks: it ends with its connection, whatever was asked */
    if (in->req->minor == 0)
        evhttp_remove_header(evhttp_request_get_input_headers(in->req), "Connection");
    add_common_headers(x);
    http_add_header(x, "Content-Type", content_type);
    http_add_header(x, "Cache-Control", "no-cache");
    http_add_header(x, "X-Accel-Buffering", "no");
    evhttp_send_reply_start(in->req, 200, NULL);
}

static void on_drained(struct evhttp_connection *evcon, void *arg)
{
    struct exchange *x = arg;
    (void)evcon;
    if (x->public.drained)
        x->public.drained(&x->public);
}

void http_stream_write(struct http_exchange *x, const char *bytes, size_t len)
{
    struct exchange *in = inside(x);
    if (evbuffer_add(in->http->scratch, bytes, len) != 0)
        conn_shut(in->conn);
    evhttp_send_reply_chunk_with_cb(in->req, in->http->scratch, on_drained, in);
}

void http_stream_end(struct http_exchange *x, bool cut)
{
    inside(x)->cut = cut;
    evhttp_send_reply_end(inside(x)->req);
}

size_t http_stream_waiting(const struct http_exchange *x)
{
    return evbuffer_get_length(bufferevent_get_output(inside(x)->conn->bev));
}

/* Requests */

static const char *method_name(enum evhttp_cmd_type type)
{
    switch (type) {
    case EVHTTP_REQ_GET:
        return "GET";
    case EVHTTP_REQ_POST:
        return "POST";
    case EVHTTP_REQ_HEAD:
        return "HEAD";
    case EVHTTP_REQ_PUT:
        return "PUT";
    case EVHTTP_REQ_DELETE:
        return "DELETE";
    case EVHTTP_REQ_OPTIONS:
        return "OPTIONS";
    case EVHTTP_REQ_PATCH:
        return "PATCH";
    default:
        return "?";
    }
}

/* The client's own name for the request if it is short and printable, else a new one. */
static void name_request(struct exchange *x)
{
    const char *given = http_header(&x->public, "X-Request-Id");
    size_t len = given ? strlen(given) : 0;
    for (size_t i = 0; i < len; i++)
        if (given[i] <= ' ' || given[i] > '~')
            len = 0;
    if (len > 0 && len <= LIMIT_REQUEST_ID_BYTES)
        memcpy(x->request_id, given, len + 1);
    else
        id_random(x->request_id);
    x->public.request_id = x->request_id;
}

bool http_peer(const struct http_exchange *x, struct sockaddr_storage *out)
{
    socklen_t len = sizeof *out;
    return getpeername(inside(x)->conn->fd, (struct sockaddr *)out, &len) == 0;
}

const char *http_header(const struct http_exchange *x, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(inside(x)->req), name);
}

bool http_path_rest(const struct http_exchange *x, const char *prefix, char *out, size_t out_size)
{
    size_t n = strlen(prefix);
    if (strncmp(x->path, prefix, n) != 0)
        return false;
    char *rest = evhttp_uridecode(x->path + n, 0, NULL);
    bool fits = rest && strlen(rest) < out_size;
    if (fits)
        strcpy(out, rest);
    free(rest); /* evhttp's */
    return fits;
}

bool http_query(const struct http_exchange *x, const char *name, char *out, size_t out_size)
{
    const char *query = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(inside(x)->req));
    struct evkeyvalq fields;
    if (!query || evhttp_parse_query_str(query, &fields) != 0)
        return false;
    const char *value = evhttp_find_header(&fields, name);
    if (value)
        snprintf(out, out_size, "%s", value);
    evhttp_clear_headers(&fields);
    return value != NULL;
}

struct evbuffer *http_take_body(struct http_exchange *x)
{
    struct evbuffer *body = evbuffer_new();
    if (body)
        evbuffer_add_buffer(body, evhttp_request_get_input_buffer(inside(x)->req));
    return body;
}

static void on_request(struct evhttp_request *req, void *arg)
{
    struct http *h = arg;
    struct conn *c = conn_find(&h->conns, evhttp_request_get_connection(req));
    struct exchange *x = mem_zalloc(sizeof *x);
    if (!x || c->phase != CONN_BUSY) {
        mem_free(x);
        conn_shut(c);
        evhttp_send_reply(req, 503, NULL, NULL);
        return;
    }
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(req));
    *x = (struct exchange){.http = h, .conn = c, .req = req};
    x->public.method = method_name(evhttp_request_get_command(req));
    x->public.path = path ? path : "";
    x->public.timeline = &c->timeline;
    name_request(x);
    evhttp_request_set_on_complete_cb(req, on_complete, x);
    conn_begin(c, x);
    h->handler(h->arg, &x->public);
}

/* The listener */

static void write_url(struct http *h, const char *host, int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    uint16_t port = 0;
    if (getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        port = address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                             : ((struct sockaddr_in *)&address)->sin_port;
    bool v6 = strchr(host, ':') != NULL;
    snprintf(h->url, sizeof h->url, "http://%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "",
             ntohs(port));
}

static void accept_again(evutil_socket_t fd, short what, void *listener)
{
    (void)fd;
    (void)what;
    evconnlistener_enable(listener);
}

/* accept failed, most likely for lack of descriptors: rest, instead of trying at once for ever.
 * (The argument is evhttp's, not ours.) */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
    static const struct timeval rest = {.tv_usec = 100000};
    (void)arg;
    log_warn("listener.failed", "reason=\"%s\"",
             evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
    evconnlistener_disable(listener);
    event_base_once(evconnlistener_get_base(listener), -1, EV_TIMEOUT, accept_again, listener,
                    &rest);
}

static enum status bind_address(struct http *h, const struct http_options *o, struct err *err)
{
    errno = 0;
    struct evhttp_bound_socket *bound =
        evhttp_bind_socket_with_handle(h->evhttp, o->host, (uint16_t)o->port);
    if (!bound && errno == EADDRINUSE)
        return err_set(err, STATUS_UNAVAILABLE,
                       "port %d on %s is in use: stop what listens there, or choose another with "
                       "--port (0 picks a free one)",
                       o->port, o->host);
    if (!bound)
        return err_set(err, STATUS_IO, "cannot listen on %s port %d: %s", o->host, o->port,
                       errno ? strerror(errno) : "no such address");
    h->conns.listener = evhttp_bound_socket_get_listener(bound);
    evconnlistener_set_error_cb(h->conns.listener, on_accept_error);
    write_url(h, o->host, evhttp_bound_socket_get_fd(bound));
    return STATUS_OK;
}

static void set_up(struct http *h)
{
    evhttp_set_allowed_methods(h->evhttp, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                              EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                                              EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
    /* the guard counts more strictly; these are behind it */
    evhttp_set_max_headers_size(h->evhttp, LIMIT_HEADER_BYTES);
    evhttp_set_max_body_size(h->evhttp, LIMIT_BODY_BYTES);
    evhttp_set_default_content_type(h->evhttp, NULL);
    evhttp_set_bevcb(h->evhttp, conn_new, &h->conns);
    evhttp_set_gencb(h->evhttp, on_request, h);
}

enum status http_open(struct http **out, struct event_base *base, const struct http_options *o,
                      http_handler *handler, void *arg, struct err *err)
{
    struct http *h = mem_zalloc(sizeof *h);
    if (!h)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the HTTP server");
    h->handler = handler;
    h->arg = arg;
    h->conns = (struct conn_set){.base = base, .max = o->max_connections, .gone = on_gone};
    h->evhttp = evhttp_new(base);
    h->scratch = evbuffer_new();
    enum status st = h->evhttp && h->scratch
                         ? STATUS_OK
                         : err_set(err, STATUS_NO_MEMORY, "no memory for the HTTP server");
    if (st == STATUS_OK) {
        set_up(h);
        st = bind_address(h, o, err);
    }
    if (st) {
        http_close(h);
        return st;
    }
    *out = h;
    return STATUS_OK;
}

void http_close(struct http *h)
{
    if (!h)
        return;
    h->conns.listener = NULL; /* evhttp frees it before the connections */
    if (h->evhttp)
        evhttp_free(h->evhttp);
    if (h->scratch)
        evbuffer_free(h->scratch);
    conn_set_fini(&h->conns);
    mem_free(h);
}

const char *http_url(const struct http *h)
{
    return h->url;
}

uint32_t http_connections(const struct http *h)
{
    return h->conns.count;
}

bool http_refusal_at(const struct http *h, size_t i, struct http_refusal *out)
{
    return conn_refusal_at(&h->conns, i, &out->status, &out->n);
}

void http_drain(struct http *h)
{
    h->draining = true;
}
