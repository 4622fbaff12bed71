/* Tokenizers: text to token ids and back, from a GGUF file's metadata or a Hugging Face folder's
 * files.
 *
 *     text ─► added tokens ─► normalizer ─► pre-tokenizer ─► model ─► ids
 *             (specials.h)    (normalize.h) (pretok.h)       (bpe.h, unigram.h)
 *
 * Immutable after opening: any thread may encode at once; each call's scratch is its own.
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_TOKENIZER_H
#define FIRSTLIGHT_TEXT_TOKENIZER_TOKENIZER_H

#include "base/err.h"
#include "text/tokenizer/tokens.h"
#include "weights/gguf.h"

#include <stdbool.h>
#include <stdint.h>

struct tokenizer;

/* Our own key in GGUF metadata, "first" or "always": a space is put before the text, or each part
 * of it between added tokens, if there is none. Without it add_space_prefix is as llama.cpp has it.
 */
#define TOKENIZER_METASPACE "firstlight.tokenizer.metaspace"

enum status tokenizer_open(struct tokenizer **out, const struct gguf *g, struct err *err);

/* What a Hugging Face folder says of its tokenizer, as the files' text. Borrowed while opening. */
struct tokenizer_json {
    const char *text; /* tokenizer.json */
    size_t len;
    const char *config; /* tokenizer_config.json; NULL: none */
    size_t config_len;
    const int32_t *end_ids; /* further ids that end a generation: eos_token_id of
                               generation_config.json and config.json; NULL: none */
    size_t n_end_ids;
};
/* Errors begin with the name of the file, "tokenizer.json" or "tokenizer_config.json", and name the
 * member. STATUS_UNSUPPORTED: a part of a tokenizer that is not built here, by its name. */
enum status tokenizer_open_json(struct tokenizer **out, const struct tokenizer_json *files,
                                struct err *err);

/* The chat template that tokenizer_config.json has (of several, the one named "default"),
 * NUL-terminated; NULL: none. A GGUF file's is read elsewhere: always NULL. */
const char *tokenizer_chat_template(const struct tokenizer *t);
void tokenizer_close(struct tokenizer *t);

enum tokenize_flags {
    TOKENIZE_SPECIAL = 1, /* text that spells a special token becomes that token */
    TOKENIZE_ADD = 2, /* add bos/eos where the file asks for it (add_bos_token, add_eos_token) */
};

/* Appends the ids of `len` bytes of text (UTF-8; an invalid sequence is read as U+FFFD) to *out.
 * trusted: NULL, or one byte per byte of text: with TOKENIZE_SPECIAL a special token is recognised
 * only where all of its bytes are trusted (non-zero), which is how text inside a chat message stays
 * text. Linear in len but for a logarithm; no quadratic case. STATUS_TOO_LARGE with out->over: the
 * text has more than out->most tokens, which is found out as early as possible, so that a text that
 * is too long costs no more than one that fits. */
enum status tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                             const uint8_t *trusted, unsigned flags, struct tokens *out,
                             struct err *err);

uint32_t tokenizer_vocab_size(const struct tokenizer *t);

/* The bytes a token stands for (not terminated), possibly part of a character; special tokens give
 * their spelling. *len = 0 for an id out of range. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *len);

size_t tokenizer_max_piece(const struct tokenizer *t);            /* longest piece in bytes */
bool tokenizer_is_control(const struct tokenizer *t, int32_t id); /* not shown in generated text */
bool tokenizer_is_end(const struct tokenizer *t, int32_t id);     /* ends a generation (eos, eot) */
int32_t tokenizer_bos(const struct tokenizer *t);                 /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t);                 /* -1: none */
int32_t tokenizer_find(const struct tokenizer *t, const char *piece, size_t len); /* -1: none */

/* Bytes of text for ids [0, count), control tokens left out when !special, appended to out. */
struct buf;
bool tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count, bool special,
                      struct buf *out);

#endif
