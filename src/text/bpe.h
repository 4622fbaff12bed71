/* Byte-level byte-pair encoding of one word (Sennrich et al. 2016; over bytes: Radford et al.
 * 2019).
 *
 * A word begins as one symbol per byte; as long as some neighbouring pair is in the merge list, the
 * pair that stands first in the list (the leftmost one of equals) becomes one symbol. Candidates
 * wait in a binary heap, so a word of n bytes costs O(n log n) whatever it holds.
 * struct bpe is immutable after opening; each caller brings its own scratch.
 */
#ifndef FIRSTLIGHT_TEXT_BPE_H
#define FIRSTLIGHT_TEXT_BPE_H

#include "base/err.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

struct bpe_merge;

struct bpe {
    struct bpe_merge *merges; /* (merge_mask + 1), open addressing on the pair of ids */
    uint32_t merge_mask;
    uint32_t n_ignored;    /* merges whose parts or result are not in the vocabulary */
    int32_t byte_ids[256]; /* -1: the vocabulary lacks this byte */
};

/* Starts zeroed, grows to the longest word seen, ends with bpe_scratch_fini. */
struct bpe_scratch {
    struct bpe_symbol *symbols; /* (cap) */
    uint64_t *heap;             /* (2 * cap), see bpe.c */
    size_t heap_len;
    size_t cap;
};

/* Reads tokenizer.ggml.merges. Nothing is left to free after an error. */
enum status bpe_open(struct bpe *b, const struct gguf *g, const struct vocab *v, struct err *err);
void bpe_close(struct bpe *b);

/* Appends the ids of the word (len < 2^31 bytes). A byte that the vocabulary lacks yields nothing,
 * as with the tokenizers these files come from. False: memory. */
bool bpe_encode(const struct bpe *b, const char *word, size_t len, struct bpe_scratch *s,
                struct tokens *out);
void bpe_scratch_fini(struct bpe_scratch *s);

#endif
