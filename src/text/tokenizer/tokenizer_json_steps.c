/* The steps of a tokenizer.json: normalizer, pre-tokenizer, decoder, post-processor. One row a
 * kind; what has no row is refused by its name. */
#include "base/limits.h"
#include "base/mem.h"
#include "text/tokenizer/no_memory.h"
#include "text/tokenizer/regex.h"
#include "text/tokenizer/tokenizer_json_internal.h"

#include <stdio.h>
#include <string.h>

#define GPT2                                                                                       \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+"                                                  \
    "| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define PUNCTUATION "[!-/:-@\\[-`{-~\\p{P}]"

/* --- members -------------------------------------------------------------------------------- */

struct json_place tokenizer_json_member(const struct json_place *o, const char *name)
{
    struct json_place m = {.value = json_object_get(o->value, name)};
    snprintf(m.path, sizeof m.path, "%.90s%s%.30s", o->path, o->path[0] ? "." : "", name);
    return m;
}

struct json_place tokenizer_json_element(const struct json_place *array, size_t i)
{
    struct json_place m = {.value = json_array_get(array->value, i)};
    snprintf(m.path, sizeof m.path, "%.100s[%zu]", array->path, i);
    return m;
}

static void tokenizer_json_steps_describe(const json_t *value, char *out, size_t size)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "an array",     [JSON_REAL] = "a number",
        [JSON_TRUE] = "true",        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
        [JSON_STRING] = "a string",  [JSON_INTEGER] = "an integer",
    };
    if (json_is_string(value))
        snprintf(out, size, "'%.60s'", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(out, size, "%lld", (long long)json_integer_value(value));
    else
        snprintf(out, size, "%s", value ? names[json_typeof(value)] : "nothing");
}

enum status tokenizer_json_expected(const struct json_reader *r, const struct json_place *at,
                                    const char *what)
{
    char found[80];
    tokenizer_json_steps_describe(at->value, found, sizeof found);
    return err_param(r->err, STATUS_INVALID, at->path, "%s: %s: expected %s, found %s", r->file,
                     at->path[0] ? at->path : "the file", what, found);
}

enum status tokenizer_json_unsupported(const struct json_reader *r, const struct json_place *at,
                                       const char *name, const char *why)
{
    return err_param(r->err, STATUS_UNSUPPORTED, at->path, "%s: %s: '%.60s' is not supported%s%s",
                     r->file, at->path, name, why[0] ? ": " : "", why);
}

enum status tokenizer_json_text(const struct json_reader *r, const struct json_place *o,
                                const char *name, bool needed, const char **out)
{
    struct json_place m = tokenizer_json_member(o, name);
    if (!needed && (!m.value || json_is_null(m.value)))
        return STATUS_OK;
    if (!json_is_string(m.value))
        return tokenizer_json_expected(r, &m, "a string");
    *out = json_string_value(m.value);
    return STATUS_OK;
}

enum status tokenizer_json_bool(const struct json_reader *r, const struct json_place *o,
                                const char *name, bool *out)
{
    struct json_place m = tokenizer_json_member(o, name);
    if (!m.value || json_is_null(m.value))
        return STATUS_OK;
    if (!json_is_boolean(m.value))
        return tokenizer_json_expected(r, &m, "true or false");
    *out = json_is_true(m.value);
    return STATUS_OK;
}

enum status tokenizer_json_id(const struct json_reader *r, const struct json_place *at,
                              int64_t limit, int32_t *out)
{
    char what[48];
    json_int_t id = json_integer_value(at->value);
    if (json_is_integer(at->value) && id >= 0 && id < limit) {
        *out = (int32_t)id;
        return STATUS_OK;
    }
    snprintf(what, sizeof what, "an id below %lld", (long long)limit);
    return tokenizer_json_expected(r, at, what);
}

/* --- lists of kinds ------------------------------------------------------------------------- */

typedef enum status (*step_reader)(struct json_reader *r, const struct json_place *step);

struct kind {
    const char *type;
    step_reader read;
};

/* Reads a step by its "type", from a list of at most 32 kinds that ends with NULL. */
static enum status read_kind(struct json_reader *r, const struct json_place *step,
                             const struct kind *kinds)
{
    const char *type = "";
    if (!json_is_object(step->value))
        return tokenizer_json_expected(r, step, "an object");
    enum status status = tokenizer_json_text(r, step, "type", true, &type);
    if (status != STATUS_OK)
        return status;
    for (; kinds->type; kinds++)
        if (strcmp(kinds->type, type) == 0)
            return kinds->read(r, step);
    return tokenizer_json_unsupported(r, step, type, "");
}

/* The steps of a Sequence, under `name`. A Sequence in a Sequence is as deep as the path is long.
 */
static enum status read_sequence(struct json_reader *r, const struct json_place *step,
                                 const char *name, step_reader read)
{
    struct json_place list = tokenizer_json_member(step, name);
    enum status status = STATUS_OK;
    if (!json_is_array(list.value))
        return tokenizer_json_expected(r, &list, "an array");
    if (strlen(step->path) > 80)
        return tokenizer_json_unsupported(r, step, "Sequence", "too deep");
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(list.value); i++) {
        struct json_place element = tokenizer_json_element(&list, i);
        status = read(r, &element);
    }
    return status;
}

static enum status nothing(struct json_reader *r, const struct json_place *step)
{
    (void)r;
    (void)step;
    return STATUS_OK;
}

/* {"String": text} or {"Regex": expression}. */
static enum status tokenizer_json_steps_read_pattern(struct json_reader *r,
                                                     const struct json_place *step,
                                                     const char **text, bool *literal)
{
    struct json_place pattern = tokenizer_json_member(step, "pattern");
    const json_t *string = json_object_get(pattern.value, "String");
    const json_t *regex = json_object_get(pattern.value, "Regex");
    const json_t *value = string ? string : regex;
    if (!json_is_string(value) || json_string_length(value) == 0)
        return tokenizer_json_expected(r, &pattern, "an object with a text as String or Regex");
    *literal = string != NULL;
    *text = json_string_value(value);
    return STATUS_OK;
}

static enum status open_regex(struct json_reader *r, const struct json_place *step,
                              const char *text, bool literal, struct regex **out)
{
    char name[192];
    snprintf(name, sizeof name, "%s: %s", r->file, step->path);
    return regex_open(out, text, strlen(text), literal, name, r->err);
}

/* --- normalizers ---------------------------------------------------------------------------- */

static enum status add_normalizer(struct json_reader *r, struct normalize_step step)
{
    return normalize_add(&r->tokenizer->normalize, step, r->err);
}

static enum status tokenizer_json_steps_read_normalizer(struct json_reader *r,
                                                        const struct json_place *step);

static enum status normalizers(struct json_reader *r, const struct json_place *step)
{
    return read_sequence(r, step, "normalizers", tokenizer_json_steps_read_normalizer);
}

static enum status nfc(struct json_reader *r, const struct json_place *step)
{
    (void)step;
    return add_normalizer(r, (struct normalize_step){.kind = NORMALIZE_NFC});
}

static enum status nfd(struct json_reader *r, const struct json_place *step)
{
    (void)step;
    return add_normalizer(r, (struct normalize_step){.kind = NORMALIZE_NFD});
}

static enum status nfkc(struct json_reader *r, const struct json_place *step)
{
    (void)step;
    return add_normalizer(r, (struct normalize_step){.kind = NORMALIZE_NFKC});
}

static enum status nfkd(struct json_reader *r, const struct json_place *step)
{
    (void)step;
    return add_normalizer(r, (struct normalize_step){.kind = NORMALIZE_NFKD});
}

static enum status lowercase(struct json_reader *r, const struct json_place *step)
{
    (void)step;
    return add_normalizer(r, (struct normalize_step){.kind = NORMALIZE_LOWERCASE});
}

static enum status tokenizer_json_steps_strip(struct json_reader *r, const struct json_place *step)
{
    struct normalize_step s = {.kind = NORMALIZE_STRIP, .left = true, .right = true};
    enum status status = tokenizer_json_bool(r, step, "strip_left", &s.left);
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, step, "strip_right", &s.right);
    return status == STATUS_OK ? add_normalizer(r, s) : status;
}

static enum status prepend(struct json_reader *r, const struct json_place *step)
{
    struct normalize_step s = {.kind = NORMALIZE_PREPEND};
    const char *text = "";
    enum status status = tokenizer_json_text(r, step, "prepend", true, &text);
    if (status != STATUS_OK)
        return status;
    s.to = mem_strdup(text);
    return s.to ? add_normalizer(r, s) : no_memory_for_tokenizer(r->err);
}

static enum status replace(struct json_reader *r, const struct json_place *step)
{
    struct normalize_step s = {.kind = NORMALIZE_REPLACE};
    const char *pattern = "", *content = "";
    bool literal = false;
    enum status status = tokenizer_json_steps_read_pattern(r, step, &pattern, &literal);
    if (status == STATUS_OK)
        status = tokenizer_json_text(r, step, "content", true, &content);
    if (status == STATUS_OK && !literal)
        status = open_regex(r, step, pattern, false, &s.regex);
    if (status != STATUS_OK)
        return status;
    s.from = literal ? mem_strdup(pattern) : NULL;
    s.to = mem_strdup(content);
    if ((literal && !s.from) || !s.to) {
        mem_free(s.from);
        mem_free(s.to);
        regex_close(s.regex);
        return no_memory_for_tokenizer(r->err);
    }
    return add_normalizer(r, s);
}

static enum status precompiled(struct json_reader *r, const struct json_place *step)
{
    return tokenizer_json_unsupported(r, step, "Precompiled",
                                      "a normalizer compiled into a table; NFKC is close to it");
}

static enum status tokenizer_json_steps_read_normalizer(struct json_reader *r,
                                                        const struct json_place *step)
{
    static const struct kind kinds[] = {
        {"Sequence", normalizers},
        {"NFC", nfc},
        {"NFD", nfd},
        {"NFKC", nfkc},
        {"NFKD", nfkd},
        {"Lowercase", lowercase},
        {"Strip", tokenizer_json_steps_strip},
        {"Prepend", prepend},
        {"Replace", replace},
        {"Precompiled", precompiled},
        {NULL, NULL},
    };
    return read_kind(r, step, kinds);
}

/* --- pre-tokenizers ------------------------------------------------------------------------- */

static enum status tokenizer_json_steps_add_split(struct json_reader *r,
                                                  const struct json_place *step,
                                                  const char *pattern, bool literal,
                                                  enum pretok_behavior behavior, bool invert)
{
    struct pretok_step s = {.kind = PRETOK_SPLIT, .behavior = behavior, .invert = invert};
    enum status status = open_regex(r, step, pattern, literal, &s.regex);
    return status == STATUS_OK ? pretok_add(r->tokenizer->pretok, s, r->err) : status;
}

static enum status read_behavior(struct json_reader *r, const struct json_place *step,
                                 enum pretok_behavior *out)
{
    static const char *const names[] = {
        [PRETOK_ISOLATED] = "Isolated",
        [PRETOK_REMOVED] = "Removed",
        [PRETOK_WITH_PREVIOUS] = "MergedWithPrevious",
        [PRETOK_WITH_NEXT] = "MergedWithNext",
        [PRETOK_CONTIGUOUS] = "Contiguous",
    };
    struct json_place m = tokenizer_json_member(step, "behavior");
    if (!m.value)
        return STATUS_OK;
    for (size_t i = 0; json_is_string(m.value) && i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(names[i], json_string_value(m.value)) == 0) {
            *out = (enum pretok_behavior)i;
            return STATUS_OK;
        }
    }
    return tokenizer_json_expected(
        r, &m, "Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

static enum status read_pretok(struct json_reader *r, const struct json_place *step);

static enum status pretoks(struct json_reader *r, const struct json_place *step)
{
    return read_sequence(r, step, "pretokenizers", read_pretok);
}

static enum status byte_level(struct json_reader *r, const struct json_place *step)
{
    bool prefix = true, regex = true;
    enum status status = tokenizer_json_bool(r, step, "add_prefix_space", &prefix);
    r->any_byte_level = true;
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, step, "use_regex", &regex);
    if (status == STATUS_OK && prefix)
        status =
            pretok_add(r->tokenizer->pretok, (struct pretok_step){.kind = PRETOK_PREFIX}, r->err);
    if (status == STATUS_OK && regex)
        status = tokenizer_json_steps_add_split(r, step, GPT2, false, PRETOK_ISOLATED, false);
    return status;
}

static enum status tokenizer_json_steps_split(struct json_reader *r, const struct json_place *step)
{
    enum pretok_behavior behavior = PRETOK_ISOLATED;
    const char *pattern = "";
    bool literal = false, invert = false;
    enum status status = tokenizer_json_steps_read_pattern(r, step, &pattern, &literal);
    if (status == STATUS_OK)
        status = read_behavior(r, step, &behavior);
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, step, "invert", &invert);
    return status == STATUS_OK
               ? tokenizer_json_steps_add_split(r, step, pattern, literal, behavior, invert)
               : status;
}

static enum status digits(struct json_reader *r, const struct json_place *step)
{
    bool each = false;
    enum status status = tokenizer_json_bool(r, step, "individual_digits", &each);
    if (status != STATUS_OK)
        return status;
    return tokenizer_json_steps_add_split(r, step, each ? "\\p{N}" : "\\p{N}+", false,
                                          PRETOK_ISOLATED, false);
}

static enum status punctuation(struct json_reader *r, const struct json_place *step)
{
    enum pretok_behavior behavior = PRETOK_ISOLATED;
    enum status status = read_behavior(r, step, &behavior);
    return status == STATUS_OK
               ? tokenizer_json_steps_add_split(r, step, PUNCTUATION, false, behavior, false)
               : status;
}

static enum status whitespace(struct json_reader *r, const struct json_place *step)
{
    return tokenizer_json_steps_add_split(r, step, "\\w+|[^\\w\\s]+", false, PRETOK_REMOVED, true);
}

static enum status whitespace_split(struct json_reader *r, const struct json_place *step)
{
    return tokenizer_json_steps_add_split(r, step, "\\s+", false, PRETOK_REMOVED, false);
}

static enum status bert(struct json_reader *r, const struct json_place *step)
{
    enum status status = whitespace_split(r, step);
    return status == STATUS_OK
               ? tokenizer_json_steps_add_split(r, step, PUNCTUATION, false, PRETOK_ISOLATED, false)
               : status;
}

static enum status delimiter(struct json_reader *r, const struct json_place *step)
{
    const char *text = "";
    enum status status = tokenizer_json_text(r, step, "delimiter", true, &text);
    return status == STATUS_OK
               ? tokenizer_json_steps_add_split(r, step, text, true, PRETOK_REMOVED, false)
               : status;
}

/* A metaspace's replacement and when it begins a text. Older files say add_prefix_space. */
static enum status tokenizer_json_steps_read_metaspace(struct json_reader *r,
                                                       const struct json_place *step,
                                                       const char **replacement,
                                                       enum pretok_prepend *when)
{
    static const char *const names[] = {
        [PRETOK_ALWAYS] = "always", [PRETOK_FIRST] = "first", [PRETOK_NEVER] = "never"};
    struct json_place scheme = tokenizer_json_member(step, "prepend_scheme");
    bool prefix = true;
    enum status status = tokenizer_json_text(r, step, "replacement", true, replacement);
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, step, "add_prefix_space", &prefix);
    *when = prefix ? PRETOK_ALWAYS : PRETOK_NEVER;
    if (status != STATUS_OK || !scheme.value)
        return status;
    for (size_t i = 0; json_is_string(scheme.value) && i < 3; i++) {
        if (strcmp(names[i], json_string_value(scheme.value)) == 0) {
            *when = (enum pretok_prepend)i;
            return STATUS_OK;
        }
    }
    return tokenizer_json_expected(r, &scheme, "always, first or never");
}

static enum status metaspace(struct json_reader *r, const struct json_place *step)
{
    struct pretok_step s = {.kind = PRETOK_REPLACE};
    const char *replacement = "";
    bool cut = true;
    enum status status = tokenizer_json_steps_read_metaspace(r, step, &replacement, &s.prepend);
    if (status == STATUS_OK)
        status = tokenizer_json_bool(r, step, "split", &cut);
    if (status != STATUS_OK)
        return status;
    s.replacement = mem_strdup(replacement);
    if (!s.replacement)
        return no_memory_for_tokenizer(r->err);
    status = pretok_add(r->tokenizer->pretok, s, r->err);
    if (status == STATUS_OK && cut)
        status =
            tokenizer_json_steps_add_split(r, step, replacement, true, PRETOK_WITH_NEXT, false);
    return status;
}

static enum status read_pretok(struct json_reader *r, const struct json_place *step)
{
    static const struct kind kinds[] = {
        {"Sequence", pretoks},
        {"ByteLevel", byte_level},
        {"Split", tokenizer_json_steps_split},
        {"Digits", digits},
        {"Punctuation", punctuation},
        {"Whitespace", whitespace},
        {"WhitespaceSplit", whitespace_split},
        {"BertPreTokenizer", bert},
        {"CharDelimiterSplit", delimiter},
        {"Metaspace", metaspace},
        {NULL, NULL},
    };
    return read_kind(r, step, kinds);
}

/* --- decoders ------------------------------------------------------------------------------- */

static enum status add_replace(struct json_reader *r, const struct json_place *step,
                               const char *from, const char *to)
{
    struct vocab_rules *rules = &r->rules;
    if (rules->n_replaces == VOCAB_REPLACES)
        return tokenizer_json_unsupported(r, step, "Replace", "too many of them");
    rules->replaces[rules->n_replaces].from = from;
    rules->replaces[rules->n_replaces++].to = to;
    return STATUS_OK;
}

static enum status tokenizer_json_steps_read_decoder(struct json_reader *r,
                                                     const struct json_place *step);

static enum status decoders(struct json_reader *r, const struct json_place *step)
{
    return read_sequence(r, step, "decoders", tokenizer_json_steps_read_decoder);
}

static enum status tokenizer_json_steps_decode_bytes(struct json_reader *r,
                                                     const struct json_place *step)
{
    (void)step;
    r->rules.byte_level = true;
    return STATUS_OK;
}

static enum status decode_fallback(struct json_reader *r, const struct json_place *step)
{
    (void)step;
    r->rules.bytes = true;
    return STATUS_OK;
}

static enum status decode_replace(struct json_reader *r, const struct json_place *step)
{
    const char *pattern = "", *content = "";
    bool literal = false;
    enum status status = tokenizer_json_steps_read_pattern(r, step, &pattern, &literal);
    if (status == STATUS_OK)
        status = tokenizer_json_text(r, step, "content", true, &content);
    if (status != STATUS_OK)
        return status;
    if (!literal)
        return tokenizer_json_unsupported(r, step, "Replace", "a Regex in a decoder");
    return add_replace(r, step, pattern, content);
}

static enum status decode_strip(struct json_reader *r, const struct json_place *step)
{
    struct json_place start = tokenizer_json_member(step, "start");
    struct json_place stop = tokenizer_json_member(step, "stop");
    const char *content = "";
    int32_t first = 0, last = 0;
    enum status status = tokenizer_json_text(r, step, "content", true, &content);
    if (status == STATUS_OK)
        status = tokenizer_json_id(r, &start, 256, &first);
    if (status == STATUS_OK)
        status = tokenizer_json_id(r, &stop, 256, &last);
    if (status != STATUS_OK)
        return status;
    if (last > 0 || strcmp(content, " ") != 0)
        return tokenizer_json_unsupported(r, step, "Strip", "of anything but spaces at the start");
    r->tokenizer->strip_first = (size_t)first;
    return STATUS_OK;
}

static enum status decode_metaspace(struct json_reader *r, const struct json_place *step)
{
    const char *replacement = "";
    enum pretok_prepend when;
    enum status status = tokenizer_json_steps_read_metaspace(r, step, &replacement, &when);
    if (status != STATUS_OK)
        return status;
    if (replacement[0] == '\0')
        return tokenizer_json_expected(r, step, "a replacement that is not empty");
    r->tokenizer->strip_first = when != PRETOK_NEVER;
    return add_replace(r, step, replacement, " ");
}

static enum status tokenizer_json_steps_read_decoder(struct json_reader *r,
                                                     const struct json_place *step)
{
    static const struct kind kinds[] = {
        {"Sequence", decoders},
        {"ByteLevel", tokenizer_json_steps_decode_bytes},
        {"Replace", decode_replace},
        {"ByteFallback", decode_fallback},
        {"Fuse", nothing},
        {"Strip", decode_strip},
        {"Metaspace", decode_metaspace},
        {NULL, NULL},
    };
    return read_kind(r, step, kinds);
}

enum status tokenizer_json_steps(struct json_reader *r, const struct json_place *root)
{
    static const struct {
        const char *name;
        step_reader read;
    } members[] = {{"normalizer", tokenizer_json_steps_read_normalizer},
                   {"pre_tokenizer", read_pretok},
                   {"decoder", tokenizer_json_steps_read_decoder}};
    enum status status = STATUS_OK;
    r->tokenizer->pretok = pretok_new();
    if (!r->tokenizer->pretok)
        return no_memory_for_tokenizer(r->err);
    for (size_t i = 0; status == STATUS_OK && i < sizeof members / sizeof members[0]; i++) {
        struct json_place m = tokenizer_json_member(root, members[i].name);
        if (m.value && !json_is_null(m.value))
            status = members[i].read(r, &m);
    }
    if (status != STATUS_OK)
        return status;
    struct json_place decoder = tokenizer_json_member(root, "decoder");
    if (r->rules.byte_level && !r->any_byte_level)
        return tokenizer_json_unsupported(r, &decoder, "ByteLevel",
                                          "without a ByteLevel pre-tokenizer");
    r->rules.byte_level = r->any_byte_level; /* a file may have no decoder */
    return STATUS_OK;
}

/* --- post-processors ------------------------------------------------------------------------ */

static enum status push_around(struct json_reader *r, bool after, const struct json_place *id)
{
    struct tokens *to = after ? &r->tokenizer->after : &r->tokenizer->before;
    int32_t value = -1;
    enum status status = tokenizer_json_id(r, id, r->tokenizer->vocab.count, &value);
    if (status != STATUS_OK)
        return status;
    return tokens_push(to, value) ? STATUS_OK : no_memory_for_tokenizer(r->err);
}

/* {"id": name, ...}: the ids that special_tokens has for the name. */
static enum status push_special(struct json_reader *r, const struct json_place *step,
                                const struct json_place *special, bool after)
{
    struct json_place all = tokenizer_json_member(step, "special_tokens");
    const char *name = "";
    enum status status = tokenizer_json_text(r, special, "id", true, &name);
    if (status != STATUS_OK)
        return status;
    struct json_place token = tokenizer_json_member(&all, name);
    struct json_place ids = tokenizer_json_member(&token, "ids");
    if (!json_is_array(ids.value))
        return tokenizer_json_expected(r, &ids, "an array of ids");
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(ids.value); i++) {
        struct json_place id = tokenizer_json_element(&ids, i);
        status = push_around(r, after, &id);
    }
    return status;
}

/* "single": what goes before the Sequence, and after it. */
static enum status template(struct json_reader *r, const struct json_place *step) {
    struct json_place single = tokenizer_json_member(step, "single");
    enum status status = STATUS_OK; bool after = false;

    if (!json_is_array(single.value)) return tokenizer_json_expected(r, &single, "an array");
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(single.value);
         i++){struct json_place part = tokenizer_json_element(&single, i);
              struct json_place special = tokenizer_json_member(&part, "SpecialToken");
              if (special.value) status = push_special(r, step, &special, after);
              else if (json_object_get(part.value, "Sequence")) after = true;
              else status = tokenizer_json_expected(r, &part, "a SpecialToken or a Sequence");}
return status;
}

/* Bert and Roberta: cls, the text, sep, each as [text, id]. */
static enum status cls_and_sep(struct json_reader *r, const struct json_place *step)
{
    struct json_place cls = tokenizer_json_member(step, "cls");
    struct json_place sep = tokenizer_json_member(step, "sep");
    struct json_place cls_id = tokenizer_json_element(&cls, 1);
    struct json_place sep_id = tokenizer_json_element(&sep, 1);
    enum status status = push_around(r, false, &cls_id);
    return status == STATUS_OK ? push_around(r, true, &sep_id) : status;
}

static enum status read_post(struct json_reader *r, const struct json_place *step);

static enum status tokenizer_json_steps_processors(struct json_reader *r,
                                                   const struct json_place *step)
{
    return read_sequence(r, step, "processors", read_post);
}

static enum status read_post(struct json_reader *r, const struct json_place *step)
{
    static const struct kind kinds[] = {
        {"Sequence", tokenizer_json_steps_processors},
        {"ByteLevel", nothing},
        {"TemplateProcessing", template},
        {"BertProcessing", cls_and_sep},
        {"RobertaProcessing", cls_and_sep},
        {NULL, NULL},
    };
    return read_kind(r, step, kinds);
}

enum status tokenizer_json_around(struct json_reader *r, const struct json_place *post)
{
    return !post->value || json_is_null(post->value) ? STATUS_OK : read_post(r, post);
}
