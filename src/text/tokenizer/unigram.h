/* Unigram language model segmentation of one word (Kudo 2018): of all ways to cut the word into
 * pieces, the one whose scores add up highest, found left to right (Viterbi).
 *
 *     best[i]: the highest sum of a way to reach byte i, and where its last piece begins
 *
 * Pieces are found through a trie whose edges (node, byte) -> node are in one hash table, so that a
 * word of n bytes costs n times the longest piece at most. Immutable after opening.
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_UNIGRAM_H
#define FIRSTLIGHT_TEXT_TOKENIZER_UNIGRAM_H

#include "base/err.h"
#include "text/tokenizer/tokens.h"
#include "text/tokenizer/vocab.h"

struct unigram {
    const struct vocab *vocab;
    const double *scores; /* (vocab->count) */
    int32_t unk;
    double unk_score; /* of a character without a piece */
    int32_t byte_ids[256];
    bool byte_fallback;
    struct unigram_edge *edges; /* (edge_mask + 1) */
    uint32_t edge_mask;
    int32_t *ids; /* (nodes) the piece that ends in a node, -1: none */
};

/* Starts zeroed, grows to the longest word seen, ends with unigram_scratch_fini. */
struct unigram_scratch {
    struct unigram_best *best; /* (cap) */
    size_t cap;
};

/* v and scores are borrowed until unigram_close. The scores are finite; unk is a token. Nothing is
 * left to free after an error. */
enum status unigram_open(struct unigram *u, const struct vocab *v, const double *scores,
                         int32_t unk, bool byte_fallback, struct err *err);
void unigram_close(struct unigram *u);

/* Appends the ids of the word, which is well-formed UTF-8. Unknown characters in a row are one
 * unknown token, or the tokens of their bytes. False: memory. */
bool unigram_encode(const struct unigram *u, const char *word, size_t len,
                    struct unigram_scratch *s, struct tokens *out);
void unigram_scratch_fini(struct unigram_scratch *s);

#endif
