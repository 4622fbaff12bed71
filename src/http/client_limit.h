/* How many requests each client has under way: a client is an API key or, without keys, a peer's
 * address (of IPv6 its network of 64 bits, which is what one subscriber has). I/O thread only. */
#ifndef FIRSTLIGHT_HTTP_CLIENT_LIMIT_H
#define FIRSTLIGHT_HTTP_CLIENT_LIMIT_H

#include "base/err.h"

#include <stdint.h>

struct sockaddr;
struct client_limit;

struct client {
    uint64_t word[2];
};
struct client client_limit_of_key(uint64_t id); /* of keys_check */
struct client
client_limit_of_address(const struct sockaddr *address); /* NULL: unknown, one for all */

/* At most max_each requests of each client, and room for max_clients who have one. */
enum status client_limit_open(struct client_limit **out, uint32_t max_each, uint32_t max_clients,
                              struct err *err);
void client_limit_free(struct client_limit *c);

/* One more of this client. STATUS_OVERLOADED: it has max_each, or there are max_clients others. */
enum status client_limit_enter(struct client_limit *c, const struct client *who, struct err *err);
/* One less; each that has entered leaves once. */
void client_limit_leave(struct client_limit *c, const struct client *who);
/* The same of n at once: all of them or none. */
enum status client_limit_enter_all(struct client_limit *c, const struct client *who, uint32_t n,
                                   struct err *err);
void client_limit_leave_all(struct client_limit *c, const struct client *who, uint32_t n);
uint32_t client_limit_count(const struct client_limit *c); /* who have a request */

#endif
