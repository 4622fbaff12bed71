#include "model/write/hf_sentencepiece.h"

#include "base/limits.h"
#include "base/mem.h"

#include <string.h>

#define META     "\xe2\x96\x81"
#define UNMERGED (-1e6f) /* nothing makes it */

/* --- spaces --------------------------------------------------------------------------------- */

static bool has_text(const json_t *object, const char *member, const char *text)
{
    const char *found = json_string_value(json_object_get(object, member));
    return found && strcmp(found, text) == 0;
}

/* What the steps were found to do. */
struct found {
    bool replaces; /* spaces become "▁" */
    enum hf_sentencepiece_prefix prefix;
    bool other;
};

static void hf_sentencepiece_read_normalizer(const json_t *n, struct found *f)
{
    const json_t *list = json_object_get(n, "normalizers");
    for (size_t i = 0; i < json_array_size(list); i++)
        hf_sentencepiece_read_normalizer(json_array_get(list, i), f);
    if (!n || json_is_null(n) || list)
        return;
    if (has_text(n, "type", "Prepend") && has_text(n, "prepend", META) && !f->replaces)
        f->prefix = HF_SENTENCEPIECE_ALWAYS;
    else if (has_text(n, "type", "Replace") && has_text(n, "content", META) &&
             has_text(json_object_get(n, "pattern"), "String", " "))
        f->replaces = true;
    else
        f->other = true;
}

static void hf_sentencepiece_read_metaspace(const json_t *p, struct found *f)
{
    const json_t *add = json_object_get(p, "add_prefix_space"); /* older files */
    f->replaces = true;
    if (has_text(p, "prepend_scheme", "first"))
        f->prefix = HF_SENTENCEPIECE_META_FIRST;
    else if (!has_text(p, "prepend_scheme", "never") && !json_is_false(add))
        f->prefix = HF_SENTENCEPIECE_META_ALWAYS;
    /* a split at "▁" keeps pieces from reaching across words: no score says that */
    f->other |= !has_text(p, "replacement", META) || !json_is_false(json_object_get(p, "split"));
}

/* Gemma's split at spaces comes when there are none any more. */
static void read_pre_tokenizer(const json_t *p, struct found *f)
{
    if (!p || json_is_null(p))
        return;
    if (has_text(p, "type", "Metaspace") && !f->replaces)
        hf_sentencepiece_read_metaspace(p, f);
    else if (!(has_text(p, "type", "Split") && f->replaces &&
               has_text(json_object_get(p, "pattern"), "String", " ")))
        f->other = true;
}

bool hf_sentencepiece_find(const json_t *tokenizer, enum hf_sentencepiece_prefix *out)
{
    struct found f = {.prefix = HF_SENTENCEPIECE_NEVER};
    hf_sentencepiece_read_normalizer(json_object_get(tokenizer, "normalizer"), &f);
    read_pre_tokenizer(json_object_get(tokenizer, "pre_tokenizer"), &f);
    *out = f.prefix;
    return f.replaces && !f.other;
}

/* --- scores --------------------------------------------------------------------------------- */

/* What a merge makes: "a b", or ["a", "b"]. */
static bool read_merge(const json_t *merge, struct buf *piece)
{
    const char *left = json_string_value(json_array_get(merge, 0));
    const char *right = json_string_value(json_array_get(merge, 1));
    buf_clear(piece);
    if (json_is_string(merge)) {
        left = json_string_value(merge);
        right = *left ? strchr(left + 1, ' ') : NULL;
        buf_append(piece, left, right ? (size_t)(right - left) : 0);
        right = right ? right + 1 : NULL;
    } else if (left && right) {
        buf_puts(piece, left);
    }
    if (!left || !right)
        return false;
    buf_puts(piece, right);
    return true;
}

/* From the last merge to the first, so that the first of several counts. Merges of pieces that are
 * not in the vocabulary never apply. */
static bool score(const json_t *model, float *scores, uint32_t n_vocab)
{
    const json_t *merges = json_object_get(model, "merges");
    const json_t *vocab = json_object_get(model, "vocab");
    struct buf piece = {0};
    bool good = json_is_array(merges) && json_array_size(merges) <= LIMIT_MODEL_MERGES;
    for (size_t i = good ? json_array_size(merges) : 0; i-- > 0 && good;) {
        good = read_merge(json_array_get(merges, i), &piece) && !piece.failed;
        const json_t *id = good ? json_object_get(vocab, buf_str(&piece)) : NULL;
        if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < n_vocab)
            scores[json_integer_value(id)] = -(float)i;
    }
    buf_fini(&piece);
    return good;
}

enum status hf_sentencepiece_scores(const json_t *model, uint32_t n_vocab, struct gguf_build *b,
                                    struct err *err)
{
    float *scores = mem_array(n_vocab, sizeof *scores);
    if (!scores)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u scores", n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++)
        scores[i] = UNMERGED;
    bool good = score(model, scores, n_vocab);
    gguf_build_array(b, "tokenizer.ggml.scores", GGUF_F32, n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++)
        gguf_build_element_f32(b, scores[i]);
    mem_free(scores);
    return good ? STATUS_OK
                : err_param(err, STATUS_INVALID, "model.merges",
                            "model.merges: expected an array of up to %u pairs of strings",
                            LIMIT_MODEL_MERGES);
}

/* --- pieces --------------------------------------------------------------------------------- */

bool hf_sentencepiece_is_byte(const char *piece)
{
    static const char digits[] = "0123456789ABCDEFabcdef";
    return strlen(piece) == 6 && memcmp(piece, "<0x", 3) == 0 && strspn(piece + 3, digits) == 2 &&
           piece[5] == '>';
}

void hf_sentencepiece_plain(struct buf *out, const char *piece)
{
    for (const char *meta; (meta = strstr(piece, META)); piece = meta + strlen(META)) {
        buf_append(out, piece, (size_t)(meta - piece));
        buf_putc(out, ' ');
    }
    buf_puts(out, piece);
}
