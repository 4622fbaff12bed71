/* Sleeping on an epoll to the microsecond: epoll_wait sleeps whole milliseconds. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_EPOLL_WAIT_H
#define FIRSTLIGHT_BENCH_CLIENT_EPOLL_WAIT_H

#include <stdint.h>

/* Until something is ready, the moment (on the clock) has passed or a signal came. */
void wait_epoll(int epoll_fd, int64_t until_us);

#endif
