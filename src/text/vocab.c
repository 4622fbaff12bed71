#include "text/vocab.h"

#include "base/limits.h"
#include "base/mem.h"
#include "text/byte_level.h"

#include <string.h>

#define KEY_TOKENS "tokenizer.ggml.tokens"
#define KEY_TYPES  "tokenizer.ggml.token_type"

enum status vocab_string_array(const struct gguf *g, const char *key, uint64_t limit,
                               const struct gguf_value **out, struct err *err)
{
    const struct gguf_value *v = gguf_value(g, key);

    if (v == NULL)
        return err_param(err, STATUS_NOT_FOUND, key, "%s: expected an array of strings, absent",
                         key);
    if (v->type != GGUF_ARRAY || v->element != GGUF_STRING)
        return err_param(err, STATUS_INVALID, key, "%s: expected an array of strings, found %s%s",
                         key, v->type == GGUF_ARRAY ? "an array of " : "",
                         gguf_type_name(v->type == GGUF_ARRAY ? v->element : v->type));
    if (v->count == 0 || v->count > limit)
        return err_param(err, STATUS_INVALID, key, "%s: expected 1 to %llu elements, found %llu",
                         key, (unsigned long long)limit, (unsigned long long)v->count);
    *out = v;
    return STATUS_OK;
}

/* FNV-1a with a final mix, so that the low bits depend on all bytes. */
static uint32_t hash_bytes(const char *bytes, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return (uint32_t)(h ^ h >> 32);
}

/* The slot that holds the piece, or the empty one where it belongs. */
static uint32_t *find_slot(const struct vocab *v, const char *piece, size_t len, bool literal)
{
    for (uint32_t at = hash_bytes(piece, len);; at++) {
        uint32_t *slot = &v->slots[at & v->slot_mask];
        if (*slot == 0)
            return slot;
        size_t found_len;
        const char *found = vocab_piece(v, (int32_t)(*slot - 1), &found_len);
        if (found_len == len && v->literal[*slot - 1] == literal && memcmp(found, piece, len) == 0)
            return slot;
    }
}

int32_t vocab_find(const struct vocab *v, const char *piece, size_t len, bool literal)
{
    return (int32_t)*find_slot(v, piece, len, literal) - 1;
}

static enum status allocate(struct vocab *v, const struct gguf_value *tokens, struct err *err)
{
    struct gguf_cursor cursor = {0};
    size_t total = 0, slots = 16;

    v->count = (uint32_t)tokens->count;
    for (uint32_t i = 0; i < v->count; i++) {
        size_t len = gguf_array_string(tokens, i, &cursor).len;
        if (len > LIMIT_TOKEN_BYTES)
            return err_param(err, STATUS_INVALID, KEY_TOKENS,
                             KEY_TOKENS ": token %u has %zu bytes, the limit is %d", i, len,
                             LIMIT_TOKEN_BYTES);
        total += len; /* at most LIMIT_MODEL_VOCAB * LIMIT_TOKEN_BYTES = 2^31: fits offsets */
    }
    while (slots < 2 * (size_t)v->count)
        slots *= 2;
    v->slot_mask = (uint32_t)(slots - 1);
    v->offsets = mem_array((size_t)v->count + 1, sizeof *v->offsets);
    v->bytes = mem_alloc(total + 1);
    v->types = mem_array(v->count, sizeof *v->types);
    v->literal = mem_array(v->count, sizeof *v->literal);
    v->slots = mem_array(slots, sizeof *v->slots);
    if (!v->offsets || !v->bytes || !v->types || !v->literal || !v->slots)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a vocabulary of %u tokens", v->count);
    return STATUS_OK;
}

/* Files without types have only normal tokens. */
static enum status read_types(struct vocab *v, const struct gguf *g, struct err *err)
{
    const struct gguf_value *types = gguf_value(g, KEY_TYPES);

    memset(v->types, VOCAB_NORMAL, v->count);
    if (types == NULL)
        return STATUS_OK;
    if (types->type != GGUF_ARRAY || (types->element != GGUF_I32 && types->element != GGUF_U32))
        return err_param(err, STATUS_INVALID, KEY_TYPES,
                         KEY_TYPES ": expected an array of i32, found %s%s",
                         types->type == GGUF_ARRAY ? "an array of " : "",
                         gguf_type_name(types->type == GGUF_ARRAY ? types->element : types->type));
    if (types->count != v->count)
        return err_param(err, STATUS_INVALID, KEY_TYPES,
                         KEY_TYPES ": expected %u elements as in " KEY_TOKENS ", found %llu",
                         v->count, (unsigned long long)types->count);
    for (uint32_t i = 0; i < v->count; i++) {
        int64_t type = gguf_integer(types, i);
        if (type < VOCAB_NORMAL || type > VOCAB_BYTE)
            return err_param(err, STATUS_INVALID, KEY_TYPES,
                             KEY_TYPES ": token %u has type %lld, expected 1 to 6", i,
                             (long long)type);
        v->types[i] = (uint8_t)type;
    }
    return STATUS_OK;
}

static bool is_spelled(enum vocab_type type)
{
    return type != VOCAB_NORMAL && type != VOCAB_UNUSED;
}

static enum status read_pieces(struct vocab *v, const struct gguf_value *tokens, struct err *err)
{
    struct gguf_cursor cursor = {0};
    uint32_t at = 0;

    for (uint32_t i = 0; i < v->count; i++) {
        struct gguf_string text = gguf_array_string(tokens, i, &cursor);
        size_t len;
        v->offsets[i] = at;
        v->literal[i] = is_spelled(v->types[i]) ||
                        !byte_level_decode(text.bytes, text.len, v->bytes + at, &len);
        if (v->literal[i]) {
            len = text.len;
            memcpy(v->bytes + at, text.bytes, len);
        }
        at += (uint32_t)len;
        v->offsets[i + 1] = at;
        if (len > v->max_piece)
            v->max_piece = len;
        if (len == 0)
            continue; /* padding: never in any text */
        uint32_t *slot = find_slot(v, v->bytes + at - len, len, v->literal[i]);
        if (*slot != 0)
            return err_param(err, STATUS_INVALID, KEY_TOKENS,
                             KEY_TOKENS ": tokens %u and %u are the same text '%.*s'", *slot - 1, i,
                             (int)text.len, text.bytes);
        *slot = i + 1;
    }
    return STATUS_OK;
}

enum status vocab_open(struct vocab *v, const struct gguf *g, struct err *err)
{
    const struct gguf_value *tokens;

    *v = (struct vocab){0};
    enum status status = vocab_string_array(g, KEY_TOKENS, LIMIT_MODEL_VOCAB, &tokens, err);
    if (status == STATUS_OK)
        status = allocate(v, tokens, err);
    if (status == STATUS_OK)
        status = read_types(v, g, err);
    if (status == STATUS_OK)
        status = read_pieces(v, tokens, err);
    if (status != STATUS_OK)
        vocab_close(v);
    return status;
}

void vocab_close(struct vocab *v)
{
    mem_free(v->offsets);
    mem_free(v->bytes);
    mem_free(v->types);
    mem_free(v->literal);
    mem_free(v->slots);
    *v = (struct vocab){0};
}
