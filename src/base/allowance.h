/* So much of something in a second, say bytes, or microseconds of a thread: one token bucket. It
 * fills with time, up to `most`, and may be overdrawn, by `most` or what comes in a second: then
 * nothing is left until it has filled up again. No locks. */
#ifndef FIRSTLIGHT_BASE_ALLOWANCE_H
#define FIRSTLIGHT_BASE_ALLOWANCE_H

#include <stdbool.h>
#include <stdint.h>

struct allowance {
    int64_t per_second, most;
    int64_t left;  /* at at_us, of clock_now_us */
    int64_t at_us; /* never later than now */
};

/* Begins full. Both are at least 1 and at most 2^40. */
void allowance_init(struct allowance *a, int64_t per_second, int64_t most);
bool allowance_has(struct allowance *a); /* is anything left now? */
void allowance_use(struct allowance *a, int64_t n);
int64_t allowance_wait_us(struct allowance *a); /* until there is something; 0: there is */

#endif
