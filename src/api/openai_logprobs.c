#include "api/openai_logprobs.h"

#include "base/json.h"
#include "base/utf8.h"

#include <string.h>

#define LOGPROB_LEAST (-9999.0) /* what the API says for "next to impossible" */

/* --- one token ------------------------------------------------------------------------------ */

static void openai_logprobs_put_number(struct buf *out, float logprob)
{
    double x = logprob >= LOGPROB_LEAST ? logprob : LOGPROB_LEAST; /* a NaN has no JSON */
    buf_printf(out, "%.9g", x == 0 ? 0 : x);                       /* no "-0" */
}

/* As text when it is text, else with \xNN for what is no whole character. */
static void put_token(struct buf *out, const char *piece, size_t len, const char *mark)
{
    struct buf text = {0};
    size_t n = utf8_valid_prefix(piece, len);
    if (n == len) {
        json_put_text(out, piece, len);
        return;
    }
    buf_puts(&text, mark);
    for (size_t at = 0; at < len; at += n) {
        n = utf8_valid_prefix(piece + at, len - at);
        buf_append(&text, piece + at, n);
        if (n > 0)
            continue;
        n = 1;
        buf_printf(&text, "\\x%02x", (unsigned char)piece[at]);
    }
    json_put_text(out, buf_str(&text), text.len);
    out->failed |= text.failed;
    buf_fini(&text);
}

/* --- chat ----------------------------------------------------------------------------------- */

static void put_chat_token(struct buf *out, const struct tokenizer *t,
                           const struct token_logprob *l)
{
    size_t len;
    const char *piece = tokenizer_piece(t, l->token, &len);
    buf_puts(out, "{\"token\":");
    put_token(out, piece, len, "");
    buf_puts(out, ",\"logprob\":");
    openai_logprobs_put_number(out, l->logprob);
    buf_puts(out, ",\"bytes\":[");
    for (size_t i = 0; i < len; i++)
        buf_printf(out, i > 0 ? ",%u" : "%u", (unsigned char)piece[i]);
    buf_putc(out, ']');
}

static void put_chat(struct buf *out, const struct tokenizer *t, const struct request_news *all,
                     uint32_t from, uint32_t to)
{
    buf_puts(out, "{\"content\":[");
    for (uint32_t i = from; i < to; i++) {
        const struct token_logprob *row = all->logprobs + (size_t)i * all->logprobs_width;
        buf_puts(out, i > from ? "," : "");
        put_chat_token(out, t, row);
        buf_puts(out, ",\"top_logprobs\":[");
        for (uint32_t k = 1; k < all->logprobs_width; k++) {
            buf_puts(out, k > 1 ? "," : "");
            put_chat_token(out, t, &row[k]);
            buf_putc(out, '}');
        }
        buf_puts(out, "]}");
    }
    buf_puts(out, "],\"refusal\":null}");
}

/* --- completions ---------------------------------------------------------------------------- */

static void openai_logprobs_put_key(struct buf *out, const struct tokenizer *t, int32_t token)
{
    size_t len;
    const char *piece = tokenizer_piece(t, token, &len);
    put_token(out, piece, len, "bytes:");
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
    openai_logprobs_put_key(out, t, l->token);
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

/* Some entries: those of the prompt first, then those of the answer. */
struct entries {
    const struct openai_logprobs_prompt *prompt; /* NULL: none of it */
    const struct request_news *all;
    uint32_t from, to; /* of the answer's */
};

static uint32_t openai_logprobs_count(const struct entries *e)
{
    return (e->prompt ? e->prompt->n : 0) + e->to - e->from;
}

/* Row i of count; NULL for the prompt's first token, of which nothing is known. */
static const struct token_logprob *row_at(const struct entries *e, uint32_t i)
{
    size_t width = e->all->logprobs_width;
    uint32_t n = e->prompt ? e->prompt->n : 0;
    if (i < n)
        return i > 0 ? e->all->prompt_logprobs + i * width : NULL;
    return e->all->logprobs + (e->from + i - n) * width;
}

static void openai_logprobs_put_tokens(struct buf *out, const struct tokenizer *t,
                                       const struct entries *e)
{
    for (uint32_t i = 0; i < openai_logprobs_count(e); i++) {
        const struct token_logprob *row = row_at(e, i);
        buf_puts(out, i > 0 ? "," : "");
        openai_logprobs_put_key(out, t, row ? row->token : e->prompt->ids[0]);
    }
}

static void put_logprobs(struct buf *out, const struct entries *e)
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

static void put_maps(struct buf *out, const struct tokenizer *t, const struct entries *e)
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

static void put_completion(struct buf *out, const struct tokenizer *t, const struct entries *e,
                           struct openai_logprobs_cursor *cursor)
{
    buf_puts(out, "{\"tokens\":[");
    openai_logprobs_put_tokens(out, t, e);
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

/* --- which tokens --------------------------------------------------------------------------- */

/* Token i of all->n_tokens belongs to the text that is shown, or to what was cut off it. While the
 * answer runs only what is certain counts: a text that is held back may still become a stop string,
 * and the tokens may be newer than the text. */
static bool openai_logprobs_is_shown(const struct request_news *all, uint32_t i)
{
    size_t at = all->text_before[i];
    bool last = i + 1 == all->n_tokens;
    if (at < all->text_len)
        return true;
    if (!last)
        return at == all->text_len && all->text_before[i + 1] == at;
    return all->finish == FINISH_LENGTH;
}

bool openai_logprobs_put(struct buf *out, enum openai_kind kind, const struct tokenizer *t,
                         const struct request_news *all,
                         const struct openai_logprobs_prompt *prompt,
                         struct openai_logprobs_cursor *cursor)
{
    uint32_t from = cursor->next, to = from;
    if (!all->prompt_logprobs || cursor->prompt_done)
        prompt = NULL;
    while (to < all->n_tokens && openai_logprobs_is_shown(all, to) &&
           (cursor->ends_shown || !tokenizer_is_end(t, all->tokens[to])))
        to++;
    const struct entries entries = {prompt, all, from, to};
    if (openai_logprobs_count(&entries) == 0)
        return false;
    if (kind == OPENAI_CHAT)
        put_chat(out, t, all, from, to);
    else
        put_completion(out, t, &entries, cursor);
    cursor->next = to;
    cursor->prompt_done = true;
    return true;
}
