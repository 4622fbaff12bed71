/* HTTP/1.1: a listener whose requests become exchanges (http.h). Over libevent's evhttp, with
 * http1_conn.h between it and the sockets. I/O thread only. */
#ifndef FIRSTLIGHT_HTTP_HTTP1_H
#define FIRSTLIGHT_HTTP_HTTP1_H

#include "http/http.h"

struct client_limit;
struct event_base;
struct http1;

struct http1_options {
    const char *host;
    int port; /* 0: any free one */
    const struct http_error_format *errors;
    uint32_t max_connections;
    struct client_limit *addresses; /* counts the connections of each; NULL: nobody does */
    struct byte_budget *unsent;     /* of answers that clients have not taken; NULL: no bound */
    struct byte_budget *keyless;    /* of those for which no key is asked; both or none */
    http_admit *admit;              /* arg: the handler's */
    void (*left)(void *arg);        /* a connection is gone; NULL: nobody wants to know */
    void *left_arg;
};

/* Binds and listens. STATUS_UNAVAILABLE names an address that is taken. */
enum status http1_open(struct http1 **out, struct event_base *base, const struct http1_options *o,
                       http_handler *handler, void *arg, struct err *err);
/* Ends all exchanges (gone) and connections. */
void http1_close(struct http1 *h);
const char *http1_url(const struct http1 *h);
bool http1_is_loopback(const struct http1 *h); /* reached from this machine alone */
uint32_t http1_connections(const struct http1 *h);
/* What was refused before it became an exchange, by HTTP status; false past the end. */
struct http1_refusal {
    int status;
    uint64_t n;
};
bool http1_refusal_at(const struct http1 *h, size_t i, struct http1_refusal *out);
/* From now on every answer closes its connection. */
void http1_drain(struct http1 *h);

#endif
