#include "text/tokenizer.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/bpe.h"
#include "text/pretok.h"
#include "text/specials.h"
#include "text/utf8.h"
#include "text/vocab.h"

#include <string.h>

#define KEY_MODEL   "tokenizer.ggml.model"
#define KEY_PRE     "tokenizer.ggml.pre"
#define KEY_BOS     "tokenizer.ggml.bos_token_id"
#define KEY_EOS     "tokenizer.ggml.eos_token_id"
#define KEY_EOT     "tokenizer.ggml.eot_token_id"
#define KEY_EOM     "tokenizer.ggml.eom_token_id"
#define KEY_UNK     "tokenizer.ggml.unknown_token_id"
#define KEY_END_IDS "tokenizer.ggml.eos_token_ids"
#define KEY_ADD_BOS "tokenizer.ggml.add_bos_token"
#define KEY_ADD_EOS "tokenizer.ggml.add_eos_token"

struct tokenizer {
    struct vocab vocab;
    struct specials specials;
    struct pretok *pretok;
    struct bpe bpe;
    bool *is_end;          /* (vocab.count) */
    int32_t bos, eos, unk; /* -1: none */
    bool add_bos, add_eos;
};

/* One call of tokenizer_encode. */
struct encoder {
    const struct tokenizer *tokenizer;
    struct pretok_scratch *pretok;
    struct bpe_scratch bpe;
    struct buf repaired; /* a stretch of text with its invalid parts replaced */
    struct tokens *out;
};

/* Control tokens that end a generation by their name, whatever the file says of eos and eot: chat
 * models are published with a base model's eos. */
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

bool tokens_push(struct tokens *t, int32_t id)
{
    if (t->count == t->cap) {
        size_t cap = t->cap < 32 ? 64 : 2 * t->cap, size;
        int32_t *ids = mem_mul(cap, sizeof *ids, &size) ? mem_resize(t->ids, size) : NULL;
        if (ids == NULL)
            return false;
        t->ids = ids;
        t->cap = cap;
    }
    t->ids[t->count++] = id;
    return true;
}

void tokens_fini(struct tokens *t)
{
    mem_free(t->ids);
    *t = (struct tokens){0};
}

/* ---- opening ---- */

/* *id = the token that `key` names, -1 when the file has no such key. */
static enum status read_id(const struct tokenizer *t, const struct gguf *g, const char *key,
                           int32_t *id, struct err *err)
{
    uint32_t value;

    *id = -1;
    if (gguf_value(g, key) == NULL)
        return STATUS_OK;
    enum status status = gguf_get_u32(g, key, &value, err);
    if (status != STATUS_OK)
        return status;
    if (value >= t->vocab.count)
        return err_param(err, STATUS_INVALID, key, "%s: expected an id below %u, found %u", key,
                         t->vocab.count, value);
    *id = (int32_t)value;
    return STATUS_OK;
}

static enum status read_flag(const struct gguf *g, const char *key, bool *flag, struct err *err)
{
    return gguf_value(g, key) == NULL ? STATUS_OK : gguf_get_bool(g, key, flag, err);
}

static enum status read_end_ids(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    const struct gguf_value *ids = gguf_value(g, KEY_END_IDS);

    if (ids == NULL)
        return STATUS_OK;
    if (ids->type != GGUF_ARRAY || (ids->element != GGUF_I32 && ids->element != GGUF_U32))
        return err_param(err, STATUS_INVALID, KEY_END_IDS,
                         KEY_END_IDS ": expected an array of u32 or i32, found %s",
                         gguf_type_name(ids->type == GGUF_ARRAY ? ids->element : ids->type));
    for (uint64_t i = 0; i < ids->count; i++) {
        int64_t id = gguf_integer(ids, i);
        if (id < 0 || id >= t->vocab.count)
            return err_param(err, STATUS_INVALID, KEY_END_IDS,
                             KEY_END_IDS ": expected ids below %u, found %lld", t->vocab.count,
                             (long long)id);
        t->is_end[id] = true;
    }
    return STATUS_OK;
}

static enum status read_ends(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    static const char *const keys[] = {KEY_EOS, KEY_EOT, KEY_EOM};

    t->is_end = mem_array(t->vocab.count, sizeof *t->is_end);
    if (t->is_end == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u tokens", t->vocab.count);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int32_t id;
        enum status status = read_id(t, g, keys[i], &id, err);
        if (status != STATUS_OK)
            return status;
        if (id >= 0)
            t->is_end[id] = true;
    }
    for (size_t i = 0; i < sizeof end_names / sizeof end_names[0]; i++) {
        int32_t id = vocab_find(&t->vocab, end_names[i], strlen(end_names[i]), true);
        if (id >= 0 && t->vocab.types[id] == VOCAB_CONTROL)
            t->is_end[id] = true;
    }
    return read_end_ids(t, g, err);
}

static enum status read_added(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    enum status status = read_id(t, g, KEY_BOS, &t->bos, err);

    if (status == STATUS_OK)
        status = read_id(t, g, KEY_EOS, &t->eos, err);
    if (status == STATUS_OK)
        status = read_id(t, g, KEY_UNK, &t->unk, err);
    t->add_bos = pretok_add_bos(t->pretok) && t->bos >= 0;
    if (status == STATUS_OK)
        status = read_flag(g, KEY_ADD_BOS, &t->add_bos, err);
    if (status == STATUS_OK)
        status = read_flag(g, KEY_ADD_EOS, &t->add_eos, err);
    if (status != STATUS_OK)
        return status;
    if (t->add_bos && t->bos < 0)
        return err_param(err, STATUS_INVALID, KEY_BOS,
                         KEY_ADD_BOS " is true: expected " KEY_BOS ", absent");
    if (t->add_eos && t->eos < 0)
        return err_param(err, STATUS_INVALID, KEY_EOS,
                         KEY_ADD_EOS " is true: expected " KEY_EOS ", absent");
    return STATUS_OK;
}

static enum status open_pretok(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    struct gguf_string name = {.bytes = "default", .len = 7};

    if (gguf_value(g, KEY_PRE) == NULL) {
        log_warn("tokenizer.no_pretokenizer", "key=" KEY_PRE " using=default");
    } else {
        enum status status = gguf_get_string(g, KEY_PRE, &name, err);
        if (status != STATUS_OK)
            return status;
    }
    return pretok_open(&t->pretok, name.bytes, name.len, err);
}

/* tokenizer.ggml.model "gpt2". */
static enum status open_byte_level(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    enum status status = vocab_open(&t->vocab, g, err);

    if (status == STATUS_OK)
        status = open_pretok(t, g, err);
    if (status == STATUS_OK)
        status = bpe_open(&t->bpe, g, &t->vocab, err);
    if (status == STATUS_OK)
        status = specials_open(&t->specials, &t->vocab, err);
    if (status == STATUS_OK)
        status = read_added(t, g, err);
    if (status == STATUS_OK)
        status = read_ends(t, g, err);
    if (status == STATUS_OK && t->bpe.n_ignored > 0)
        log_warn("tokenizer.merges_ignored", "count=%u reason=not_in_vocabulary", t->bpe.n_ignored);
    return status;
}

/* The values of tokenizer.ggml.model. SentencePiece ("llama") will be a row here, with vocab and
 * specials shared and a word encoder beside bpe. */
static const struct {
    const char *model;
    enum status (*open)(struct tokenizer *t, const struct gguf *g, struct err *err);
} kinds[] = {
    {"gpt2", open_byte_level},
};

enum status tokenizer_open(struct tokenizer **out, const struct gguf *g, struct err *err)
{
    struct gguf_string model;
    enum status status = gguf_get_string(g, KEY_MODEL, &model, err);
    size_t kind = 0;

    if (status != STATUS_OK)
        return status;
    while (kind < sizeof kinds / sizeof kinds[0] &&
           (strlen(kinds[kind].model) != model.len ||
            memcmp(kinds[kind].model, model.bytes, model.len) != 0))
        kind++;
    if (kind == sizeof kinds / sizeof kinds[0])
        return err_param(err, STATUS_UNSUPPORTED, KEY_MODEL,
                         KEY_MODEL ": expected 'gpt2' (byte-level BPE), found '%.*s'",
                         model.len > 100 ? 100 : (int)model.len, model.bytes);
    struct tokenizer *t = mem_zalloc(sizeof *t);
    if (t == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a tokenizer");
    status = kinds[kind].open(t, g, err);
    if (status != STATUS_OK) {
        tokenizer_close(t);
        return status;
    }
    *out = t;
    return STATUS_OK;
}

void tokenizer_close(struct tokenizer *t)
{
    if (t == NULL)
        return;
    mem_free(t->is_end);
    specials_close(&t->specials);
    bpe_close(&t->bpe);
    pretok_close(t->pretok);
    vocab_close(&t->vocab);
    mem_free(t);
}

/* ---- encoding ---- */

static enum status no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory to tokenize a text");
}

static enum status encode_word(void *ctx, const char *word, size_t len, struct err *err)
{
    struct encoder *e = ctx;
    const struct tokenizer *t = e->tokenizer;
    bool done;
    int32_t whole = pretok_whole_words(t->pretok) ? vocab_find(&t->vocab, word, len, false) : -1;

    if (whole >= 0)
        done = tokens_push(e->out, whole);
    else
        done = bpe_encode(&t->bpe, word, len, &e->bpe, e->out);
    return done ? STATUS_OK : no_memory(err);
}

/* Copies text to e->repaired with U+FFFD for each maximal invalid part. */
static bool repair(struct encoder *e, const char *text, size_t len)
{
    buf_clear(&e->repaired);
    for (size_t at = 0; at < len;) {
        size_t n = utf8_valid_prefix(text + at, len - at);
        buf_append(&e->repaired, text + at, n);
        at += n;
        if (at == len)
            break;
        (void)utf8_step(text + at, len - at, &n);
        buf_append(&e->repaired, UTF8_REPLACEMENT, UTF8_REPLACEMENT_LEN);
        at += n;
    }
    return !e->repaired.failed;
}

/* Text between special tokens. */
static enum status encode_plain(struct encoder *e, const char *text, size_t len, struct err *err)
{
    if (len == 0)
        return STATUS_OK;
    if (utf8_valid_prefix(text, len) < len) {
        if (!repair(e, text, len))
            return no_memory(err);
        text = e->repaired.data;
        len = e->repaired.len;
    }
    return pretok_split(e->tokenizer->pretok, e->pretok, text, len, encode_word, e, err);
}

static enum status encode_text(struct encoder *e, const struct specials_text *text, struct err *err)
{
    size_t at = 0;

    while (at < text->len) {
        int32_t id;
        size_t end = specials_next(&e->tokenizer->specials, text, at, &id), len = 0;
        enum status status = encode_plain(e, text->bytes + at, end - at, err);
        if (status != STATUS_OK)
            return status;
        if (id >= 0) {
            (void)vocab_piece(&e->tokenizer->vocab, id, &len);
            if (!tokens_push(e->out, id))
                return no_memory(err);
        }
        at = end + len;
    }
    return STATUS_OK;
}

enum status tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                             const uint8_t *trusted, unsigned flags, struct tokens *out,
                             struct err *err)
{
    struct encoder e = {.tokenizer = t, .out = out};
    struct specials_text source = {
        .bytes = text, .len = len, .trusted = trusted, .control = (flags & TOKENIZE_SPECIAL) != 0};
    bool add = (flags & TOKENIZE_ADD) != 0;
    enum status status = STATUS_OK;

    if (len > INT32_MAX / 3) /* symbols are numbered in 32 bits, a repair triples a text at most */
        return err_set(err, STATUS_TOO_LARGE, "expected a text of at most %d bytes, found %zu",
                       INT32_MAX / 3, len);
    e.pretok = pretok_scratch_open();
    if (e.pretok == NULL)
        return no_memory(err);
    if (add && t->add_bos && !tokens_push(out, t->bos))
        status = no_memory(err);
    if (status == STATUS_OK)
        status = encode_text(&e, &source, err);
    if (status == STATUS_OK && add && t->add_eos && !tokens_push(out, t->eos))
        status = no_memory(err);
    buf_fini(&e.repaired);
    bpe_scratch_fini(&e.bpe);
    pretok_scratch_close(e.pretok);
    return status;
}

/* ---- the vocabulary ---- */

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
    return t->vocab.max_piece;
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
    for (size_t i = 0; i < count; i++) {
        size_t len;
        const char *piece = tokenizer_piece(t, ids[i], &len);
        if (special || !tokenizer_is_control(t, ids[i]))
            buf_append(out, piece, len);
    }
    return !out->failed;
}
