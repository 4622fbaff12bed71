/* Byte-pair encoding of one word (Sennrich et al. 2016).
 *
 * A word begins as one symbol per byte (byte-level: Radford et al. 2019) or per character. As long
 * as some neighbouring pair can merge, the pair that ranks first (the leftmost one of equals)
 * becomes one symbol. What ranks a pair is either its place in a list of merges, or the score of
 * the piece that it makes (SentencePiece: Kudo and Richardson 2018). Candidates wait in a
 * queue (bpe_queue.h), so a word of n bytes costs O(n log n) whatever it holds.
 *
 * With characters, words may be whole texts. No piece of the vocabulary reaches across most places
 * ("e▁"), so that a word is cut there first: the same ids, from heaps that stay small.
 *
 * struct bpe is immutable after opening; each caller brings its own scratch.
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_BPE_H
#define FIRSTLIGHT_TEXT_TOKENIZER_BPE_H

#include "base/err.h"
#include "text/tokenizer/bpe_queue.h"
#include "text/tokenizer/tokens.h"
#include "text/tokenizer/vocab.h"

struct bpe_merge;

/* How words are cut into first symbols, and what becomes of the unknown ones. */
struct bpe_rules {
    bool characters;    /* not bytes */
    bool byte_fallback; /* a character without a token: the tokens of its bytes, if all exist */
    bool whole_words;   /* a word that is a token as a whole is that token, whatever merges say */
    bool fuse_unk;      /* unknown ones in a row are one */
    int32_t unk;        /* what an unknown one becomes; -1: nothing */
};

struct bpe {
    const struct vocab *vocab;
    struct bpe_rules rules;
    struct bpe_merge *merges; /* (merge_mask + 1), open addressing on the pair of ids; or NULL */
    uint32_t merge_mask;
    uint32_t first_ignored; /* the first of those below */
    uint32_t n_ignored;     /* merges whose parts or result are not in the vocabulary */
    uint32_t *ranks;        /* (vocab->count) of pieces, when there are no merges */
    int32_t byte_ids[256];  /* the tokens of bytes: to begin with, or to fall back to; -1: none */
    int32_t ascii_ids[128]; /* the tokens of one character */
    uint64_t *joins; /* (65536 bits) [end of a character][start of the next]: some piece has them */
};

/* Starts zeroed, grows to the longest word seen, ends with bpe_scratch_fini. */
struct bpe_scratch {
    struct bpe_symbol *symbols; /* (cap) */
    struct bpe_queue queue;     /* of 2 * cap keys */
    size_t cap;
    struct bpe_cached *cache; /* of short words; NULL until bpe_remember */
    bool after_unk;
};

/* Merges in the order of their rank, each as the two texts it joins, spelled as in the vocabulary
 * file. `next` returns false for one that is malformed and may be called once per index, in order.
 * Of equal pairs the first counts, or the last. */
struct bpe_text {
    const char *bytes;
    size_t len;
};
struct bpe_list {
    uint32_t count;
    bool (*next)(void *ctx, uint32_t rank, struct bpe_text *left, struct bpe_text *right);
    void *ctx;
    bool last_counts;
};

/* `v` is borrowed until bpe_close. Nothing is left to free after an error. */
enum status bpe_open(struct bpe *b, const struct vocab *v, const struct bpe_rules *rules,
                     const struct bpe_list *merges, struct err *err);
/* scores: (v->count), none NAN; borrowed while opening. */
enum status bpe_open_scored(struct bpe *b, const struct vocab *v, const struct bpe_rules *rules,
                            const float *scores, struct err *err);
void bpe_close(struct bpe *b);

/* Each byte of a word ends up in a token: words are bytes, and every one of them has its token. */
bool bpe_keeps_bytes(const struct bpe *b);

/* Appends the ids of the word (len < 2^31 bytes), which with `characters` is well-formed UTF-8.
 * False: as tokens_push has it. */
bool bpe_encode(const struct bpe *b, const char *word, size_t len, struct bpe_scratch *s,
                struct tokens *out);
/* From now on short words are remembered: for long texts, where words come again. Without memory
 * for it nothing is. */
void bpe_remember(struct bpe_scratch *s);
void bpe_scratch_fini(struct bpe_scratch *s);

#endif
