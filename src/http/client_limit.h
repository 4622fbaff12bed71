/* How many requests each client has under way: a client is an API key or, without keys, a peer's
 * address (of IPv6 its network of 64 bits, which is what one subscriber has). I/O thread only. */
#ifndef FIRSTLIGHT_HTTP_CLIENT_LIMIT_H
#define FIRSTLIGHT_HTTP_CLIENT_LIMIT_H

#include "base/err.h"

#include <stdint.h>

struct sockaddr;
struct clients;

struct client {
    uint64_t word[2];
};
struct client clients_of_key(uint64_t id);                        /* of keys_check */
struct client clients_of_address(const struct sockaddr *address); /* NULL: unknown, one for all */

/* At most max_each requests of each client, and room for max_clients who have one. */
enum status clients_open(struct clients **out, uint32_t max_each, uint32_t max_clients,
                         struct err *err);
void clients_free(struct clients *c);

/* One more of his. STATUS_OVERLOADED: he has max_each, or there are max_clients others. */
enum status clients_enter(struct clients *c, const struct client *who, struct err *err);
/* One less; each that has entered leaves once. */
void clients_leave(struct clients *c, const struct client *who);
/* The same of n at once: all of them or none. */
enum status clients_enter_all(struct clients *c, const struct client *who, uint32_t n,
                              struct err *err);
void clients_leave_all(struct clients *c, const struct client *who, uint32_t n);
uint32_t clients_count(const struct clients *c); /* who have a request */

#endif
