/* Who answers: an engine in this process or a server over HTTP or gRPC, behind one table.
 *
 * One thread, the load generator's. A record stays where it is from send until it has ended
 * (state past RECORD_RUNNING).
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_TARGET_H
#define FIRSTLIGHT_BENCH_CLIENT_TARGET_H

#include "bench/load/record.h"
#include "bench/load/workload.h"
#include "engine/engine.h"

struct target;

struct target_ops {
    /* Starts one request and returns at once; a failure is the record's. Stamps sent_us itself, as
     * late as it can. The item is borrowed until the record has ended. */
    void (*send)(struct target *t, const struct work_item *item, struct record *r);
    /* Takes what has come, or sleeps until something comes or `until_us` (on the clock) passes.
     * Says in woke_us when it began to take. */
    void (*poll)(struct target *t, int64_t until_us);
    /* The record ends with RECORD_CANCELLED in a poll to come, or with what came before. */
    void (*cancel)(struct target *t, struct record *r);
    void (*close)(struct target *t);
    /* Bytes that its connections have received so far, whatever they were: heads, frames, what TLS
     * adds, answers of requests that were cancelled. NULL: it has no connections. */
    uint64_t (*received)(const struct target *t);
};

struct target {
    const struct target_ops *ops;
    bool in_process;
    int64_t woke_us;  /* when the last poll stopped sleeping: what it then took was stamped later */
    char model[128];  /* the name for tables */
    char engine[128]; /* engine's name and device, or the URL */
};

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
