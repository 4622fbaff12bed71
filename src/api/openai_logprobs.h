/* Log probabilities as JSON: which tokens are told of. How is each API's own (api_kind.h).
 *
 * There is an entry per token of the text: none for the token that ended the answer, none for those
 * that spell a stop string. A token that is only part of a character has no text of its own: its
 * bytes stand as \xNN (after "bytes:" in completions, as the API has it), and chats also have
 * `bytes`. Offsets count characters of the text, which with echo begins with the prompt's; of the
 * prompt's first token nothing is known: null.
 */
#ifndef FIRSTLIGHT_API_OPENAI_LOGPROBS_H
#define FIRSTLIGHT_API_OPENAI_LOGPROBS_H

#include "api/openai_request.h"
#include "base/buf.h"
#include "engine/engine.h"
#include "text/tokenizer/tokenizer.h"

#include <stdbool.h>

/* How far an answer's entries have been written. Starts zeroed, but for ends_shown. */
struct openai_logprobs_cursor {
    uint32_t next;   /* token */
    size_t bytes;    /* of the text, whose characters are counted */
    size_t chars;    /* that they have */
    bool ends_shown; /* an end token is one like others: ignore_eos */
    bool prompt_done;
    size_t prompt_chars; /* that stand before the text */
};

/* A prompt that goes before the answer. */
struct openai_logprobs_prompt {
    const int32_t *ids;
    uint32_t n;
    const char *text;
    size_t len;
};

/* Some entries: those of the prompt first, then those of the answer. */
struct openai_logprobs_entries {
    const struct openai_logprobs_prompt *prompt; /* NULL: none of it */
    const struct request_news *all;
    uint32_t from, to; /* of the answer's */
};
uint32_t openai_logprobs_count(const struct openai_logprobs_entries *e);

/* What both API kinds make of a token's spelling and number: text when it is text, else `mark` and
 * \xNN for what is no whole character. */
void openai_logprobs_put_token(struct buf *out, const char *piece, size_t len, const char *mark);
void openai_logprobs_put_number(struct buf *out, float logprob);

/* Appends the entries from the cursor up to what the text shows; false, and nothing appended, when
 * there are none. `all` is request_all's, with log probabilities; when it has the prompt's, these
 * go first (completions only), else `prompt` may be NULL. */
bool openai_logprobs_put(struct buf *out, const struct api_kind *kind, const struct tokenizer *t,
                         const struct request_news *all,
                         const struct openai_logprobs_prompt *prompt,
                         struct openai_logprobs_cursor *cursor);

#endif
