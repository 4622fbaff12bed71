/* Tokenizers from a Hugging Face folder: tokenizer.json and tokenizer_config.json. */
#include "base/limits.h"
#include "base/mem.h"
#include "text/tokenizer/no_memory.h"
#include "text/tokenizer/tokenizer_json_internal.h"

#include <stdlib.h>
#include <string.h>

/* A token that tokenizer.json adds to its model's. */
struct added {
    struct special special; /* text borrowed from the file */
    bool normalized;
};

/* The file's tokens as they are collected. */
struct collected {
    struct vocab_entry *entries; /* (count) */
    uint32_t count;
    struct added *added; /* (n_added) */
    uint32_t n_added;
};

static enum status tokenizer_json_parse(const struct json_reader *r, const char *text, size_t len,
                                        json_t **out)
{
    json_error_t fault;
    *out = json_loadb(text, len, JSON_REJECT_DUPLICATES, &fault);
    if (!*out)
        return err_set(r->err, STATUS_INVALID, "%s: expected JSON: line %d, column %d: %s", r->file,
                       fault.line, fault.column, fault.text);
    if (json_is_object(*out))
        return STATUS_OK;
    return tokenizer_json_expected(r, &(struct json_place){.value = *out}, "an object");
}

/* --- tokens --------------------------------------------------------------------------------- */

static enum status place_token(struct json_reader *r, struct collected *c,
                               const struct json_place *at, int32_t id, const char *text,
                               size_t len)
{
    struct vocab_entry *e = &c->entries[id];
    if (e->text && (e->len != len || memcmp(e->text, text, len) != 0))
        return err_param(r->err, STATUS_INVALID, at->path,
                         "%s: %s: expected one token with id %d, found '%.60s' and '%.60s'",
                         r->file, at->path, id, e->text, text);
    if (len > LIMIT_TOKEN_BYTES)
        return err_param(r->err, STATUS_INVALID, at->path,
                         "%s: %s: token %d has %zu bytes, the limit is %d", r->file, at->path, id,
                         len, LIMIT_TOKEN_BYTES);
    e->text = text;
    e->len = (uint32_t)len;
    if (e->type == 0)
        e->type = VOCAB_NORMAL;
    return STATUS_OK;
}

/* {"the": 5, ...} */
static enum status place_object(struct json_reader *r, struct collected *c,
                                const struct json_place *vocab)
{
    enum status status = STATUS_OK;
    const char *key;
    size_t len;
    json_t *value;
    json_object_keylen_foreach((json_t *)vocab->value, key, len, value)
    {
        if (status == STATUS_OK)
            status = place_token(r, c, vocab, (int32_t)json_integer_value(value), key, len);
    }
    return status;
}

/* [["the", -3.2], ...] */
static enum status place_array(struct json_reader *r, struct collected *c,
                               const struct json_place *vocab)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(vocab->value); i++) {
        const json_t *pair = json_array_get(vocab->value, i), *text = json_array_get(pair, 0);
        struct json_place at = tokenizer_json_element(vocab, i);
        if (!json_is_string(text) || !json_is_number(json_array_get(pair, 1)))
            return tokenizer_json_expected(r, &at, "a token and its score");
        status =
            place_token(r, c, vocab, (int32_t)i, json_string_value(text), json_string_length(text));
    }
    return status;
}

/* How many ids the model's vocabulary needs; checks that they are ids. */
static enum status count_vocab(struct json_reader *r, const struct json_place *vocab,
                               uint32_t *count)
{
    const char *key;
    json_t *value;
    *count = 0;
    if (json_is_array(vocab->value)) {
        if (json_array_size(vocab->value) > LIMIT_MODEL_VOCAB)
            return tokenizer_json_expected(r, vocab, "a vocabulary of fewer tokens");
        *count = (uint32_t)json_array_size(vocab->value);
        return STATUS_OK;
    }
    if (!json_is_object(vocab->value))
        return tokenizer_json_expected(r, vocab, "an object of tokens, or an array");
    json_object_foreach((json_t *)vocab->value, key, value)
    {
        struct json_place at = tokenizer_json_member(vocab, key);
        int32_t id;
        at.value = value;
        enum status status = tokenizer_json_id(r, &at, LIMIT_MODEL_VOCAB, &id);
        if (status != STATUS_OK)
            return status;
        if ((uint32_t)id >= *count)
            *count = (uint32_t)id + 1;
    }
    return STATUS_OK;
}

/* --- added tokens --------------------------------------------------------------------------- */

static enum status read_added_token(struct json_reader *r, const struct json_place *at,
                                    struct added *out)
{
    const char *content = "";
    bool special = false;
    enum status status = tokenizer_json_text(r, at, "content", true, &content);
    struct special *s = &out->special;
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, at, "special", &special);
    out->normalized = !special;
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, at, "normalized", &out->normalized);
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, at, "lstrip", &s->left);
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, at, "rstrip", &s->right);
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, at, "single_word", &s->single_word);
    s->control = special;
    s->text = content;
    s->len = strlen(content);
    if (status == STATUS_OK && s->len == 0)
        return tokenizer_json_expected(r, at, "an added token with a content");
    return status;
}

static bool has_added(const struct collected *c, int32_t id)
{
    for (uint32_t i = 0; i < c->n_added; i++)
        if (c->added[i].special.id == id)
            return true;
    return false;
}

static void keep_added(struct collected *c, const struct added *added)
{
    c->added[c->n_added++] = *added;
    if ((uint32_t)added->special.id >= c->count)
        c->count = (uint32_t)added->special.id + 1;
}

/* tokenizer.json's added_tokens, and those that only tokenizer_config.json's added_tokens_decoder
 * has. */
static enum status tokenizer_json_read_added(struct json_reader *r, const struct json_place *root,
                                             const struct json_place *config, struct collected *c)
{
    struct json_place list = tokenizer_json_member(root, "added_tokens");
    struct json_place more = tokenizer_json_member(config, "added_tokens_decoder");
    size_t room = json_array_size(list.value) + json_object_size(more.value);
    enum status status = STATUS_OK;
    const char *key;
    json_t *value;
    if (list.value && !json_is_array(list.value))
        return tokenizer_json_expected(r, &list, "an array");
    if (room > LIMIT_MODEL_VOCAB)
        return tokenizer_json_expected(r, &list, "fewer tokens");
    c->added = mem_array(room + 1, sizeof *c->added);
    if (!c->added)
        return no_memory_for_tokenizer(r->err);
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(list.value); i++) {
        struct json_place at = tokenizer_json_element(&list, i);
        struct json_place id = tokenizer_json_member(&at, "id");
        struct added added = {0};
        status = read_added_token(r, &at, &added);
        if (status == STATUS_OK)
            status = tokenizer_json_id(r, &id, LIMIT_MODEL_VOCAB, &added.special.id);
        if (status == STATUS_OK)
            keep_added(c, &added);
    }
    json_object_foreach((json_t *)more.value, key, value)
    {
        struct json_place at = tokenizer_json_member(&more, key);
        struct added added = {0};
        char *end;
        long id = strtol(key, &end, 10);
        if (status != STATUS_OK || (id >= 0 && id <= INT32_MAX && has_added(c, (int32_t)id)))
            continue;
        if (*end != '\0' || id < 0 || id >= (long)LIMIT_MODEL_VOCAB)
            return tokenizer_json_expected(r, &at, "an id as the member's name");
        status = read_added_token(r, &at, &added);
        added.special.id = (int32_t)id;
        if (status == STATUS_OK)
            keep_added(c, &added);
    }
    return status;
}

/* An added token of the model's own vocabulary stays one of its pieces unless it is special: text
 * alone never makes a special one. */
static enum status place_added(struct json_reader *r, struct collected *c)
{
    struct json_place at = {.path = "added_tokens"};
    enum status status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < c->n_added; i++) {
        const struct special *s = &c->added[i].special;
        struct vocab_entry *e = &c->entries[s->id];
        bool own = e->text && !r->rules.byte_level;
        status = place_token(r, c, &at, s->id, s->text, s->len);
        e->type = s->control ? VOCAB_CONTROL : VOCAB_USER_DEFINED;
        e->literal = s->control || !own;
    }
    return status;
}

/* Text that a normalizer changes is looked for as it makes it. */
static enum status open_normalized(struct tokenizer *t, struct special *list, uint32_t count,
                                   struct err *err)
{
    struct normalize_scratch scratch = {0};
    struct special *kept = mem_array((size_t)count + 1, sizeof *kept);
    char **texts = mem_array((size_t)count + 1, sizeof *texts);
    enum status status =
        kept && texts ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for added tokens");
    uint32_t n = 0;
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
        const uint8_t *trusted;
        const char *text;
        size_t len;
        status = normalize_run(&t->normalize, &scratch, list[i].text, list[i].len, NULL, &text,
                               &len, &trusted, err);
        if (status != STATUS_OK || len == 0)
            continue;
        texts[n] = mem_strndup(text, len);
        if (!texts[n]) {
            status = err_set(err, STATUS_NO_MEMORY, "no memory for added tokens");
            break;
        }
        kept[n] = list[i];
        kept[n].text = texts[n];
        kept[n++].len = len;
    }
    if (status == STATUS_OK)
        status = specials_open(&t->normalized, kept, n, err);
    for (uint32_t i = 0; texts && i < n; i++)
        mem_free(texts[i]);
    mem_free(texts);
    mem_free(kept);
    normalize_scratch_fini(&scratch);
    return status;
}

static enum status tokenizer_json_open_specials(struct json_reader *r, const struct collected *c)
{
    struct special *list = mem_array(2 * (size_t)c->n_added + 1, sizeof *list);
    struct special *normalized = list + c->n_added;
    uint32_t n_raw = 0, n_normalized = 0;
    if (!list)
        return no_memory_for_tokenizer(r->err);
    for (uint32_t i = 0; i < c->n_added; i++) {
        if (c->added[i].normalized)
            normalized[n_normalized++] = c->added[i].special;
        else
            list[n_raw++] = c->added[i].special;
    }
    enum status status = specials_open(&r->tokenizer->raw, list, n_raw, r->err);
    if (status == STATUS_OK)
        status = open_normalized(r->tokenizer, normalized, n_normalized, r->err);
    mem_free(list);
    return status;
}

/* --- the model ------------------------------------------------------------------------------ */

static int32_t find_token(const struct tokenizer *t, const char *text)
{
    int32_t id = vocab_find(&t->vocab, text, strlen(text), true);
    return id >= 0 ? id : vocab_find(&t->vocab, text, strlen(text), false);
}

/* *id = the token that a member spells, -1 when it is absent or null. It may also be an object with
 * a content. */
static enum status read_token(struct json_reader *r, const struct json_place *o, const char *name,
                              int32_t *id)
{
    struct json_place m = tokenizer_json_member(o, name);
    const json_t *content = json_is_object(m.value) ? json_object_get(m.value, "content") : m.value;
    *id = -1;
    if (!m.value || json_is_null(m.value))
        return STATUS_OK;
    if (json_is_string(content))
        *id = find_token(r->tokenizer, json_string_value(content));
    return *id >= 0 ? STATUS_OK : tokenizer_json_expected(r, &m, "a token of tokenizer.json");
}

struct merges {
    const json_t *list;
};

/* "left right" or ["left", "right"]. */
static bool tokenizer_json_next_merge(void *ctx, uint32_t rank, struct bpe_text *left,
                                      struct bpe_text *right)
{
    const struct merges *merges = ctx;
    const json_t *merge = json_array_get(merges->list, rank);
    const json_t *a = json_array_get(merge, 0), *b = json_array_get(merge, 1);
    if (json_array_size(merge) == 2 && json_is_string(a) && json_is_string(b)) {
        *left = (struct bpe_text){json_string_value(a), json_string_length(a)};
        *right = (struct bpe_text){json_string_value(b), json_string_length(b)};
        return true;
    }
    const char *line = json_string_value(merge), *space = line ? strchr(line, ' ') : NULL;
    if (!space)
        return false;
    *left = (struct bpe_text){line, (size_t)(space - line)};
    *right = (struct bpe_text){space + 1, strlen(space + 1)};
    return true;
}

/* What a BPE model may not have. */
static enum status refuse_parts(struct json_reader *r, const struct json_place *model)
{
    static const char *const parts[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    struct json_place dropout = tokenizer_json_member(model, "dropout");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char *text = "";
        struct json_place part = tokenizer_json_member(model, parts[i]);
        enum status status = tokenizer_json_text(r, model, parts[i], false, &text);
        if (status != STATUS_OK)
            return status;
        if (text[0] != '\0')
            return tokenizer_json_unsupported(r, &part, text, "expected none");
    }
    if (json_number_value(dropout.value) != 0.0)
        return tokenizer_json_unsupported(r, &dropout, "dropout", "expected none");
    return STATUS_OK;
}

static enum status open_bpe(struct json_reader *r, const struct json_place *model)
{
    struct tokenizer *t = r->tokenizer;
    struct json_place list = tokenizer_json_member(model, "merges");
    struct bpe_rules rules = {.characters = !r->rules.byte_level, .unk = t->unk};
    struct merges merges = {list.value};
    struct bpe_list all = {.next = tokenizer_json_next_merge, .ctx = &merges, .last_counts = true};
    enum status status = refuse_parts(r, model);
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, model, "byte_fallback", &rules.byte_fallback);
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, model, "fuse_unk", &rules.fuse_unk);
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, model, "ignore_merges", &rules.whole_words);
    if (status != STATUS_OK)
        return status;
    if (!json_is_array(list.value) || json_array_size(list.value) > LIMIT_MODEL_MERGES)
        return tokenizer_json_expected(r, &list, "an array of merges");
    all.count = (uint32_t)json_array_size(list.value);
    status = bpe_open(&t->bpe, &t->vocab, &rules, &all, r->err);
    if (status != STATUS_OK || t->bpe.n_ignored == 0)
        return status;
    struct json_place merge = tokenizer_json_element(&list, t->bpe.first_ignored);
    return tokenizer_json_expected(r, &merge, "two tokens of model.vocab that make a third");
}

static enum status open_unigram(struct json_reader *r, const struct json_place *model)
{
    struct tokenizer *t = r->tokenizer;
    struct json_place vocab = tokenizer_json_member(model, "vocab");
    struct json_place unk = tokenizer_json_member(model, "unk_id");
    bool byte_fallback = false;
    enum status status = tokenizer_json_bool(r, model, "byte_fallback", &byte_fallback);
    if (status == STATUS_OK && r->rules.byte_level)
        status = tokenizer_json_unsupported(r, model, "Unigram", "with ByteLevel");
    if (status == STATUS_OK && !json_is_array(vocab.value))
        status = tokenizer_json_expected(r, &vocab, "an array of tokens and scores");
    if (status == STATUS_OK)
        status = tokenizer_json_id(r, &unk, (int64_t)json_array_size(vocab.value), &t->unk);
    if (status != STATUS_OK)
        return status;
    t->scores = mem_array(t->vocab.count, sizeof *t->scores);
    if (!t->scores)
        return no_memory_for_tokenizer(r->err);
    for (size_t i = 0; i < json_array_size(vocab.value); i++)
        t->scores[i] = json_number_value(json_array_get(json_array_get(vocab.value, i), 1));
    t->is_unigram = true;
    return unigram_open(&t->unigram, &t->vocab, t->scores, t->unk, byte_fallback, r->err);
}

/* Byte tokens, and the unknown one, are the model's by another way than their spelling. Ids that no
 * token has, which the module `tokenizers` allows, become tokens without a text. */
static void mark_entries(struct json_reader *r, const struct json_place *model, struct collected *c)
{
    const char *unk = json_string_value(json_object_get(model->value, "unk_token"));
    json_t *unk_id = json_object_get(model->value, "unk_id");
    r->rules.bytes = r->rules.bytes || json_is_true(json_object_get(model->value, "byte_fallback"));
    for (uint32_t i = 0; i < c->count; i++) {
        struct vocab_entry *e = &c->entries[i];
        bool unknown = (unk && e->text && strcmp(unk, e->text) == 0) ||
                       (json_is_integer(unk_id) && json_integer_value(unk_id) == (json_int_t)i);
        if (!e->text)
            *e = (struct vocab_entry){.text = "", .type = VOCAB_UNUSED, .literal = true};
        if (e->type != VOCAB_NORMAL)
            continue;
        if (unknown && !r->rules.byte_level)
            e->type = VOCAB_UNKNOWN;
        else if (!r->rules.byte_level && r->rules.bytes && vocab_byte(e->text, e->len) >= 0)
            e->type = VOCAB_BYTE;
        e->literal = e->type != VOCAB_NORMAL;
    }
}

static enum status open_vocab(struct json_reader *r, const struct json_place *root,
                              const struct json_place *config, const struct json_place *model)
{
    struct json_place vocab = tokenizer_json_member(model, "vocab");
    struct collected c = {0};
    enum status status = count_vocab(r, &vocab, &c.count);
    if (status == STATUS_OK)
        status = tokenizer_json_read_added(r, root, config, &c);
    if (status == STATUS_OK && c.count == 0)
        status = tokenizer_json_expected(r, &vocab, "one token at least");
    if (status == STATUS_OK && !(c.entries = mem_array(c.count, sizeof *c.entries)))
        status = no_memory_for_tokenizer(r->err);
    if (status == STATUS_OK)
        status = (json_is_array(vocab.value) ? place_array : place_object)(r, &c, &vocab);
    if (status == STATUS_OK)
        status = place_added(r, &c);
    if (status == STATUS_OK) {
        mark_entries(r, model, &c);
        r->rules.what = "tokenizer.json: model.vocab";
        status = vocab_open(&r->tokenizer->vocab, c.entries, c.count, &r->rules, r->err);
    }
    if (status == STATUS_OK)
        status = tokenizer_json_open_specials(r, &c);
    mem_free(c.entries);
    mem_free(c.added);
    return status;
}

static enum status tokenizer_json_open_model(struct json_reader *r, const struct json_place *model)
{
    bool merges = json_object_get(model->value, "merges") != NULL;
    const char *type = merges ? "BPE" : "Unigram"; /* old files do not say */
    enum status status = tokenizer_json_text(r, model, "type", false, &type);
    if (status == STATUS_OK)
        status = read_token(r, model, "unk_token", &r->tokenizer->unk);
    if (status != STATUS_OK)
        return status;
    if (strcmp(type, "BPE") == 0)
        return open_bpe(r, model);
    if (strcmp(type, "Unigram") == 0)
        return open_unigram(r, model);
    return tokenizer_json_unsupported(r, model, type, "expected BPE or Unigram");
}

/* --- tokenizer_config.json ------------------------------------------------------------------ */

/* add_bos_token and add_eos_token, where they are given, decide over the post-processor. */
static enum status read_add(struct json_reader *r, const struct json_place *config,
                            const char *name, int32_t id, struct tokens *around)
{
    struct json_place m = tokenizer_json_member(config, name);
    bool add = false;
    size_t kept = 0;
    enum status status = tokenizer_json_bool(r, config, name, &add);
    if (status != STATUS_OK || !json_is_boolean(m.value))
        return status;
    if (add && id < 0)
        return tokenizer_json_expected(r, &m, "false, since there is no such token");
    for (size_t i = 0; i < around->count; i++)
        if (around->ids[i] != id)
            around->ids[kept++] = around->ids[i];
        else if (add)
            return STATUS_OK; /* it is there already */
    around->count = kept;
    return !add || tokens_push(around, id) ? STATUS_OK : no_memory_for_tokenizer(r->err);
}

/* A string, or an array of {"name", "template"} of which "default" counts. */
static enum status read_chat_template(struct json_reader *r, const struct json_place *config)
{
    struct json_place m = tokenizer_json_member(config, "chat_template");
    const json_t *text = json_is_string(m.value) ? m.value : NULL;
    if (!m.value || json_is_null(m.value))
        return STATUS_OK;
    for (size_t i = 0; !text && i < json_array_size(m.value); i++) {
        const json_t *one = json_array_get(m.value, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, "default") == 0)
            text = json_object_get(one, "template");
    }
    if (!text && json_is_array(m.value))
        return STATUS_OK;
    if (!json_is_string(text))
        return tokenizer_json_expected(r, &m, "a string, or an array of named templates");
    r->tokenizer->chat_template = mem_strdup(json_string_value(text));
    return r->tokenizer->chat_template ? STATUS_OK : no_memory_for_tokenizer(r->err);
}

static enum status tokenizer_json_read_config(struct json_reader *r,
                                              const struct json_place *config)
{
    struct tokenizer *t = r->tokenizer;
    r->file = "tokenizer_config.json";
    enum status status = read_token(r, config, "bos_token", &t->bos);
    if (status == STATUS_OK)
        status = read_token(r, config, "eos_token", &t->eos);
    if (status == STATUS_OK)
        status = read_add(r, config, "add_bos_token", t->bos, &t->before);
    if (status == STATUS_OK)
        status = read_add(r, config, "add_eos_token", t->eos, &t->after);
    if (status == STATUS_OK)
        status = read_chat_template(r, config);
    return status;
}

static enum status tokenizer_json_read_ends(struct json_reader *r,
                                            const struct tokenizer_json *files)
{
    struct tokenizer *t = r->tokenizer;
    t->is_end = mem_array(t->vocab.count, sizeof *t->is_end);
    if (!t->is_end)
        return no_memory_for_tokenizer(r->err);
    if (t->eos >= 0)
        t->is_end[t->eos] = true;
    for (size_t i = 0; i < files->n_end_ids; i++) {
        int32_t id = files->end_ids[i];
        if (id < 0 || (uint32_t)id >= t->vocab.count)
            return err_param(r->err, STATUS_INVALID, "eos_token_id",
                             "eos_token_id: expected ids below %u, found %d", t->vocab.count, id);
        t->is_end[id] = true;
    }
    tokenizer_mark_ends(t);
    return STATUS_OK;
}

/* --- opening -------------------------------------------------------------------------------- */

static enum status tokenizer_json_read_all(struct json_reader *r, const struct json_place *root,
                                           const struct json_place *config,
                                           const struct tokenizer_json *files)
{
    struct json_place model = tokenizer_json_member(root, "model");
    struct json_place post = tokenizer_json_member(root, "post_processor");
    if (!json_is_object(model.value))
        return tokenizer_json_expected(r, &model, "an object");
    enum status status = tokenizer_json_steps(r, root);
    if (status == STATUS_OK)
        status = open_vocab(r, root, config, &model);
    if (status == STATUS_OK)
        status = tokenizer_json_open_model(r, &model);
    if (status == STATUS_OK)
        status = tokenizer_json_around(r, &post);
    if (status == STATUS_OK)
        status = tokenizer_json_read_config(r, config);
    if (status == STATUS_OK)
        status = tokenizer_json_read_ends(r, files);
    return status;
}

enum status tokenizer_open_json(struct tokenizer **out, const struct tokenizer_json *files,
                                struct err *err)
{
    struct json_reader r = {.file = "tokenizer.json", .err = err};
    json_t *root = NULL, *config = NULL;
    enum status status = tokenizer_json_parse(&r, files->text, files->len, &root);
    r.tokenizer = mem_zalloc(sizeof *r.tokenizer);
    if (status == STATUS_OK && !r.tokenizer)
        status = no_memory_for_tokenizer(r.err);
    if (status == STATUS_OK && files->config) {
        r.file = "tokenizer_config.json";
        status = tokenizer_json_parse(&r, files->config, files->config_len, &config);
        r.file = "tokenizer.json";
    }
    if (status == STATUS_OK) {
        r.tokenizer->bos = r.tokenizer->eos = r.tokenizer->unk = -1;
        status = tokenizer_json_read_all(&r, &(struct json_place){.value = root},
                                         &(struct json_place){.value = config}, files);
    }
    json_decref(root);
    json_decref(config);
    if (status != STATUS_OK) {
        tokenizer_close(r.tokenizer);
        return status;
    }
    *out = r.tokenizer;
    return STATUS_OK;
}
