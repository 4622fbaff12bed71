/* A gRPC server that answers as it is told, frame by frame, each connection in a thread of its own:
 * each call gets the next reply, a call for the models the reply `models`.
 *
 * A reply is pieces, each a frame written by one send. PIECE_GATE waits for script_grpc_open_gate;
 * nothing here waits for time to pass.
 */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_SCRIPT_GRPC_H
#define FIRSTLIGHT_TESTS_SUPPORT_SCRIPT_GRPC_H

#include "base/limits.h"
#include "support/cmocka_all.h"
#include "support/loopback.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCRIPT_GRPC_REPLIES (LIMIT_BENCH_STREAMS + 1)
#define SCRIPT_GRPC_PIECES  10
#define SCRIPT_GRPC_CONNS   8

enum piece_kind {
    PIECE_NONE,   /* the reply is over; the connection goes on */
    PIECE_HEAD,   /* HEADERS of "name: value\n" lines */
    PIECE_LAST,   /* the same, and the stream's end */
    PIECE_DATA,   /* n bytes */
    PIECE_RESET,  /* RST_STREAM with code n */
    PIECE_GOAWAY, /* that takes streams up to n; bytes: NULL or the code is INTERNAL_ERROR */
    PIECE_RAW,    /* n bytes as they are */
    PIECE_GATE,
    PIECE_HOLD,  /* until the client closes, which ends the connection */
    PIECE_CLOSE, /* end the connection */
};

struct piece {
    enum piece_kind kind;
    const char *bytes;
    size_t n;
};

struct script_grpc_reply {
    struct piece pieces[SCRIPT_GRPC_PIECES];
};

/* One connection as its thread sees it. */
struct script_grpc_conn {
    struct script_grpc *script;
    int fd;
    pthread_t thread;
    nghttp2_hd_inflater *inflater;
    int32_t stream; /* of the reply under way */
};

struct script_grpc {
    struct script_grpc_reply models, replies[SCRIPT_GRPC_REPLIES];
    int n_replies;
    uint32_t max_streams; /* announced; 0: not */
    int listener;
    char url[64];
    pthread_t thread;
    pthread_mutex_t lock;
    sem_t gate, closed;
    struct script_grpc_conn conns[SCRIPT_GRPC_CONNS];
    /* for the test once script_grpc_stop has returned */
    char heads[SCRIPT_GRPC_REPLIES][1024];  /* "name: value\n" of each call but those for models */
    char bodies[SCRIPT_GRPC_REPLIES][1024]; /* with their frames */
    size_t body_lens[SCRIPT_GRPC_REPLIES];
    int n_calls, n_connections;
    size_t n_sent;      /* bytes; for the test when all of them have come */
    uint32_t resets[8]; /* codes of RST_STREAM from the client */
    int n_resets;
    char models_head[1024];
};

static inline void script_put(uint8_t *at, uint32_t n, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(n >> (8 * (bytes - 1 - i)));
}

static inline bool script_send(struct script_grpc_conn *c, const void *bytes, size_t len)
{
    pthread_mutex_lock(&c->script->lock);
    c->script->n_sent += len;
    pthread_mutex_unlock(&c->script->lock);
    return send(c->fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static inline bool script_frame(struct script_grpc_conn *c, uint8_t type, uint8_t flags,
                                int32_t stream, const void *bytes, size_t len)
{
    uint8_t whole[9 + 4096];
    assert_true(len <= sizeof whole - 9);
    script_put(whole, (uint32_t)len, 3);
    whole[3] = type;
    whole[4] = flags;
    script_put(whole + 5, (uint32_t)stream, 4);
    if (len > 0)
        memcpy(whole + 9, bytes, len);
    return script_send(c, whole, 9 + len);
}

/* Literal fields that nobody indexes (RFC 7541, 6.2.2), all shorter than 127 bytes. */
static inline size_t script_fields(uint8_t *out, const char *lines)
{
    size_t n = 0;
    while (*lines) {
        const char *colon = strstr(lines, ": "), *end = strchr(lines, '\n');
        size_t name = (size_t)(colon - lines), value = (size_t)(end - colon - 2);
        assert_true(name < 127 && value < 127);
        out[n++] = 0;
        out[n++] = (uint8_t)name;
        memcpy(out + n, lines, name);
        n += name;
        out[n++] = (uint8_t)value;
        memcpy(out + n, colon + 2, value);
        n += value;
        lines = end + 1;
    }
    return n;
}

static inline bool script_goaway(struct script_grpc_conn *c, const struct piece *p)
{
    uint8_t body[8];
    script_put(body, (uint32_t)p->n, 4);
    script_put(body + 4, p->bytes ? NGHTTP2_INTERNAL_ERROR : NGHTTP2_NO_ERROR, 4);
    return script_frame(c, NGHTTP2_GOAWAY, 0, 0, body, sizeof body);
}

/* False: the connection is over. */
static inline bool script_piece(struct script_grpc_conn *c, const struct piece *p)
{
    uint8_t out[2048];
    switch (p->kind) {
    case PIECE_HEAD:
    case PIECE_LAST:
        return script_frame(c, NGHTTP2_HEADERS,
                            NGHTTP2_FLAG_END_HEADERS |
                                (p->kind == PIECE_LAST ? NGHTTP2_FLAG_END_STREAM : 0),
                            c->stream, out, script_fields(out, p->bytes));
    case PIECE_DATA:
        return script_frame(c, NGHTTP2_DATA, 0, c->stream, p->bytes, p->n);
    case PIECE_RESET:
        script_put(out, (uint32_t)p->n, 4);
        return script_frame(c, NGHTTP2_RST_STREAM, 0, c->stream, out, 4);
    case PIECE_GOAWAY:
        return script_goaway(c, p);
    case PIECE_RAW:
        return script_send(c, p->bytes, p->n);
    case PIECE_GATE:
        sem_wait(&c->script->gate);
        return true;
    case PIECE_HOLD:
        while (recv(c->fd, out, sizeof out, 0) > 0)
            ;
        return false;
    case PIECE_CLOSE:
    case PIECE_NONE:
        break;
    }
    return false;
}

static inline bool script_receive(int fd, void *out, size_t len)
{
    return len == 0 || recv(fd, out, len, MSG_WAITALL) == (ssize_t)len;
}

/* The fields of a head as lines. */
static inline void script_inflate(struct script_grpc_conn *c, const uint8_t *at, size_t len,
                                  char *out, size_t out_size)
{
    size_t used = 0;
    int flags = 0;
    out[0] = '\0';
    while ((flags & NGHTTP2_HD_INFLATE_FINAL) == 0) {
        nghttp2_nv nv;
        ssize_t n = nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, at, len, 1);
        assert_true(n >= 0);
        at += n;
        len -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            used += (size_t)snprintf(out + used, out_size - used, "%s: %s\n", (char *)nv.name,
                                     (char *)nv.value);
    }
    nghttp2_hd_inflate_end_headers(c->inflater);
}

/* A call is whole: its reply. */
static inline bool script_call(struct script_grpc_conn *c, const char *head, const char *body,
                               size_t len)
{
    struct script_grpc *s = c->script;
    const struct script_grpc_reply *r = &s->models;
    pthread_mutex_lock(&s->lock);
    if (strstr(head, "/ListModels\n")) {
        snprintf(s->models_head, sizeof s->models_head, "%s", head);
    } else {
        assert_true(s->n_calls < s->n_replies && len <= sizeof s->bodies[0]);
        snprintf(s->heads[s->n_calls], sizeof s->heads[0], "%s", head);
        memcpy(s->bodies[s->n_calls], body, len);
        s->body_lens[s->n_calls] = len;
        r = &s->replies[s->n_calls++];
    }
    pthread_mutex_unlock(&s->lock);
    for (int i = 0; i < SCRIPT_GRPC_PIECES && r->pieces[i].kind != PIECE_NONE; i++)
        if (!script_piece(c, &r->pieces[i]))
            return false;
    return true;
}

static inline void script_note_reset(struct script_grpc *s, const uint8_t *body)
{
    pthread_mutex_lock(&s->lock);
    if (s->n_resets < 8)
        s->resets[s->n_resets++] =
            (uint32_t)body[0] << 24 | (uint32_t)body[1] << 16 | (uint32_t)body[2] << 8 | body[3];
    pthread_mutex_unlock(&s->lock);
}

/* Frames of one call at a time: a client sends a short call whole. */
static inline bool script_frames(struct script_grpc_conn *c)
{
    static __thread char head[1024], body[4096];
    static __thread size_t body_len;
    uint8_t h[9], bytes[16384];
    if (!script_receive(c->fd, h, sizeof h))
        return false;
    size_t len = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
    if (len > sizeof bytes || !script_receive(c->fd, bytes, len))
        return false;
    if (h[3] == NGHTTP2_SETTINGS && !(h[4] & NGHTTP2_FLAG_ACK))
        return script_frame(c, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, NULL, 0);
    if (h[3] == NGHTTP2_RST_STREAM)
        script_note_reset(c->script, bytes);
    if (h[3] == NGHTTP2_HEADERS) {
        c->stream = h[5] << 24 | h[6] << 16 | h[7] << 8 | h[8];
        script_inflate(c, bytes, len, head, sizeof head);
        body_len = 0;
    }
    if (h[3] == NGHTTP2_DATA && body_len + len <= sizeof body) {
        memcpy(body + body_len, bytes, len);
        body_len += len;
    }
    if (h[3] == NGHTTP2_DATA && (h[4] & NGHTTP2_FLAG_END_STREAM))
        return script_call(c, head, body, body_len);
    return true;
}

static inline void *script_grpc_serve(void *arg)
{
    struct script_grpc_conn *c = arg;
    char preface[NGHTTP2_CLIENT_MAGIC_LEN];
    uint8_t most[6] = {0, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS};
    int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    script_put(most + 2, c->script->max_streams, 4);
    nghttp2_hd_inflate_new(&c->inflater);
    if (script_receive(c->fd, preface, sizeof preface) &&
        script_frame(c, NGHTTP2_SETTINGS, 0, 0, most, c->script->max_streams ? 6 : 0))
        while (script_frames(c))
            ;
    nghttp2_hd_inflate_del(c->inflater);
    close(c->fd);
    sem_post(&c->script->closed);
    return NULL;
}

static inline void *script_grpc_main(void *arg)
{
    struct script_grpc *s = arg;
    int fd;
    while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
        assert_true(s->n_connections < SCRIPT_GRPC_CONNS);
        struct script_grpc_conn *c = &s->conns[s->n_connections++];
        *c = (struct script_grpc_conn){.script = s, .fd = fd};
        assert_int_equal(pthread_create(&c->thread, NULL, script_grpc_serve, c), 0);
    }
    return NULL;
}

/* s->models, s->replies and s->n_replies are filled in. */
static inline void script_grpc_start(struct script_grpc *s)
{
    int port;
    s->listener = loopback_listen(&port);
    snprintf(s->url, sizeof s->url, "grpc://127.0.0.1:%d", port);
    assert_int_equal(sem_init(&s->gate, 0, 0) | sem_init(&s->closed, 0, 0), 0);
    assert_int_equal(pthread_mutex_init(&s->lock, NULL), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, script_grpc_main, s), 0);
}

static inline void script_grpc_open_gate(struct script_grpc *s)
{
    sem_post(&s->gate);
}

/* The client has closed its connections. */
static inline void script_grpc_stop(struct script_grpc *s)
{
    shutdown(s->listener, SHUT_RDWR); /* accept fails */
    pthread_join(s->thread, NULL);
    for (int i = 0; i < s->n_connections; i++)
        pthread_join(s->conns[i].thread, NULL);
    close(s->listener);
    sem_destroy(&s->gate);
    sem_destroy(&s->closed);
    pthread_mutex_destroy(&s->lock);
}

#endif
