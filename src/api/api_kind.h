/* The APIs that a completion is asked by, a row each. A row and all that is its API's own stand in
 * one file (api_chat.c, api_completions.c). What they share is in openai_request.c,
 * openai_response.c and openai_logprobs.c, which ask the row; nobody asks which API it is.
 *
 * A new API that speaks OpenAI's JSON is such a file, its row in api_kind_table, its route in
 * routes.c, and what it promises as a row of tests/unit/api/test_api_kind.c.
 *
 * One with a wire of its own has no place in api_kind_table, and brings two things more:
 * - a wire_format, as openai_sse.c is one. Its `read` fills struct openai_request itself; `json` is
 *   then an object that names the sampling parameters which were given, because the model's
 *   recommendations take the place of all others (openai_request_recommend).
 * - a function that tells its errors: http_exchange's `fail`, which routes.c has to set. What is
 *   refused before its body has come is told as the port has it (http_error_format).
 * Not there yet, for any API: a key that comes in another header than Authorization, which of the
 * stop sequences ended an answer, and the number of the prompt's tokens before an answer's end.
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
    const struct wire_format *form; /* over HTTP; gRPC has its own */
    bool chat_template;             /* its prompts go through it; a trace tells */
    const char *prompts;            /* the name of the field ... */
    const char *alternatives;       /* ... and of that which says how many are told of each token */
    /* the log probabilities of an answer; not used where `form` names another API for them */
    void (*put_logprobs)(struct buf *out, const struct tokenizer *t,
                         const struct openai_logprobs_entries *e,
                         struct openai_logprobs_cursor *cursor);

    /* --- OpenAI's JSON alone uses what follows --- */

    /* Requests. */
    const struct api_unsupported *unsupported; /* ends with a zeroed one */
    enum status (*read_prompts)(struct openai_request *q, struct err *err);
    enum status (*read_logprobs)(struct openai_request *q, struct err *err);

    /* Answers. */
    const char *object, *chunk_object; /* of a whole answer, and of each part of a stream */
    /* JSON before and behind a choice's text, and what stands for it in the chunk that
     * says why the choice ended. */
    struct api_around {
        const char *before, *behind;
    } whole, first_chunk, chunk;
    const char *last_chunk;
};

extern const struct api_kind api_chat, api_completions;
/* Those that speak OpenAI's JSON; ends with NULL. */
extern const struct api_kind *const api_kind_table[];

/* By the name of its prompts, for requests that came by no route; completions when it has none. */
const struct api_kind *api_kind_of(const json_t *request);

#endif
