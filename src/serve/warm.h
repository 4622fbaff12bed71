/* --warm-prompts: prompts whose beginnings are in the prefix cache before the first user comes.
 *
 * JSON Lines: each line is what a client would send, of which only the prompts and the cache_salt
 * count; empty lines do not.
 *
 *     {"messages": [{"role": "system", "content": "You are ..."}]}
 *     {"prompt": "Translate into French:", "cache_salt": "tenant-7"}
 */
#ifndef FIRSTLIGHT_SERVE_WARM_H
#define FIRSTLIGHT_SERVE_WARM_H

#include "base/err.h"
#include "engine/engine.h"
#include "model/loader.h"

/* Starts zeroed, ends with warm_fini. */
struct warm {
    struct request_params *all;
    uint32_t n;
};

/* Errors name the line. A prompt must leave room for a token in n_ctx. */
enum status warm_read(struct warm *w, const char *path, const struct loader *loader, uint32_t n_ctx,
                      struct err *err);
void warm_fini(struct warm *w);

#endif
