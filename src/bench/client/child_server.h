/* A server of this program in a child process, for measurements over HTTP.
 *
 * The child dies with its parent. It is in a process group of its own, so that Ctrl-C on a terminal
 * reaches only the parent, which then ends it.
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_CHILD_SERVER_H
#define FIRSTLIGHT_BENCH_CLIENT_CHILD_SERVER_H

#include "api/server.h"

#include <sys/types.h>

struct child_server {
    pid_t pid; /* 0: none */
    char url[128];
};

/* Forks, so no thread may exist yet; `options->ready` is not called. Returns when the server takes
 * requests. STATUS_CANCELLED when a signal came meanwhile; what kept the server from starting is
 * the child's own error. */
enum status child_server_start(struct child_server *out, const struct server_options *options,
                               struct err *err);

/* Ends it, as child_server_end does. */
void child_server_stop(struct child_server *c);

/* For any program in a child process. In the child, just forked from `parent`: it dies with that,
 * leads a process group, and has no API key of the environment. */
void child_server_detach(pid_t parent);
/* Ends a process group by its leader's pid and waits for that one: SIGTERM, after
 * CHILD_SERVER_STOP_SECONDS, or once that one has ended, SIGKILL. Nothing for 0. */
#define CHILD_SERVER_STOP_SECONDS 5
void child_server_end(pid_t pid);

#endif
