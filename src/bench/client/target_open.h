/* The targets that there are (bench/load/target.h), opened. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_TARGET_OPEN_H
#define FIRSTLIGHT_BENCH_CLIENT_TARGET_OPEN_H

#include "bench/load/target.h"
#include "engine/engine.h"

/* An engine of this process; `loader` must outlive the target. The tokenizer and the chat template
 * run inside send, on the clock, as they would in the server. */
enum status target_open_engine(struct target **out, const struct loader *loader,
                               const struct engine_options *options, struct err *err);
const struct engine *target_engine(const struct target *t); /* of such a one; NULL of others */

struct http_options {
    const char *url;          /* "http://127.0.0.1:8080", with or without a path such as /v1;
                                 "grpc://127.0.0.1:8081" */
    const char *api_key_file; /* NULL: none; its first key line is sent */
    const char *model;        /* NULL: the first that it lists */
    uint32_t timeout_seconds; /* for one request as a whole */
    uint32_t max_connections; /* at once */
};
/* A server that speaks the OpenAI API. Asks it for its models first: an unreachable server, a key
 * it refuses, a model it does not have are errors here. */
enum status target_open_http(struct target **out, const struct http_options *options,
                             struct err *err);
/* A server of proto/firstlight.proto, over HTTP/2 without TLS: as many requests on one connection
 * as LIMIT_BENCH_STREAMS and the server allow. Otherwise as above. */
enum status target_open_grpc(struct target **out, const struct http_options *options,
                             struct err *err);
/* The one of the two that the URL's scheme names. */
enum status target_open_url(struct target **out, const struct http_options *options,
                            struct err *err);

#endif
