/* Transfers of libcurl over epoll: a step costs what is ready, not how many transfers there are, so
 * that the generator takes as little as it can of a processor that it may share with the server.
 *
 * One thread. See libcurl-multi(3), "multi_socket".
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_HTTP_LOOP_H
#define FIRSTLIGHT_BENCH_CLIENT_HTTP_LOOP_H

#include "base/err.h"

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>

struct http_loop {
    CURLM *multi;
    int epoll_fd;
    int64_t timer_us; /* when libcurl wants to be called without a socket; INT64_MAX: never */
    int64_t woke_us;  /* when the last step stopped sleeping */
};

/* The loop stays where it is until closed. max_connections: as many are kept for reuse. */
enum status http_loop_open(struct http_loop *l, uint32_t max_connections, struct err *err);
void http_loop_close(struct http_loop *l); /* every transfer has been stopped or has ended */

/* Begins at once, as far as that goes without waiting. On failure the handle is not in the loop. */
enum status http_loop_start(struct http_loop *l, CURL *easy, struct err *err);
void http_loop_stop(struct http_loop *l, CURL *easy);
/* Takes what has come, or sleeps until something comes or the moment (on the clock) has passed. */
void http_loop_step(struct http_loop *l, int64_t until_us);
/* A transfer that has ended, taken out of the loop; NULL: no more. */
CURL *http_loop_ended(struct http_loop *l, CURLcode *code);

#endif
