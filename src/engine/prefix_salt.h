/* Whose prompts may share cached prefixes: those of one salt. */
#ifndef FIRSTLIGHT_ENGINE_PREFIX_SALT_H
#define FIRSTLIGHT_ENGINE_PREFIX_SALT_H

#include <stdint.h>

/* All zero: everybody's who has none. */
struct prefix_salt {
    uint64_t word[2];
};

/* The salt of the public part: what is computed under it is found under every salt. It is for
 * prompts that the server's owner chose (engine_warm), never for those of a client. */
extern const struct prefix_salt prefix_salt_public;

#endif
