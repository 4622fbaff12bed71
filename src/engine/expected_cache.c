#include "engine/expected_cache.h"

#include "base/mem.h"
#include "engine/kv.h"

#include <string.h>

#define PER_BLOCK 8 /* counters for each block of the pool: one in eight is another's, at most */
#define FEWEST    65536 /* for prompts that wait before a small pool */

enum status expected_cache_init(struct expected_cache *x, uint32_t n_blocks, uint64_t seed,
                                struct err *err)
{
    uint64_t n = FEWEST;
    while (n < (uint64_t)n_blocks * PER_BLOCK)
        n *= 2;
    *x = (struct expected_cache){.mask = n - 1, .seed = seed};
    x->chains = mem_array(n, sizeof *x->chains);
    x->asked = mem_array(EXPECTED_CACHE_ASKED, sizeof *x->asked);
    if (x->chains && x->asked)
        return STATUS_OK;
    expected_cache_fini(x);
    return err_set(err, STATUS_NO_MEMORY, "no memory to tell what %u cached blocks hold", n_blocks);
}

void expected_cache_fini(struct expected_cache *x)
{
    mem_free(x->chains);
    mem_free(x->asked);
    *x = (struct expected_cache){0};
}

size_t expected_cache_bytes(const struct expected_cache *x)
{
    return x->chains ? (x->mask + 1) * sizeof *x->chains + EXPECTED_CACHE_ASKED * sizeof *x->asked
                     : 0;
}

/* --- hashes --------------------------------------------------------------------------------- */

/* Two tokens at a time: prompts of a hundred thousand are hashed on the I/O thread. */
static uint64_t expected_cache_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

/* The finaliser of MurmurHash3 (Appleby, public domain). */
static uint64_t expected_cache_finish(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

uint64_t expected_cache_start(const struct expected_cache *x)
{
    return expected_cache_finish(x->seed);
}

uint64_t expected_cache_next(uint64_t chain, const int32_t *tokens)
{
    for (uint32_t i = 0; i < KV_BLOCK; i += 2) {
        uint64_t word;
        memcpy(&word, tokens + i, sizeof word);
        chain = expected_cache_mix(chain, word);
    }
    return expected_cache_finish(chain);
}

/* A whole prompt's; the part behind its last full block is in it. */
static uint64_t expected_cache_whole(uint64_t chain, const int32_t *rest, uint32_t n)
{
    chain = expected_cache_mix(chain, n + 1);
    for (uint32_t i = 0; i < n; i++)
        chain = expected_cache_mix(chain, (uint32_t)rest[i]);
    return expected_cache_finish(chain);
}

/* --- counters ------------------------------------------------------------------------------- */

/* What a salt adds to a chain. */
static uint64_t expected_cache_word_of(const struct expected_cache *x,
                                       const struct prefix_salt *salt)
{
    return expected_cache_finish(
        expected_cache_mix(expected_cache_mix(x->seed, salt->word[0]), salt->word[1]));
}

static atomic_uint *counter(const struct expected_cache *x, uint64_t chain, uint64_t word)
{
    return &x->chains[expected_cache_mix(chain, word) & x->mask];
}

static void expected_cache_own_add(const struct expected_cache *x, uint64_t chain, uint64_t word)
{
    atomic_fetch_add_explicit(counter(x, chain, word), 1, memory_order_relaxed);
}

static void expected_cache_take_off(const struct expected_cache *x, uint64_t chain, uint64_t word)
{
    atomic_fetch_sub_explicit(counter(x, chain, word), 1, memory_order_relaxed);
}

static bool is_there(const struct expected_cache *x, uint64_t chain, uint64_t word)
{
    return atomic_load_explicit(counter(x, chain, word), memory_order_relaxed) > 0;
}

void expected_cache_add(struct expected_cache *x, uint64_t chain, const struct prefix_salt *salt)
{
    expected_cache_own_add(x, chain, expected_cache_word_of(x, salt));
}

void expected_cache_remove(struct expected_cache *x, uint64_t chain, const struct prefix_salt *salt)
{
    expected_cache_take_off(x, chain, expected_cache_word_of(x, salt));
}

/* --- prompts (the owner's thread) ----------------------------------------------------------- */

/* A walk along a prompt's full blocks. */
struct walk {
    uint64_t chain;       /* of those behind us */
    uint64_t public, own; /* what the salts add */
    uint32_t at;          /* tokens */
    bool among_public;
};

static struct walk expected_cache_own_start(const struct expected_cache *x,
                                            const struct prefix_salt *salt)
{
    return (struct walk){.chain = expected_cache_start(x),
                         .public = expected_cache_word_of(x, &prefix_salt_public),
                         .own = expected_cache_word_of(x, salt),
                         .among_public = true};
}

static void expected_cache_own_next(struct walk *w, const int32_t *tokens)
{
    w->chain = expected_cache_next(w->chain, tokens + w->at);
    w->at += KV_BLOCK;
}

/* Whether the block behind us will be found; those before it will. */
static bool finds(const struct expected_cache *x, struct walk *w)
{
    w->among_public = w->among_public && is_there(x, w->chain, w->public);
    return w->among_public || is_there(x, w->chain, w->own);
}

/* The place where a whole prompt of this salt is remembered, and its hash. */
static uint64_t *expected_cache_place(const struct expected_cache *x, const struct walk *w,
                                      uint64_t word, const int32_t *tokens, uint32_t n, uint64_t *h)
{
    *h = expected_cache_whole(expected_cache_mix(w->chain, word), tokens + w->at, n - w->at);
    return &x->asked[*h % EXPECTED_CACHE_ASKED];
}

static bool was_asked(const struct expected_cache *x, const struct walk *w, uint64_t word,
                      const int32_t *tokens, uint32_t n)
{
    uint64_t h;
    return *expected_cache_place(x, w, word, tokens, n, &h) == h;
}

/* Behind the last full block; all those are found. */
static uint32_t left_at_end(const struct expected_cache *x, const struct walk *w,
                            const int32_t *tokens, uint32_t n)
{
    bool found = w->at == n || was_asked(x, w, w->own, tokens, n) ||
                 (w->among_public && was_asked(x, w, w->public, tokens, n));
    return found ? 1 : n - w->at;
}

uint32_t expected_cache_left(const struct expected_cache *x, const struct prefix_salt *salt,
                             const int32_t *tokens, uint32_t n)
{
    struct walk w = expected_cache_own_start(x, salt);
    while (n - w.at >= KV_BLOCK) {
        expected_cache_own_next(&w, tokens);
        if (!finds(x, &w))
            return n - w.at + KV_BLOCK;
    }
    return left_at_end(x, &w, tokens, n);
}

uint32_t expected_cache_begin(struct expected_cache *x, const struct prefix_salt *salt,
                              const int32_t *tokens, uint32_t n)
{
    struct walk w = expected_cache_own_start(x, salt);
    uint32_t left = 0; /* 0: all blocks so far are found */
    while (n - w.at >= KV_BLOCK) {
        expected_cache_own_next(&w, tokens);
        if (left == 0 && !finds(x, &w))
            left = n - w.at + KV_BLOCK;
        expected_cache_own_add(x, w.chain, w.own);
    }
    if (left == 0)
        left = left_at_end(x, &w, tokens, n);
    uint64_t h, *remembered = expected_cache_place(x, &w, w.own, tokens, n, &h);
    *remembered = h;
    return left;
}

void expected_cache_end(struct expected_cache *x, const struct prefix_salt *salt,
                        const int32_t *tokens, uint32_t n)
{
    struct walk w = expected_cache_own_start(x, salt);
    while (n - w.at >= KV_BLOCK) {
        expected_cache_own_next(&w, tokens);
        expected_cache_take_off(x, w.chain, w.own);
    }
}
