/* HTTP/2: a listener whose streams become exchanges (http.h), with prior knowledge of the protocol
 * or, with a certificate, over TLS with ALPN "h2". Over nghttp2 (RFC 9113) and libevent's
 * bufferevents. I/O thread only.
 *
 * Other than HTTP/1.1's, the handler sees an exchange as soon as its headers are there, and
 * `arrived` whenever bytes of the body, or its end, came.
 */
#ifndef FIRSTLIGHT_HTTP_HTTP2_H
#define FIRSTLIGHT_HTTP_HTTP2_H

#include "http/http.h"

struct client_limit;
struct event_base;
struct http2;
struct text_worker;

struct http2_options {
    const char *host;
    int port; /* 0: any free one */
    const struct http_error_format *errors;
    http_is_probe *is_probe; /* NULL: no path does */
    uint32_t max_connections;
    struct client_limit *addresses; /* counts the connections of each; NULL: nobody does */
    struct byte_budget *unsent;     /* as HTTP/1.1's */
    struct byte_budget *keyless;    /* likewise */
    struct byte_budget *streams;    /* what streams and their headers take; NULL: no bound */
    void (*left)(void *arg);        /* a connection is gone; NULL: nobody wants to know */
    void *left_arg;
    const char *tls_cert, *tls_key; /* PEM files; NULL: no TLS */
    struct text_worker *workers;    /* for handshakes; closed later than the listener */
};

/* Binds and listens. STATUS_UNAVAILABLE names an address that is taken. */
enum status http2_open(struct http2 **out, struct event_base *base, const struct http2_options *o,
                       http_handler *handler, void *arg, struct err *err);
/* Ends all exchanges (gone) and connections. */
void http2_close(struct http2 *h);
const char *http2_url(const struct http2 *h);
uint32_t http2_connections(const struct http2 *h);
/* Connections refused with this status of HTTP: 400, they spoke another protocol; 429, their
 * address had too many. */
uint64_t http2_refused(const struct http2 *h, int http_status);
/* Reads certificate and key anew, for the connections to come; those that are open keep theirs.
 * After an error, which names the file, nothing has changed. */
enum status http2_reload_tls(struct http2 *h, const char *cert, const char *key, struct err *err);
/* Lets nobody in any more and tells all clients to open no further streams; a connection ends with
 * its last one. */
void http2_drain(struct http2 *h);

#endif
