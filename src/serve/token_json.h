/* Log probabilities as JSON, in both dialects.
 *
 *     chat         {"content": [{"token", "logprob", "bytes", "top_logprobs": [...]}],
 *                   "refusal": null}
 *     completions  {"tokens": [...], "token_logprobs": [...], "top_logprobs": [{token: logprob}],
 *                   "text_offset": [...]}
 *
 * There is an entry per token of the text: none for the token that ended the answer, none for those
 * that spell a stop string. A token that is only part of a character has no text of its own: its
 * bytes stand as \xNN (after "bytes:" in completions, as the API has it), and chats also have
 * `bytes`. Offsets count characters of the answer's text.
 */
#ifndef FIRSTLIGHT_SERVE_TOKEN_JSON_H
#define FIRSTLIGHT_SERVE_TOKEN_JSON_H

#include "base/buf.h"
#include "engine/engine.h"
#include "serve/openai.h"
#include "text/tokenizer.h"

#include <stdbool.h>

/* How far an answer's entries have been written. Starts zeroed, but for ends_shown. */
struct token_cursor {
    uint32_t next;   /* token */
    size_t bytes;    /* of the text, whose characters are counted */
    size_t chars;    /* that they have */
    bool ends_shown; /* an end token is one like others: ignore_eos */
};

/* Appends the entries from the cursor up to what the text shows; false, and nothing appended, when
 * there are none. `all` is request_all's, with log probabilities. */
bool token_json_put(struct buf *out, enum openai_kind kind, const struct tokenizer *t,
                    const struct request_news *all, struct token_cursor *cursor);

#endif
