/* A listening socket for servers that a test scripts. */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_LOOPBACK_H
#define FIRSTLIGHT_TESTS_SUPPORT_LOOPBACK_H

#include "support/cmocka_all.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

/* On a free port of 127.0.0.1. */
static inline int loopback_listen(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

#endif
