/* A chat as a prompt: messages, rendered with the model's template, as token ids.
 *
 * Special tokens that the template writes become special tokens; text of a message that spells one
 * stays text (template.h's trusted mask).
 */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_CHAT_H
#define FIRSTLIGHT_TEXT_TEMPLATE_CHAT_H

#include "base/err.h"
#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>

/* Appends the prompt's ids to *out. The template sees `messages`, `add_generation_prompt`,
 * `bos_token`, `eos_token` and the members of `extra` (tools and so on; NULL: none); it is NULL
 * when the model has no template, which is STATUS_INVALID. Borrows everything; any thread. */
enum status chat_tokens(const struct template *t, const struct tokenizer *tokenizer,
                        json_t *messages, json_t *extra, bool add_generation_prompt,
                        struct tokens *out, struct err *err);

#endif
