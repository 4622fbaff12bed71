#include "bench/client/http_loop.h"

#include "base/clock.h"
#include "bench/client/epoll_wait_us.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS_A_STEP 64

/* libcurl says what it waits for at a socket. What it remembers per socket, `known`, is NULL until
 * the socket has been added. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    struct http_loop *l = arg;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, NULL); /* gone already, if closed */
        return 0;
    }
    struct epoll_event e = {.data.fd = fd};
    e.events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    curl_multi_assign(l->multi, fd, l);
    return epoll_ctl(l->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &e);
}

static int http_loop_on_timer(CURLM *multi, long timeout_ms, void *arg)
{
    struct http_loop *l = arg;
    (void)multi;
    l->timer_us = timeout_ms < 0 ? INT64_MAX : clock_now_us() + timeout_ms * 1000;
    return 0;
}

enum status http_loop_open(struct http_loop *l, uint32_t max_connections, struct err *err)
{
    *l = (struct http_loop){.epoll_fd = epoll_create1(EPOLL_CLOEXEC), .timer_us = INT64_MAX};
    if (l->epoll_fd < 0)
        return err_set(err, STATUS_IO, "epoll_create1: %s", strerror(errno));
    l->multi = curl_multi_init();
    if (!l->multi) {
        http_loop_close(l);
        return err_set(err, STATUS_NO_MEMORY, "no memory for HTTP transfers");
    }
    curl_multi_setopt(l->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(l->multi, CURLMOPT_SOCKETDATA, l);
    curl_multi_setopt(l->multi, CURLMOPT_TIMERFUNCTION, http_loop_on_timer);
    curl_multi_setopt(l->multi, CURLMOPT_TIMERDATA, l);
    curl_multi_setopt(l->multi, CURLMOPT_MAXCONNECTS, (long)max_connections);
    return STATUS_OK;
}

void http_loop_close(struct http_loop *l)
{
    if (l->multi)
        curl_multi_cleanup(l->multi); /* closes its connections through on_socket */
    if (l->epoll_fd >= 0)
        close(l->epoll_fd);
    *l = (struct http_loop){.epoll_fd = -1};
}

/* libcurl does not name a moment a second time (http_loop_on_timer) that was too early by its own
 * reckoning, so it is asked. */
static void run_timer(struct http_loop *l)
{
    int running;
    long timeout_ms = -1;
    curl_multi_socket_action(l->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    curl_multi_timeout(l->multi, &timeout_ms);
    http_loop_on_timer(l->multi, timeout_ms, l);
}

enum status http_loop_start(struct http_loop *l, CURL *easy, struct err *err)
{
    CURLMcode code = curl_multi_add_handle(l->multi, easy);
    if (code)
        return err_set(err, STATUS_INTERNAL, "libcurl: %s", curl_multi_strerror(code));
    run_timer(l); /* what was added is due */
    return STATUS_OK;
}

void http_loop_stop(struct http_loop *l, CURL *easy)
{
    curl_multi_remove_handle(l->multi, easy);
}

void http_loop_step(struct http_loop *l, int64_t until_us)
{
    struct epoll_event events[EVENTS_A_STEP];
    int running;
    epoll_wait_us(l->epoll_fd, until_us < l->timer_us ? until_us : l->timer_us);
    l->woke_us = clock_now_us();
    int n = epoll_wait(l->epoll_fd, events, EVENTS_A_STEP, 0);
    for (int i = 0; i < n; i++) {
        int what = (events[i].events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                   (events[i].events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                   (events[i].events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
        curl_multi_socket_action(l->multi, events[i].data.fd, what, &running);
    }
    if (l->timer_us <= clock_now_us())
        run_timer(l);
}

CURL *http_loop_ended(struct http_loop *l, CURLcode *code)
{
    int left;
    CURLMsg *message;
    while ((message = curl_multi_info_read(l->multi, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        CURL *easy = message->easy_handle;
        *code = message->data.result;
        curl_multi_remove_handle(l->multi, easy); /* message is gone */
        return easy;
    }
    return NULL;
}
