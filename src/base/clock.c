#include "base/clock.h"

#include <time.h>

static _Thread_local const int64_t *simulated_us;

void clock_simulate(const int64_t *now_us)
{
    simulated_us = now_us;
}

int64_t clock_real_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_now_ns(void)
{
    return simulated_us ? *simulated_us * 1000 : clock_real_ns();
}

int64_t clock_now_us(void)
{
    return clock_now_ns() / 1000;
}

int64_t clock_unix_s(void)
{
    return (int64_t)time(NULL);
}

int64_t clock_unix_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
