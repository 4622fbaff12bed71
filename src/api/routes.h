/* Which path does what, and who may ask. I/O thread. */
#ifndef FIRSTLIGHT_API_ROUTES_H
#define FIRSTLIGHT_API_ROUTES_H

#include "http/http.h"

struct server;

/* The http_handler and the http_admit, arg the server. */
void routes_dispatch(void *server, struct http_exchange *x);
bool routes_admit(void *server, const struct http_head *head, const struct sockaddr *peer,
                  struct hold *held, struct http_refusal *why);
/* /health and /ready */
bool routes_is_probe(const char *path);
/* May the page that asks, if one does, and under this name of the server? Else it was answered. */
bool routes_allow(struct server *s, struct http_exchange *x);
/* Tells why. */
void routes_refuse(struct http_exchange *x, const struct http_refusal *why);

#endif
