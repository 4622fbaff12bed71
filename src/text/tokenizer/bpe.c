#include "text/tokenizer/bpe.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/bpe_internal.h"

#include <string.h>

#define NO_SYMBOL UINT32_MAX

/* A symbol of the word being encoded, at the index of its first byte in the word, linked to its
 * neighbours. A symbol that was merged into its left neighbour has rank BPE_NO_RANK and stays
 * unlinked. */
struct bpe_symbol {
    int32_t id; /* -1: no token */
    uint32_t prev, next;
    uint32_t rank;  /* of the pair (this, next); BPE_NO_RANK when it cannot merge */
    int32_t merged; /* what that pair becomes */
};

/* A short word and its ids; n = 0: empty. */
#define CACHE_SLOTS 4096
#define CACHE_WORD  27
#define CACHE_IDS   8
struct bpe_cached {
    uint8_t len, n;
    char word[CACHE_WORD + 3];
    int32_t ids[CACHE_IDS];
};

/* --- what waits to be merged: rank in the high half, left symbol in the low half ------------ */

static void wait_for(struct bpe_scratch *s, uint32_t left)
{
    if (s->symbols[left].rank != BPE_NO_RANK)
        bpe_queue_push(&s->queue, (uint64_t)s->symbols[left].rank << 32 | left);
}

/* --- symbols -------------------------------------------------------------------------------- */

/* A word, or a part of one that no piece reaches across. */
struct word {
    const char *bytes;
    uint32_t len;
};

/* Looks up the pair (symbol i, its right neighbour). */
static void rank_pair(const struct bpe *b, const struct word *w, struct bpe_symbol *symbols,
                      uint32_t i)
{
    struct bpe_symbol *left = &symbols[i];
    left->rank = BPE_NO_RANK;
    if (left->next == NO_SYMBOL)
        return;
    const struct bpe_symbol *right = &symbols[left->next];
    if (b->merges) {
        const struct bpe_merge *m = bpe_find_merge(b, left->id, right->id);
        left->rank = m->rank;
        left->merged = m->merged;
        return;
    }
    size_t len = (right->next == NO_SYMBOL ? w->len : right->next) - i;
    int32_t id = len > b->vocab->keys.longest ? -1 : vocab_find(b->vocab, w->bytes + i, len, false);
    if (id >= 0 && b->ranks[id] != BPE_NO_RANK) {
        left->rank = b->ranks[id];
        left->merged = id;
    }
}

static void free_words(struct bpe_scratch *s)
{
    mem_free(s->symbols);
    mem_free(s->queue.heap);
    mem_free(s->queue.nodes);
}

static bool bpe_reserve(struct bpe_scratch *s, size_t len)
{
    if (len <= s->cap)
        return true;
    size_t cap = len < 64 ? 64 : len + len / 4;
    free_words(s);
    s->symbols = mem_alloc(cap * sizeof *s->symbols);
    s->queue.heap = mem_alloc(2 * cap * sizeof *s->queue.heap);
    s->queue.nodes = mem_alloc(2 * cap * sizeof *s->queue.nodes);
    s->cap = s->symbols && s->queue.heap && s->queue.nodes ? cap : 0;
    return s->cap != 0;
}

/* Whether every byte has a token to fall back to. */
static bool can_fall_back(const struct bpe *b, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (b->byte_ids[(unsigned char)bytes[i]] < 0)
            return false;
    return b->rules.byte_fallback;
}

/* Fills in the ids of the symbols that a character begins as; returns how many bytes each has. With
 * scores an unknown one keeps -1: what it merges to may have a token. */
static size_t load_character(const struct bpe *b, const char *bytes, size_t len,
                             struct bpe_symbol *symbols)
{
    unsigned char first = (unsigned char)bytes[0];
    symbols[0].id = first < 128 ? b->ascii_ids[first] : vocab_find(b->vocab, bytes, len, false);
    if (symbols[0].id >= 0 || !b->merges)
        return len;
    if (!can_fall_back(b, bytes, len)) {
        symbols[0].id = b->rules.unk;
        return len;
    }
    for (size_t i = 0; i < len; i++)
        symbols[i].id = b->byte_ids[(unsigned char)bytes[i]];
    return 1;
}

static void link_symbols(const struct bpe *b, const struct word *w, struct bpe_symbol *symbols)
{
    uint32_t prev = NO_SYMBOL;
    for (uint32_t at = 0; at < w->len;) {
        size_t n = 1, each = 1;
        if (b->rules.characters) {
            (void)utf8_step(w->bytes + at, w->len - at, &n);
            each = load_character(b, w->bytes + at, n, symbols + at);
        } else {
            symbols[at].id = b->byte_ids[(unsigned char)w->bytes[at]];
        }
        for (uint32_t end = at + (uint32_t)n; at < end; at += (uint32_t)each) {
            symbols[at].prev = prev;
            symbols[at].next = at + (uint32_t)each;
            prev = at;
        }
    }
    symbols[prev].next = NO_SYMBOL;
}

static void load_word(const struct bpe *b, const struct word *w, struct bpe_scratch *s)
{
    struct bpe_symbol *symbols = s->symbols;
    link_symbols(b, w, symbols);
    bpe_queue_clear(&s->queue);
    for (uint32_t i = 0; i != NO_SYMBOL; i = symbols[i].next) {
        rank_pair(b, w, symbols, i);
        wait_for(s, i);
    }
}

/* Makes symbol i and its right neighbour one. */
static void merge_pair(const struct bpe *b, const struct word *w, struct bpe_scratch *s, uint32_t i)
{
    struct bpe_symbol *symbols = s->symbols, *left = &symbols[i];
    uint32_t gone = left->next;
    left->id = left->merged;
    left->next = symbols[gone].next;
    symbols[gone].rank = BPE_NO_RANK;
    if (left->next != NO_SYMBOL)
        symbols[left->next].prev = i;
    rank_pair(b, w, symbols, i);
    wait_for(s, i);
    if (left->prev == NO_SYMBOL)
        return;
    rank_pair(b, w, symbols, left->prev);
    wait_for(s, left->prev);
}

/* --- ids ------------------------------------------------------------------------------------ */

static bool bpe_put(const struct bpe *b, struct bpe_scratch *s, int32_t id, struct tokens *out)
{
    bool unk = id == b->rules.unk;
    bool skip = id < 0 || (unk && b->rules.fuse_unk && s->after_unk);
    s->after_unk = unk;
    return skip || tokens_push(out, id);
}

/* A character that has no token and did not merge: its bytes' tokens, or the unknown one. */
static bool bpe_put_unknown(const struct bpe *b, struct bpe_scratch *s, const char *bytes,
                            size_t len, struct tokens *out)
{
    if (!can_fall_back(b, bytes, len))
        return bpe_put(b, s, b->rules.unk, out);
    for (size_t i = 0; i < len; i++)
        if (!bpe_put(b, s, b->byte_ids[(unsigned char)bytes[i]], out))
            return false;
    return true;
}

static bool put_symbols(const struct bpe *b, const struct word *w, struct bpe_scratch *s,
                        struct tokens *out)
{
    const struct bpe_symbol *symbols = s->symbols;
    for (uint32_t i = 0, next; i != NO_SYMBOL; i = next) {
        next = symbols[i].next;
        size_t len = (next == NO_SYMBOL ? w->len : next) - i;
        bool done = symbols[i].id < 0 && !b->merges ? bpe_put_unknown(b, s, w->bytes + i, len, out)
                                                    : bpe_put(b, s, symbols[i].id, out);
        if (!done)
            return false;
    }
    return true;
}

static bool encode_part(const struct bpe *b, const struct word *w, struct bpe_scratch *s,
                        struct tokens *out)
{
    if (!bpe_reserve(s, w->len))
        return false;
    load_word(b, w, s);
    /* There are fewer than len keys at first; each merge takes one, adds at most two and removes a
     * symbol, so that never more than 2 * len wait. A key is stale when its pair has changed. */
    for (uint64_t key; (key = bpe_queue_pop(&s->queue)) != BPE_QUEUE_NONE;) {
        uint32_t i = (uint32_t)key;
        if (s->symbols[i].rank == key >> 32 && s->symbols[i].rank != BPE_NO_RANK)
            merge_pair(b, w, s, i);
    }
    return put_symbols(b, w, s, out);
}

/* --- words that come again ------------------------------------------------------------------ */

static struct bpe_cached *cache_slot(const struct bpe_scratch *s, const char *word, size_t len)
{
    uint64_t h = len;
    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)word[i]) * 0x9e3779b97f4a7c15u;
    return &s->cache[h >> 52];
}

/* Puts what an equal word became; *done says whether there was one. */
static bool bpe_put_cached(const struct bpe_cached *c, const struct word *w, struct bpe_scratch *s,
                           struct tokens *out, bool *done)
{
    *done = c->n > 0 && c->len == w->len && memcmp(c->word, w->bytes, w->len) == 0;
    for (int i = 0; *done && i < c->n; i++)
        if (!tokens_push(out, c->ids[i]))
            return false;
    if (*done)
        s->after_unk = false;
    return true;
}

/* Words with unknown parts are not kept: what they become depends on the word before. */
static void bpe_keep(const struct bpe *b, struct bpe_cached *c, const struct word *w,
                     const int32_t *ids, size_t n)
{
    if (n == 0 || n > CACHE_IDS)
        return;
    for (size_t i = 0; i < n; i++)
        if (ids[i] == b->rules.unk)
            return;
    c->len = (uint8_t)w->len;
    c->n = (uint8_t)n;
    memcpy(c->word, w->bytes, w->len);
    memcpy(c->ids, ids, n * sizeof *ids);
}

static bool encode_cached(const struct bpe *b, const struct word *w, struct bpe_scratch *s,
                          struct tokens *out)
{
    size_t before = out->count;
    bool done = false;
    if (!s->cache || w->len > CACHE_WORD || w->len < 2)
        return encode_part(b, w, s, out);
    struct bpe_cached *c = cache_slot(s, w->bytes, w->len);
    bool after_unk = s->after_unk;
    if (!bpe_put_cached(c, w, s, out, &done))
        return false;
    if (done)
        return true;
    if (!encode_part(b, w, s, out))
        return false;
    if (!after_unk)
        bpe_keep(b, c, w, out->ids + before, out->count - before);
    return true;
}

/* The end of the part of w that begins at `from`, which nothing reaches across. */
static uint32_t part_end(const struct bpe *b, const struct word *w, uint32_t from)
{
    size_t n = 1;
    uint32_t at = from;
    (void)utf8_step(w->bytes + at, w->len - at, &n);
    while (at + n < w->len) {
        uint32_t next = at + (uint32_t)n;
        int last = bpe_edge(w->bytes + at, n, true);
        (void)utf8_step(w->bytes + next, w->len - next, &n);
        if (!bpe_joins(b, last, bpe_edge(w->bytes + next, n, false)))
            return next;
        at = next;
    }
    return w->len;
}

bool bpe_keeps_bytes(const struct bpe *b)
{
    for (int i = 0; i < 256; i++)
        if (b->byte_ids[i] < 0)
            return false;
    return !b->rules.characters;
}

bool bpe_encode(const struct bpe *b, const char *word, size_t len, struct bpe_scratch *s,
                struct tokens *out)
{
    s->after_unk = false;
    if (b->rules.whole_words && len <= b->vocab->keys.longest) {
        int32_t id = vocab_find(b->vocab, word, len, false);
        if (id >= 0)
            return tokens_push(out, id);
    }
    if (!b->rules.characters)
        return len == 0 || encode_cached(b, &(struct word){word, (uint32_t)len}, s, out);
    struct word all = {word, (uint32_t)len};
    for (uint32_t from = 0, end; from < all.len; from = end) {
        end = part_end(b, &all, from);
        if (!encode_cached(b, &(struct word){word + from, end - from}, s, out))
            return false;
    }
    return true;
}

void bpe_remember(struct bpe_scratch *s)
{
    if (!s->cache)
        s->cache = mem_array(CACHE_SLOTS, sizeof *s->cache);
}

void bpe_scratch_fini(struct bpe_scratch *s)
{
    free_words(s);
    mem_free(s->cache);
    *s = (struct bpe_scratch){0};
}
