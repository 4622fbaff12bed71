/* A token bucket: it limits how much of something is used in a second, for example bytes or
 * microseconds of a thread. The bucket fills with time, up to `most`. It may be overdrawn, by the
 * larger of `most` and `per_second`; then nothing is left until time has paid that back. No locks.
 */
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
