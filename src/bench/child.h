/* A server of this program in a child process, for measurements over HTTP.
 *
 * The child dies with its parent. It is in a process group of its own, so that Ctrl-C on a terminal
 * reaches only the parent, which then ends it.
 */
#ifndef FIRSTLIGHT_BENCH_CHILD_H
#define FIRSTLIGHT_BENCH_CHILD_H

#include "serve/server.h"

#include <sys/types.h>

struct child {
    pid_t pid; /* 0: none */
    char url[128];
};

/* Forks, so no thread may exist yet; `options->ready` is not called. Returns when the server takes
 * requests. STATUS_CANCELLED when a signal came meanwhile; what kept the server from starting is
 * the child's own error. */
enum status child_start(struct child *out, const struct server_options *options, struct err *err);

/* Ends it by its pid and waits: SIGTERM, after CHILD_STOP_SECONDS SIGKILL. */
#define CHILD_STOP_SECONDS 5
void child_stop(struct child *c);

#endif
