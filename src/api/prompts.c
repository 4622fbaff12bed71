#include "api/prompts.h"

#include "base/json.h"
#include "base/limits.h"
#include "base/mem.h"

#include <stdio.h>

#define NAME_BYTES 64

enum status prompts_make(struct prompts *p, uint32_t n, struct err *err)
{
    p->all = mem_array(n, sizeof *p->all);
    if (!p->all)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u prompts", n);
    p->n = n;
    return STATUS_OK;
}

void prompts_fini(struct prompts *p)
{
    for (uint32_t i = 0; i < p->n; i++) {
        tokens_fini(&p->all[i].ids);
        buf_fini(&p->all[i].shown);
    }
    mem_free(p->all);
    *p = (struct prompts){0};
}

static enum status prompts_wrong(const json_t *found, const char *name, struct err *err)
{
    char text[64];
    return err_param(err, STATUS_INVALID, name,
                     "%s: must be a string, an array of 1 to %d strings, an array of token ids, or "
                     "an array of 1 to %d such arrays; found %s",
                     name, LIMIT_CHOICES, LIMIT_CHOICES, json_found(found, text, sizeof text));
}

static enum status prompts_read_ids(struct asked_prompt *p, const json_t *ids, const char *name,
                                    struct err *err)
{
    for (size_t i = 0; i < json_array_size(ids); i++) {
        int64_t id;
        char at[NAME_BYTES + 24];
        snprintf(at, sizeof at, "%s[%zu]", name, i);
        enum status st = json_whole(json_array_get(ids, i), at, 0, INT32_MAX, &id, err);
        if (st)
            return st;
        if (!tokens_push(&p->ids, (int32_t)id))
            return err_set(err, STATUS_NO_MEMORY, "no memory for the prompt");
    }
    return STATUS_OK;
}

static void prompts_take_text(struct asked_prompt *p, const json_t *text)
{
    p->text = json_string_value(text);
    p->len = json_string_length(text);
}

/* One of several: all must be of the first one's kind. */
static enum status prompts_read_one(struct asked_prompt *p, const json_t *value, bool texts,
                                    size_t at, struct err *err)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "prompt[%zu]", at);
    if (texts && json_is_string(value)) {
        prompts_take_text(p, value);
        return STATUS_OK;
    }
    if (!texts && json_array_size(value) > 0)
        return prompts_read_ids(p, value, name, err);
    char found[64];
    return err_param(err, STATUS_INVALID, name, "%s: must be %s, as the first one is; found %s",
                     name, texts ? "a string" : "an array of token ids",
                     json_found(value, found, sizeof found));
}

static enum status read_several(struct prompts *p, const json_t *value, struct err *err)
{
    size_t n = json_array_size(value);
    const json_t *first = json_array_get(value, 0);
    if (n > LIMIT_CHOICES || !(json_is_string(first) || json_array_size(first) > 0))
        return prompts_wrong(value, "prompt", err);
    enum status st = prompts_make(p, (uint32_t)n, err);
    for (size_t i = 0; i < n && st == STATUS_OK; i++)
        st = prompts_read_one(&p->all[i], json_array_get(value, i), json_is_string(first), i, err);
    return st;
}

enum status prompts_read(struct prompts *p, const json_t *value, struct err *err)
{
    bool text = json_is_string(value);
    if (!text && json_array_size(value) == 0)
        return prompts_wrong(value, "prompt", err);
    if (!text && !json_is_number(json_array_get(value, 0)))
        return read_several(p, value, err);
    enum status st = prompts_make(p, 1, err);
    if (st)
        return st;
    if (!text)
        return prompts_read_ids(&p->all[0], value, "prompt", err);
    prompts_take_text(&p->all[0], value);
    return STATUS_OK;
}

static enum status check_ids(const struct prompts *p, uint32_t at, uint32_t n_vocab,
                             struct err *err)
{
    const struct tokens *ids = &p->all[at].ids;
    char name[NAME_BYTES];
    size_t i = 0;
    while (i < ids->count && (uint32_t)ids->ids[i] < n_vocab)
        i++;
    if (i == ids->count)
        return STATUS_OK;
    if (p->n > 1)
        snprintf(name, sizeof name, "prompt[%u][%zu]", at, i);
    else
        snprintf(name, sizeof name, "prompt[%zu]", i);
    return err_param(err, STATUS_INVALID, name, "%s: token ids must be below %u, found %d", name,
                     n_vocab, ids->ids[i]);
}

/* What the ids spell, if it and what the ones before spell is not too much: two bytes of a question
 * may be a token of a hundred. */
static enum status spell(struct prompts *p, uint32_t at, const struct tokenizer *t, struct err *err)
{
    struct asked_prompt *one = &p->all[at];
    size_t bytes = 0, len;
    for (uint32_t i = 0; i < p->n; i++)
        bytes += p->all[i].shown.len;
    for (size_t i = 0; i < one->ids.count && bytes <= LIMIT_ECHO_BYTES; i++) {
        tokenizer_piece(t, one->ids.ids[i], &len);
        bytes += len;
    }
    if (bytes > LIMIT_ECHO_BYTES)
        return err_param(err, STATUS_TOO_LARGE, "echo",
                         "echo: the prompts as text have more than %u bytes: ask without it, or "
                         "with fewer ids",
                         LIMIT_ECHO_BYTES);
    if (!tokenizer_decode(t, one->ids.ids, one->ids.count, true, &one->shown))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the prompt");
    return STATUS_OK;
}

static enum status prompts_own_tokenize(struct prompts *p, uint32_t at, const struct tokenizer *t,
                                        bool echo, struct err *err)
{
    struct asked_prompt *one = &p->all[at];
    if (one->text)
        return tokenizer_encode(t, one->text, one->len, NULL, TOKENIZE_SPECIAL | TOKENIZE_ADD,
                                &one->ids, err);
    enum status st = check_ids(p, at, tokenizer_vocab_size(t), err);
    return st == STATUS_OK && echo ? spell(p, at, t, err) : st;
}

enum status prompts_wanted(const struct prompts *p, struct err *err)
{
    if (p->dropped && atomic_load(p->dropped))
        return err_set(err, STATUS_UNAVAILABLE, "the client has left");
    return STATUS_OK;
}

enum status prompts_tokenize(struct prompts *p, const struct tokenizer *t, bool echo,
                             struct err *err)
{
    for (uint32_t i = 0; i < p->n; i++) {
        enum status st = prompts_wanted(p, err);
        if (st == STATUS_OK)
            st = prompts_own_tokenize(p, i, t, echo, err);
        if (st)
            return st;
        if (p->all[i].ids.count == 0)
            return err_param(err, STATUS_INVALID, "prompt",
                             "prompt: %u of %u is empty: it has no tokens", i + 1, p->n);
    }
    return STATUS_OK;
}

enum status prompts_forget_text(struct prompts *p, bool echo, struct err *err)
{
    bool kept = true;
    for (uint32_t i = 0; i < p->n; i++) {
        struct asked_prompt *one = &p->all[i];
        if (echo && one->text)
            kept &= buf_append(&one->shown, one->text, one->len);
        one->text = NULL;
        one->len = 0;
    }
    return kept ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for the prompt");
}

size_t prompts_shown(const struct prompts *p)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < p->n; i++)
        bytes += p->all[i].shown.cap;
    return bytes;
}

const char *prompts_text(const struct prompts *p, uint32_t at, size_t *len)
{
    const struct asked_prompt *one = &p->all[at];
    *len = one->text ? one->len : one->shown.len;
    return one->text ? one->text : buf_str(&one->shown);
}
