/* Answers of the OpenAI API as JSON text: whole ones, chunks of a stream, errors.
 *
 * Appends to a buf, whose `failed` is checked once by whoever sends it.
 */
#ifndef FIRSTLIGHT_API_OPENAI_RESPONSE_H
#define FIRSTLIGHT_API_OPENAI_RESPONSE_H

#include "api/openai_request.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/timeline.h"
#include "http/http.h"

#include <stdbool.h>
#include <stdint.h>

/* What all chunks of one answer share; strings are borrowed. */
struct openai_response {
    const struct api_kind *kind;
    const char *id;
    const char *model;
    int64_t created;
    bool include_usage; /* every chunk has a `usage`, null but in the one that reports it */
};

/* Something new of one choice, or all of it. */
struct openai_response_choice {
    uint32_t index;
    bool first;       /* nothing of it was written before */
    const char *text; /* len bytes */
    size_t len;
    const char *logprobs; /* JSON; NULL: none */
    const char *finish;   /* "stop", "length"; NULL: it goes on */
};

/* How it ended, all choices together. A prompt counts once, however many answers it has. */
struct openai_response_end {
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
    uint32_t cached_tokens;          /* of the prompts, from the prefix cache */
    const struct timeline *timeline; /* with first_content stamped */
    uint32_t n_gaps;                 /* between the tokens of each choice */
    int64_t gaps_us;                 /* all of them together */
    const struct request_wait *wait; /* of the first choice */
    const char *cache;               /* see request_log_cache */
};

/* A chunk with some text; the first one of a chat's choice also names the role. */
void openai_response_delta(struct buf *out, const struct openai_response *a,
                           const struct openai_response_choice *c);
/* The chunk that says why the choice ended. The last chunk of a stream carries the measurements:
 * this one, or the usage chunk that follows when include_usage is set. `end` is NULL while other
 * choices go on. */
void openai_response_finish(struct buf *out, const struct openai_response *a,
                            const struct openai_response_choice *c,
                            const struct openai_response_end *end);
void openai_response_usage(struct buf *out, const struct openai_response *a,
                           const struct openai_response_end *end);

/* The unstreamed answer is its head, its choices with commas between, and its tail. */
void openai_response_head(struct buf *out, const struct openai_response *a);
void openai_response_choice(struct buf *out, const struct openai_response *a,
                            const struct openai_response_choice *c);
void openai_response_tail(struct buf *out, const struct openai_response_end *end);

/* The value of a Server-Timing header (W3C Server Timing) of an unstreamed answer: the parts up to
 * the first token and their sum `ttft`, then `decode` and `write`, and the sum of all, `total`. */
void openai_response_server_timing(struct buf *out, const struct timeline *t);

/* {"error": {...}}; code may be NULL. */
void openai_response_error(struct buf *out, const struct err *err, const char *code);
/* The same for the ports that the API stands behind. */
extern const struct http_error_format openai_response_errors;

#endif
