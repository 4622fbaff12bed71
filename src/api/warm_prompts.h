/* --warm-prompts: prompts whose beginnings are in the prefix cache before the first user comes.
 *
 * JSON Lines: each line is what a client would send, of which only the prompts and the cache_salt
 * count; empty lines do not. Prompts without a cache_salt are public: all clients find them.
 *
 *     {"messages": [{"role": "system", "content": "You are ..."}]}
 *     {"prompt": "Translate into French:", "cache_salt": "tenant-7"}
 */
#ifndef FIRSTLIGHT_API_WARM_PROMPTS_H
#define FIRSTLIGHT_API_WARM_PROMPTS_H

#include "base/err.h"
#include "engine/engine.h"
#include "model/load/loader.h"

/* Starts zeroed, ends with warm_prompts_fini. */
struct warm_prompts {
    struct request_params *all;
    uint32_t n, n_public; /* the public ones go first */
};

/* Errors name the line. A prompt must leave room for a token in n_ctx. With keyed each API key has
 * salts of its own, which a line cannot name: a cache_salt is an error then. */
enum status warm_prompts_read(struct warm_prompts *w, const char *path, const struct loader *loader,
                              uint32_t n_ctx, bool keyed, struct err *err);
void warm_prompts_fini(struct warm_prompts *w);

#endif
