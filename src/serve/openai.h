/* Requests of the OpenAI API: JSON in, parameters out, everything checked.
 *
 * Any thread; nothing is shared between calls. Errors are STATUS_INVALID and name the field, its
 * range and what was found. A parameter of the API that is known but not implemented is an error
 * unless it has its default value; unknown ones are ignored.
 */
#ifndef FIRSTLIGHT_SERVE_OPENAI_H
#define FIRSTLIGHT_SERVE_OPENAI_H

#include "base/err.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>

enum openai_kind { OPENAI_CHAT, OPENAI_COMPLETION };

/* Starts zeroed, ends with openai_request_fini. */
struct openai_request {
    enum openai_kind kind;
    json_t *json;       /* the whole body; owned; `model`, `prompt` borrow from it */
    const char *model;  /* NULL: none named */
    json_t *messages;   /* chat: [{"role", "content"}], contents joined to one string; owned */
    const char *prompt; /* completion: the text, or NULL when ids came */
    size_t prompt_len;
    struct tokens ids; /* completion: the prompt as ids, or empty until tokenized */
    bool stream;
    bool include_usage;
    struct request_params params; /* all but prompt and timeline */
};

enum status openai_parse(struct openai_request *out, enum openai_kind kind, const char *body,
                         size_t len, struct err *err);

/* Fills params.prompt from messages, prompt or ids, whose ids must be below the vocabulary's size.
 */
enum status openai_tokenize(struct openai_request *q, const struct loader *loader, struct err *err);

void openai_request_fini(struct openai_request *q);

#endif
