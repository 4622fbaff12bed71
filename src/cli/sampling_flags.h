/* The flags of the sampling parameters, made of their rows: "top_k" is --top-k. */
#ifndef FIRSTLIGHT_CLI_SAMPLING_FLAGS_H
#define FIRSTLIGHT_CLI_SAMPLING_FLAGS_H

#include "cli/flags.h"
#include "params/sampling.h"

struct sampling_flags {
    struct sampling said; /* a parameter whose flag is not given is above its highest value */
    struct flag flags[SAMPLING_PARAMS];
    char names[SAMPLING_PARAMS][32];
    char helps[SAMPLING_PARAMS][160];
};

/* No flag is given yet. *f stays where it is: the group points into it. */
struct flag_group sampling_flags_init(struct sampling_flags *f);

/* After parsing: the values that were given become those of *s. */
void sampling_flags_take(struct sampling *s, const struct sampling_flags *f);

#endif
