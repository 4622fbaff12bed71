/* Profiles: what a server is tuned for, as presets of what the options leave open. `--profile
 * NAME`. */
#ifndef FIRSTLIGHT_ENGINE_PROFILE_H
#define FIRSTLIGHT_ENGINE_PROFILE_H

#include "base/err.h"
#include "engine/engine.h"

#include <stddef.h>
#include <stdint.h>

/* The numbers are those of struct engine_options. tools/check-profiles makes the table of
 * docs/scheduling.md from the rows. */
struct profile {
    const char *name;
    const char *about;
    uint32_t decode_gap_ms;
    uint32_t max_queue_ms;
    double efficiency;
};

#define PROFILE_DEFAULT "online"

const struct profile *profile_at(size_t i); /* NULL past the end */

/* The profile of that name, PROFILE_DEFAULT for NULL. NULL and *err when there is none. */
const struct profile *profile_find(const char *name, struct err *err);

/* Gives what is unset in *o, and is a profile's, the numbers of o->profile; that becomes the name
 * as the row has it, which is static. Fails when there is no such profile. */
enum status profile_fill(struct engine_options *o, struct err *err);

#endif
