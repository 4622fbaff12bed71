/* Profiles: what a server is tuned for, as presets of the scheduler's limits. `--profile NAME`. */
#ifndef FIRSTLIGHT_ENGINE_PROFILE_H
#define FIRSTLIGHT_ENGINE_PROFILE_H

#include "engine/engine.h"
#include "engine/scheduler.h"

struct profile {
    const char *name;
    const char *about;
    int32_t decode_gap_ms; /* -1: nothing is promised */
    double efficiency;     /* see scheduler_limits */
};

#define PROFILE_DEFAULT "online"

const struct profile *profile_at(size_t i); /* NULL past the end */

/* Fills in what the options' profile decides, or the options themselves do: max_active (0: see
 * engine_open.c), decode_gap_us, efficiency. False and *err when there is no such profile. */
bool profile_apply(const struct engine_options *o, struct scheduler_limits *limits,
                   struct err *err);

#endif
