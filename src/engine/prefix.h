/* The prefix cache: which KV blocks hold which tokens, so that a shared prefix is computed once.
 *
 *     (start) ── block 4 "You are a helpful ..." ─┬─ block 8 "... Tell me" (full)
 *                                                 └─ block 2 "... What" (9 of 32 positions)
 *
 * A cached block is a node: its own tokens and the node before it. Full blocks are shared by
 * reference; of a block that agrees only in its first tokens, or is only partly filled, these are
 * copied into a block of the request's own. What a hash finds is verified token by token.
 *
 * Each chain belongs to a salt, and only requests of that salt find it. Those of the salt
 * prefix_salt_public are the public part, which everybody finds: a request of another salt reads it
 * as far as it goes, and what the request computes itself branches off there, under its own salt.
 * So a node's parent has the node's own salt or is public, and nothing that is computed under
 * another salt is ever public:
 *
 *     (start) ── block 4 (public) ─┬─ block 8 (salt A)
 *                                  └─ block 2 (salt B), the same tokens perhaps
 *
 * Public blocks are dropped after all others. Nobody computes them again: from then on each salt
 * has its own of them.
 *
 * Blocks become nodes after the step that wrote them (prefix_publish), never before. A node that
 * somebody uses has its whole chain in the user's table, and tables are released from their end, so
 * the block unused for longest never has a node behind it: it can be dropped alone. The same holds
 * of public ones, for all others go before them. Engine thread.
 */
#ifndef FIRSTLIGHT_ENGINE_PREFIX_H
#define FIRSTLIGHT_ENGINE_PREFIX_H

#include "engine/engine.h"
#include "engine/expected_cache.h"
#include "engine/kv.h"
#include "kernels/kernels.h"

struct prefix_node {
    uint32_t parent;   /* KV_NONE: it begins a prompt */
    uint32_t n_tokens; /* 0: this block is not cached */
    uint32_t n_children;
    uint32_t next_exact, next_first; /* in the chains of both tables */
    struct prefix_salt salt;
    uint64_t chain; /* of full nodes: see expected_cache.h */
    int32_t tokens[KV_BLOCK];
};

/* Beginnings of prompts that were evicted and are remembered, by a hash, to say so. */
#define PREFIX_EVICTED 1024

struct prefix {
    struct kv *kv;
    struct prefix_node *nodes; /* (n_blocks) by block id */
    uint32_t *exact;           /* (mask + 1) full nodes by parent and all tokens */
    uint32_t *first;           /* (mask + 1) all nodes by parent and first token, newest first */
    uint32_t mask;
    uint64_t seed; /* of the hash: chosen at start, so that nobody can make prompts that collide */
    uint64_t evictions;
    uint64_t evicted[PREFIX_EVICTED]; /* hashes of prompts' beginnings, by their last digits */
    uint32_t n_nodes, n_public;       /* the public ones are counted in both */
    struct expected_cache expect;     /* what is cached, for the owner */
};

enum status prefix_init(struct prefix *p, struct kv *kv, struct err *err);
void prefix_fini(struct prefix *p);

/* How many of the n tokens are cached now, in the public part and under the salt. The caller leaves
 * a prompt's last token out: it is always computed, for its logits. */
uint32_t prefix_lookup(const struct prefix *p, const struct prefix_salt *salt,
                       const int32_t *tokens, uint32_t n);

/* What prefix_attach found: n_tokens positions in all, of which the last n_copy are to be copied
 * from block copy_from (pinned until prefix_copied) into the request's next block. */
struct prefix_hit {
    uint32_t n_tokens;
    uint32_t copy_from; /* KV_NONE: none */
    uint32_t n_copy;
};
/* Gives a slot without blocks the cached ones of these n tokens. */
void prefix_attach(struct prefix *p, uint32_t slot, const struct prefix_salt *salt,
                   const int32_t *tokens, uint32_t n, struct prefix_hit *hit);
void prefix_copied(struct prefix *p, const struct prefix_hit *hit);

/* The tokens of a sequence by position. */
struct prefix_text {
    const int32_t *prompt;
    uint32_t n_prompt;
    const int32_t *generated;
};
/* The first n_positions positions of the slot's sequence are written for good. *n_published counts
 * its blocks that are nodes already (0 for a new request, the shared ones after an attach). With
 * `partial` a last block that is not full becomes a node too. A block that another request has
 * published meanwhile replaces the slot's own: they hold the same bits. */
void prefix_publish(struct prefix *p, uint32_t slot, uint32_t *n_published,
                    const struct prefix_salt *salt, const struct prefix_text *text,
                    uint32_t n_positions, bool partial);

/* Makes at least n_blocks free, dropping idle blocks, the longest unused first and public ones
 * last; false, with nothing dropped, when there are too few. */
bool prefix_make_room(struct prefix *p, uint32_t n_blocks);

/* Was a prompt that begins with these tokens' first block cached, and evicted? Of the last
 * PREFIX_EVICTED or so; to the odds of a 64-bit hash. */
bool prefix_was_evicted(const struct prefix *p, const struct prefix_salt *salt,
                        const int32_t *tokens, uint32_t n);

/* The whole invariant, besides kv_check's. For assertions and tests. */
bool prefix_check(const struct prefix *p);

#endif
