/* A server that answers as it is told, in a thread: each request gets the next reply.
 *
 * A reply is pieces, each written by one send. script_gate among them waits for script_open_gate,
 * so that a test decides what the client has seen before more comes; nothing here waits for time to
 * pass.
 */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_SCRIPT_SERVER_H
#define FIRSTLIGHT_TESTS_SUPPORT_SCRIPT_SERVER_H

#include "support/cmocka_all.h"
#include "support/loopback.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCRIPT_REPLIES 8
#define SCRIPT_PIECES  10

/* Pieces that are no bytes. A reply that ends in neither of the last three ends in a close. */
static const char script_gate[] = "wait for script_open_gate";
static const char script_reset[] = "close with a reset";
static const char script_hold[] = "wait until the client closes";
static const char script_keep[] = "answer another request on this connection";

struct script_reply {
    const char *pieces[SCRIPT_PIECES]; /* up to NULL */
};

struct script {
    struct script_reply replies[SCRIPT_REPLIES];
    int n_replies;
    int listener;
    char url[64];
    pthread_t thread;
    sem_t gate;
    /* for the test once script_stop has returned */
    char requests[SCRIPT_REPLIES][4096];
    int n_requests, n_connections;
};

/* A head and as much of the body as it announces. False: the client is gone. */
static inline bool script_read(int fd, char *out, size_t out_size)
{
    size_t len = 0, need = 0;
    ssize_t n;
    while (len + 1 < out_size && (n = recv(fd, out + len, out_size - 1 - len, 0)) > 0) {
        len += (size_t)n;
        out[len] = '\0';
        char *body = strstr(out, "\r\n\r\n");
        char *length = strcasestr(out, "\r\nContent-Length:");
        if (!body)
            continue;
        need = (size_t)(body + 4 - out) + (length ? strtoul(length + 17, NULL, 10) : 0);
        if (len >= need)
            return true;
    }
    return false;
}

/* True: the connection is to be kept. */
static inline bool script_answer(struct script *s, int fd, const struct script_reply *r)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};
    char byte;
    for (int i = 0; i < SCRIPT_PIECES && r->pieces[i]; i++) {
        const char *piece = r->pieces[i];
        if (piece == script_keep)
            return true;
        if (piece == script_reset)
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        else if (piece == script_gate)
            sem_wait(&s->gate);
        else if (piece == script_hold)
            while (recv(fd, &byte, 1, 0) > 0)
                ;
        else if (send(fd, piece, strlen(piece), MSG_NOSIGNAL) < 0)
            break; /* a client may leave */
    }
    return false;
}

static inline void *script_main(void *arg)
{
    struct script *s = arg;
    int fd, on = 1;
    while ((fd = accept(s->listener, NULL, NULL)) >= 0) {
        bool keep = true;
        s->n_connections++;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        while (keep && s->n_requests < s->n_replies &&
               script_read(fd, s->requests[s->n_requests], sizeof s->requests[0]))
            keep = script_answer(s, fd, &s->replies[s->n_requests++]);
        close(fd);
    }
    return NULL;
}

/* s->replies and s->n_replies are filled in. */
static inline void script_start(struct script *s)
{
    int port;
    s->listener = loopback_listen(&port);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", port);
    assert_int_equal(sem_init(&s->gate, 0, 0), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, script_main, s), 0);
}

static inline void script_open_gate(struct script *s)
{
    sem_post(&s->gate);
}

/* The client has closed its connections. */
static inline void script_stop(struct script *s)
{
    shutdown(s->listener, SHUT_RDWR); /* accept fails */
    pthread_join(s->thread, NULL);
    close(s->listener);
    sem_destroy(&s->gate);
}

#endif
