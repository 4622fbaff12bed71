/* TLS handshakes of new connections. Their computing is done by the text workers: one signature
 * takes 3 ms with an RSA key of 4,096 bits, and the I/O thread's clients would wait for it.
 *
 *     tls_accept_start ─► readable ─► worker: a step of it ─┬─ wants more ─► readable, or writable
 *                                                           └─ done(ssl), done(NULL)
 *
 * I/O thread only. */
#ifndef FIRSTLIGHT_HTTP_TLS_ACCEPT_H
#define FIRSTLIGHT_HTTP_TLS_ACCEPT_H

#include "http/client_limit.h"

#include <openssl/types.h>
#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct text_worker;
struct tls_accept; /* one handshake */

/* The handshakes of a listener that are under way. */
struct tls_accepts {
    struct event_base *base;
    struct text_worker *workers; /* to be closed later than these */
    /* ssl: the handshake is made, and both are the callee's. NULL: it failed, or took longer than
     * LIMIT_REQUEST_SECONDS, and fd is closed. */
    void (*done)(void *arg, SSL *ssl, int fd, const struct client *who);
    void *arg;
    struct tls_accept *first;
    uint32_t count;
};

/* Takes fd over, which does not block. False: no memory, and it is still the caller's. who: by
 * address; what the workers do is on an account of its own. */
bool tls_accept_start(struct tls_accepts *of, SSL_CTX *tls, int fd, const struct client *who);
void tls_accept_end(struct tls_accepts *all); /* closes them; done is not called */

#endif
