#include "bench/client/epoll_wait_us.h"

#include "base/clock.h"

#include <poll.h>
#include <stddef.h>
#include <time.h>

void epoll_wait_us(int epoll_fd, int64_t until_us)
{
    struct pollfd ready = {.fd = epoll_fd, .events = POLLIN};
    int64_t left_us = until_us - clock_now_us();
    if (left_us <= 0)
        return;
    struct timespec left = {.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};
    ppoll(&ready, 1, &left, NULL); /* a signal ends it early: the caller looks at its flags */
}
