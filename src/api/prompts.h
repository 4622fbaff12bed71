/* The prompts that were asked with: what may stand in `prompt`, and their tokens.
 *
 *     "text"                 one prompt
 *     ["text", "text", ...]  several
 *     [1, 2, 3]              one, as token ids
 *     [[1, 2], [3], ...]     several
 */
#ifndef FIRSTLIGHT_API_PROMPTS_H
#define FIRSTLIGHT_API_PROMPTS_H

#include "base/buf.h"
#include "base/err.h"
#include "text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>

struct asked_prompt {
    const char *text; /* borrowed from the JSON; NULL when ids came, and in a chat */
    size_t len;
    struct tokens ids; /* empty until tokenized when there is a text */
    struct buf shown;  /* with echo: what ids spell, or the text when it is borrowed no longer */
};

/* Starts zeroed, ends with asked_fini. */
struct asked {
    struct asked_prompt *all;
    uint32_t n;
    const atomic_bool *dropped; /* true: nobody wants their tokens any more; NULL: somebody does */
};

/* Room for n prompts, all empty. */
enum status asked_make(struct asked *p, uint32_t n, struct err *err);
enum status asked_read(struct asked *p, const json_t *value, struct err *err);
/* Tokenizes texts and checks ids; with `echo` also spells ids, in LIMIT_ECHO_BYTES together.
 * STATUS_UNAVAILABLE: they were dropped meanwhile, and the rest is not done. */
enum status asked_tokenize(struct asked *p, const struct tokenizer *t, bool echo, struct err *err);
/* STATUS_UNAVAILABLE: nobody wants their tokens any more. */
enum status asked_wanted(const struct asked *p, struct err *err);
/* Texts are borrowed no longer; those that echo shows become the prompt's own. */
enum status asked_forget_text(struct asked *p, bool echo, struct err *err);
/* Bytes that it holds for echo. */
size_t asked_shown(const struct asked *p);
/* The text that echo gives back, *len bytes. */
const char *asked_text(const struct asked *p, uint32_t at, size_t *len);
void asked_fini(struct asked *p);

#endif
