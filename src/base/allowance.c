#include "base/allowance.h"

#include "base/clock.h"

#define SECOND_US INT64_C(1000000)

void allowance_init(struct allowance *a, int64_t per_second, int64_t most)
{
    *a = (struct allowance){
        .per_second = per_second, .most = most, .left = most, .at_us = clock_now_us()};
}

/* n units come in so many microseconds, rounded up. */
static int64_t allowance_time_of(const struct allowance *a, int64_t n)
{
    return (n * SECOND_US + a->per_second - 1) / a->per_second;
}

/* Only whole units come: the time that is left over counts the next time. */
static void refill(struct allowance *a)
{
    int64_t now = clock_now_us(), passed = now - a->at_us, missing = a->most - a->left;
    if (passed >= allowance_time_of(a, missing)) {
        a->left = a->most;
        a->at_us = now;
        return;
    }
    int64_t gained = passed * a->per_second / SECOND_US;
    a->left += gained;
    a->at_us += allowance_time_of(a, gained);
}

bool allowance_has(struct allowance *a)
{
    refill(a);
    return a->left > 0;
}

void allowance_use(struct allowance *a, int64_t n)
{
    int64_t least = a->per_second > a->most ? -a->per_second : -a->most;
    a->left = a->left - n > least ? a->left - n : least;
}

int64_t allowance_wait_us(struct allowance *a)
{
    if (allowance_has(a))
        return 0;
    int64_t us = allowance_time_of(a, 1 - a->left) - (clock_now_us() - a->at_us);
    return us > 0 ? us : 1; /* time has passed since it was looked at */
}
