#include "text/tokenizer/unigram.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>

#define UNKNOWN_PENALTY 10.0 /* below the worst piece, as SentencePiece has it */

/* (node, byte) -> child; child 0 is an empty slot, since no edge leads to the root. */
struct unigram_edge {
    uint32_t node;
    uint32_t byte;
    uint32_t child;
};

struct unigram_best {
    double score;
    uint32_t from; /* where the last piece begins */
    int32_t id;    /* -1: an unknown character */
};

static struct unigram_edge *find_edge(const struct unigram *u, uint32_t node, unsigned char byte)
{
    uint64_t h = ((uint64_t)node << 8 | byte) * 0x9e3779b97f4a7c15u;
    for (uint32_t at = (uint32_t)(h >> 32);; at++) {
        struct unigram_edge *e = &u->edges[at & u->edge_mask];
        if (e->child == 0 || (e->node == node && e->byte == byte))
            return e;
    }
}

/* --- opening -------------------------------------------------------------------------------- */

static void add_piece(struct unigram *u, const char *key, size_t len, int32_t id, uint32_t *nodes)
{
    uint32_t node = 0;
    for (size_t i = 0; i < len; i++) {
        struct unigram_edge *e = find_edge(u, node, (unsigned char)key[i]);
        if (e->child == 0) {
            *e = (struct unigram_edge){node, (unsigned char)key[i], *nodes};
            u->ids[(*nodes)++] = -1;
        }
        node = e->child;
    }
    u->ids[node] = id;
}

static enum status open_trie(struct unigram *u, struct err *err)
{
    const struct vocab *v = u->vocab;
    size_t bytes = v->keys.offsets[v->count], slots = 16, len;
    uint32_t nodes = 1;
    while (slots < 2 * bytes)
        slots *= 2;
    u->edge_mask = (uint32_t)(slots - 1);
    u->edges = mem_array(slots, sizeof *u->edges);
    u->ids = mem_array(bytes + 1, sizeof *u->ids);
    if (!u->edges || !u->ids || slots > UINT32_MAX)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a trie of %zu bytes", bytes);
    u->ids[0] = -1;
    for (uint32_t i = 0; i < v->count; i++) {
        const char *key = vocab_key(v, (int32_t)i, &len);
        if (!v->literal[i] && len > 0)
            add_piece(u, key, len, (int32_t)i, &nodes);
    }
    return STATUS_OK;
}

enum status unigram_open(struct unigram *u, const struct vocab *v, const double *scores,
                         int32_t unk, bool byte_fallback, struct err *err)
{
    double lowest = INFINITY;
    *u = (struct unigram){.vocab = v, .scores = scores, .unk = unk, .byte_fallback = byte_fallback};
    for (uint32_t i = 0; i < v->count; i++)
        if (scores[i] < lowest)
            lowest = scores[i];
    u->unk_score = lowest - UNKNOWN_PENALTY;
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        int len = snprintf(name, sizeof name, "<0x%02X>", byte);
        int32_t id = vocab_find(v, name, (size_t)len, true);
        u->byte_ids[byte] = id >= 0 ? id : vocab_find(v, name, (size_t)len, false);
    }
    enum status status = open_trie(u, err);
    if (status != STATUS_OK)
        unigram_close(u);
    return status;
}

void unigram_close(struct unigram *u)
{
    mem_free(u->edges);
    mem_free(u->ids);
    *u = (struct unigram){0};
}

/* --- encoding ------------------------------------------------------------------------------- */

static bool unigram_reserve(struct unigram_scratch *s, size_t len)
{
    if (len <= s->cap)
        return true;
    size_t cap = len < 64 ? 64 : len + len / 4;
    mem_free(s->best);
    s->best = mem_alloc(cap * sizeof *s->best);
    s->cap = s->best ? cap : 0;
    return s->best != NULL;
}

static void offer(struct unigram_best *to, double score, size_t from, int32_t id)
{
    if (score > to->score)
        *to = (struct unigram_best){score, (uint32_t)from, id};
}

/* The pieces that begin at `at`, and the character there as an unknown one if it is none. */
static void extend(const struct unigram *u, const char *word, size_t len, size_t at,
                   struct unigram_best *best)
{
    double here = best[at].score;
    bool single = false;
    size_t character;
    uint32_t node = 0;
    (void)utf8_step(word + at, len - at, &character);
    for (size_t end = at; end < len;) {
        node = find_edge(u, node, (unsigned char)word[end])->child;
        if (node == 0)
            break;
        end++;
        if (u->ids[node] < 0)
            continue;
        offer(&best[end], here + u->scores[u->ids[node]], at, u->ids[node]);
        single = single || end - at == character;
    }
    if (!single)
        offer(&best[at + character], here + u->unk_score, at, -1);
}

static bool unigram_put_bytes(const struct unigram *u, const char *bytes, size_t len,
                              struct tokens *out, bool *done)
{
    *done = u->byte_fallback;
    for (size_t i = 0; *done && i < len; i++)
        *done = u->byte_ids[(unsigned char)bytes[i]] >= 0;
    for (size_t i = 0; *done && i < len; i++)
        if (!tokens_push(out, u->byte_ids[(unsigned char)bytes[i]]))
            return false;
    return true;
}

/* Unknown characters in a row are looked at as one: all fall back to bytes, or none does. */
static bool unigram_put_unknown(const struct unigram *u, const char *word, size_t from, size_t end,
                                struct tokens *out)
{
    bool done;
    return unigram_put_bytes(u, word + from, end - from, out, &done) &&
           (done || tokens_push(out, u->unk));
}

/* The way back from the end becomes a way forth: best[i] then has the id of the piece that begins
 * at i, and in `from` where it ends. */
static void turn_round(struct unigram_best *best, size_t len)
{
    struct unigram_best piece = best[len];
    size_t end = len;
    while (end > 0) {
        size_t begin = piece.from;
        struct unigram_best before = best[begin];
        best[begin].from = (uint32_t)end;
        best[begin].id = piece.id;
        piece = before;
        end = begin;
    }
}

static bool put_pieces(const struct unigram *u, const char *word, size_t len,
                       const struct unigram_best *best, struct tokens *out)
{
    for (size_t at = 0; at < len;) {
        size_t begin = at;
        int32_t id = best[at].id;
        at = best[at].from;
        while (id < 0 && at < len && best[at].id < 0)
            at = best[at].from;
        bool done = id >= 0 ? tokens_push(out, id) : unigram_put_unknown(u, word, begin, at, out);
        if (!done)
            return false;
    }
    return true;
}

bool unigram_encode(const struct unigram *u, const char *word, size_t len,
                    struct unigram_scratch *s, struct tokens *out)
{
    size_t n;
    if (!unigram_reserve(s, len + 1))
        return false;
    for (size_t i = 0; i <= len; i++)
        s->best[i].score = -INFINITY;
    s->best[0] = (struct unigram_best){.id = -1};
    for (size_t at = 0; at < len; at += n) {
        (void)utf8_step(word + at, len - at, &n);
        if (s->best[at].score > -INFINITY)
            extend(u, word, len, at, s->best);
    }
    turn_round(s->best, len);
    return put_pieces(u, word, len, s->best, out);
}

void unigram_scratch_fini(struct unigram_scratch *s)
{
    mem_free(s->best);
    *s = (struct unigram_scratch){0};
}
