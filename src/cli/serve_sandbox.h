/* The rows of the server's sandbox: which files it may open once it is confined (docs/sandbox.md).
 */
#ifndef FIRSTLIGHT_CLI_SERVE_SANDBOX_H
#define FIRSTLIGHT_CLI_SERVE_SANDBOX_H

#include "base/sandbox.h"

/* Paths as the flags name them; NULL where a flag is absent. */
struct serve_files {
    const char *model;    /* a GGUF file (of a split one, its first part) or a folder */
    const char *once[2];  /* read at start */
    const char *again[3]; /* read at start and on SIGHUP, perhaps replaced by a rename */
    uint32_t ports[2];    /* to listen on; SERVE_SANDBOX_NO_PORT: none */
};

#define SERVE_SANDBOX_NO_PORT UINT32_MAX

/* Confines this thread and those that it starts. Before the first one is started. */
void serve_sandbox_confine(struct sandbox *s, const struct serve_files *files);

#endif
