/* How much of something each client has used lately, say microseconds of a processor, or requests:
 * a leaky bucket for each. What it holds runs out at a rate of so much a second, so a client whose
 * bucket never holds more than `most` uses no more than that rate in the long run, and `most` at
 * once.
 *
 * The table has a fixed size: places in sets of CLIENT_BUCKETS_SET, chosen by a keyed hash. A new
 * client takes the place of its set that holds least. Who is forgotten counts as one who has used
 * nothing, so many strangers at once give a little to somebody, and those who owe much stay known
 * among them. I/O thread only. */
#ifndef FIRSTLIGHT_HTTP_CLIENT_BUCKETS_H
#define FIRSTLIGHT_HTTP_CLIENT_BUCKETS_H

#include "base/err.h"
#include "http/client_limit.h"

#include <stdint.h>

#define CLIENT_BUCKETS_SET 8

struct client_buckets;

/* Room for max_clients, rounded up to a power of two; per_second above 0. */
enum status client_buckets_open(struct client_buckets **out, uint32_t max_clients,
                                double per_second, struct err *err);
void client_buckets_close(struct client_buckets *b); /* NULL: nothing */

/* now_us: of a clock that does not go back. A negative amount gives back; nobody saves up. */
void client_buckets_add(struct client_buckets *b, const struct client *who, double amount,
                        int64_t now_us);
/* What the client's bucket holds; 0: nothing, or the client is not known. */
double client_buckets_held(const struct client_buckets *b, const struct client *who,
                           int64_t now_us);
/* Microseconds until it holds no more than `most`, if nothing is added; 0: it does not. Fractions
 * that sums may bring do not count. */
int64_t client_buckets_until_us(const struct client_buckets *b, const struct client *who,
                                double most, int64_t now_us);

#endif
