#include "bench/client/net_bytes.h"

#include "base/mem.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STATE_CLOSE_WAIT 8 /* tcpi_state: the other side has ended */

/* The end counts as one byte there, as it does in sequence numbers. */
static uint64_t received_by(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;
    memset(&info, 0, sizeof info); /* an old kernel fills less of it */
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return 0;
    uint64_t n = info.tcpi_bytes_received;
    return n > 0 && info.tcpi_state == STATE_CLOSE_WAIT ? n - 1 : n;
}

static bool note(struct net_bytes *w, int fd)
{
    if (fd >= w->n) {
        int n = 2 * fd + 16;
        bool *grown = mem_resize(w->open, (size_t)n);
        if (!grown)
            return false;
        memset(grown + w->n, 0, (size_t)(n - w->n));
        w->open = grown;
        w->n = n;
    }
    w->open[fd] = true;
    return true;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
    int fd = socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
    (void)purpose;
    if (fd >= 0 && note(arg, fd))
        return fd;
    if (fd >= 0)
        close(fd);
    return CURL_SOCKET_BAD;
}

static int close_socket(void *arg, curl_socket_t fd)
{
    struct net_bytes *w = arg;
    w->closed_received += received_by(fd);
    w->open[fd] = false;
    return close(fd);
}

bool net_bytes_watch(struct net_bytes *w, CURL *easy)
{
    return !curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
           !curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, w) &&
           !curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket) &&
           !curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, w);
}

uint64_t net_bytes_received(const struct net_bytes *w)
{
    uint64_t n = w->closed_received;
    for (int fd = 0; fd < w->n; fd++)
        if (w->open[fd])
            n += received_by(fd);
    return n;
}

void net_bytes_fini(struct net_bytes *w)
{
    mem_free(w->open);
    *w = (struct net_bytes){0};
}
