#include "engine/prefix.h"

#include "base/clock.h"
#include "base/mem.h"

#include <string.h>
#include <sys/random.h>

/* Nodes with one parent and first token that are tried for the longest common beginning: prompts
 * that differ early are many (a chat template's start), and the newest are the likeliest. */
#define TRIES 64

static uint32_t buckets_for(uint32_t n_blocks)
{
    uint32_t n = 16;
    while (n < n_blocks && n < 1u << 30)
        n *= 2;
    return n;
}

static void empty(uint32_t *heads, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        heads[i] = KV_NONE;
}

enum status prefix_init(struct prefix *p, struct kv *kv, struct err *err)
{
    uint32_t n = buckets_for(kv->n_blocks);
    *p = (struct prefix){.kv = kv, .mask = n - 1};
    p->nodes = mem_array(kv->n_blocks, sizeof *p->nodes);
    p->exact = mem_array(n, sizeof *p->exact);
    p->first = mem_array(n, sizeof *p->first);
    if (!p->nodes || !p->exact || !p->first) {
        prefix_fini(p);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a prefix cache of %u blocks",
                       kv->n_blocks);
    }
    empty(p->exact, n);
    empty(p->first, n);
    if (getrandom(&p->seed, sizeof p->seed, 0) != (ssize_t)sizeof p->seed)
        p->seed = (uint64_t)clock_now_ns();
    enum status status = expected_cache_init(&p->expect, kv->n_blocks, p->seed, err);
    if (status != STATUS_OK)
        prefix_fini(p);
    return status;
}

void prefix_fini(struct prefix *p)
{
    mem_free(p->nodes);
    mem_free(p->exact);
    mem_free(p->first);
    expected_cache_fini(&p->expect);
    *p = (struct prefix){0};
}

/* --- the two tables ------------------------------------------------------------------------- */

/* The finaliser of MurmurHash3 (Appleby, public domain) between words. */
static uint64_t prefix_mix(uint64_t h, uint64_t word)
{
    h ^= word;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ h >> 33;
}

/* Of a node: the chain before it, whose it is, and its first n tokens. Behind a public node there
 * are nodes of many salts. */
static uint64_t hash(const struct prefix *p, uint32_t parent, const struct prefix_salt *salt,
                     const int32_t *tokens, uint32_t n)
{
    uint64_t h = prefix_mix(prefix_mix(prefix_mix(p->seed, parent), salt->word[0]), salt->word[1]);
    for (uint32_t i = 0; i < n; i++)
        h = prefix_mix(h, (uint32_t)tokens[i]);
    return h;
}

static uint32_t *bucket(const struct prefix *p, uint32_t *heads, uint32_t parent,
                        const struct prefix_salt *salt, const int32_t *tokens, uint32_t n)
{
    return &heads[hash(p, parent, salt, tokens, n) & p->mask];
}

static bool same_salt(const struct prefix_salt *a, const struct prefix_salt *b)
{
    return a->word[0] == b->word[0] && a->word[1] == b->word[1];
}

static bool same_place(const struct prefix_node *n, uint32_t parent, const struct prefix_salt *salt)
{
    return n->parent == parent && same_salt(&n->salt, salt);
}

static bool is_public(const struct prefix_salt *salt)
{
    return same_salt(salt, &prefix_salt_public);
}

/* Public nodes stand only behind public ones and at the start. */
static bool may_go_on_public(const struct prefix *p, uint32_t parent)
{
    return p->n_public > 0 && (parent == KV_NONE || is_public(&p->nodes[parent].salt));
}

static uint32_t find_own(const struct prefix *p, uint32_t parent, const struct prefix_salt *salt,
                         const int32_t *tokens)
{
    uint32_t id = *bucket(p, p->exact, parent, salt, tokens, KV_BLOCK);
    for (; id != KV_NONE; id = p->nodes[id].next_exact) {
        const struct prefix_node *n = &p->nodes[id];
        if (same_place(n, parent, salt) && memcmp(n->tokens, tokens, sizeof n->tokens) == 0)
            return id;
    }
    return KV_NONE;
}

/* The full node of these tokens behind `parent`: a public one, else one of this salt. */
static uint32_t find_full(const struct prefix *p, uint32_t parent, const struct prefix_salt *salt,
                          const int32_t *tokens)
{
    uint32_t id = KV_NONE;
    if (may_go_on_public(p, parent))
        id = find_own(p, parent, &prefix_salt_public, tokens);
    return id != KV_NONE ? id : find_own(p, parent, salt, tokens);
}

static uint32_t prefix_common(const struct prefix_node *n, const int32_t *tokens, uint32_t limit)
{
    uint32_t i = 0;
    while (i < limit && i < n->n_tokens && n->tokens[i] == tokens[i])
        i++;
    return i;
}

/* Improves upon *n_common common tokens with the node *best. */
static void find_longer(const struct prefix *p, uint32_t parent, const struct prefix_salt *salt,
                        const int32_t *tokens, uint32_t n, uint32_t *best, uint32_t *n_common)
{
    uint32_t id = *bucket(p, p->first, parent, salt, tokens, 1);
    for (int tries = 0; id != KV_NONE && tries < TRIES; id = p->nodes[id].next_first, tries++) {
        if (!same_place(&p->nodes[id], parent, salt))
            continue;
        uint32_t k = prefix_common(&p->nodes[id], tokens, n < KV_BLOCK ? n : KV_BLOCK);
        if (k > *n_common) {
            *n_common = k;
            *best = id;
        }
    }
}

/* The node behind `parent`, public or of this salt, that agrees with the most of the first n
 * tokens, and how many. */
static uint32_t find_longest(const struct prefix *p, uint32_t parent,
                             const struct prefix_salt *salt, const int32_t *tokens, uint32_t n,
                             uint32_t *n_common)
{
    uint32_t best = KV_NONE;
    *n_common = 0;
    if (may_go_on_public(p, parent))
        find_longer(p, parent, &prefix_salt_public, tokens, n, &best, n_common);
    find_longer(p, parent, salt, tokens, n, &best, n_common);
    return best;
}

static void link_full(struct prefix *p, uint32_t id)
{
    struct prefix_node *n = &p->nodes[id];
    uint32_t *head = bucket(p, p->exact, n->parent, &n->salt, n->tokens, KV_BLOCK);
    n->next_exact = *head;
    *head = id;
    n->chain = expected_cache_next(n->parent == KV_NONE ? expected_cache_start(&p->expect)
                                                        : p->nodes[n->parent].chain,
                                   n->tokens);
    expected_cache_add(&p->expect, n->chain, &n->salt);
}

static void link_node(struct prefix *p, uint32_t id, uint32_t parent,
                      const struct prefix_salt *salt, const int32_t *tokens, uint32_t n_tokens)
{
    struct prefix_node *n = &p->nodes[id];
    *n = (struct prefix_node){.parent = parent, .n_tokens = n_tokens, .salt = *salt};
    memcpy(n->tokens, tokens, n_tokens * sizeof *tokens);
    uint32_t *head = bucket(p, p->first, parent, salt, tokens, 1);
    n->next_first = *head;
    *head = id;
    if (n_tokens == KV_BLOCK)
        link_full(p, id);
    if (parent != KV_NONE)
        p->nodes[parent].n_children++;
    p->n_nodes++;
    p->n_public += is_public(salt);
    if (is_public(salt))
        kv_keep_lasting(p->kv, id);
    else
        kv_keep(p->kv, id);
}

static void unlink_node(struct prefix *p, uint32_t id)
{
    struct prefix_node *n = &p->nodes[id];
    uint32_t *at = bucket(p, p->first, n->parent, &n->salt, n->tokens, 1);
    while (*at != id)
        at = &p->nodes[*at].next_first;
    *at = n->next_first;
    if (n->n_tokens == KV_BLOCK) {
        at = bucket(p, p->exact, n->parent, &n->salt, n->tokens, KV_BLOCK);
        while (*at != id)
            at = &p->nodes[*at].next_exact;
        *at = n->next_exact;
        expected_cache_remove(&p->expect, n->chain, &n->salt);
    }
    if (n->parent != KV_NONE)
        p->nodes[n->parent].n_children--;
    p->n_nodes--;
    p->n_public -= is_public(&n->salt);
    n->n_tokens = 0;
}

/* --- hits ----------------------------------------------------------------------------------- */

/* Full nodes along the first `limit` tokens, shared with the slot (KV_NONE: only counted). *last is
 * the last of them. */
static uint32_t walk(const struct prefix *p, const struct prefix_salt *salt, const int32_t *tokens,
                     uint32_t limit, uint32_t slot, uint32_t *last)
{
    uint32_t n = 0;
    for (*last = KV_NONE; limit - n * KV_BLOCK >= KV_BLOCK; n++) {
        uint32_t id = find_full(p, *last, salt, tokens + n * KV_BLOCK);
        if (id == KV_NONE)
            break;
        if (slot != KV_NONE)
            kv_share(p->kv, slot, id);
        *last = id;
    }
    return n;
}

uint32_t prefix_lookup(const struct prefix *p, const struct prefix_salt *salt,
                       const int32_t *tokens, uint32_t n)
{
    uint32_t last, n_copy;
    uint32_t at = KV_BLOCK * walk(p, salt, tokens, n, KV_NONE, &last);
    if (at < n)
        find_longest(p, last, salt, tokens + at, n - at, &n_copy);
    else
        n_copy = 0;
    return at + n_copy;
}

void prefix_attach(struct prefix *p, uint32_t slot, const struct prefix_salt *salt,
                   const int32_t *tokens, uint32_t n, struct prefix_hit *hit)
{
    uint32_t last;
    REQUIRE(p->kv->lens[slot] == 0);
    *hit = (struct prefix_hit){.copy_from = KV_NONE};
    hit->n_tokens = KV_BLOCK * walk(p, salt, tokens, n, slot, &last);
    if (hit->n_tokens < n)
        hit->copy_from =
            find_longest(p, last, salt, tokens + hit->n_tokens, n - hit->n_tokens, &hit->n_copy);
    if (hit->copy_from != KV_NONE)
        kv_pin(p->kv, hit->copy_from);
    hit->n_tokens += hit->n_copy;
}

void prefix_copied(struct prefix *p, const struct prefix_hit *hit)
{
    if (hit->copy_from != KV_NONE)
        kv_unpin(p->kv, hit->copy_from);
}

/* --- publication ---------------------------------------------------------------------------- */

static void copy_tokens(const struct prefix_text *text, uint32_t at, uint32_t n, int32_t *out)
{
    for (uint32_t i = 0; i < n; i++, at++)
        out[i] = at < text->n_prompt ? text->prompt[at] : text->generated[at - text->n_prompt];
}

static void publish_full(struct prefix *p, uint32_t slot, uint32_t i,
                         const struct prefix_salt *salt, const int32_t *tokens)
{
    const uint32_t *table = kv_table(p->kv, slot);
    uint32_t parent = i > 0 ? table[i - 1] : KV_NONE;
    uint32_t known = find_full(p, parent, salt, tokens);
    if (p->nodes[table[i]].n_tokens > 0) { /* it was published when it was partly filled */
        unlink_node(p, table[i]);
        kv_unkeep(p->kv, table[i]);
    }
    if (known != KV_NONE)
        kv_swap(p->kv, slot, i, known);
    else
        link_node(p, table[i], parent, salt, tokens, KV_BLOCK);
}

static void publish_partial(struct prefix *p, uint32_t slot, uint32_t i,
                            const struct prefix_salt *salt, const int32_t *tokens, uint32_t n)
{
    const uint32_t *table = kv_table(p->kv, slot);
    uint32_t parent = i > 0 ? table[i - 1] : KV_NONE, n_common;
    struct prefix_node *node = &p->nodes[table[i]];
    find_longest(p, parent, salt, tokens, n, &n_common);
    if (n_common == n)
        return; /* nothing new */
    if (node->n_tokens == 0) {
        link_node(p, table[i], parent, salt, tokens, n);
        return;
    }
    memcpy(node->tokens, tokens, n * sizeof *tokens); /* the same tokens, and more */
    node->n_tokens = n;
}

void prefix_publish(struct prefix *p, uint32_t slot, uint32_t *n_published,
                    const struct prefix_salt *salt, const struct prefix_text *text,
                    uint32_t n_positions, bool partial)
{
    int32_t tokens[KV_BLOCK];
    uint32_t n_full = n_positions / KV_BLOCK, rest = n_positions % KV_BLOCK;
    for (; *n_published < n_full; ++*n_published) {
        copy_tokens(text, *n_published * KV_BLOCK, KV_BLOCK, tokens);
        publish_full(p, slot, *n_published, salt, tokens);
    }
    if (partial && rest > 0) {
        copy_tokens(text, n_full * KV_BLOCK, rest, tokens);
        publish_partial(p, slot, n_full, salt, tokens, rest);
    }
}

/* --- eviction ------------------------------------------------------------------------------- */

static void remember_evicted(struct prefix *p, const struct prefix_node *n)
{
    if (n->parent != KV_NONE || n->n_tokens < KV_BLOCK)
        return;
    uint64_t h = hash(p, KV_NONE, &n->salt, n->tokens, KV_BLOCK);
    p->evicted[h % PREFIX_EVICTED] = h;
}

static bool was_evicted(const struct prefix *p, const struct prefix_salt *salt,
                        const int32_t *tokens)
{
    uint64_t h = hash(p, KV_NONE, salt, tokens, KV_BLOCK);
    return p->evicted[h % PREFIX_EVICTED] == h;
}

bool prefix_was_evicted(const struct prefix *p, const struct prefix_salt *salt,
                        const int32_t *tokens, uint32_t n)
{
    return n >= KV_BLOCK &&
           (was_evicted(p, salt, tokens) || was_evicted(p, &prefix_salt_public, tokens));
}

bool prefix_make_room(struct prefix *p, uint32_t n_blocks)
{
    struct kv *kv = p->kv;
    if (kv->n_free + kv->n_idle < n_blocks)
        return false;
    while (kv->n_free < n_blocks) {
        uint32_t id = kv->idle_first;
        REQUIRE(p->nodes[id].n_children == 0);
        remember_evicted(p, &p->nodes[id]);
        unlink_node(p, id);
        kv_drop_idle(kv, id);
        p->evictions++;
    }
    return true;
}

/* --- the invariant -------------------------------------------------------------------------- */

static bool in_chains(const struct prefix *p, uint32_t id)
{
    const struct prefix_node *n = &p->nodes[id];
    uint32_t at = *bucket(p, p->first, n->parent, &n->salt, n->tokens, 1);
    while (at != id && at != KV_NONE)
        at = p->nodes[at].next_first;
    return at == id &&
           (n->n_tokens < KV_BLOCK || find_own(p, n->parent, &n->salt, n->tokens) == id);
}

/* It stands behind a full node that is public or of its own salt. */
static bool parent_fits(const struct prefix *p, const struct prefix_node *n)
{
    const struct prefix_node *parent = &p->nodes[n->parent];
    return parent->n_tokens == KV_BLOCK &&
           (same_salt(&parent->salt, &n->salt) || is_public(&parent->salt));
}

bool prefix_check(const struct prefix *p)
{
    uint32_t n_nodes = 0, n_public = 0, n_children = 0, n_chained = 0;
    for (uint32_t id = 0; id < p->kv->n_blocks; id++) {
        const struct prefix_node *n = &p->nodes[id];
        if (n->n_tokens > 0 && !p->kv->blocks[id].kept)
            return false;
        if (n->n_tokens == 0)
            continue;
        if (n->parent != KV_NONE && !parent_fits(p, n))
            return false;
        if (n->n_tokens > KV_BLOCK || !in_chains(p, id))
            return false;
        if (p->kv->blocks[id].lasting != is_public(&n->salt))
            return false;
        n_nodes++;
        n_public += is_public(&n->salt);
        n_children += n->n_children;
        n_chained += n->parent != KV_NONE;
    }
    return n_nodes == p->n_nodes && n_public == p->n_public && n_children == n_chained;
}
