/* What the tokenizer.json of a SentencePiece model (BPE with byte fallback: Llama 2, Mistral,
 * Phi-3, Gemma) becomes in a GGUF file besides tokens. Private to model/write.
 *
 * Such a model has spaces as "▁" (U+2581) and may put one before a text. Its file lists merges;
 * GGUF has a score for each piece instead, and whichever neighbours make the piece of the highest
 * score merge first. A piece's score is therefore the place of the first merge that makes it, below
 * 0. */
#ifndef FIRSTLIGHT_MODEL_WRITE_HF_SENTENCEPIECE_H
#define FIRSTLIGHT_MODEL_WRITE_HF_SENTENCEPIECE_H

#include "base/err.h"
#include "weights/gguf_build.h"

#include <jansson.h>

enum hf_sentencepiece_prefix {
    HF_SENTENCEPIECE_NEVER,
    HF_SENTENCEPIECE_ALWAYS, /* before a text and after each added token in it */
    /* Metaspace's, which GGUF has no word for: none before a space, and before each, or the first,
     * of these parts. */
    HF_SENTENCEPIECE_META_ALWAYS,
    HF_SENTENCEPIECE_META_FIRST,
};

/* Reads normalizer and pre_tokenizer; false when they do anything else. */
bool hf_sentencepiece_find(const json_t *tokenizer, enum hf_sentencepiece_prefix *out);

/* tokenizer.ggml.scores, (n_vocab) */
enum status hf_sentencepiece_scores(const json_t *model, uint32_t n_vocab, struct gguf_build *b,
                                    struct err *err);

/* "<0x41>" */
bool hf_sentencepiece_is_byte(const char *piece);

/* Appends the piece with every "▁" a space: so llama.cpp looks for added tokens. */
void hf_sentencepiece_plain(struct buf *out, const char *piece);

#endif
