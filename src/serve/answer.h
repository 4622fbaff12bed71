/* Answers of the OpenAI API as JSON text: whole ones, chunks of a stream, errors.
 *
 * Appends to a buf, whose `failed` is checked once by whoever sends it.
 */
#ifndef FIRSTLIGHT_SERVE_ANSWER_H
#define FIRSTLIGHT_SERVE_ANSWER_H

#include "base/buf.h"
#include "base/err.h"
#include "base/timeline.h"
#include "serve/openai.h"

#include <stdbool.h>
#include <stdint.h>

/* What all chunks of one answer share; strings are borrowed. */
struct answer {
    enum openai_kind kind;
    const char *id;
    const char *model;
    int64_t created;
    bool include_usage; /* every chunk has a `usage`, null but in the one that reports it */
};

/* How it ended. */
struct answer_end {
    const char *finish; /* "stop", "length" */
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
    uint32_t cached_tokens;          /* of the prompt, from the prefix cache */
    const struct timeline *timeline; /* with first_content stamped */
};

/* A chunk with some text; the first one of a chat also names the role. */
void answer_delta(struct buf *out, const struct answer *a, bool first, const char *text,
                  size_t len);
/* The chunk that says why it ended. The last chunk of a stream carries the measurements: this one,
 * or the usage chunk that follows when include_usage is set. */
void answer_finish(struct buf *out, const struct answer *a, const struct answer_end *end);
void answer_usage(struct buf *out, const struct answer *a, const struct answer_end *end);

/* The unstreamed answer. */
void answer_whole(struct buf *out, const struct answer *a, const char *text, size_t len,
                  const struct answer_end *end);

/* {"error": {...}}; code may be NULL. */
void answer_error(struct buf *out, const struct err *err, const char *code);

#endif
