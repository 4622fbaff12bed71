/* A server program that a command line starts, to be measured over HTTP on loopback.
 *
 * The command is one program with its flags, by a shell's rules and with VARIABLE=value before it
 * if need be. Where it contains "{port}" that becomes a free port; otherwise " --host 127.0.0.1
 * --port PORT" is appended, which firstlight serve and llama-server understand. It gets a process
 * group of its own, so that Ctrl-C on a terminal reaches only this program, and dies with this
 * program. What it prints is kept aside and shown when it does not come up.
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_SERVER_PROCESS_H
#define FIRSTLIGHT_BENCH_CLIENT_SERVER_PROCESS_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

struct server_process {
    pid_t pid;  /* 0: none */
    int output; /* what it printed, a file in memory */
    char url[64];
};

/* Returns when it answers a question for its models with anything but a server's error (503 while
 * it loads one). STATUS_UNAVAILABLE with the end of what it printed when it ended before, or did
 * not come up in time; STATUS_CANCELLED once *stop is true (may be NULL). */
enum status server_process_start(struct server_process *out, const char *command,
                                 uint32_t timeout_seconds, const atomic_bool *stop,
                                 struct err *err);
/* As child_server_end does (child_server.h). */
void server_process_stop(struct server_process *p);

#endif
