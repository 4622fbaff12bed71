/* Sleeping on an epoll to the microsecond: epoll_wait sleeps whole milliseconds. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_EPOLL_WAIT_US_H
#define FIRSTLIGHT_BENCH_CLIENT_EPOLL_WAIT_US_H

#include <stdint.h>

/* Until something is ready, the moment (on the clock) has passed or a signal came. */
void epoll_wait_us(int epoll_fd, int64_t until_us);

#endif
