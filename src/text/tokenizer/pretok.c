#include "text/tokenizer/pretok.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer/no_memory.h"
#include "text/tokenizer/regex.h"

#include <string.h>

struct pretok {
    struct pretok_step steps[PRETOK_STEPS];
    int n_steps;
    int settled; /* from this step on all only split, and keep everything */
};

struct pretok_scratch {
    struct regex_scratch *regex;
    struct buf rewritten[PRETOK_STEPS]; /* by the step that wrote it */
};

/* One call of pretok_split. */
struct split {
    const struct pretok *pretok;
    struct pretok_scratch *scratch;
    pretok_word word;
    void *ctx;
    struct err *err;
};

struct pretok *pretok_new(void)
{
    return mem_zalloc(sizeof(struct pretok));
}

static void pretok_close_step(struct pretok_step *step)
{
    regex_close(step->regex);
    mem_free(step->replacement);
}

enum status pretok_add(struct pretok *p, struct pretok_step step, struct err *err)
{
    if (p->n_steps < PRETOK_STEPS) {
        p->steps[p->n_steps++] = step;
        if (step.kind != PRETOK_SPLIT || step.behavior == PRETOK_REMOVED)
            p->settled = p->n_steps;
        return STATUS_OK;
    }
    pretok_close_step(&step);
    return err_set(err, STATUS_UNSUPPORTED, "expected at most %d pre-tokenizers", PRETOK_STEPS);
}

enum status pretok_add_split(struct pretok *p, const char *regex, enum pretok_behavior behavior,
                             bool invert, const char *name, struct err *err)
{
    struct pretok_step step = {.kind = PRETOK_SPLIT, .behavior = behavior, .invert = invert};
    enum status status = regex_open(&step.regex, regex, strlen(regex), false, name, err);
    return status == STATUS_OK ? pretok_add(p, step, err) : status;
}

void pretok_close(struct pretok *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n_steps; i++)
        pretok_close_step(&p->steps[i]);
    mem_free(p);
}

struct pretok_scratch *pretok_scratch_open(void)
{
    struct pretok_scratch *s = mem_zalloc(sizeof *s);
    if (!s)
        return NULL;
    s->regex = regex_scratch_open();
    if (!s->regex) {
        pretok_scratch_close(s);
        return NULL;
    }
    return s;
}

void pretok_scratch_close(struct pretok_scratch *s)
{
    if (!s)
        return;
    for (int i = 0; i < PRETOK_STEPS; i++)
        buf_fini(&s->rewritten[i]);
    regex_scratch_close(s->regex);
    mem_free(s);
}

/* --- splitting ------------------------------------------------------------------------------ */

static enum status split_part(const struct split *s, int level, const struct pretok_text *t);

static enum status next_level(const struct split *s, int level, const struct pretok_text *t,
                              size_t from, size_t end)
{
    struct pretok_text part = {t->bytes + from, end - from, t->first && from == 0};
    return split_part(s, level + 1, &part);
}

/* A part that waits for what comes after it: text[from, end) of the last call of take. */
struct pending {
    size_t from, end;
    bool is_match; /* of the last stretch in it */
    bool any;
};

/* Whether the next stretch belongs to the part that waits. */
static bool joins(const struct pending *p, enum pretok_behavior behavior, bool is_match)
{
    switch (behavior) {
    case PRETOK_WITH_PREVIOUS:
        return is_match && !p->is_match;
    case PRETOK_WITH_NEXT:
        return !is_match && p->is_match;
    case PRETOK_CONTIGUOUS:
        return is_match == p->is_match;
    default:
        return false;
    }
}

static enum status pretok_flush(const struct split *s, int level, const struct pretok_text *t,
                                struct pending *p)
{
    bool any = p->any;
    p->any = false;
    return any ? next_level(s, level, t, p->from, p->end) : STATUS_OK;
}

/* A match, or what lies between two. */
static enum status pretok_take(const struct split *s, int level, const struct pretok_text *t,
                               struct pending *p, size_t from, size_t end, bool is_match)
{
    const struct pretok_step *step = &s->pretok->steps[level];
    enum status status = STATUS_OK;
    is_match = is_match != step->invert;
    if (from == end)
        return STATUS_OK;
    if (step->behavior == PRETOK_ISOLATED || step->behavior == PRETOK_REMOVED)
        return is_match && step->behavior == PRETOK_REMOVED ? STATUS_OK
                                                            : next_level(s, level, t, from, end);
    if (p->any && joins(p, step->behavior, is_match)) {
        p->end = end;
        p->is_match = is_match;
        return STATUS_OK;
    }
    status = pretok_flush(s, level, t, p);
    *p = (struct pending){from, end, is_match, true};
    return status;
}

static enum status split_by_regex(const struct split *s, int level, const struct pretok_text *t)
{
    const struct pretok_step *step = &s->pretok->steps[level];
    struct pending pending = {0};
    enum status status = STATUS_OK;
    for (size_t from = 0, start, end; status == STATUS_OK && from < t->len; from = end) {
        status = regex_find(step->regex, s->scratch->regex, t->bytes, t->len, from, &start, &end,
                            s->err);
        if (status == STATUS_OK)
            status = pretok_take(s, level, t, &pending, from, start, false);
        if (status == STATUS_OK)
            status = pretok_take(s, level, t, &pending, start, end, true);
    }
    return status == STATUS_OK ? pretok_flush(s, level, t, &pending) : status;
}

static bool begins_with(const struct pretok_text *t, const char *text)
{
    size_t len = strlen(text);
    return t->len >= len && memcmp(t->bytes, text, len) == 0;
}

/* Writes the part anew: with a space before it, or with its spaces replaced. */
static enum status rewrite(const struct split *s, int level, const struct pretok_text *t)
{
    const struct pretok_step *step = &s->pretok->steps[level];
    bool metaspace = step->kind == PRETOK_REPLACE;
    struct buf *out = &s->scratch->rewritten[level];
    const char *replacement = metaspace ? step->replacement : " ";
    bool prepend =
        !metaspace || step->prepend == PRETOK_ALWAYS || (step->prepend == PRETOK_FIRST && t->first);
    buf_clear(out);
    if (prepend && !begins_with(t, replacement) && !begins_with(t, " "))
        buf_puts(out, replacement);
    for (size_t at = 0, end; at < t->len; at = end + 1) {
        const char *space = metaspace ? memchr(t->bytes + at, ' ', t->len - at) : NULL;
        end = space ? (size_t)(space - t->bytes) : t->len;
        buf_append(out, t->bytes + at, end - at);
        if (space)
            buf_puts(out, replacement);
    }
    if (out->failed)
        return no_memory_to_tokenize(s->err);
    return split_part(s, level + 1, &(struct pretok_text){buf_str(out), out->len, t->first});
}

/* Nothing that is left to do can change a part that is one character. */
static bool is_settled(const struct split *s, int level, const struct pretok_text *t)
{
    size_t n;
    if (t->len > 4 || level < s->pretok->settled || utf8_step(t->bytes, t->len, &n) != UTF8_WHOLE)
        return false;
    return n == t->len;
}

/* Cuts one part with the steps from `level` on; recursion is as deep as the list is long. */
static enum status split_part(const struct split *s, int level, const struct pretok_text *t)
{
    if (t->len == 0)
        return STATUS_OK;
    if (level == s->pretok->n_steps || is_settled(s, level, t))
        return s->word(s->ctx, t->bytes, t->len, s->err);
    if (s->pretok->steps[level].kind == PRETOK_SPLIT)
        return split_by_regex(s, level, t);
    return rewrite(s, level, t);
}

enum status pretok_split(const struct pretok *p, struct pretok_scratch *s,
                         const struct pretok_text *text, pretok_word word, void *ctx,
                         struct err *err)
{
    struct split split = {.pretok = p, .scratch = s, .word = word, .ctx = ctx, .err = err};
    return split_part(&split, 0, text);
}
