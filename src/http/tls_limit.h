/* When connections may begin their TLS handshake: each costs a signature (3 ms with an RSA key of
 * 4,096 bits), and who only connects must not take processors from those who are served.
 *
 *     accepted ─► tls_limit_add ─┬─ there is time ──► start(fd)
 *                                 ├─ waits, addresses in turn ──► start(fd)
 *                                 └─ too many wait, in all or of this address: drop(fd)
 *
 * All handshakes together take at most LIMIT_TLS_US_PER_SECOND. I/O thread only. */
#ifndef FIRSTLIGHT_HTTP_TLS_LIMIT_H
#define FIRSTLIGHT_HTTP_TLS_LIMIT_H

#include "base/err.h"
#include "http/client_limit.h"

#include <stdint.h>

struct event_base;
struct tls_limit;

struct tls_limit_options {
    struct event_base *base;
    int64_t cost_us; /* of one */
    /* Both take the descriptor over: the handshake may begin, or there is no place to wait. */
    void (*start)(void *arg, int fd, const struct client *who);
    void (*drop)(void *arg, int fd, const struct client *who);
    void *arg;
};
enum status tls_limit_open(struct tls_limit **out, const struct tls_limit_options *o,
                           struct err *err);
void tls_limit_close(struct tls_limit *h); /* drops those that wait */

/* Takes the descriptor over: starts it, keeps it, or drops it. who: by address. */
void tls_limit_add(struct tls_limit *h, int fd, const struct client *who);
uint32_t tls_limit_count(const struct tls_limit *h);           /* that wait */
void tls_limit_set_cost(struct tls_limit *h, int64_t cost_us); /* the key is another */

#endif
