/* The APIs that a completion is asked by, a row each. A row and all that is its API's own stand in
 * one file (api_chat.c, api_completions.c); a new API is such a file, its row in api_kind_table and
 * its route. What they share is in openai_request.c, openai_response.c and openai_logprobs.c, which
 * ask the row; nobody asks which API it is.
 */
#ifndef FIRSTLIGHT_API_API_KIND_H
#define FIRSTLIGHT_API_API_KIND_H

#include "api/openai_logprobs.h"
#include "api/openai_response.h"

/* A parameter of the API that this server does not implement, and the values that ask for nothing
 * beyond what is done anyway (JSON texts; null always is one). */
struct api_unsupported {
    const char *name;
    const char *harmless[3];
};

struct api_kind {
    const char *name; /* in the log and in GET /v1/debug/requests */
    const char *id_prefix;
    const char *object, *chunk_object; /* of a whole answer, and of each part of a stream */
    const struct wire_format *form;    /* over HTTP; gRPC has its own */
    bool chat_template;                /* its prompts go through it; a trace tells */

    /* Requests: names of fields, and what reads them. */
    const char *prompts;
    const char *alternatives;                  /* how many are told of each token */
    const struct api_unsupported *unsupported; /* ends with a zeroed one */
    enum status (*read_prompts)(struct openai_request *q, struct err *err);
    enum status (*read_logprobs)(struct openai_request *q, struct err *err);

    /* Answers: JSON before and behind a choice's text, and what stands for it in the chunk that
     * says why the choice ended. */
    struct api_around {
        const char *before, *behind;
    } whole, first_chunk, chunk;
    const char *last_chunk;
    void (*put_logprobs)(struct buf *out, const struct tokenizer *t,
                         const struct openai_logprobs_entries *e,
                         struct openai_logprobs_cursor *cursor);
};

extern const struct api_kind api_chat, api_completions;
extern const struct api_kind *const api_kind_table[]; /* ends with NULL */

/* By the name of its prompts, for requests that came by no route; completions when it has none. */
const struct api_kind *api_kind_of(const json_t *request);

#endif
