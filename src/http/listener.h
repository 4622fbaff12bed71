/* A listening socket, for every protocol alike. I/O thread only. */
#ifndef FIRSTLIGHT_HTTP_LISTENER_H
#define FIRSTLIGHT_HTTP_LISTENER_H

#include "base/err.h"

#include <event2/listener.h>
#include <stdbool.h>

#define LISTENER_URL_BYTES 300

struct listener_options {
    const char *host;
    int port;           /* 0: any free one */
    const char *flag;   /* that chose the port, for errors: "--port" */
    const char *scheme; /* of the URL */
};

/* Binds and listens; the listener has no callback for connections yet, and rests until it gets one.
 * url: where it is to be reached. STATUS_UNAVAILABLE names an address that is taken. */
enum status listener_open(struct evconnlistener **out, char url[LISTENER_URL_BYTES],
                          struct event_base *base, const struct listener_options *o,
                          struct err *err);

/* Does it listen on a loopback address? */
bool listener_is_loopback(const struct evconnlistener *listener);

#endif
