/* Messages that came compressed. What is or becomes large is inflated by a text worker. */
#include "grpc/grpc.h"

#include "api/client_admission.h"
#include "base/limits.h"
#include "base/mem.h"

#include <event2/buffer.h>
#include <zlib.h>

#define GZIP_ONLY (16 + MAX_WBITS) /* inflateInit2's: a gzip header, and no other */

/* Z_STREAM_END: all of it is in `out`; Z_BUF_ERROR: it ends too early; Z_OK: it has more than
 * `most` bytes. */
static int inflate_into(struct evbuffer *out, const struct evbuffer_iovec *in, size_t most)
{
    unsigned char part[4096];
    z_stream z = {.next_in = in->iov_base, .avail_in = (unsigned)in->iov_len};
    int st = inflateInit2(&z, GZIP_ONLY);
    while (st == Z_OK && evbuffer_get_length(out) <= most) {
        z.next_out = part;
        z.avail_out = sizeof part;
        st = inflate(&z, Z_NO_FLUSH);
        if (evbuffer_add(out, part, sizeof part - z.avail_out) != 0)
            st = Z_MEM_ERROR;
    }
    inflateEnd(&z);
    return evbuffer_get_length(out) > most && st != Z_MEM_ERROR ? Z_OK : st;
}

static enum status inflate_checked(struct evbuffer *out, struct evbuffer *packed, size_t most,
                                   struct err *err)
{
    struct evbuffer_iovec in = {.iov_base = evbuffer_pullup(packed, -1),
                                .iov_len = evbuffer_get_length(packed)};
    bool whole = in.iov_base || in.iov_len == 0;
    switch (out && whole ? inflate_into(out, &in, most) : Z_MEM_ERROR) {
    case Z_STREAM_END:
        return STATUS_OK;
    case Z_OK:
        return err_set(err, STATUS_TOO_LARGE, "the message is larger than %zu bytes", most);
    case Z_MEM_ERROR:
        return err_set(err, STATUS_NO_MEMORY, "no memory for the message");
    default:
        return err_set(err, STATUS_MALFORMED, "the message is no gzip");
    }
}

static void free_message(struct evbuffer **message)
{
    if (*message)
        evbuffer_free(*message);
    *message = NULL;
}

enum status grpc_inflate(struct evbuffer **message, size_t most, struct err *err)
{
    struct evbuffer *out = evbuffer_new();
    enum status st = inflate_checked(out, *message, most, err);
    free_message(message);
    *message = out;
    if (st)
        free_message(message);
    return st;
}

/* A large one, on its way over the text workers. */
struct inflating {
    struct text_job job; /* first */
    struct server *server;
    struct http_exchange *x; /* NULL once its client has left */
    grpc_method *method;
    void (*ended)(struct http_exchange *x, bool gone); /* what x->ended was */
    struct evbuffer *message;
    size_t most;      /* bytes that it becomes */
    struct hold held; /* of it, before and after */
    enum status status;
    struct err err;
};

static void grpc_gzip_work(struct text_job *job)
{
    struct inflating *in = (struct inflating *)(void *)job;
    in->status = grpc_inflate(&in->message, in->most, &in->err);
    if (in->status == STATUS_TOO_LARGE)
        in->status = err_set(&in->err, STATUS_MALFORMED,
                             "the message is no gzip: it has more than "
                             "the %zu bytes that its end tells of",
                             in->most);
}

static void grpc_gzip_done(struct text_job *job)
{
    struct inflating *in = (struct inflating *)(void *)job;
    struct http_exchange *x = in->x;
    if (x) {
        x->user = NULL;
        x->ended = in->ended;
    }
    byte_budget_force(&in->held, in->message ? evbuffer_get_length(in->message) : 0);
    if (x)
        byte_budget_move(&x->held, &in->held);
    if (x && in->status == STATUS_OK)
        text_worker_refund(in->server->text, job); /* the call has an account of its own */
    if (x && in->status)
        grpc_fail(x, &in->err);
    else if (x)
        in->method(in->server, x, in->message);
    else
        free_message(&in->message);
    byte_budget_end(&in->held);
    mem_free(in);
}

static void grpc_gzip_on_ended(struct http_exchange *x, bool gone)
{
    struct inflating *in = x->user;
    struct server *s = in->server;
    in->x = NULL;
    x->user = NULL;
    in->ended(x, gone);
    if (text_worker_drop(s->text, &in->job))
        grpc_gzip_done(&in->job);
}

/* What a gzip says at its end that it becomes, modulo 2^32 (RFC 1952, 2.3.1). */
static size_t told_size(struct evbuffer *message)
{
    unsigned char end[4] = {0};
    size_t len = evbuffer_get_length(message);
    struct evbuffer_ptr at;
    if (len >= sizeof end &&
        evbuffer_ptr_set(message, &at, len - sizeof end, EVBUFFER_PTR_SET) == 0)
        evbuffer_copyout_from(message, &at, end, sizeof end);
    return end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 | (size_t)end[3] << 24;
}

/* Room for what it becomes, as it says. */
static enum status grpc_gzip_make_room(struct http_exchange *x, struct evbuffer *message,
                                       size_t most, struct err *err)
{
    if (most > LIMIT_BODY_BYTES)
        return err_set(err, STATUS_TOO_LARGE, "the message is larger than %u bytes",
                       LIMIT_BODY_BYTES);
    return byte_budget_set(&x->held, evbuffer_get_length(message) + most)
               ? STATUS_OK
               : http_no_room(&x->held, err);
}

static enum status inflate_later(struct server *s, struct http_exchange *x,
                                 struct evbuffer *message, grpc_method *method, struct err *err)
{
    size_t most = told_size(message);
    enum status st = grpc_gzip_make_room(x, message, most, err);
    if (st)
        return st;
    struct inflating *in = mem_zalloc(sizeof *in);
    if (!in)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the call");
    *in = (struct inflating){.job = {.work = grpc_gzip_work,
                                     .done = grpc_gzip_done,
                                     .client = client_admission_client_of(s, x),
                                     .bytes = evbuffer_get_length(message) + most},
                             .server = s,
                             .x = x,
                             .method = method,
                             .ended = x->ended,
                             .message = message,
                             .most = most};
    byte_budget_move(&in->held, &x->held);
    x->user = in;
    x->ended = grpc_gzip_on_ended;
    const char *limit;
    st = client_admission_text(s, x, &in->job, &limit, err);
    if (st == STATUS_OK)
        return STATUS_OK;
    metrics_refuse(&s->metrics, status_http(st), limit);
    x->user = NULL;
    x->ended = in->ended;
    byte_budget_move(&x->held, &in->held);
    mem_free(in);
    return st;
}

/* Which limit refuses it, for the client; NULL: it is at fault itself. */
static const char *grpc_gzip_code_of(enum status st)
{
    return st == STATUS_UNAVAILABLE  ? http_code_memory
           : st == STATUS_OVERLOADED ? "rate_limit_exceeded"
                                     : NULL;
}

void grpc_inflate_for(struct server *s, struct http_exchange *x, struct evbuffer *message,
                      grpc_method *method)
{
    struct err e;
    /* what is large costs time, even if it becomes nothing */
    bool large = evbuffer_get_length(message) > LIMIT_BODY_INLINE;
    struct evbuffer *out = large ? NULL : evbuffer_new();
    enum status st =
        large ? STATUS_TOO_LARGE : inflate_checked(out, message, LIMIT_BODY_INLINE, &e);
    if (st)
        free_message(&out);
    if (st == STATUS_TOO_LARGE) {
        st = inflate_later(s, x, message, method, &e);
        if (st == STATUS_OK)
            return;
    }
    evbuffer_free(message);
    byte_budget_force(&x->held, out ? evbuffer_get_length(out) : 0);
    if (st == STATUS_OK)
        method(s, x, out);
    else
        http_fail(x, &e, grpc_gzip_code_of(st));
}
