/* When connections may begin their TLS handshake: each costs a signature (3 ms with an RSA key of
 * 4,096 bits), and who only connects must not take processors from those who are served.
 *
 *     accepted ─► handshakes_add ─┬─ there is time ──► start(fd)
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
struct handshakes;

struct handshakes_options {
    struct event_base *base;
    int64_t cost_us; /* of one */
    /* Both take the descriptor over: the handshake may begin, or there is no place to wait. */
    void (*start)(void *arg, int fd, const struct client *who);
    void (*drop)(void *arg, int fd, const struct client *who);
    void *arg;
};
enum status handshakes_open(struct handshakes **out, const struct handshakes_options *o,
                            struct err *err);
void handshakes_close(struct handshakes *h); /* drops those that wait */

/* Takes the descriptor over: starts it, keeps it, or drops it. who: by address. */
void handshakes_add(struct handshakes *h, int fd, const struct client *who);
uint32_t handshakes_count(const struct handshakes *h);           /* that wait */
void handshakes_set_cost(struct handshakes *h, int64_t cost_us); /* the key is another */

#endif
