/* What one piece of an answer of the OpenAI API says: a chunk of a stream, or a whole answer.
 *
 * Written for every server that speaks it. What a client has to rely on (choices, usage) must be
 * of the right type; measurements beyond the API (llama.cpp's `timings`, vLLM's `metrics`, our
 * `ttft`) are taken where they make sense and count as not there otherwise.
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_OPENAI_CHUNK_H
#define FIRSTLIGHT_BENCH_CLIENT_OPENAI_CHUNK_H

#include "base/err.h"
#include "base/timeline.h"
#include "bench/load/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who counted the tokens; a later one beats an earlier one. */
enum openai_counted { OPENAI_COUNTED_NONE, OPENAI_COUNTED_TIMINGS, OPENAI_COUNTED_USAGE };

/* `content` is of the piece read last, all else of the answer so far. */
struct openai_chunk {
    bool content;    /* it has text that a person sees, be it reasoning; a role is none */
    char finish[16]; /* "stop", "length"; "" while it runs */
    enum openai_counted counted;
    uint32_t prompt_tokens, completion_tokens, cached_tokens;
    bool has_ttft; /* every part of it */
    struct timeline_ttft ttft;
    double ttft_ms;  /* the server's own; NAN: unknown */
    double queue_ms; /* NAN: unknown */
};

void openai_chunk_init(struct openai_chunk *c);

/* STATUS_INVALID: no such chunk, err says what is wrong with it. STATUS_INTERNAL: it is an error
 * that the server reports, err holds the server's words. */
enum status openai_chunk_read(struct openai_chunk *c, const char *json, size_t len,
                              struct err *err);

/* What the answer said, into the record of its request. */
void openai_chunk_tell(const struct openai_chunk *c, struct record *r);

/* Takes a finish_reason, cut to what `finish` holds. */
void openai_chunk_finish(struct openai_chunk *c, const char *finish);

/* The server's words in the body of an answer that is an error: its message, or how the body
 * begins when it holds none. NUL-terminated, cut to out_size. Returns out. */
const char *openai_chunk_error(const char *body, size_t len, char *out, size_t out_size);

#endif
