/* A vocabulary: the pieces, types and look-up by bytes that every kind of tokenizer needs.
 *
 *     offsets  0      3        8   ...           (count + 1)
 *     bytes    "the"  " quick"  ...              piece i is bytes[offsets[i] .. offsets[i + 1])
 *     slots    open addressing, id + 1 or 0      (power of two, at most half full)
 *
 * A piece is what a token contributes to the text. Tokens written in the byte alphabet
 * (byte_level.h) are decoded; the others ("literal": control and user-defined tokens, and any whose
 * text is not in the alphabet) stand for their spelling. The two are looked up apart, because an
 * ordinary token made of bytes must never be taken for a special one that is spelled alike.
 * Owned by the tokenizer, immutable after vocab_open.
 */
#ifndef FIRSTLIGHT_TEXT_VOCAB_H
#define FIRSTLIGHT_TEXT_VOCAB_H

#include "base/err.h"
#include "weights/gguf.h"

#include <stdbool.h>
#include <stdint.h>

/* The values of tokenizer.ggml.token_type. */
enum vocab_type {
    VOCAB_NORMAL = 1,
    VOCAB_UNKNOWN = 2,
    VOCAB_CONTROL = 3,
    VOCAB_USER_DEFINED = 4,
    VOCAB_UNUSED = 5,
    VOCAB_BYTE = 6,
};

struct vocab {
    uint32_t count;
    uint32_t *offsets; /* (count + 1) */
    char *bytes;
    uint8_t *types;  /* (count) enum vocab_type */
    bool *literal;   /* (count) */
    uint32_t *slots; /* (slot_mask + 1) */
    uint32_t slot_mask;
    size_t max_piece; /* bytes of the longest piece */
};

/* Reads tokenizer.ggml.tokens and token_type. Nothing is left to free after an error. */
enum status vocab_open(struct vocab *v, const struct gguf *g, struct err *err);
void vocab_close(struct vocab *v);

/* The id of the token whose piece is exactly these bytes, among the literal ones or the others; -1
 * when there is none. */
int32_t vocab_find(const struct vocab *v, const char *piece, size_t len, bool literal);

static inline const char *vocab_piece(const struct vocab *v, int32_t id, size_t *len)
{
    *len = v->offsets[id + 1] - v->offsets[id];
    return v->bytes + v->offsets[id];
}

/* The array of strings under `key`: STATUS_NOT_FOUND or STATUS_INVALID names what is wrong. */
enum status vocab_string_array(const struct gguf *g, const char *key, uint64_t limit,
                               const struct gguf_value **out, struct err *err);

#endif
