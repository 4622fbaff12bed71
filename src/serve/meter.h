/* How much of something each client has used lately, say microseconds of a processor: a leaky
 * bucket for each. What it holds runs out at a rate of so many a second; a client whose bucket
 * holds more than `burst` is over its allowance.
 *
 * The table has a fixed size. Where many clients come at once, those that owe least are forgotten
 * first, so who is over stays known. I/O thread only. */
#ifndef FIRSTLIGHT_SERVE_METER_H
#define FIRSTLIGHT_SERVE_METER_H

#include "base/err.h"
#include "serve/clients.h"

#include <stdbool.h>
#include <stdint.h>

struct meter;

/* Room for max_clients, rounded up to a power of two; burst and per_second in the same unit. */
enum status meter_open(struct meter **out, uint32_t max_clients, int64_t burst, int64_t per_second,
                       struct err *err);
void meter_close(struct meter *m);

/* now_us: of clock_now_us, never less than the last one. A negative amount gives back. */
void meter_use(struct meter *m, const struct client *who, int64_t amount, int64_t now_us);
bool meter_is_over(const struct meter *m, const struct client *who, int64_t now_us);

#endif
