/* What opening a tokenizer (tokenizer_gguf.c, tokenizer_json.c) and using it (tokenizer.c) share.
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_TOKENIZER_INTERNAL_H
#define FIRSTLIGHT_TEXT_TOKENIZER_TOKENIZER_INTERNAL_H

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/normalize.h"
#include "text/tokenizer/pretok.h"
#include "text/tokenizer/specials.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/unigram.h"
#include "text/tokenizer/vocab.h"

struct tokenizer {
    struct vocab vocab;
    struct specials raw;        /* found in the text as it comes */
    struct specials normalized; /* found in the normalized text between those */
    struct normalize normalize;
    struct pretok *pretok;
    bool is_unigram; /* else bpe */
    struct bpe bpe;
    struct unigram unigram;
    double *scores;              /* (vocab.count) of unigram */
    struct tokens before, after; /* what TOKENIZE_ADD puts around a text */
    size_t strip_first;          /* spaces that decoding takes off the beginning of a text */
    bool *is_end;                /* (vocab.count) */
    int32_t bos, eos, unk;       /* -1: none */
    char *chat_template;         /* NULL: none */
};

/* Marks the control tokens that end a generation by their name, whatever the file says of its ends:
 * chat models are published with a base model's eos. */
void tokenizer_mark_ends(struct tokenizer *t);

#endif
