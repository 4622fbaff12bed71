/* Opening a byte-pair encoding: the table of merges or ranks, the tokens of bytes and characters,
 * and which characters some piece has next to each other. */
#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/bpe_internal.h"
#include "text/tokenizer/byte_level.h"
#include "text/tokenizer/no_memory.h"

#include <stdio.h>
#include <stdlib.h>

/* What the vocabulary finds a text by. False: not in the alphabet. */
static bool to_key(const struct bpe *b, struct bpe_text text, char *out, size_t *len)
{
    if (text.len == 0 || text.len > LIMIT_TOKEN_BYTES)
        return false;
    if (!b->rules.characters)
        return byte_level_decode(text.bytes, text.len, out, len);
    memcpy(out, text.bytes, text.len);
    *len = text.len;
    return true;
}

/* Adds a merge. False when a part or the result is unknown: such a merge can never apply. */
static bool add_merge(struct bpe *b, struct bpe_text left_text, struct bpe_text right_text,
                      uint32_t rank, bool last_counts)
{
    char joined[2 * LIMIT_TOKEN_BYTES];
    size_t left_len, right_len;
    if (!to_key(b, left_text, joined, &left_len) ||
        !to_key(b, right_text, joined + left_len, &right_len))
        return false;
    int32_t left = vocab_find(b->vocab, joined, left_len, false);
    int32_t right = vocab_find(b->vocab, joined + left_len, right_len, false);
    int32_t merged = vocab_find(b->vocab, joined, left_len + right_len, false);
    if (left < 0 || right < 0 || merged < 0)
        return false;
    struct bpe_merge *m = bpe_find_merge(b, left, right);
    if (m->rank == BPE_NO_RANK || last_counts)
        *m = (struct bpe_merge){.left = left, .right = right, .merged = merged, .rank = rank};
    return true;
}

static enum status open_merges(struct bpe *b, const struct bpe_list *list, struct err *err)
{
    size_t slots = 16;
    while (slots < 2 * (size_t)list->count)
        slots *= 2;
    b->merges = mem_array(slots, sizeof *b->merges);
    if (!b->merges)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u merges", list->count);
    b->merge_mask = (uint32_t)(slots - 1);
    for (size_t i = 0; i < slots; i++)
        b->merges[i].rank = BPE_NO_RANK;
    for (uint32_t rank = 0; rank < list->count; rank++) {
        struct bpe_text left, right;
        if (!list->next(list->ctx, rank, &left, &right) ||
            !add_merge(b, left, right, rank, list->last_counts)) {
            b->first_ignored = b->n_ignored == 0 ? rank : b->first_ignored;
            b->n_ignored++;
        }
    }
    return STATUS_OK;
}

/* --- scores --------------------------------------------------------------------------------- */

static int by_score(const void *a, const void *b, void *scores)
{
    const float *score = scores;
    float x = score[*(const uint32_t *)a], y = score[*(const uint32_t *)b];
    return (x < y) - (x > y); /* the highest first */
}

/* Equal scores have equal ranks: the leftmost of them merges first. */
static enum status open_ranks(struct bpe *b, const float *scores, struct err *err)
{
    uint32_t count = b->vocab->count, rank = 0;
    uint32_t *order = mem_array(count, sizeof *order);
    b->ranks = mem_array(count, sizeof *b->ranks);
    if (!order || !b->ranks) {
        mem_free(order);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the ranks of %u tokens", count);
    }
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    qsort_r(order, count, sizeof *order, by_score, (void *)scores);
    for (uint32_t i = 0; i < count; i++) {
        rank += i > 0 && scores[order[i]] != scores[order[i - 1]];
        b->ranks[order[i]] = rank;
    }
    mem_free(order);
    return STATUS_OK;
}

/* --- what both need ------------------------------------------------------------------------- */

static void open_bytes(struct bpe *b)
{
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        int len = snprintf(name, sizeof name, "<0x%02X>", byte);
        if (!b->rules.characters) {
            b->byte_ids[byte] = vocab_find(b->vocab, &(char){(char)byte}, 1, false);
            if (b->byte_ids[byte] < 0)
                b->byte_ids[byte] = b->rules.unk;
            continue;
        }
        int32_t id = vocab_find(b->vocab, name, (size_t)len, true);
        if (id < 0)
            id = vocab_find(b->vocab, name, (size_t)len, false);
        b->byte_ids[byte] = id;
    }
    for (int c = 0; c < 128; c++)
        b->ascii_ids[c] = vocab_find(b->vocab, &(char){(char)c}, 1, false);
}

static void note_joins(struct bpe *b, const char *key, size_t len)
{
    size_t n, next_n;
    if (len == 0)
        return;
    (void)utf8_step(key, len, &n);
    for (size_t at = 0, next; (next = at + n) < len; at = next, n = next_n) {
        int last = bpe_edge(key + at, n, true);
        (void)utf8_step(key + next, len - next, &next_n);
        int first = bpe_edge(key + next, next_n, false);
        b->joins[last * 4 + first / 64] |= (uint64_t)1 << (first % 64);
    }
}

static enum status bpe_open_open_common(struct bpe *b, struct err *err)
{
    open_bytes(b);
    if (!b->rules.characters)
        return STATUS_OK;
    b->joins = mem_array(256 * 4, sizeof *b->joins);
    if (!b->joins)
        return no_memory_for_tokenizer(err);
    for (uint32_t i = 0; i < b->vocab->count; i++) {
        size_t len;
        const char *key = vocab_key(b->vocab, (int32_t)i, &len);
        if (!b->vocab->literal[i])
            note_joins(b, key, len);
    }
    return STATUS_OK;
}

enum status bpe_open(struct bpe *b, const struct vocab *v, const struct bpe_rules *rules,
                     const struct bpe_list *merges, struct err *err)
{
    *b = (struct bpe){.vocab = v, .rules = *rules};
    enum status status = open_merges(b, merges, err);
    if (status == STATUS_OK)
        status = bpe_open_open_common(b, err);
    if (status != STATUS_OK)
        bpe_close(b);
    return status;
}

enum status bpe_open_scored(struct bpe *b, const struct vocab *v, const struct bpe_rules *rules,
                            const float *scores, struct err *err)
{
    *b = (struct bpe){.vocab = v, .rules = *rules};
    enum status status = open_ranks(b, scores, err);
    if (status == STATUS_OK)
        status = bpe_open_open_common(b, err);
    if (status != STATUS_OK)
        bpe_close(b);
    return status;
}

void bpe_close(struct bpe *b)
{
    mem_free(b->merges);
    mem_free(b->ranks);
    mem_free(b->joins);
    *b = (struct bpe){0};
}
