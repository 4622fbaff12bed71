#include "text/tokenizer/tokenizer.h"

#include "base/buf.h"
#include "base/mem.h"
#include "text/tokenizer/no_memory.h"
#include "text/tokenizer/tokenizer_internal.h"

#include <string.h>

/* One call of tokenizer_encode. */
struct encoder {
    const struct tokenizer *tokenizer;
    struct pretok_scratch *pretok;
    struct normalize_scratch normalize;
    struct bpe_scratch bpe;
    struct unigram_scratch unigram;
    struct tokens *out;
    bool control; /* control tokens are found */
};

/* Texts from here on are worth remembering words in. */
#define LONG_TEXT 8192

static const char *const end_names[] = {
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "</s>",
    "<eos>",
    "<|fim_pad|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<turn|>",
    "<｜end▁of▁sentence｜>",
};

void tokenizer_mark_ends(struct tokenizer *t)
{
    for (size_t i = 0; i < sizeof end_names / sizeof end_names[0]; i++) {
        int32_t id = vocab_find(&t->vocab, end_names[i], strlen(end_names[i]), true);
        if (id < 0)
            id = vocab_find(&t->vocab, end_names[i], strlen(end_names[i]), false);
        if (id >= 0 && t->vocab.types[id] == VOCAB_CONTROL)
            t->is_end[id] = true;
    }
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    mem_free(t->is_end);
    mem_free(t->scores);
    mem_free(t->chat_template);
    tokens_fini(&t->before);
    tokens_fini(&t->after);
    specials_close(&t->raw);
    specials_close(&t->normalized);
    bpe_close(&t->bpe);
    unigram_close(&t->unigram);
    normalize_close(&t->normalize);
    pretok_close(t->pretok);
    vocab_close(&t->vocab);
    mem_free(t);
}

/* --- encoding ------------------------------------------------------------------------------- */

/* A push failed. */
static enum status not_pushed(const struct encoder *e, struct err *err)
{
    if (e->out->over)
        return err_set(err, STATUS_TOO_LARGE, "the text has more than %zu tokens", e->out->most);
    return no_memory_to_tokenize(err);
}

/* Where no byte is lost, there are at least as many tokens as the longest piece fits into it. */
static bool has_too_many(const struct encoder *e, size_t len)
{
    const struct tokenizer *t = e->tokenizer;
    const struct tokens *out = e->out;
    return out->most > 0 && len / t->vocab.pieces.longest > out->most - out->count &&
           !t->is_unigram && bpe_keeps_bytes(&t->bpe);
}

static enum status encode_word(void *ctx, const char *word, size_t len, struct err *err)
{
    struct encoder *e = ctx;
    const struct tokenizer *t = e->tokenizer;
    if (len > INT32_MAX) /* symbols are numbered in 32 bits */
        return err_set(err, STATUS_TOO_LARGE, "expected a word of at most %d bytes, found %zu",
                       INT32_MAX, len);
    if (has_too_many(e, len)) {
        e->out->over = true;
        return not_pushed(e, err);
    }
    bool done = t->is_unigram ? unigram_encode(&t->unigram, word, len, &e->unigram, e->out)
                              : bpe_encode(&t->bpe, word, len, &e->bpe, e->out);
    return done ? STATUS_OK : not_pushed(e, err);
}

static enum status tokenizer_push(struct encoder *e, int32_t id, struct err *err)
{
    return tokens_push(e->out, id) ? STATUS_OK : not_pushed(e, err);
}

/* Text between the tokens that are found as it comes: normalized, searched for the others, cut into
 * words. */
static enum status encode_plain(struct encoder *e, const struct specials_text *raw, bool first,
                                struct err *err)
{
    const struct tokenizer *t = e->tokenizer;
    struct specials_text text = {.control = e->control};
    const uint8_t *trusted = t->normalized.count > 0 ? raw->trusted : NULL;
    if (raw->len == 0)
        return STATUS_OK;
    enum status status = normalize_run(&t->normalize, &e->normalize, raw->bytes, raw->len, trusted,
                                       &text.bytes, &text.len, &text.trusted, err);
    for (size_t at = 0; status == STATUS_OK && at < text.len;) {
        struct specials_match m = specials_next(&t->normalized, &text, at);
        struct pretok_text part = {text.bytes + at, m.start - at, first && at == 0};
        status = pretok_split(t->pretok, e->pretok, &part, encode_word, e, err);
        if (status == STATUS_OK && m.special)
            status = tokenizer_push(e, m.special->id, err);
        at = m.end;
    }
    return status;
}

static enum status encode_text(struct encoder *e, const struct specials_text *text, struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t at = 0; status == STATUS_OK && at < text->len;) {
        struct specials_match m = specials_next(&e->tokenizer->raw, text, at);
        struct specials_text part = {.bytes = text->bytes + at,
                                     .len = m.start - at,
                                     .trusted = text->trusted ? text->trusted + at : NULL};
        status = encode_plain(e, &part, at == 0, err);
        if (status == STATUS_OK && m.special)
            status = tokenizer_push(e, m.special->id, err);
        at = m.end;
    }
    return status;
}

static enum status push_all(struct encoder *e, const struct tokens *ids, struct err *err)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < ids->count; i++)
        status = tokenizer_push(e, ids->ids[i], err);
    return status;
}

enum status tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                             const uint8_t *trusted, unsigned flags, struct tokens *out,
                             struct err *err)
{
    struct encoder e = {.tokenizer = t, .out = out, .control = (flags & TOKENIZE_SPECIAL) != 0};
    struct specials_text source = {
        .bytes = text, .len = len, .trusted = trusted, .control = e.control};
    bool add = (flags & TOKENIZE_ADD) != 0;
    enum status status = STATUS_OK;
    if (len > INT32_MAX / 4) /* normalizing triples most texts at most */
        return err_set(err, STATUS_TOO_LARGE, "expected a text of at most %d bytes, found %zu",
                       INT32_MAX / 4, len);
    e.pretok = pretok_scratch_open();
    if (!e.pretok)
        return no_memory_to_tokenize(err);
    if (len >= LONG_TEXT)
        bpe_remember(&e.bpe);
    if (add)
        status = push_all(&e, &t->before, err);
    if (status == STATUS_OK)
        status = encode_text(&e, &source, err);
    if (status == STATUS_OK && add)
        status = push_all(&e, &t->after, err);
    normalize_scratch_fini(&e.normalize);
    unigram_scratch_fini(&e.unigram);
    bpe_scratch_fini(&e.bpe);
    pretok_scratch_close(e.pretok);
    return status;
}

/* --- the vocabulary ------------------------------------------------------------------------- */

static bool in_range(const struct tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab.count;
}

uint32_t tokenizer_vocab_size(const struct tokenizer *t)
{
    return t->vocab.count;
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, size_t *len)
{
    *len = 0;
    return in_range(t, id) ? vocab_piece(&t->vocab, id, len) : "";
}

size_t tokenizer_max_piece(const struct tokenizer *t)
{
    return t->vocab.pieces.longest;
}

bool tokenizer_is_control(const struct tokenizer *t, int32_t id)
{
    return in_range(t, id) &&
           (t->vocab.types[id] == VOCAB_CONTROL || t->vocab.types[id] == VOCAB_UNKNOWN);
}

bool tokenizer_is_end(const struct tokenizer *t, int32_t id)
{
    return in_range(t, id) && t->is_end[id];
}

int32_t tokenizer_bos(const struct tokenizer *t)
{
    return t->bos;
}

int32_t tokenizer_eos(const struct tokenizer *t)
{
    return t->eos;
}

int32_t tokenizer_find(const struct tokenizer *t, const char *piece, size_t len)
{
    if (len == 0)
        return -1;
    int32_t id = vocab_find(&t->vocab, piece, len, true);
    return id >= 0 ? id : vocab_find(&t->vocab, piece, len, false);
}

bool tokenizer_decode(const struct tokenizer *t, const int32_t *ids, size_t count, bool special,
                      struct buf *out)
{
    size_t spaces = t->strip_first;
    for (size_t i = 0; i < count; i++) {
        size_t len;
        const char *piece = tokenizer_piece(t, ids[i], &len);
        if (!special && tokenizer_is_control(t, ids[i]))
            continue;
        for (; len > 0 && spaces > 0 && *piece == ' '; spaces--)
            piece++, len--;
        if (len > 0)
            spaces = 0;
        buf_append(out, piece, len);
    }
    return !out->failed;
}

const char *tokenizer_chat_template(const struct tokenizer *t)
{
    return t->chat_template;
}
