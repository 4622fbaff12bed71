#include "text/bpe.h"

#include "base/limits.h"
#include "base/mem.h"
#include "text/byte_level.h"

#include <string.h>

#define KEY_MERGES "tokenizer.ggml.merges"
#define NO_RANK    UINT32_MAX
#define NO_SYMBOL  UINT32_MAX

/* left, right -> merged; an empty slot has rank NO_RANK. */
struct bpe_merge {
    int32_t left, right;
    int32_t merged;
    uint32_t rank; /* index in the merge list: lower goes first */
};

/* A symbol of the word being encoded, linked to its neighbours. A symbol that was merged into its
 * left neighbour has rank NO_RANK and stays unlinked. */
struct bpe_symbol {
    int32_t id; /* -1: a byte without a token, which merges with nothing */
    uint32_t prev, next;
    uint32_t rank;  /* of the pair (this, next); NO_RANK when it cannot merge */
    int32_t merged; /* what that pair becomes */
};

static uint32_t hash_pair(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;

    return (uint32_t)(h >> 32);
}

/* The slot of the pair, or the empty one where it belongs. */
static struct bpe_merge *find_merge(const struct bpe *b, int32_t left, int32_t right)
{
    for (uint32_t at = hash_pair(left, right);; at++) {
        struct bpe_merge *m = &b->merges[at & b->merge_mask];
        if (m->rank == NO_RANK || (m->left == left && m->right == right))
            return m;
    }
}

/* ---- the heap: rank in the high half, left symbol in the low half, smallest first ---- */

static void sift_down(uint64_t *heap, size_t len, size_t at)
{
    uint64_t key = heap[at];

    for (size_t child; (child = 2 * at + 1) < len; at = child) {
        if (child + 1 < len && heap[child + 1] < heap[child])
            child++;
        if (key <= heap[child])
            break;
        heap[at] = heap[child];
    }
    heap[at] = key;
}

static void heap_push(struct bpe_scratch *s, uint64_t key)
{
    size_t at = s->heap_len++;

    for (; at > 0 && s->heap[(at - 1) / 2] > key; at = (at - 1) / 2)
        s->heap[at] = s->heap[(at - 1) / 2];
    s->heap[at] = key;
}

static uint64_t heap_pop(struct bpe_scratch *s)
{
    uint64_t top = s->heap[0];

    s->heap[0] = s->heap[--s->heap_len];
    if (s->heap_len > 0)
        sift_down(s->heap, s->heap_len, 0);
    return top;
}

static uint64_t heap_key(const struct bpe_scratch *s, uint32_t left)
{
    return (uint64_t)s->symbols[left].rank << 32 | left;
}

/* ---- encoding ---- */

/* Looks up the pair (symbol i, its right neighbour). */
static void rank_pair(const struct bpe *b, struct bpe_symbol *symbols, uint32_t i)
{
    struct bpe_symbol *left = &symbols[i];

    left->rank = NO_RANK;
    if (left->next == NO_SYMBOL)
        return;
    const struct bpe_merge *m = find_merge(b, left->id, symbols[left->next].id);
    left->rank = m->rank;
    left->merged = m->merged;
}

static bool reserve(struct bpe_scratch *s, size_t len)
{
    if (len <= s->cap)
        return true;
    size_t cap = len < 64 ? 64 : len + len / 4;
    bpe_scratch_fini(s);
    s->symbols = mem_alloc(cap * sizeof *s->symbols);
    s->heap = mem_alloc(2 * cap * sizeof *s->heap);
    s->cap = s->symbols && s->heap ? cap : 0;
    return s->cap != 0;
}

static void load_word(const struct bpe *b, const char *word, uint32_t len, struct bpe_scratch *s)
{
    struct bpe_symbol *symbols = s->symbols;

    for (uint32_t i = 0; i < len; i++) {
        symbols[i].id = b->byte_ids[(unsigned char)word[i]];
        symbols[i].prev = i == 0 ? NO_SYMBOL : i - 1;
        symbols[i].next = i + 1 == len ? NO_SYMBOL : i + 1;
    }
    s->heap_len = 0;
    for (uint32_t i = 0; i < len; i++) {
        rank_pair(b, symbols, i);
        if (symbols[i].rank != NO_RANK)
            s->heap[s->heap_len++] = heap_key(s, i);
    }
    for (size_t i = s->heap_len / 2; i-- > 0;)
        sift_down(s->heap, s->heap_len, i);
}

/* Makes symbol i and its right neighbour one. */
static void merge_pair(const struct bpe *b, struct bpe_scratch *s, uint32_t i)
{
    struct bpe_symbol *symbols = s->symbols, *left = &symbols[i];
    uint32_t gone = left->next;

    left->id = left->merged;
    left->next = symbols[gone].next;
    symbols[gone].rank = NO_RANK;
    if (left->next != NO_SYMBOL)
        symbols[left->next].prev = i;
    rank_pair(b, symbols, i);
    if (left->rank != NO_RANK)
        heap_push(s, heap_key(s, i));
    if (left->prev == NO_SYMBOL)
        return;
    rank_pair(b, symbols, left->prev);
    if (symbols[left->prev].rank != NO_RANK)
        heap_push(s, heap_key(s, left->prev));
}

bool bpe_encode(const struct bpe *b, const char *word, size_t len, struct bpe_scratch *s,
                struct tokens *out)
{
    if (len == 0)
        return true;
    if (!reserve(s, len))
        return false;
    load_word(b, word, (uint32_t)len, s);
    /* The heap begins with fewer than len keys; each merge takes one, adds at most two and removes
     * a symbol, so it never holds more than 2 * len. A key is stale when its pair has changed. */
    while (s->heap_len > 0) {
        uint64_t key = heap_pop(s);
        uint32_t i = (uint32_t)key;
        if (s->symbols[i].rank == key >> 32 && s->symbols[i].rank != NO_RANK)
            merge_pair(b, s, i);
    }
    for (uint32_t i = 0; i != NO_SYMBOL; i = s->symbols[i].next)
        if (s->symbols[i].id >= 0 && !tokens_push(out, s->symbols[i].id))
            return false;
    return true;
}

void bpe_scratch_fini(struct bpe_scratch *s)
{
    mem_free(s->symbols);
    mem_free(s->heap);
    *s = (struct bpe_scratch){0};
}

/* ---- loading ---- */

/* Adds merge number `rank`, "left right" in the byte alphabet. The first of equal pairs counts.
 * False when the line, a part or the result is unknown: such a merge can never apply. */
static bool add_merge(struct bpe *b, const struct vocab *v, struct gguf_string line, uint32_t rank)
{
    char joined[2 * LIMIT_TOKEN_BYTES + 1];
    size_t left_len, right_len;

    if (line.len < 3 || line.len > sizeof joined)
        return false;
    const char *space = memchr(line.bytes + 1, ' ', line.len - 1);
    if (space == NULL)
        return false;
    size_t cut = (size_t)(space - line.bytes);
    if (!byte_level_decode(line.bytes, cut, joined, &left_len) ||
        !byte_level_decode(space + 1, line.len - cut - 1, joined + left_len, &right_len))
        return false;
    int32_t left = vocab_find(v, joined, left_len, false);
    int32_t right = vocab_find(v, joined + left_len, right_len, false);
    int32_t merged = vocab_find(v, joined, left_len + right_len, false);
    if (left < 0 || right < 0 || merged < 0)
        return false;
    struct bpe_merge *m = find_merge(b, left, right);
    if (m->rank == NO_RANK)
        *m = (struct bpe_merge){.left = left, .right = right, .merged = merged, .rank = rank};
    return true;
}

enum status bpe_open(struct bpe *b, const struct gguf *g, const struct vocab *v, struct err *err)
{
    const struct gguf_value *merges;
    struct gguf_cursor cursor = {0};
    size_t slots = 16;

    *b = (struct bpe){0};
    enum status status = vocab_string_array(g, KEY_MERGES, LIMIT_MODEL_MERGES, &merges, err);
    if (status != STATUS_OK)
        return status;
    while (slots < 2 * merges->count)
        slots *= 2;
    b->merges = mem_array(slots, sizeof *b->merges);
    if (b->merges == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %llu merges",
                       (unsigned long long)merges->count);
    b->merge_mask = (uint32_t)(slots - 1);
    for (size_t i = 0; i < slots; i++)
        b->merges[i].rank = NO_RANK;
    for (uint32_t rank = 0; rank < merges->count; rank++)
        if (!add_merge(b, v, gguf_array_string(merges, rank, &cursor), rank))
            b->n_ignored++;
    for (int byte = 0; byte < 256; byte++)
        b->byte_ids[byte] = vocab_find(v, &(char){(char)byte}, 1, false);
    return STATUS_OK;
}

void bpe_close(struct bpe *b)
{
    mem_free(b->merges);
    *b = (struct bpe){0};
}
