/* What a call looks like on the wire: how its question is read and its answer is written. Two
 * forms so far: JSON with server-sent events (openai_sse.c), and messages of gRPC
 * (grpc_response.c). */
#ifndef FIRSTLIGHT_API_WIRE_FORMAT_H
#define FIRSTLIGHT_API_WIRE_FORMAT_H

#include "api/openai_request.h"
#include "api/openai_response.h"
#include "base/buf.h"
#include "http/http.h"

struct wire_format {
    /* Any thread: the body, as a question. */
    enum status (*read)(struct openai_request *out, const struct api_kind *kind, const char *bytes,
                        size_t len, struct err *err);

    /* The headers of a stream. */
    void (*start)(struct http_exchange *x);
    const char *accepted; /* what a stream begins with, so that clients know */
    const char *silence;  /* what is said when nothing came for a while; NULL: neither is said */
    /* Appends what is new of a choice. */
    void (*text)(struct buf *out, const struct openai_response *a,
                 const struct openai_response_choice *c);
    /* Appends its end; with `end` it was the last choice's. */
    void (*finish)(struct buf *out, const struct openai_response *a,
                   const struct openai_response_choice *c, const struct openai_response_end *end);
    /* Appends what broke the answer off, where the end does not say it; NULL: it does. */
    void (*error)(struct buf *out, const struct err *err);
    const char *no_memory; /* what there is no memory to say of the answer; NULL: the end says it */
    /* The stream's end; an answer that was broken off says why. */
    void (*end)(struct http_exchange *x, const struct err *broken);

    /* A whole answer: head, choices, tail. */
    const char *between; /* choices */
    void (*head)(struct buf *out, const struct openai_response *a);
    void (*choice)(struct buf *out, const struct openai_response *a,
                   const struct openai_response_choice *c);
    void (*tail)(struct buf *out, const struct openai_response *a,
                 const struct openai_response_end *end);
    void (*reply)(struct http_exchange *x, const struct buf *whole);

    /* Log probabilities are put as this API puts them; NULL: as the API that was asked. */
    const struct api_kind *logprobs_as;
};

#endif
