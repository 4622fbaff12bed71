/* What a prompt will probably find in the prefix cache, asked by who may not look into it.
 *
 * The prefix cache is the engine thread's, but the owner has to charge a request before that thread
 * has seen it (admission.c). So each block's chain, which is its tokens and all those before
 * them, has a hash, and an array of counters says, by chain and salt, how many such blocks there
 * are: those that are cached, which the engine thread counts, and those of prompts under way, which
 * the owner counts, because whoever comes behind such a prompt will not compute it again. A counter
 * that is not zero may be another block's, which is rare. It is an estimate: the engine thread
 * corrects the charge when it looks into the cache itself.
 *
 * The chain holds no salt, so a block of some salt behind public ones counts as one behind blocks
 * of that salt does. A prompt is looked up as the cache does it: public blocks as far as they go,
 * then those of its own salt.
 *
 * What is left of a prompt after its last full block has no counter. Of whole prompts the owner
 * remembers the last few thousand, and takes the end of one that was asked before for cached.
 */
#ifndef FIRSTLIGHT_ENGINE_EXPECTED_CACHE_H
#define FIRSTLIGHT_ENGINE_EXPECTED_CACHE_H

#include "engine/engine.h"

#include <stdatomic.h>

#define EXPECTED_CACHE_ASKED 4096

struct expected_cache {
    atomic_uint *chains; /* (mask + 1) by hash; both threads, relaxed: each keeps its own count */
    uint64_t mask;
    uint64_t seed;   /* of the hash, chosen at start, so that nobody can aim at a counter */
    uint64_t *asked; /* (EXPECTED_CACHE_ASKED) hashes of whole prompts, by their last digits; the
                        owner's */
};

enum status expected_cache_init(struct expected_cache *x, uint32_t n_blocks, uint64_t seed,
                                struct err *err);
void expected_cache_fini(struct expected_cache *x);
size_t expected_cache_bytes(const struct expected_cache *x); /* that it has allocated */

/* The chain before a prompt's first block, and the one that ends with the next KV_BLOCK tokens. */
uint64_t expected_cache_start(const struct expected_cache *x);
uint64_t expected_cache_next(uint64_t chain, const int32_t *tokens);

/* Any thread: one more block of this salt at the chain's end, or one less. */
void expected_cache_add(struct expected_cache *x, uint64_t chain, const struct prefix_salt *salt);
void expected_cache_remove(struct expected_cache *x, uint64_t chain,
                           const struct prefix_salt *salt);

/* Owner's thread: how many tokens of the prompt will have to be computed, 1 or more. */
uint32_t expected_cache_left(const struct expected_cache *x, const struct prefix_salt *salt,
                             const int32_t *tokens, uint32_t n);
/* Owner's thread: the prompt is under way, and is not any more. The first answers what
 * expected_cache_left would have, for the same price. */
uint32_t expected_cache_begin(struct expected_cache *x, const struct prefix_salt *salt,
                              const int32_t *tokens, uint32_t n);
void expected_cache_end(struct expected_cache *x, const struct prefix_salt *salt,
                        const int32_t *tokens, uint32_t n);

#endif
