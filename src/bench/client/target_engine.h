/* The seam that tests put a scripted engine in. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_TARGET_ENGINE_H
#define FIRSTLIGHT_BENCH_CLIENT_TARGET_ENGINE_H

#include "bench/client/target_open.h"

/* A target on an engine that is open and warm: closed with the target, or here on failure. The
 * loader's tokenizer and chat template are borrowed. `name` is for tables. */
enum status target_engine_wrap(struct target **out, const struct loader *loader,
                               struct engine *engine, const char *name, struct err *err);

#endif
