/* Time: microseconds of CLOCK_MONOTONIC as int64_t, the one clock of every stamp. */
#ifndef FIRSTLIGHT_BASE_CLOCK_H
#define FIRSTLIGHT_BASE_CLOCK_H

#include <stdint.h>

int64_t clock_now_us(void);
int64_t clock_now_ns(void);
/* From now on this thread's clock shows *now_us, for simulations; NULL: the real time again. */
void clock_simulate(const int64_t *now_us);
int64_t clock_real_ns(void); /* never simulated: what the simulation itself takes */
int64_t clock_unix_s(void);  /* wall clock, for `created` and log lines only */
int64_t clock_unix_us(void); /* the same, for what is shown beside a browser's own clock */

#endif
