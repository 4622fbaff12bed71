/* Messages that came compressed. What becomes large is inflated on the text worker. */
#include "serve/grpc.h"

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
    switch (out ? inflate_into(out, &in, most) : Z_MEM_ERROR) {
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

/* A large one, on its way over the text worker. */
struct inflating {
    struct text_job job; /* first */
    struct server *server;
    struct http_exchange *x; /* NULL once its client has left */
    grpc_method *method;
    void (*ended)(struct http_exchange *x, bool gone); /* what x->ended was */
    struct evbuffer *message;
    enum status status;
    struct err err;
};

static void work(struct text_job *job)
{
    struct inflating *in = (struct inflating *)(void *)job;
    in->status = grpc_inflate(&in->message, LIMIT_BODY_BYTES, &in->err);
}

static void done(struct text_job *job)
{
    struct inflating *in = (struct inflating *)(void *)job;
    struct http_exchange *x = in->x;
    if (x) {
        x->user = NULL;
        x->ended = in->ended;
    }
    if (x && in->status)
        grpc_fail(x, &in->err);
    else if (x)
        in->method(in->server, x, in->message);
    else
        free_message(&in->message);
    mem_free(in);
}

static void on_ended(struct http_exchange *x, bool gone)
{
    struct inflating *in = x->user;
    in->x = NULL;
    x->user = NULL;
    in->ended(x, gone);
}

static void inflate_later(struct server *s, struct http_exchange *x, struct evbuffer *message,
                          grpc_method *method)
{
    struct err e;
    struct inflating *in = mem_zalloc(sizeof *in);
    if (in) {
        *in = (struct inflating){.job = {work, done},
                                 .server = s,
                                 .x = x,
                                 .method = method,
                                 .ended = x->ended,
                                 .message = message};
        if (text_worker_submit(s->text, &in->job)) {
            x->user = in;
            x->ended = on_ended;
            return;
        }
    }
    if (in)
        err_set(&e, STATUS_OVERLOADED, "too many large requests at once: try again");
    else
        err_set(&e, STATUS_NO_MEMORY, "no memory for the call");
    mem_free(in);
    evbuffer_free(message);
    grpc_fail(x, &e);
}

void grpc_inflate_for(struct server *s, struct http_exchange *x, struct evbuffer *message,
                      grpc_method *method)
{
    struct err e;
    struct evbuffer *out = evbuffer_new();
    enum status st = inflate_checked(out, message, LIMIT_BODY_INLINE, &e);
    if (st)
        free_message(&out);
    if (st == STATUS_TOO_LARGE) {
        inflate_later(s, x, message, method);
        return;
    }
    evbuffer_free(message);
    if (st)
        grpc_fail(x, &e);
    else
        method(s, x, out);
}
