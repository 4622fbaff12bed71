/* Tokenizers from a GGUF file's metadata. */
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "text/tokenizer/no_memory.h"
#include "text/tokenizer/tokenizer_internal.h"

#include <math.h>
#include <string.h>

#define KEY_MODEL    "tokenizer.ggml.model"
#define KEY_PRE      "tokenizer.ggml.pre"
#define KEY_TOKENS   "tokenizer.ggml.tokens"
#define KEY_TYPES    "tokenizer.ggml.token_type"
#define KEY_SCORES   "tokenizer.ggml.scores"
#define KEY_MERGES   "tokenizer.ggml.merges"
#define KEY_BOS      "tokenizer.ggml.bos_token_id"
#define KEY_EOS      "tokenizer.ggml.eos_token_id"
#define KEY_EOT      "tokenizer.ggml.eot_token_id"
#define KEY_EOM      "tokenizer.ggml.eom_token_id"
#define KEY_UNK      "tokenizer.ggml.unknown_token_id"
#define KEY_END_IDS  "tokenizer.ggml.eos_token_ids"
#define KEY_ADD_BOS  "tokenizer.ggml.add_bos_token"
#define KEY_ADD_EOS  "tokenizer.ggml.add_eos_token"
#define KEY_SPACE    "tokenizer.ggml.add_space_prefix"
#define KEY_CLEAN    "tokenizer.ggml.remove_extra_whitespaces"
#define KEY_CHARSMAP "tokenizer.ggml.precompiled_charsmap"
#define META         "\xe2\x96\x81" /* U+2581, which stands for a space in pieces */

/* What a kind of tokenizer does where the file does not say. */
struct defaults {
    bool byte_level;
    bool add_bos, add_eos, add_space;
    int32_t bos, eos, unk; /* -1: none */
};

/* --- single values -------------------------------------------------------------------------- */

/* *id = the token that `key` names; as it is when the file has no such key. */
static enum status read_id(const struct tokenizer *t, const struct gguf *g, const char *key,
                           int32_t *id, struct err *err)
{
    uint32_t value;
    if (!gguf_value(g, key))
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
    return !gguf_value(g, key) ? STATUS_OK : gguf_get_bool(g, key, flag, err);
}

/* --- arrays --------------------------------------------------------------------------------- */

static enum status string_array(const struct gguf *g, const char *key, uint64_t limit,
                                const struct gguf_value **out, struct err *err)
{
    const struct gguf_value *v = gguf_value(g, key);
    if (!v)
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

/* An array of numbers with one element a token. *out = NULL when the file has none. */
static enum status number_array(const struct gguf *g, const char *key, bool floats, uint32_t count,
                                const struct gguf_value **out, struct err *err)
{
    const struct gguf_value *v = gguf_value(g, key);
    *out = v;
    if (!v)
        return STATUS_OK;
    bool right = floats ? v->element == GGUF_F32 : v->element == GGUF_I32 || v->element == GGUF_U32;
    if (v->type != GGUF_ARRAY || !right)
        return err_param(err, STATUS_INVALID, key, "%s: expected an array of %s, found %s%s", key,
                         floats ? "f32" : "i32", v->type == GGUF_ARRAY ? "an array of " : "",
                         gguf_type_name(v->type == GGUF_ARRAY ? v->element : v->type));
    if (v->count != count)
        return err_param(err, STATUS_INVALID, key,
                         "%s: expected %u elements as in " KEY_TOKENS ", found %llu", key, count,
                         (unsigned long long)v->count);
    return STATUS_OK;
}

/* Files without types have only normal tokens. */
static enum status tokenizer_gguf_read_types(const struct gguf *g, struct vocab_entry *entries,
                                             uint32_t count, struct err *err)
{
    const struct gguf_value *types;
    enum status status = number_array(g, KEY_TYPES, false, count, &types, err);
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
        int64_t type = types ? gguf_integer(types, i) : VOCAB_NORMAL;
        if (type < VOCAB_NORMAL || type > VOCAB_BYTE)
            return err_param(err, STATUS_INVALID, KEY_TYPES,
                             KEY_TYPES ": token %u has type %lld, expected 1 to 6", i,
                             (long long)type);
        entries[i].type = (uint8_t)type;
    }
    return status;
}

/* Whether a token is none of the model's own. */
static bool is_literal(enum vocab_type type, bool byte_level)
{
    if (byte_level)
        return type != VOCAB_NORMAL && type != VOCAB_UNUSED;
    return type != VOCAB_NORMAL && type != VOCAB_USER_DEFINED;
}

static enum status tokenizer_gguf_read_vocab(struct tokenizer *t, const struct gguf *g,
                                             bool byte_level, struct err *err)
{
    struct vocab_rules rules = {.what = KEY_TOKENS, .byte_level = byte_level, .bytes = true};
    const struct gguf_value *tokens;
    struct gguf_cursor cursor = {0};
    enum status status = string_array(g, KEY_TOKENS, LIMIT_MODEL_VOCAB, &tokens, err);
    if (status != STATUS_OK)
        return status;
    uint32_t count = (uint32_t)tokens->count;
    struct vocab_entry *entries = mem_array(count, sizeof *entries);
    if (!entries)
        return no_memory_for_tokenizer(err);
    for (uint32_t i = 0; i < count; i++) {
        struct gguf_string text = gguf_array_string(tokens, i, &cursor);
        entries[i].text = text.bytes;
        entries[i].len = text.len > UINT32_MAX ? UINT32_MAX : (uint32_t)text.len;
    }
    status = tokenizer_gguf_read_types(g, entries, count, err);
    for (uint32_t i = 0; i < count; i++)
        entries[i].literal = is_literal(entries[i].type, byte_level);
    if (!byte_level) {
        rules.replaces[0].from = META;
        rules.replaces[0].to = " ";
        rules.n_replaces = 1;
    }
    if (status == STATUS_OK)
        status = vocab_open(&t->vocab, entries, count, &rules, err);
    mem_free(entries);
    return status;
}

/* --- added tokens --------------------------------------------------------------------------- */

static bool is_special(enum vocab_type type)
{
    return type == VOCAB_CONTROL || type == VOCAB_USER_DEFINED || type == VOCAB_UNKNOWN;
}

/* Phi-3's chat tokens take in the white space after them, which its GGUF files cannot say. */
static bool takes_space(const struct gguf *g, const char *text, size_t len)
{
    static const char *const others[] = {"<unk>", "<s>", "<|endoftext|>"};
    struct gguf_string arch;
    if (!gguf_value(g, "general.architecture") ||
        gguf_get_string(g, "general.architecture", &arch, NULL) != STATUS_OK || arch.len != 4 ||
        memcmp(arch.bytes, "phi3", 4) != 0)
        return false;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strlen(others[i]) == len && memcmp(others[i], text, len) == 0)
            return false;
    return true;
}

static enum status tokenizer_gguf_open_specials(struct tokenizer *t, const struct gguf *g,
                                                bool byte_level, struct err *err)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->vocab.count; i++)
        count += is_special(t->vocab.types[i]);
    struct special *list = mem_array((size_t)count + 1, sizeof *list);
    if (!list)
        return no_memory_for_tokenizer(err);
    count = 0;
    for (uint32_t i = 0; i < t->vocab.count; i++) {
        size_t len;
        const char *text = vocab_key(&t->vocab, (int32_t)i, &len);
        bool control = t->vocab.types[i] != VOCAB_USER_DEFINED;
        if (!is_special(t->vocab.types[i]) || len == 0)
            continue;
        list[count++] =
            (struct special){.id = (int32_t)i,
                             .text = text,
                             .len = len,
                             .control = control,
                             .right = control && !byte_level && takes_space(g, text, len)};
    }
    enum status status = specials_open(&t->raw, list, count, err);
    mem_free(list);
    return status;
}

/* --- what is added, and what ends ----------------------------------------------------------- */

static enum status push_added(struct tokens *to, bool add, int32_t id, const char *flag,
                              const char *key, struct err *err)
{
    if (!add)
        return STATUS_OK;
    if (id < 0)
        return err_param(err, STATUS_INVALID, key, "%s is true: expected %s, absent", flag, key);
    return tokens_push(to, id) ? STATUS_OK : no_memory_for_tokenizer(err);
}

static enum status tokenizer_gguf_read_added(struct tokenizer *t, const struct gguf *g,
                                             const struct defaults *d, struct err *err)
{
    bool add_bos, add_eos;
    t->bos = d->bos < (int32_t)t->vocab.count ? d->bos : -1;
    t->eos = d->eos < (int32_t)t->vocab.count ? d->eos : -1;
    t->unk = d->unk;
    enum status status = read_id(t, g, KEY_BOS, &t->bos, err);
    if (status == STATUS_OK)
        status = read_id(t, g, KEY_EOS, &t->eos, err);
    if (status == STATUS_OK)
        status = read_id(t, g, KEY_UNK, &t->unk, err);
    add_bos = d->add_bos && t->bos >= 0;
    add_eos = d->add_eos && t->eos >= 0;
    if (status == STATUS_OK)
        status = read_flag(g, KEY_ADD_BOS, &add_bos, err);
    if (status == STATUS_OK)
        status = read_flag(g, KEY_ADD_EOS, &add_eos, err);
    if (status == STATUS_OK)
        status = push_added(&t->before, add_bos, t->bos, KEY_ADD_BOS, KEY_BOS, err);
    if (status == STATUS_OK)
        status = push_added(&t->after, add_eos, t->eos, KEY_ADD_EOS, KEY_EOS, err);
    return status;
}

static enum status read_end_ids(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    const struct gguf_value *ids = gguf_value(g, KEY_END_IDS);
    if (!ids)
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

static enum status tokenizer_gguf_read_ends(struct tokenizer *t, const struct gguf *g,
                                            struct err *err)
{
    static const char *const keys[] = {KEY_EOT, KEY_EOM};
    t->is_end = mem_array(t->vocab.count, sizeof *t->is_end);
    if (!t->is_end)
        return no_memory_for_tokenizer(err);
    if (t->eos >= 0)
        t->is_end[t->eos] = true;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int32_t id = -1;
        enum status status = read_id(t, g, keys[i], &id, err);
        if (status != STATUS_OK)
            return status;
        if (id >= 0)
            t->is_end[id] = true;
    }
    tokenizer_mark_ends(t);
    return read_end_ids(t, g, err);
}

/* What comes before the model, for every kind. */
static enum status tokenizer_gguf_open_common(struct tokenizer *t, const struct gguf *g,
                                              const struct defaults *d, struct err *err)
{
    enum status status = tokenizer_gguf_read_vocab(t, g, d->byte_level, err);
    if (status == STATUS_OK)
        status = tokenizer_gguf_open_specials(t, g, d->byte_level, err);
    if (status == STATUS_OK)
        status = tokenizer_gguf_read_added(t, g, d, err);
    if (status == STATUS_OK)
        status = tokenizer_gguf_read_ends(t, g, err);
    return status;
}

/* --- byte-level BPE ------------------------------------------------------------------------- */

static enum status open_pretok(struct tokenizer *t, const struct gguf *g,
                               struct pretok_traits *traits, struct err *err)
{
    struct gguf_string name = {.bytes = "default", .len = 7};
    if (!gguf_value(g, KEY_PRE)) {
        log_warn("tokenizer.no_pretokenizer", "key=" KEY_PRE " using=default");
    } else {
        enum status status = gguf_get_string(g, KEY_PRE, &name, err);
        if (status != STATUS_OK)
            return status;
    }
    return pretok_open(&t->pretok, traits, name.bytes, name.len, err);
}

struct merges {
    const struct gguf_value *value;
    struct gguf_cursor cursor;
};

/* "left right" */
static bool tokenizer_gguf_next_merge(void *ctx, uint32_t rank, struct bpe_text *left,
                                      struct bpe_text *right)
{
    struct merges *merges = ctx;
    struct gguf_string line = gguf_array_string(merges->value, rank, &merges->cursor);
    const char *space = line.len < 3 ? NULL : memchr(line.bytes + 1, ' ', line.len - 1);
    if (!space)
        return false;
    *left = (struct bpe_text){line.bytes, (size_t)(space - line.bytes)};
    *right = (struct bpe_text){space + 1, line.len - left->len - 1};
    return true;
}

static enum status open_byte_level(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    struct defaults d = {.byte_level = true, .bos = -1, .eos = -1, .unk = -1};
    struct bpe_rules rules = {.unk = -1};
    struct pretok_traits traits;
    struct merges merges = {0};
    struct bpe_list list = {.next = tokenizer_gguf_next_merge, .ctx = &merges};
    enum status status = open_pretok(t, g, &traits, err);
    if (status != STATUS_OK)
        return status;
    d.add_bos = traits.add_bos;
    rules.whole_words = traits.whole_words;
    status = tokenizer_gguf_open_common(t, g, &d, err);
    if (status == STATUS_OK && traits.nfc)
        status = normalize_add(&t->normalize, (struct normalize_step){.kind = NORMALIZE_NFC}, err);
    if (status == STATUS_OK)
        status = string_array(g, KEY_MERGES, LIMIT_MODEL_MERGES, &merges.value, err);
    if (status != STATUS_OK)
        return status;
    list.count = (uint32_t)merges.value->count;
    status = bpe_open(&t->bpe, &t->vocab, &rules, &list, err);
    if (status == STATUS_OK && t->bpe.n_ignored > 0)
        log_warn("tokenizer.merges_ignored", "count=%u reason=not_in_vocabulary", t->bpe.n_ignored);
    return status;
}

/* --- SentencePiece -------------------------------------------------------------------------- */

static enum status tokenizer_gguf_add_step(struct tokenizer *t, enum normalize_kind kind,
                                           const char *from, const char *to, struct err *err)
{
    struct normalize_step step = {.kind = kind, .from = mem_strdup(from), .to = mem_strdup(to)};
    enum status status = normalize_add(&t->normalize, step, err);
    return status == STATUS_OK && ((from && !step.from) || (to && !step.to))
               ? no_memory_for_tokenizer(err)
               : status;
}

/* Where convert wrote how a folder's Metaspace puts the first space. */
static enum status add_metaspace(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    struct gguf_string when;
    struct pretok_step step = {.kind = PRETOK_REPLACE, .prepend = PRETOK_ALWAYS};
    enum status status = gguf_get_string(g, TOKENIZER_METASPACE, &when, err);
    if (status != STATUS_OK)
        return status;
    if (when.len == 5 && memcmp(when.bytes, "first", 5) == 0)
        step.prepend = PRETOK_FIRST;
    else if (when.len != 6 || memcmp(when.bytes, "always", 6) != 0)
        return err_param(err, STATUS_INVALID, TOKENIZER_METASPACE,
                         TOKENIZER_METASPACE ": expected 'first' or 'always', found '%.*s'",
                         when.len > 100 ? 100 : (int)when.len, when.bytes);
    step.replacement = mem_strdup(META);
    return step.replacement ? pretok_add(t->pretok, step, err) : no_memory_for_tokenizer(err);
}

/* Spaces become U+2581; a text begins with one. */
static enum status open_spaces(struct tokenizer *t, const struct gguf *g, bool add_space,
                               struct err *err)
{
    const struct gguf_value *charsmap = gguf_value(g, KEY_CHARSMAP);
    bool clean = false;
    enum status status = read_flag(g, KEY_SPACE, &add_space, err);
    if (charsmap && charsmap->type == GGUF_ARRAY && charsmap->count > 0)
        return err_param(err, STATUS_UNSUPPORTED, KEY_CHARSMAP,
                         KEY_CHARSMAP ": precompiled normalizers are not supported");
    if (status == STATUS_OK)
        status = read_flag(g, KEY_CLEAN, &clean, err);
    if (status == STATUS_OK && clean)
        status = tokenizer_gguf_add_step(t, NORMALIZE_ONE_SPACE, NULL, NULL, err);
    t->strip_first = add_space;
    if (status == STATUS_OK && !(t->pretok = pretok_new()))
        status = no_memory_for_tokenizer(err);
    if (status != STATUS_OK || gguf_value(g, TOKENIZER_METASPACE))
        return status ? status : add_metaspace(t, g, err);
    if (add_space)
        status = tokenizer_gguf_add_step(t, NORMALIZE_PREPEND, NULL, META, err);
    if (status == STATUS_OK)
        status = tokenizer_gguf_add_step(t, NORMALIZE_REPLACE, " ", META, err);
    return status;
}

static enum status read_scores(struct tokenizer *t, const struct gguf *g, float **out,
                               struct err *err)
{
    const struct gguf_value *scores;
    enum status status = number_array(g, KEY_SCORES, true, t->vocab.count, &scores, err);
    *out = NULL;
    if (status == STATUS_OK && !scores)
        status = err_param(err, STATUS_NOT_FOUND, KEY_SCORES,
                           KEY_SCORES ": expected an array of f32, absent");
    if (status != STATUS_OK)
        return status;
    *out = mem_array(t->vocab.count, sizeof **out);
    if (!*out)
        return no_memory_for_tokenizer(err);
    for (uint32_t i = 0; i < t->vocab.count; i++) {
        (*out)[i] = (float)gguf_number(scores, i);
        if (!isfinite((*out)[i]))
            return err_param(err, STATUS_INVALID, KEY_SCORES,
                             KEY_SCORES ": token %u: expected a finite score, found %f", i,
                             (double)(*out)[i]);
    }
    return STATUS_OK;
}

/* The first token of type unknown where the file names none. */
static int32_t tokenizer_gguf_find_unknown(const struct tokenizer *t)
{
    for (uint32_t i = 0; i < t->vocab.count; i++)
        if (t->vocab.types[i] == VOCAB_UNKNOWN)
            return (int32_t)i;
    return -1;
}

/* BPE whose merges are ranked by the scores of the pieces they make. */
static enum status open_llama(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    static const struct defaults d = {
        .add_bos = true, .add_space = true, .bos = 1, .eos = 2, .unk = -1};
    struct bpe_rules rules = {.characters = true, .byte_fallback = true, .fuse_unk = true};
    float *scores = NULL;
    enum status status = tokenizer_gguf_open_common(t, g, &d, err);
    if (t->unk < 0)
        t->unk = tokenizer_gguf_find_unknown(t);
    rules.unk = t->unk;
    if (status == STATUS_OK)
        status = open_spaces(t, g, d.add_space, err);
    if (status == STATUS_OK)
        status = read_scores(t, g, &scores, err);
    if (status == STATUS_OK)
        status = bpe_open_scored(&t->bpe, &t->vocab, &rules, scores, err);
    mem_free(scores);
    return status;
}

/* Unigram. */
static enum status open_t5(struct tokenizer *t, const struct gguf *g, struct err *err)
{
    static const struct defaults d = {
        .add_eos = true, .add_space = true, .bos = -1, .eos = 1, .unk = -1};
    float *scores = NULL;
    enum status status = tokenizer_gguf_open_common(t, g, &d, err);
    if (t->unk < 0)
        t->unk = tokenizer_gguf_find_unknown(t);
    if (status == STATUS_OK && t->unk < 0)
        status = err_param(err, STATUS_NOT_FOUND, KEY_UNK,
                           KEY_UNK ": expected the id of the unknown token, absent");
    if (status == STATUS_OK)
        status = open_spaces(t, g, d.add_space, err);
    if (status == STATUS_OK)
        status = read_scores(t, g, &scores, err);
    if (status == STATUS_OK && !(t->scores = mem_array(t->vocab.count, sizeof *t->scores)))
        status = no_memory_for_tokenizer(err);
    for (uint32_t i = 0; status == STATUS_OK && i < t->vocab.count; i++)
        t->scores[i] = (double)scores[i];
    mem_free(scores);
    t->is_unigram = true;
    return status == STATUS_OK ? unigram_open(&t->unigram, &t->vocab, t->scores, t->unk, true, err)
                               : status;
}

/* --- all kinds ------------------------------------------------------------------------------ */

/* The values of tokenizer.ggml.model. */
static const struct {
    const char *model;
    enum status (*open)(struct tokenizer *t, const struct gguf *g, struct err *err);
} kinds[] = {
    {"gpt2", open_byte_level},
    {"llama", open_llama},
    {"t5", open_t5},
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
                         KEY_MODEL ": expected 'gpt2' (byte-level BPE), 'llama' (SentencePiece "
                                   "BPE) or 't5' (unigram), found '%.*s'",
                         model.len > 100 ? 100 : (int)model.len, model.bytes);
    struct tokenizer *t = mem_zalloc(sizeof *t);
    if (!t)
        return no_memory_for_tokenizer(err);
    status = kinds[kind].open(t, g, err);
    if (status != STATUS_OK) {
        tokenizer_close(t);
        return status;
    }
    *out = t;
    return STATUS_OK;
}
