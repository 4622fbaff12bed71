/* Profiles: what a server is tuned for, as presets of what the options leave open. `--profile
 * NAME`. */
#ifndef FIRSTLIGHT_ENGINE_PROFILE_H
#define FIRSTLIGHT_ENGINE_PROFILE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct profile {
    const char *name;
    const char *about;
    int32_t decode_gap_ms; /* -1: nothing is promised */
    double efficiency;     /* see scheduler_limits */
    int32_t max_queue_ms;  /* -1: no bound */
};

#define PROFILE_DEFAULT "online"

const struct profile *profile_at(size_t i); /* NULL past the end */

/* The profile of that name, PROFILE_DEFAULT for NULL. NULL and *err when there is none. */
const struct profile *profile_find(const char *name, struct err *err);

#endif
