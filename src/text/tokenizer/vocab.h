/* A vocabulary: the pieces, types and look-up by bytes that every kind of tokenizer needs.
 *
 *     offsets  0      3        8   ...           (count + 1)
 *     bytes    "the"  " quick"  ...              piece i is bytes[offsets[i] .. offsets[i + 1])
 *     keys     the same for what the model's look-ups spell: "the", "▁quick"
 *     slots    open addressing, id + 1 or 0, and the key's hash (power of two, at most half full)
 *
 * A piece is what a token contributes to the text, a key what the tokenizer's model finds it by.
 * With byte-level spelling the two are one array: tokens written in the byte alphabet
 * (byte_level.h) are decoded. Tokens that the model does not make ("literal": control and
 * user-defined tokens, and any whose text is not in the alphabet) stand for their spelling. The two
 * are looked up apart, because an ordinary token made of bytes must never be taken for a special
 * one that is spelled alike. Owned by the tokenizer, immutable after vocab_open.
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_VOCAB_H
#define FIRSTLIGHT_TEXT_TOKENIZER_VOCAB_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
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

struct vocab_strings {
    uint32_t *offsets; /* (count + 1) */
    char *bytes;
    size_t longest; /* bytes of the longest */
};

struct vocab_slot {
    uint32_t id_plus_one;
    uint32_t hash;
};

struct vocab {
    uint32_t count;
    struct vocab_strings pieces, keys; /* the same arrays when byte-level */
    uint8_t *types;                    /* (count) enum vocab_type */
    bool *literal;                     /* (count) */
    struct vocab_slot *slots;          /* (slot_mask + 1) */
    uint32_t slot_mask;
};

/* A token as a file has it. */
struct vocab_entry {
    const char *text; /* not terminated; NULL: the file has no such id */
    uint32_t len;
    uint8_t type;
    bool literal; /* not one of the model's */
};

#define VOCAB_REPLACES 4

/* How entries are spelled. */
struct vocab_rules {
    const char *what; /* the key of the file, for errors: "tokenizer.ggml.tokens" */
    bool byte_level;
    bool bytes; /* "<0x0A>" of type VOCAB_BYTE is that byte in the text */
    /* In a piece that is no control token each `from` becomes `to`: "▁" a space. */
    struct {
        const char *from, *to; /* NUL-terminated */
    } replaces[VOCAB_REPLACES];
    int n_replaces;
};

/* Entries are borrowed until it returns. Nothing is left to free after an error. */
enum status vocab_open(struct vocab *v, const struct vocab_entry *entries, uint32_t count,
                       const struct vocab_rules *rules, struct err *err);
void vocab_close(struct vocab *v);

/* The id of the token whose key is exactly these bytes, among the literal ones or the others; -1
 * when there is none. */
int32_t vocab_find(const struct vocab *v, const char *key, size_t len, bool literal);

/* The byte that "<0x0A>" stands for; -1 when it is not spelled so. */
int vocab_byte(const char *text, size_t len);

static inline const char *vocab_piece(const struct vocab *v, int32_t id, size_t *len)
{
    *len = v->pieces.offsets[id + 1] - v->pieces.offsets[id];
    return v->pieces.bytes + v->pieces.offsets[id];
}

static inline const char *vocab_key(const struct vocab *v, int32_t id, size_t *len)
{
    *len = v->keys.offsets[id + 1] - v->keys.offsets[id];
    return v->keys.bytes + v->keys.offsets[id];
}

#endif
