#include "api/openai_logprobs.h"

#include "api/api_kind.h"
#include "base/json.h"
#include "base/utf8.h"

#define LOGPROB_LEAST (-9999.0) /* what the API says for "next to impossible" */

/* --- one token ------------------------------------------------------------------------------ */

void openai_logprobs_put_number(struct buf *out, float logprob)
{
    double x = logprob >= LOGPROB_LEAST ? logprob : LOGPROB_LEAST; /* a NaN has no JSON */
    buf_printf(out, "%.9g", x == 0 ? 0 : x);                       /* no "-0" */
}

void openai_logprobs_put_token(struct buf *out, const char *piece, size_t len, const char *mark)
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

uint32_t openai_logprobs_count(const struct openai_logprobs_entries *e)
{
    return (e->prompt ? e->prompt->n : 0) + e->to - e->from;
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

bool openai_logprobs_put(struct buf *out, const struct api_kind *kind, const struct tokenizer *t,
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
    const struct openai_logprobs_entries entries = {prompt, all, from, to};
    if (openai_logprobs_count(&entries) == 0)
        return false;
    kind->put_logprobs(out, t, &entries, cursor);
    cursor->next = to;
    cursor->prompt_done = true;
    return true;
}
