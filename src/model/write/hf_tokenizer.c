#include "model/write/hf_tokenizer.h"

#include "base/limits.h"
#include "base/mem.h"
#include "model/write/hf_sentencepiece.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer/vocab.h"
#include "weights/json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Two files and what they say of each row of the embedding. */
struct source {
    json_t *tokenizer;
    json_t *config; /* may be NULL */
    const json_t *model;
    const json_t *added;
    const char **pieces; /* (n_vocab) NULL: no token */
    uint8_t *types;      /* (n_vocab) */
    uint32_t n_vocab;
    bool sentencepiece;
};

static enum status hf_tokenizer_bad(struct err *err, const char *member, const char *expected)
{
    return err_param(err, STATUS_INVALID, member, "%s: expected %s", member, expected);
}

static enum status unsupported(struct err *err, const char *member, const char *expected)
{
    return err_param(err, STATUS_UNSUPPORTED, member,
                     "%s: expected %s; this tokenizer cannot be written to a GGUF file", member,
                     expected);
}

/* --- tokens --------------------------------------------------------------------------------- */

static enum status set_piece(struct source *s, const char *text, const json_t *id, uint8_t type,
                             struct err *err)
{
    json_int_t n = json_integer_value(id);
    if (!json_is_integer(id) || n < 0 || n >= s->n_vocab)
        return err_param(err, STATUS_INVALID, "vocab",
                         "token \"%.40s\": expected an id below the embedding's %u rows, found "
                         "%lld",
                         text, s->n_vocab, (long long)n);
    s->pieces[n] = text;
    s->types[n] = type;
    return STATUS_OK;
}

/* Tokens that only tokenizer_config.json adds: {"7": {"content": "<x>", ...}, ...}. What
 * tokenizer.json says of an id wins. */
static enum status hf_tokenizer_read_decoder(struct source *s, struct err *err)
{
    const char *key;
    json_t *row, *more = json_object_get(s->config, "added_tokens_decoder");
    json_object_foreach(more, key, row)
    {
        char *end;
        long id = strtol(key, &end, 10);
        const char *content = json_string_value(json_object_get(row, "content"));
        if (!content || *end || id < 0 || id >= (long)s->n_vocab)
            return err_param(err, STATUS_INVALID, "added_tokens_decoder",
                             "tokenizer_config.json: added_tokens_decoder: expected ids below %u "
                             "and objects with content, found \"%.40s\"",
                             s->n_vocab, key);
        if (s->pieces[id])
            continue;
        s->pieces[id] = content;
        s->types[id] =
            json_is_true(json_object_get(row, "special")) ? VOCAB_CONTROL : VOCAB_USER_DEFINED;
    }
    return STATUS_OK;
}

static enum status read_pieces(struct source *s, struct err *err)
{
    const char *text;
    json_t *id;
    json_t *vocab = json_object_get(s->model, "vocab");
    if (!json_is_object(vocab))
        return hf_tokenizer_bad(err, "model.vocab", "an object of tokens and ids");
    json_object_foreach(vocab, text, id)
    {
        enum status st = set_piece(s, text, id, VOCAB_NORMAL, err);
        if (st)
            return st;
    }
    enum status st = hf_tokenizer_read_decoder(s, err);
    for (size_t i = 0; !st && i < json_array_size(s->added); i++) {
        const json_t *row = json_array_get(s->added, i);
        const char *content = json_string_value(json_object_get(row, "content"));
        bool special = json_is_true(json_object_get(row, "special"));
        if (!content)
            return hf_tokenizer_bad(err, "added_tokens", "objects with content and id");
        st = set_piece(s, content, json_object_get(row, "id"),
                       special ? VOCAB_CONTROL : VOCAB_USER_DEFINED, err);
    }
    return st;
}

static void write_piece(const struct source *s, struct gguf_build *b, uint32_t i)
{
    struct buf text = {0};
    const char *piece = s->pieces[i];
    if (!piece)
        buf_printf(&text, "[PAD%u]", i);
    else if (s->sentencepiece && s->types[i] == VOCAB_USER_DEFINED)
        hf_sentencepiece_plain(&text, piece);
    else
        buf_puts(&text, piece);
    gguf_build_element_string(b, buf_str(&text), text.len);
    b->pairs.failed |= text.failed;
    buf_fini(&text);
}

/* Rows without a token get one that no text has, as llama.cpp's converter does. */
static void write_pieces(const struct source *s, struct gguf_build *b)
{
    gguf_build_array(b, "tokenizer.ggml.tokens", GGUF_STRING, s->n_vocab);
    for (uint32_t i = 0; i < s->n_vocab; i++)
        write_piece(s, b, i);
    gguf_build_array(b, "tokenizer.ggml.token_type", GGUF_I32, s->n_vocab);
    for (uint32_t i = 0; i < s->n_vocab; i++)
        gguf_build_element_u32(b, s->pieces[i] ? s->types[i] : VOCAB_UNUSED);
}

/* "a b", or since tokenizers 0.20 ["a", "b"]. */
static enum status write_merges(const struct source *s, struct gguf_build *b, struct err *err)
{
    const json_t *merges = json_object_get(s->model, "merges");
    struct buf pair = {0};
    size_t n = json_array_size(merges);
    if (!json_is_array(merges) || n > LIMIT_MODEL_MERGES)
        return hf_tokenizer_bad(err, "model.merges", "an array of pairs");
    gguf_build_array(b, "tokenizer.ggml.merges", GGUF_STRING, n);
    bool good = true;
    for (size_t i = 0; i < n && good; i++) {
        const json_t *merge = json_array_get(merges, i);
        const char *left = json_string_value(json_array_get(merge, 0));
        const char *right = json_string_value(json_array_get(merge, 1));
        buf_clear(&pair);
        if (left && right)
            buf_printf(&pair, "%s %s", left, right);
        else if ((good = json_is_string(merge)))
            buf_puts(&pair, json_string_value(merge));
        gguf_build_element_string(b, buf_str(&pair), pair.len);
    }
    buf_fini(&pair);
    return good ? STATUS_OK : hf_tokenizer_bad(err, "model.merges", "pairs of strings");
}

/* --- pre-tokenizer -------------------------------------------------------------------------- */

#define CASELESS "S(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define THE_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+\nB\n"

/* How describe() begins for the tokenizers that llama.cpp has a name for. */
static const struct {
    const char *name, *description;
} known[] = {
    {"smollm", "D1\nB+\n"},
    {"gpt-2", "B+\n"},
    {"llama-bpe", CASELESS "\\p{N}{1,3}" THE_REST},
    {"qwen2", CASELESS "\\p{N}" THE_REST},
    {"deepseek-coder", "S[\r\n]\nS\\s?\\p{L}+\nS\\s?\\p{P}+\n"},
    {"deepseek-llm", "S[\r\n]\nS\\s?[A-Za-z"},
    {"deepseek-v3", "S\\p{N}{1,3}\nS[\xe4\xb8\x80-\xe9\xbe\xa5"},
};

/* One line a step: "D1" digits one by one, "B+" bytes after GPT-2's expression, "B" bytes, "S..." a
 * split at an expression, else the type's name. */
static void hf_tokenizer_describe(const json_t *p, struct buf *out)
{
    const char *type = json_string_value(json_object_get(p, "type"));
    const json_t *list = json_object_get(p, "pretokenizers");
    for (size_t i = 0; i < json_array_size(list); i++)
        hf_tokenizer_describe(json_array_get(list, i), out);
    if (!type || list)
        return;
    if (strcmp(type, "Digits") == 0)
        buf_puts(out, json_is_true(json_object_get(p, "individual_digits")) ? "D1" : "D");
    else if (strcmp(type, "ByteLevel") == 0)
        buf_puts(out, json_is_false(json_object_get(p, "use_regex")) ? "B" : "B+");
    else if (strcmp(type, "Split") == 0)
        buf_printf(out, "S%s",
                   json_string_value(json_object_get(json_object_get(p, "pattern"), "Regex"))
                       ?: "");
    else
        buf_puts(out, type);
    buf_putc(out, '\n');
}

static enum status write_pretok(const struct source *s, struct gguf_build *b, struct err *err)
{
    struct buf found = {0};
    const char *name = NULL;
    hf_tokenizer_describe(json_object_get(s->tokenizer, "pre_tokenizer"), &found);
    for (size_t i = 0; i < sizeof known / sizeof known[0] && !name; i++)
        if (strncmp(buf_str(&found), known[i].description, strlen(known[i].description)) == 0)
            name = known[i].name;
    buf_fini(&found);
    if (!name)
        return unsupported(err, "pre_tokenizer",
                           "that of GPT-2, SmolLM, Llama 3, Qwen2, deepseek-llm, -coder or -v3");
    gguf_build_string(b, "tokenizer.ggml.pre", name);
    return STATUS_OK;
}

/* --- special tokens ------------------------------------------------------------------------- */

/* The special token that the post-processor puts before a single text; NULL: none. */
static const char *template_begins(const json_t *p)
{
    const json_t *list = json_object_get(p, "processors");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *text = template_begins(json_array_get(list, i));
        if (text)
            return text;
    }
    const json_t *first = json_array_get(json_object_get(p, "single"), 0);
    return json_string_value(json_object_get(json_object_get(first, "SpecialToken"), "id"));
}

/* "bos_token": "<s>" or {"content": "<s>"}: its id, or -1. */
static int64_t find_special(const struct source *s, const char *member)
{
    const json_t *value = json_object_get(s->config, member);
    const json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;
    const char *text = json_string_value(content);
    if (!value && strcmp(member, "bos_token") == 0)
        text = template_begins(json_object_get(s->tokenizer, "post_processor"));
    for (uint32_t i = 0; text && i < s->n_vocab; i++)
        if (s->pieces[i] && strcmp(s->pieces[i], text) == 0)
            return i;
    return -1;
}

static void write_specials(const struct source *s, struct gguf_build *b)
{
    static const struct {
        const char *member, *key;
    } specials[] = {
        {"bos_token", "tokenizer.ggml.bos_token_id"},
        {"eos_token", "tokenizer.ggml.eos_token_id"},
        {"unk_token", "tokenizer.ggml.unknown_token_id"},
        {"pad_token", "tokenizer.ggml.padding_token_id"},
    };
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        int64_t id = find_special(s, specials[i].member);
        if (id >= 0)
            gguf_build_u32(b, specials[i].key, (uint32_t)id);
    }
    const json_t *said = json_object_get(s->config, "add_bos_token");
    bool adds = said ? json_is_true(said)
                     : template_begins(json_object_get(s->tokenizer, "post_processor")) != NULL;
    gguf_build_bool(b, "tokenizer.ggml.add_bos_token", adds && find_special(s, "bos_token") >= 0);
    if (json_is_true(json_object_get(s->config, "add_eos_token")))
        gguf_build_bool(b, "tokenizer.ggml.add_eos_token", find_special(s, "eos_token") >= 0);
}

/* --- the whole ------------------------------------------------------------------------------ */

static enum status write_byte_level(struct source *s, struct gguf_build *b, struct err *err)
{
    gguf_build_string(b, "tokenizer.ggml.model", "gpt2");
    enum status st = write_pretok(s, b, err);
    if (st)
        return st;
    write_pieces(s, b);
    st = write_merges(s, b, err);
    write_specials(s, b);
    return st;
}

/* Byte tokens and the unknown one have types of their own. */
static void set_sentencepiece_types(struct source *s)
{
    const char *unknown = json_string_value(json_object_get(s->model, "unk_token"));
    for (uint32_t i = 0; i < s->n_vocab; i++) {
        const char *piece = s->pieces[i];
        if (piece && unknown && strcmp(piece, unknown) == 0)
            s->types[i] = VOCAB_UNKNOWN;
        else if (piece && hf_sentencepiece_is_byte(piece))
            s->types[i] = VOCAB_BYTE;
    }
}

static enum status write_sentencepiece(struct source *s, struct gguf_build *b, struct err *err)
{
    enum hf_sentencepiece_prefix prefix;
    if (!hf_sentencepiece_find(s->tokenizer, &prefix))
        return unsupported(err, "normalizer",
                           "one that makes spaces \"\xe2\x96\x81\", as Llama 2's or Gemma's");
    s->sentencepiece = true;
    set_sentencepiece_types(s);
    gguf_build_string(b, "tokenizer.ggml.model", "llama");
    gguf_build_string(b, "tokenizer.ggml.pre", "default");
    write_pieces(s, b);
    enum status st = hf_sentencepiece_scores(s->model, s->n_vocab, b, err);
    gguf_build_bool(b, "tokenizer.ggml.add_space_prefix", prefix != HF_SENTENCEPIECE_NEVER);
    if (prefix == HF_SENTENCEPIECE_META_FIRST || prefix == HF_SENTENCEPIECE_META_ALWAYS)
        gguf_build_string(b, TOKENIZER_METASPACE,
                          prefix == HF_SENTENCEPIECE_META_FIRST ? "first" : "always");
    write_specials(s, b);
    return st;
}

static enum status hf_tokenizer_write_tokenizer(struct source *s, struct gguf_build *b,
                                                struct err *err)
{
    const char *type = json_string_value(json_object_get(s->model, "type"));
    if (!type || strcmp(type, "BPE") != 0)
        return unsupported(err, "model.type", "BPE");
    s->pieces = mem_array(s->n_vocab, sizeof *s->pieces);
    s->types = mem_array(s->n_vocab, sizeof *s->types);
    if (!s->pieces || !s->types)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u tokens", s->n_vocab);
    enum status st = read_pieces(s, err);
    if (st)
        return st;
    return json_is_true(json_object_get(s->model, "byte_fallback")) ? write_sentencepiece(s, b, err)
                                                                    : write_byte_level(s, b, err);
}

static enum status hf_tokenizer_load(const char *folder, const char *name, size_t limit,
                                     bool required, json_t **out, struct err *err)
{
    struct buf path = {0};
    struct stat info;
    enum status st = STATUS_OK;
    buf_printf(&path, "%s/%s", folder, name);
    if (path.failed)
        st = err_set(err, STATUS_NO_MEMORY, "no memory to open %s", name);
    else if (required || stat(buf_str(&path), &info) == 0)
        st = json_file_load(out, buf_str(&path), limit, err);
    buf_fini(&path);
    return st;
}

enum status hf_tokenizer_write(const char *folder, uint32_t n_vocab, struct gguf_build *b,
                               struct err *err)
{
    struct source s = {.n_vocab = n_vocab};
    enum status st =
        hf_tokenizer_load(folder, "tokenizer.json", LIMIT_TOKENIZER_BYTES, true, &s.tokenizer, err);
    if (!st)
        st = hf_tokenizer_load(folder, "tokenizer_config.json", LIMIT_CONFIG_BYTES, false,
                               &s.config, err);
    if (!st) {
        s.model = json_object_get(s.tokenizer, "model");
        s.added = json_object_get(s.tokenizer, "added_tokens");
        st = hf_tokenizer_write_tokenizer(&s, b, err);
        if (st)
            err_context(err, "%s/tokenizer.json", folder);
    }
    mem_free(s.types);
    mem_free(s.pieces);
    json_decref(s.config);
    json_decref(s.tokenizer);
    return st;
}
