#include "http/listener.h"

#include "base/log.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/util.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define BACKLOG 1024

bool listener_is_loopback(const struct evconnlistener *listener)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    int fd = evconnlistener_get_fd((struct evconnlistener *)(uintptr_t)listener);
    if (getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        return false;
    if (a.ss_family == AF_INET)
        return ntohl(((struct sockaddr_in *)&a)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    const struct in6_addr *six = &((struct sockaddr_in6 *)&a)->sin6_addr;
    return a.ss_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(six) ||
            (IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == IN_LOOPBACKNET));
}

static void write_url(char url[LISTENER_URL_BYTES], const struct listener_options *o, int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof address;
    uint16_t port = 0;
    if (getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        port = address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                             : ((struct sockaddr_in *)&address)->sin_port;
    bool v6 = strchr(o->host, ':') != NULL;
    snprintf(url, LISTENER_URL_BYTES, "%s://%s%s%s:%u", o->scheme, v6 ? "[" : "", o->host,
             v6 ? "]" : "", ntohs(port));
}

static void accept_again(evutil_socket_t fd, short what, void *listener)
{
    (void)fd;
    (void)what;
    evconnlistener_enable(listener);
}

/* accept failed, most likely for lack of descriptors: rest, instead of trying at once for ever.
 * (The argument is the owner's of the listener.) */
static void on_accept_error(struct evconnlistener *listener, void *arg)
{
    static const struct timeval rest = {.tv_usec = 100000};
    (void)arg;
    log_warn("listener.failed", "reason=\"%s\"",
             evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
    evconnlistener_disable(listener);
    event_base_once(evconnlistener_get_base(listener), -1, EV_TIMEOUT, accept_again, listener,
                    &rest);
}

enum status listener_open(struct evconnlistener **out, char url[LISTENER_URL_BYTES],
                          struct event_base *base, const struct listener_options *o,
                          struct err *err)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    char port[12];
    snprintf(port, sizeof port, "%d", o->port);
    int e = getaddrinfo(o->host, port, &hints, &found);
    if (e)
        return err_set(err, STATUS_IO, "cannot listen on %s port %d: %s", o->host, o->port,
                       gai_strerror(e));
    *out = evconnlistener_new_bind(
        base, NULL, NULL, LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_CLOSE_ON_FREE,
        BACKLOG, found->ai_addr, (int)found->ai_addrlen);
    e = errno;
    freeaddrinfo(found);
    if (!*out && e == EADDRINUSE)
        return err_set(err, STATUS_UNAVAILABLE,
                       "port %d on %s is in use: stop what listens there, or choose another with "
                       "%s (0 picks a free one)",
                       o->port, o->host, o->flag);
    if (!*out)
        return err_set(err, STATUS_IO, "cannot listen on %s port %d: %s", o->host, o->port,
                       strerror(e));
    evconnlistener_set_error_cb(*out, on_accept_error);
    write_url(url, o, evconnlistener_get_fd(*out));
    return STATUS_OK;
}
