#include "engine/expect.h"

#include "base/mem.h"
#include "engine/kv.h"

#include <string.h>

#define PER_BLOCK 8 /* counters for each block of the pool: one in eight is another's, at most */
#define FEWEST    65536 /* for prompts that wait before a small pool */

enum status expect_init(struct expect *x, uint32_t n_blocks, uint64_t seed, struct err *err)
{
    uint64_t n = FEWEST;
    while (n < (uint64_t)n_blocks * PER_BLOCK)
        n *= 2;
    *x = (struct expect){.mask = n - 1, .seed = seed};
    x->chains = mem_array(n, sizeof *x->chains);
    x->asked = mem_array(EXPECT_ASKED, sizeof *x->asked);
    if (x->chains && x->asked)
        return STATUS_OK;
    expect_fini(x);
    return err_set(err, STATUS_NO_MEMORY, "no memory to tell what %u cached blocks hold", n_blocks);
}

void expect_fini(struct expect *x)
{
    mem_free(x->chains);
    mem_free(x->asked);
    *x = (struct expect){0};
}

size_t expect_bytes(const struct expect *x)
{
    return x->chains ? (x->mask + 1) * sizeof *x->chains + EXPECT_ASKED * sizeof *x->asked : 0;
}

/* --- hashes --------------------------------------------------------------------------------- */

/* Two tokens at a time: prompts of a hundred thousand are hashed on the I/O thread. */
static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    return h ^ h >> 32;
}

/* The finaliser of MurmurHash3 (Appleby, public domain). */
static uint64_t finish(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

uint64_t expect_start(const struct expect *x, const struct prefix_salt *salt)
{
    return finish(mix(mix(x->seed, salt->word[0]), salt->word[1]));
}

uint64_t expect_next(uint64_t chain, const int32_t *tokens)
{
    for (uint32_t i = 0; i < KV_BLOCK; i += 2) {
        uint64_t word;
        memcpy(&word, tokens + i, sizeof word);
        chain = mix(chain, word);
    }
    return finish(chain);
}

/* A whole prompt's; the part behind its last full block is in it. */
static uint64_t whole(uint64_t chain, const int32_t *rest, uint32_t n)
{
    chain = mix(chain, n + 1);
    for (uint32_t i = 0; i < n; i++)
        chain = mix(chain, (uint32_t)rest[i]);
    return finish(chain);
}

/* --- counters ------------------------------------------------------------------------------- */

void expect_add(struct expect *x, uint64_t chain)
{
    atomic_fetch_add_explicit(&x->chains[chain & x->mask], 1, memory_order_relaxed);
}

void expect_remove(struct expect *x, uint64_t chain)
{
    atomic_fetch_sub_explicit(&x->chains[chain & x->mask], 1, memory_order_relaxed);
}

static bool is_there(const struct expect *x, uint64_t chain)
{
    return atomic_load_explicit(&x->chains[chain & x->mask], memory_order_relaxed) > 0;
}

/* --- prompts (the owner's thread) ----------------------------------------------------------- */

uint32_t expect_left(const struct expect *x, const struct prefix_salt *salt, const int32_t *tokens,
                     uint32_t n)
{
    uint64_t chain = expect_start(x, salt);
    uint32_t at = 0;
    while (n - at >= KV_BLOCK) {
        uint64_t next = expect_next(chain, tokens + at);
        if (!is_there(x, next))
            return n - at;
        chain = next;
        at += KV_BLOCK;
    }
    uint64_t h = whole(chain, tokens + at, n - at);
    return at == n || x->asked[h % EXPECT_ASKED] == h ? 1 : n - at;
}

void expect_begin(struct expect *x, const struct prefix_salt *salt, const int32_t *tokens,
                  uint32_t n)
{
    uint64_t chain = expect_start(x, salt);
    uint32_t at = 0;
    for (; n - at >= KV_BLOCK; at += KV_BLOCK) {
        chain = expect_next(chain, tokens + at);
        expect_add(x, chain);
    }
    uint64_t h = whole(chain, tokens + at, n - at);
    x->asked[h % EXPECT_ASKED] = h;
}

void expect_end(struct expect *x, const struct prefix_salt *salt, const int32_t *tokens, uint32_t n)
{
    uint64_t chain = expect_start(x, salt);
    for (uint32_t at = 0; n - at >= KV_BLOCK; at += KV_BLOCK) {
        chain = expect_next(chain, tokens + at);
        expect_remove(x, chain);
    }
}
