/* Requests of the OpenAI API: JSON in, parameters out, everything checked.
 *
 * Any thread; nothing is shared between calls. Errors are STATUS_INVALID and name the field, its
 * range and what was found. A parameter of the API that is known but not implemented is an error
 * unless it has its default value; unknown ones are ignored.
 */
#ifndef FIRSTLIGHT_API_OPENAI_REQUEST_H
#define FIRSTLIGHT_API_OPENAI_REQUEST_H

#include "api/prompts.h"
#include "base/err.h"
#include "engine/engine.h"
#include "params/sampling.h"
#include "text/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>

struct api_kind;

/* Starts zeroed, ends with openai_request_fini. */
struct openai_request {
    const struct api_kind *kind;
    json_t *json; /* the whole body, until openai_request_forget_text; owned; `model`, `prompts`
                     borrow from it */
    const char *model;      /* NULL: none named */
    json_t *messages;       /* chat: [{"role", "content"}], contents joined to one string; owned */
    struct prompts prompts; /* one in a chat */
    uint32_t n;             /* choices of each prompt; prompts.n * n <= LIMIT_CHOICES */
    bool echo;              /* completion: the prompt's text goes before the answer's */
    bool stream;
    bool include_usage;
    float timeout_s; /* for the whole answer, from the request's first byte; 0: none named */
    struct request_params params; /* of every choice: all but prompt, choice and timeline */
};

enum status openai_request_parse(struct openai_request *out, const struct api_kind *kind,
                                 const char *body, size_t len, struct err *err);

/* The same of a body that was parsed to an object, which it takes over, failing or not. */
enum status openai_request_read(struct openai_request *out, const struct api_kind *kind,
                                json_t *take, struct err *err);

/* What the request leaves open becomes what the model recommends. */
void openai_request_recommend(struct openai_request *q, const struct sampling_values *v);

/* Does that, and fills the ids of all prompts, from messages, texts or ids, which must be below the
 * vocabulary's size. STATUS_TOO_LARGE with `over` of a prompt's ids: it has more tokens than `most`
 * (0: no bound). */
enum status openai_request_tokenize(struct openai_request *q, const struct loader *loader,
                                    uint32_t most, struct err *err);

/* After openai_request_tokenize, every prompt shorter than the n_ctx positions of the context:
 * whether its log probabilities are few enough to be kept. Of an answer that comes whole that is
 * all of them, of a stream those of the prompts, which come at once. */
enum status openai_request_check_logprobs(const struct openai_request *q, uint32_t n_ctx,
                                          struct err *err);

/* After tokenizing: frees the body and all that was made of it but tokens, parameters and the texts
 * that echo shows. */
enum status openai_request_forget_text(struct openai_request *q, struct err *err);

void openai_request_fini(struct openai_request *q);

#endif
