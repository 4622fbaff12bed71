/* What targets over a network share. Private to target*.c. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_TARGET_INTERNAL_H
#define FIRSTLIGHT_BENCH_CLIENT_TARGET_INTERNAL_H

#include "bench/load/target.h"

/* A model's name or a URL in a table: cut between characters, since labels end in JSON; of
 * characters that a terminal shows. */
void target_put_label(char *out, size_t out_size, const char *text);
/* One file a connection: the soft limit, often 1024, is raised as far as that needs. */
enum status target_allow_files(uint32_t max_connections, struct err *err);

#endif
