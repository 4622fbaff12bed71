#include "http/http1.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "http/http1_conn.h"
#include "http/http_transport.h"
#include "http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http_struct.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct http1 {
    struct evhttp *evhttp;
    struct http1_conn_set conns;
    http_handler *handler;
    void *arg;
    struct evbuffer *scratch; /* carries one chunk of a stream */
    bool draining;
    char url[LISTENER_URL_BYTES];
};

/* What an http_exchange is inside. */
struct exchange {
    struct http_exchange public; /* first: the two pointers are one */
    struct http1 *http;
    struct http1_conn *conn;
    struct evhttp_request *req;
    bool cut;
    char request_id[LIMIT_REQUEST_ID_BYTES + 1];
};

static struct exchange *http1_inside(const struct http_exchange *x)
{
    return (struct exchange *)(uintptr_t)x;
}

/* The end of an exchange */

static void http1_end(struct exchange *x, bool gone)
{
    if (x->public.ended)
        x->public.ended(&x->public, gone);
    byte_budget_end(&x->public.held);
    reserve_free(x);
}

/* evhttp has written the answer; the request is freed after this. */
static void on_complete(struct evhttp_request *req, void *arg)
{
    struct exchange *x = arg;
    struct http1_conn *c = x->conn;
    bool cut = x->cut;
    (void)req;
    http1_end(x, false);
    http1_conn_finish(c);
    if (cut)
        http1_conn_shut(c);
}

/* The connection goes, before the answer's end. */
static void on_gone(void *exchange)
{
    struct exchange *x = exchange;
    /* evhttp lets go of a request that was not yet answered in full; it is ours to free then */
    if (evhttp_request_get_connection(x->req) == NULL)
        evhttp_request_free(x->req);
    http1_end(x, true);
}

/* Answers */

static void http1_via_add_header(struct http_exchange *x, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(http1_inside(x)->req), name, value);
}

static void http1_via_add_trailer(struct http_exchange *x, const char *name, const char *value)
{
    (void)x, (void)name, (void)value; /* few clients of HTTP/1.1 take them */
}

static void close_when_draining(struct exchange *x)
{
    if (x->http->draining)
        http1_via_add_header(&x->public, "Connection", "close");
}

static void http1_via_reply(struct http_exchange *x, int status, const char *body, size_t len)
{
    struct exchange *in = http1_inside(x);
    struct evbuffer *out = evbuffer_new();
    char length[24];
    close_when_draining(in);
    if (strcmp(x->method, "HEAD") == 0) {
        /* evhttp sends any body it is given, so it gets the length alone */
        snprintf(length, sizeof length, "%zu", len);
        http1_via_add_header(x, "Content-Length", length);
    } else if (!out || evbuffer_add(out, body, len) != 0) {
        http1_conn_shut(in->conn);
    }
    evhttp_send_reply(in->req, status, NULL, out);
    if (out)
        evbuffer_free(out);
}

/* Streams */

static void http1_via_stream_start(struct http_exchange *x)
{
    struct exchange *in = http1_inside(x);
    /* a stream to HTTP/1.0 has no chunks: it ends with its connection, whatever was asked */
    if (in->req->minor == 0)
        evhttp_remove_header(evhttp_request_get_input_headers(in->req), "Connection");
    close_when_draining(in);
    evhttp_send_reply_start(in->req, 200, NULL);
}

static void on_drained(struct evhttp_connection *evcon, void *arg)
{
    struct exchange *x = arg;
    (void)evcon;
    if (x->public.drained)
        x->public.drained(&x->public);
}

static size_t http1_via_stream_waiting(const struct http_exchange *x)
{
    return evbuffer_get_length(bufferevent_get_output(http1_inside(x)->conn->bev));
}

static void http1_via_stream_write(struct http_exchange *x, const char *bytes, size_t len)
{
    struct exchange *in = http1_inside(x);
    size_t before = http1_via_stream_waiting(x), whole = len;
    char size[24];
    if (in->req->chunked)
        whole += (size_t)snprintf(size, sizeof size, "%zx\r\n\r\n", len);
    if (evbuffer_add(in->http->scratch, bytes, len) == 0)
        evhttp_send_reply_chunk_with_cb(in->req, in->http->scratch, on_drained, in);
    evbuffer_drain(in->http->scratch, evbuffer_get_length(in->http->scratch));
    if (len > 0 && http1_via_stream_waiting(x) != before + whole) /* evhttp does not say so */
        http1_conn_shut(in->conn);
}

static void http1_via_stream_end(struct http_exchange *x, bool cut)
{
    http1_inside(x)->cut = cut;
    evhttp_send_reply_end(http1_inside(x)->req);
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

static bool http1_via_peer(const struct http_exchange *x, struct sockaddr_storage *out)
{
    socklen_t len = sizeof *out;
    return getpeername(http1_inside(x)->conn->fd, (struct sockaddr *)out, &len) == 0;
}

static const char *http1_via_header(const struct http_exchange *x, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(http1_inside(x)->req), name);
}

static struct evbuffer *http1_via_take_body(struct http_exchange *x)
{
    struct evbuffer *body = evbuffer_new();
    if (body &&
        evbuffer_add_buffer(body, evhttp_request_get_input_buffer(http1_inside(x)->req)) == 0)
        return body;
    if (body)
        evbuffer_free(body);
    return NULL;
}

static struct hold *http1_via_unsent(const struct http_exchange *x)
{
    return http1_conn_unsent(http1_inside(x)->conn);
}

static const struct http_transport http1 = {
    .peer = http1_via_peer,
    .header = http1_via_header,
    .take_body = http1_via_take_body,
    .add_header = http1_via_add_header,
    .add_trailer = http1_via_add_trailer,
    .reply = http1_via_reply,
    .stream_start = http1_via_stream_start,
    .stream_write = http1_via_stream_write,
    .stream_end = http1_via_stream_end,
    .stream_waiting = http1_via_stream_waiting,
    .unsent = http1_via_unsent,
};

static void on_request(struct evhttp_request *req, void *arg)
{
    struct http1 *h = arg;
    struct http1_conn *c = http1_conn_find(&h->conns, evhttp_request_get_connection(req));
    struct exchange *x = reserve_zalloc(sizeof *x);
    if (!x || c->phase != HTTP1_CONN_BUSY) {
        reserve_free(x);
        http1_conn_shut(c);
        evhttp_send_reply(req, 503, NULL, NULL);
        return;
    }
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
    const char *path = evhttp_uri_get_path(uri);
    *x = (struct exchange){.http = h, .conn = c, .req = req};
    byte_budget_move(&x->public.held, &c->held);
    x->public.method = method_name(evhttp_request_get_command(req));
    x->public.path = path ? path : "";
    x->public.query = evhttp_uri_get_query(uri);
    x->public.via = &http1;
    x->public.errors = h->conns.errors;
    x->public.timeline = &c->timeline;
    http_name_request(&x->public, x->request_id);
    evhttp_request_set_on_complete_cb(req, on_complete, x);
    http1_conn_begin(c, x);
    h->handler(h->arg, &x->public);
}

/* The listener */

static enum status bind_address(struct http1 *h, const struct http1_options *o, struct err *err)
{
    const struct listener_options where = {
        .host = o->host, .port = o->port, .flag = "--port", .scheme = "http"};
    enum status st = listener_open(&h->conns.listener, h->url, h->conns.base, &where, err);
    if (st)
        return st;
    if (evhttp_bind_listener(h->evhttp, h->conns.listener))
        return STATUS_OK;
    evconnlistener_free(h->conns.listener);
    return err_set(err, STATUS_NO_MEMORY, "no memory for the HTTP server");
}

static void set_up(struct http1 *h)
{
    evhttp_set_allowed_methods(h->evhttp, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD |
                                              EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
                                              EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
    /* the guard counts more strictly; these are behind it */
    evhttp_set_max_headers_size(h->evhttp, LIMIT_HEADER_BYTES);
    evhttp_set_max_body_size(h->evhttp, LIMIT_BODY_BYTES);
    evhttp_set_default_content_type(h->evhttp, NULL);
    evhttp_set_bevcb(h->evhttp, http1_conn_new, &h->conns);
    evhttp_set_gencb(h->evhttp, on_request, h);
}

enum status http1_open(struct http1 **out, struct event_base *base, const struct http1_options *o,
                       http_handler *handler, void *arg, struct err *err)
{
    struct http1 *h = mem_zalloc(sizeof *h);
    if (!h)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the HTTP server");
    h->handler = handler;
    h->arg = arg;
    h->conns = (struct http1_conn_set){.base = base,
                                       .max = o->max_connections,
                                       .addresses = o->addresses,
                                       .gone = on_gone,
                                       .unsent = o->unsent,
                                       .keyless = o->keyless,
                                       .left = o->left,
                                       .left_arg = o->left_arg,
                                       .errors = o->errors,
                                       .admit = o->admit,
                                       .admit_arg = arg};
    http1_conn_set_init(&h->conns);
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
        http1_close(h);
        return st;
    }
    *out = h;
    return STATUS_OK;
}

void http1_close(struct http1 *h)
{
    if (!h)
        return;
    h->conns.listener = NULL; /* evhttp frees it before the connections */
    if (h->evhttp)
        evhttp_free(h->evhttp);
    if (h->scratch)
        evbuffer_free(h->scratch);
    http1_conn_set_fini(&h->conns);
    mem_free(h);
}

bool http1_is_loopback(const struct http1 *h)
{
    return listener_is_loopback(h->conns.listener);
}

const char *http1_url(const struct http1 *h)
{
    return h->url;
}

uint32_t http1_connections(const struct http1 *h)
{
    return h->conns.count;
}

bool http1_refusal_at(const struct http1 *h, size_t i, struct http1_refusal *out)
{
    return http1_conn_refusal_at(&h->conns, i, &out->status, &out->n);
}

void http1_drain(struct http1 *h)
{
    h->draining = true;
}
