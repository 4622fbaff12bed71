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

/* Starts zeroed, ends with prompts_fini. */
struct prompts {
    struct asked_prompt *all;
    uint32_t n;
    const atomic_bool *dropped; /* true: nobody wants their tokens any more; NULL: somebody does */
};

/* Room for n prompts, all empty. */
enum status prompts_make(struct prompts *p, uint32_t n, struct err *err);
enum status prompts_read(struct prompts *p, const json_t *value, struct err *err);
/* Tokenizes texts and checks ids; with `echo` also spells ids, in LIMIT_ECHO_BYTES together.
 * STATUS_UNAVAILABLE: they were dropped meanwhile, and the rest is not done. */
enum status prompts_tokenize(struct prompts *p, const struct tokenizer *t, bool echo,
                             struct err *err);
/* STATUS_UNAVAILABLE: nobody wants their tokens any more. */
enum status prompts_wanted(const struct prompts *p, struct err *err);
/* Texts are borrowed no longer; those that echo shows become the prompt's own. */
enum status prompts_forget_text(struct prompts *p, bool echo, struct err *err);
/* Bytes that it holds for echo. */
size_t prompts_shown(const struct prompts *p);
/* The text that echo gives back, *len bytes. */
const char *prompts_text(const struct prompts *p, uint32_t at, size_t *len);
void prompts_fini(struct prompts *p);

#endif
