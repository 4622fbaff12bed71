#include "grpc/grpc.h"

#include "api/client_admission.h"
#include "api/routes.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"

#include <event2/buffer.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls */

/* What a call of gRPC is between its headers and its method. Lives in x->user until then. */
struct incoming {
    struct server *server;
    const struct grpc_route *route;
    struct evbuffer *bytes; /* that no message was made of yet */
    bool got_one;
    bool whole; /* the client sends no more */
};

static void incoming_free(struct incoming *in)
{
    if (in->bytes)
        evbuffer_free(in->bytes);
    mem_free(in);
}

static void grpc_on_ended(struct http_exchange *x, bool gone)
{
    log_info("request.done", "request_id=%s method=%s path=%.100s status=%d gone=%d", x->request_id,
             x->method, x->path, x->status, gone);
    if (x->user)
        incoming_free(x->user);
}

static enum status check_frame(struct http_exchange *x, unsigned flag, size_t len, struct err *err)
{
    const char *encoding = http_header(x, "grpc-encoding");
    if (len > LIMIT_BODY_BYTES)
        return err_set(err, STATUS_TOO_LARGE, "the message has %zu bytes, at most %u are taken",
                       len, LIMIT_BODY_BYTES);
    if (flag > 1)
        return err_set(err, STATUS_MALFORMED, "a message begins with 0 or 1, found %u", flag);
    if (flag == 0 || (encoding && strcmp(encoding, "gzip") == 0))
        return STATUS_OK;
    http_add_header(x, "grpc-accept-encoding", GRPC_ENCODINGS);
    if (!encoding || strcmp(encoding, "identity") == 0)
        return err_set(err, STATUS_MALFORMED,
                       "a message is marked as compressed, but grpc-encoding does not say how");
    return err_set(err, STATUS_UNSUPPORTED, "grpc-encoding: must be one of %s, found \"%.40s\"",
                   GRPC_ENCODINGS, encoding);
}

/* The next message if it is whole, else *message is NULL; gzip: it came compressed. */
static enum status next_message(struct http_exchange *x, struct incoming *in,
                                struct evbuffer **message, bool *gzip, struct err *err)
{
    unsigned char head[GRPC_FRAME_BYTES];
    *message = NULL;
    if (evbuffer_copyout(in->bytes, head, sizeof head) < (ev_ssize_t)sizeof head)
        return STATUS_OK;
    size_t len = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    enum status st = check_frame(x, head[0], len, err);
    if (st || evbuffer_get_length(in->bytes) < sizeof head + len)
        return st;
    *gzip = head[0] == 1;
    *message = evbuffer_new();
    evbuffer_drain(in->bytes, sizeof head);
    if (*message && evbuffer_remove_buffer(in->bytes, *message, len) >= 0)
        return STATUS_OK;
    if (*message)
        evbuffer_free(*message);
    return err_set(err, STATUS_NO_MEMORY, "no memory for the message");
}

static enum status add_bytes(struct http_exchange *x, struct incoming *in, struct err *err)
{
    struct evbuffer *more = http_take_body(x);
    bool added = more && evbuffer_add_buffer(in->bytes, more) == 0;
    if (more)
        evbuffer_free(more);
    return added ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for the message");
}

/* Of an answer to one of many messages: reflection's, which is a whole file. */
#define LONG_ANSWER (5 * LIMIT_STREAM_BUFFER)

/* Answers the next of many messages; false: there is none, or it is wrong. */
static bool answer_next(struct http_exchange *x, struct incoming *in, enum status *st,
                        struct err *err)
{
    struct evbuffer *message;
    bool gzip;
    *st = next_message(x, in, &message, &gzip, err);
    if (*st == STATUS_OK && message && evbuffer_get_length(message) > LIMIT_BODY_INLINE) {
        evbuffer_free(message);
        *st = err_set(err, STATUS_TOO_LARGE, "a message of this call has at most %u bytes",
                      LIMIT_BODY_INLINE);
    }
    if (*st == STATUS_OK && message && gzip)
        *st = grpc_inflate(&message, LIMIT_BODY_INLINE, err);
    if (*st == STATUS_OK && message && !http_has_room(x, LONG_ANSWER)) {
        evbuffer_free(message);
        *st = http_no_room_to_send(x, err);
        return false;
    }
    if (*st || !message)
        return false;
    if (!in->got_one)
        grpc_stream(x);
    in->got_one = true;
    in->route->method(in->server, x, message);
    return true;
}

/* A client sends as many messages as it likes; the first that is wrong ends the call. One that does
 * not read its answers gets no more: what it sends waits, and so does its window. */
static void answer_many(struct http_exchange *x)
{
    struct incoming *in = x->user;
    struct err e;
    if (http_stream_waiting(x) > LIMIT_STREAM_BUFFER)
        return;
    enum status st = add_bytes(x, in, &e);
    bool waits = false; /* until it is drained */
    while (st == STATUS_OK && !waits && answer_next(x, in, &st, &e))
        waits = http_stream_waiting(x) > LIMIT_STREAM_BUFFER;
    byte_budget_set(&x->held, evbuffer_get_length(in->bytes));
    if (waits)
        return;
    if (st == STATUS_OK && in->whole && evbuffer_get_length(in->bytes) > 0)
        st = err_set(&e, STATUS_MALFORMED, "the last message was cut off");
    if (st && !in->got_one) {
        grpc_fail(x, &e);
        return;
    }
    if (in->whole && !in->got_one) /* nothing was asked */
        grpc_stream(x);
    if (st || in->whole)
        grpc_end(x, st ? &e : NULL);
}

/* The one message that a call must bring. */
static enum status only_message(struct http_exchange *x, struct incoming *in,
                                struct evbuffer **message, bool *gzip, struct err *err)
{
    enum status st = add_bytes(x, in, err);
    bool none = st == STATUS_OK && evbuffer_get_length(in->bytes) == 0;
    if (st == STATUS_OK)
        st = next_message(x, in, message, gzip, err);
    if (st)
        return st;
    if (*message && evbuffer_get_length(in->bytes) == 0)
        return STATUS_OK;
    if (!*message && !none)
        return err_set(err, STATUS_MALFORMED, "the call ended before its message was whole");
    if (*message)
        evbuffer_free(*message);
    return err_set(err, STATUS_UNSUPPORTED, "the call takes one message, and %s came",
                   none ? "none" : "more");
}

/* The call is wrong, and what came of it is of no use. */
static void grpc_give_up(struct http_exchange *x, const struct err *e)
{
    incoming_free(x->user);
    x->user = NULL;
    x->arrived = NULL;
    x->drained = NULL;
    byte_budget_end(&x->held);
    grpc_fail(x, e);
}

/* Until all has come, the client's window bounds what waits. */
static void answer_one(struct http_exchange *x)
{
    struct incoming *in = x->user;
    struct err e;
    struct evbuffer *message;
    bool gzip;
    if (!in->whole)
        return;
    if (only_message(x, in, &message, &gzip, &e)) {
        grpc_give_up(x, &e);
        return;
    }
    struct server *s = in->server;
    const struct grpc_route *route = in->route;
    x->user = NULL;
    x->arrived = NULL;
    incoming_free(in);
    if (route->needs_key) /* who watches the health may do so for ever */
        server_state_await(s, x);
    if (gzip)
        grpc_inflate_for(s, x, message, route->method);
    else
        route->method(s, x, message);
}

static void on_arrived(struct http_exchange *x, bool whole)
{
    struct incoming *in = x->user;
    in->whole = whole;
    if (in->route->many)
        answer_many(x);
    else
        answer_one(x);
}

static const struct grpc_route *grpc_find(const char *path)
{
    const struct grpc_route *const tables[] = {grpc_inference_routes, grpc_health_routes,
                                               grpc_reflection_routes};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct grpc_route *r = tables[i]; r->path; r++)
            if (strcmp(r->path, path) == 0)
                return r;
    return NULL;
}

/* May this be called so? */
static enum status grpc_check(struct server *s, struct http_exchange *x, const struct grpc_route *r,
                              struct err *err)
{
    const char *timeout = http_header(x, "grpc-timeout");
    float seconds;
    if (!r)
        return err_set(err, STATUS_UNSUPPORTED, "no such method: %.200s", x->path);
    if (timeout && !grpc_timeout(timeout, &seconds))
        return err_set(err, STATUS_INVALID,
                       "grpc-timeout: must be up to 8 digits and one of H, M, S, m, u, n, found "
                       "\"%.40s\"",
                       timeout);
    return r->needs_key ? server_state_check_key(s, http_header(x, "authorization"), &x->key,
                                                 &x->key_secret, err)
                        : STATUS_OK;
}

/* The bytes of the body to come, where the client says; 0: it does not. */
static size_t announced(const struct http_exchange *x)
{
    const char *length = http_header(x, "content-length"); /* nghttp2 has checked that it is one */
    unsigned long long n = length ? strtoull(length, NULL, 10) : 0;
    return n < LIMIT_BODY_BYTES ? (size_t)n : LIMIT_BODY_BYTES;
}

/* What arrives is held of a budget: without a key, of that of the streams. False: there is no room
 * for it, and that was told. */
static bool hold_body(struct server *s, struct http_exchange *x, bool needs_key)
{
    struct sockaddr_storage peer;
    struct err e;
    bool known = http_peer(x, &peer);
    struct client who =
        client_admission_client(s, needs_key, x->key, known ? (struct sockaddr *)&peer : NULL);
    struct byte_budget *of = needs_key ? &s->request_memory : &s->stream_memory;
    if (client_admission_body(of, &x->held, &who, announced(x), &e) == STATUS_OK)
        return true;
    http_fail(x, &e, http_code_memory);
    return false;
}

static void grpc_begin(struct server *s, struct http_exchange *x)
{
    const struct grpc_route *route = grpc_find(x->path);
    struct err e;
    enum status st = grpc_check(s, x, route, &e);
    x->keyless = !route || !route->needs_key;
    struct incoming *in = st == STATUS_OK ? mem_zalloc(sizeof *in) : NULL;
    if (in)
        in->bytes = evbuffer_new();
    x->user = in;
    if (st == STATUS_OK && (!in || !in->bytes))
        st = err_set(&e, STATUS_NO_MEMORY, "no memory for the call");
    if (st == STATUS_UNAUTHENTICATED)
        metrics_refuse(&s->metrics, 401, "invalid_api_key");
    if (st) {
        grpc_fail(x, &e);
        return;
    }
    if (!hold_body(s, x, route->needs_key))
        return;
    in->server = s;
    in->route = route;
    x->unhurried = route->many;
    x->arrived = on_arrived;
    x->drained = route->many ? answer_many : NULL;
}

/* The API of HTTP/1.1, over HTTP/2. */
static void rest_arrived(struct http_exchange *x, bool whole)
{
    struct server *s = x->user;
    if (!whole)
        return;
    x->user = NULL;
    routes_dispatch(s, x);
}

/* The head decides before the body comes. What is not sent to be read is not read: x->arrived stays
 * NULL. */
static void begin_rest(struct server *s, struct http_exchange *x)
{
    struct sockaddr_storage peer;
    struct http_refusal why;
    struct http_head head = http_head_of(x);
    head.announced = announced(x);
    bool known = http_peer(x, &peer);
    if (strcmp(x->method, "POST") != 0) {
        routes_dispatch(s, x);
    } else if (routes_admit(s, &head, known ? (struct sockaddr *)&peer : NULL, &x->held, &why)) {
        x->user = s;
        x->arrived = rest_arrived;
    } else {
        routes_refuse(x, &why);
    }
}

static void grpc_own_fail(struct http_exchange *x, const struct err *err, const char *code)
{
    char ms[24];
    if (code)
        http_add_header(x, "error-code", code);
    if (x->retry_ms > 0) { /* what clients with a retry policy wait */
        snprintf(ms, sizeof ms, "%" PRId64, x->retry_ms);
        http_add_trailer(x, "grpc-retry-pushback-ms", ms);
    }
    grpc_fail(x, err);
}

static bool grpc_is_grpc(const char *content_type)
{
    size_t len = strlen(GRPC_TYPE);
    return content_type && strncmp(content_type, GRPC_TYPE, len) == 0 &&
           (content_type[len] == '\0' || content_type[len] == '+' || content_type[len] == ';');
}

void grpc_dispatch(void *server, struct http_exchange *x)
{
    bool grpc = grpc_is_grpc(http_header(x, "content-type"));
    if (grpc) {
        x->fail = grpc_own_fail;
        x->ended = grpc_on_ended;
    }
    if (x->refused) {
        http_fail(x, x->refused, NULL);
    } else if (!grpc) {
        begin_rest(server, x);
    } else if (routes_allow(server, x)) {
        grpc_begin(server, x);
    }
}

static bool grpc_is_probe(const char *path)
{
    return routes_is_probe(path) || strcmp(path, GRPC_HEALTH_CHECK) == 0;
}

const struct server_rpc grpc_rpc = {.dispatch = grpc_dispatch, .is_probe = grpc_is_probe};
