/* What opening a byte-pair encoding (bpe_open.c) and using it (bpe.c) share. */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_BPE_INTERNAL_H
#define FIRSTLIGHT_TEXT_TOKENIZER_BPE_INTERNAL_H

#include "text/tokenizer/bpe.h"

#include <string.h>

#define BPE_NO_RANK UINT32_MAX

/* left, right -> merged; an empty slot has rank BPE_NO_RANK. */
struct bpe_merge {
    int32_t left, right;
    int32_t merged;
    uint32_t rank; /* index in the merge list: lower goes first */
};

/* The slot of the pair, or the empty one where it belongs. */
static inline struct bpe_merge *bpe_find_merge(const struct bpe *b, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    for (uint32_t at = (uint32_t)(h >> 32);; at++) {
        struct bpe_merge *m = &b->merges[at & b->merge_mask];
        if (m->rank == BPE_NO_RANK || (m->left == left && m->right == right))
            return m;
    }
}

/* A character's first or last byte, for the table of joins. "▁" counts as a space, which models
 * that have it do not: it would share its bytes with much else. */
static inline int bpe_edge(const char *character, size_t n, bool last)
{
    if (n == 3 && memcmp(character, "\xe2\x96\x81", 3) == 0)
        return ' ';
    return (unsigned char)character[last ? n - 1 : 0];
}

static inline bool bpe_joins(const struct bpe *b, int last, int first)
{
    return b->joins[last * 4 + first / 64] >> (first % 64) & 1;
}

#endif
