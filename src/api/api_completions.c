/* Completions: POST /v1/completions. */
#include "api/api_kind.h"
#include "api/openai_sse.h"
#include "base/json.h"
#include "base/limits.h"

#include <string.h>

static const struct api_unsupported unsupported[] = {
    {"suffix", {"\"\""}},
    {"service_tier", {"\"auto\"", "\"default\""}},
    {NULL, {NULL}},
};

static enum status api_completions_read_prompts(struct openai_request *q, struct err *err)
{
    return prompts_read(&q->prompts, json_object_get(q->json, "prompt"), err);
}

static enum status api_completions_read_logprobs(struct openai_request *q, struct err *err)
{
    const json_t *given = json_object_get(q->json, "logprobs");
    int64_t top = 0;
    enum status st = json_field_bool(q->json, "echo", &q->echo, err);
    if (st || !given || json_is_null(given) || json_is_false(given))
        return st;
    st = json_whole(given, "logprobs", 0, LIMIT_COMPLETION_LOGPROBS, &top, err);
    q->params.logprobs = true;
    q->params.top_logprobs = (uint32_t)top;
    q->params.prompt_logprobs = q->echo;
    return st;
}

/* Log probabilities: {"tokens": [...], "token_logprobs": [...],
 * "top_logprobs": [{token: logprob}], "text_offset": [...]} */

static void put_key(struct buf *out, const struct tokenizer *t, int32_t token)
{
    size_t len;
    const char *piece = tokenizer_piece(t, token, &len);
    openai_logprobs_put_token(out, piece, len, "bytes:");
}

/* An object cannot hold two tokens that are spelled alike: the likelier one stays. */
static bool spelled_before(const struct tokenizer *t, const struct token_logprob *row, uint32_t at)
{
    size_t len, other_len;
    const char *piece = tokenizer_piece(t, row[at].token, &len);
    for (uint32_t i = 1; i < at; i++) {
        const char *other = tokenizer_piece(t, row[i].token, &other_len);
        if (len == other_len && memcmp(piece, other, len) == 0)
            return true;
    }
    return false;
}

static void put_entry(struct buf *out, const struct tokenizer *t, const struct token_logprob *l,
                      bool first)
{
    buf_puts(out, first ? "" : ",");
    put_key(out, t, l->token);
    buf_putc(out, ':');
    openai_logprobs_put_number(out, l->logprob);
}

/* The likeliest, and the token itself when it is none of them. */
static void put_map(struct buf *out, const struct tokenizer *t, const struct token_logprob *row,
                    uint32_t width)
{
    struct token_logprob all[LIMIT_TOP_LOGPROBS + 2];
    memcpy(all, row, width * sizeof *all);
    all[width] = row[0];
    buf_putc(out, '{');
    for (uint32_t k = 1; k <= width; k++)
        if (!spelled_before(t, all, k))
            put_entry(out, t, &all[k], k == 1);
    buf_putc(out, '}');
}

/* Characters of the text before byte `end`, which begins one. */
static size_t count_chars(struct openai_logprobs_cursor *c, const char *text, size_t end)
{
    for (; c->bytes < end; c->bytes++)
        c->chars += ((unsigned char)text[c->bytes] & 0xc0) != 0x80;
    return c->prompt_chars + c->chars;
}

/* Row i of count; NULL for the prompt's first token, of which nothing is known. */
static const struct token_logprob *row_at(const struct openai_logprobs_entries *e, uint32_t i)
{
    size_t width = e->all->logprobs_width;
    uint32_t n = e->prompt ? e->prompt->n : 0;
    if (i < n)
        return i > 0 ? e->all->prompt_logprobs + i * width : NULL;
    return e->all->logprobs + (e->from + i - n) * width;
}

static void put_tokens(struct buf *out, const struct tokenizer *t,
                       const struct openai_logprobs_entries *e)
{
    for (uint32_t i = 0; i < openai_logprobs_count(e); i++) {
        const struct token_logprob *row = row_at(e, i);
        buf_puts(out, i > 0 ? "," : "");
        put_key(out, t, row ? row->token : e->prompt->ids[0]);
    }
}

static void put_logprobs(struct buf *out, const struct openai_logprobs_entries *e)
{
    for (uint32_t i = 0; i < openai_logprobs_count(e); i++) {
        const struct token_logprob *row = row_at(e, i);
        buf_puts(out, i > 0 ? "," : "");
        if (row)
            openai_logprobs_put_number(out, row->logprob);
        else
            buf_puts(out, "null");
    }
}

static void put_maps(struct buf *out, const struct tokenizer *t,
                     const struct openai_logprobs_entries *e)
{
    for (uint32_t i = 0; i < openai_logprobs_count(e); i++) {
        const struct token_logprob *row = row_at(e, i);
        buf_puts(out, i > 0 ? "," : "");
        if (row)
            put_map(out, t, row, e->all->logprobs_width);
        else
            buf_puts(out, "null");
    }
}

/* The prompt's tokens spell its text, but for one that was added to it (a bos). */
static void put_prompt_offsets(struct buf *out, const struct tokenizer *t,
                               const struct openai_logprobs_prompt *p,
                               struct openai_logprobs_cursor *c)
{
    struct openai_logprobs_cursor at = {0};
    size_t end = 0, len;
    for (uint32_t i = 0; i < p->n; i++) {
        bool inside = end < p->len && ((unsigned char)p->text[end] & 0xc0) == 0x80;
        buf_printf(out, i > 0 ? ",%zu" : "%zu",
                   at.chars - inside); /* of a character begun before */
        const char *piece = tokenizer_piece(t, p->ids[i], &len);
        if (len <= p->len - end && memcmp(piece, p->text + end, len) == 0)
            end += len;
        count_chars(&at, p->text, end);
    }
    c->prompt_chars = count_chars(&at, p->text, p->len);
}

static void api_completions_put_logprobs(struct buf *out, const struct tokenizer *t,
                                         const struct openai_logprobs_entries *e,
                                         struct openai_logprobs_cursor *cursor)
{
    buf_puts(out, "{\"tokens\":[");
    put_tokens(out, t, e);
    buf_puts(out, "],\"token_logprobs\":[");
    put_logprobs(out, e);
    buf_puts(out, "],\"top_logprobs\":[");
    put_maps(out, t, e);
    buf_puts(out, "],\"text_offset\":[");
    if (e->prompt)
        put_prompt_offsets(out, t, e->prompt, cursor);
    for (uint32_t i = e->from; i < e->to; i++)
        buf_printf(out, e->prompt || i > e->from ? ",%zu" : "%zu",
                   count_chars(cursor, e->all->text, e->all->text_before[i]));
    buf_puts(out, "]}");
}

const struct api_kind api_completions = {
    .name = "completions",
    .id_prefix = "cmpl",
    .object = "text_completion",
    .chunk_object = "text_completion",
    .form = &openai_sse_format,
    .prompts = "prompt",
    .alternatives = "logprobs",
    .unsupported = unsupported,
    .read_prompts = api_completions_read_prompts,
    .read_logprobs = api_completions_read_logprobs,
    .whole = {"\"text\":", ""},
    .first_chunk = {"\"text\":", ""},
    .chunk = {"\"text\":", ""},
    .last_chunk = "\"text\":\"\"",
    .put_logprobs = api_completions_put_logprobs,
};
