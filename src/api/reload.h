/* SIGHUP: API keys, certificate and its key are read anew. I/O thread. */
#ifndef FIRSTLIGHT_API_RELOAD_H
#define FIRSTLIGHT_API_RELOAD_H

struct server;

/* All of --api-key-file, --tls-cert and --tls-key that the server was started with, or, if one of
 * them cannot be used, none: the log names it, and the server goes on with what it had. Requests
 * under way end as they would have, even those of a key that is gone. */
void reload_files(struct server *s);

#endif
