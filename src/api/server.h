/* The server: one model behind the OpenAI API, from binding the address to the last drained stream.
 *
 * server_run binds first, then loads and warms the model on a loader thread while /health answers
 * and everything else says 503, then serves until SIGTERM or SIGINT:
 *
 *     LOADING ─► READY ─signal─► DRAINING (new requests get 503, running ones finish) ─► return
 *        └──────── signal ────────────────────────────────────────────────────────────────┘
 *
 * When the model's file is lost under a ready server, everything but /health, /metrics and the like
 * says 503 (FAILED) until a signal ends it as it ends a ready one.
 *
 * SIGHUP reads keys and certificate anew (reload.h), SIGUSR1 and SIGUSR2 do nothing.
 *
 * The calling thread becomes the I/O thread. One server per process at a time (signals, libevent's
 * log).
 */
#ifndef FIRSTLIGHT_API_SERVER_H
#define FIRSTLIGHT_API_SERVER_H

#include "base/err.h"
#include "engine/engine.h"
#include "model/load/loader.h"

#include <stdbool.h>
#include <stdint.h>

struct server_ready {
    const char *url;      /* "http://127.0.0.1:8080" */
    const char *grpc_url; /* "http://127.0.0.1:8081"; NULL: none */
    const char *model;    /* the name it is served under */
    const char *engine;
    const struct engine_info *info;
    double seconds; /* since server_run was called */
};

struct access;
struct http_exchange;
struct server;

/* What answers on --grpc-port, given by whoever wires the two: the server knows no gRPC. */
struct server_rpc {
    void (*dispatch)(void *server, struct http_exchange *x);
    bool (*is_probe)(const char *path); /* of that port: http_is_probe */
};

struct server_options {
    const char *host;
    int port;                     /* 0: any free one */
    const struct server_rpc *rpc; /* answers on a port of HTTP/2; NULL: there is none */
    int grpc_port;                /* of that; 0: any free one */
    uint32_t coalesce_ms; /* of gRPC: tokens of a stream gather for so long after each message */
    const char *tls_cert, *tls_key; /* of that port; NULL: no TLS */
    uint32_t max_connections;       /* of each port */
    const char *api_key_file;       /* NULL: FIRSTLIGHT_API_KEY or no keys */
    const struct access *access;    /* what flags list of pages and names; NULL: nothing */
    const char *served_model_name;  /* NULL: the loader's name */
    uint32_t drain_seconds;
    uint32_t sse_comment_seconds;    /* a stream that was silent for so long gets a comment; >= 1 */
    uint32_t max_per_address;        /* connections of one address; 0: no bound */
    double request_rate, token_rate; /* of one API key or address, a second; 0: no bound */
    uint32_t rate_burst_s;           /* of these, that a client may use at once */
    uint32_t max_per_client;         /* requests under way of one API key or address; 0: no bound */
    uint32_t request_timeout_s; /* for a whole answer, from the request's first byte; 0: none */
    size_t request_memory;      /* of bodies until they are tokens; 0: by what is available */
    size_t unsent_memory;       /* of answers that clients have not taken; 0: likewise */
    const char *warm_prompts;   /* a file, see warm_prompts.h; NULL: none */
    bool shared_prefix_cache;   /* cached prompts are shared by all API keys */
    const char *record;         /* a file for the trace of what is asked; NULL: none */
    int record_fd;              /* of it: trace_create's */
    struct engine_options engine;
    /* Loads the model, on the loader thread. */
    enum status (*load)(void *arg, struct loader *out, struct err *err);
    /* Called once, on the I/O thread, when requests are taken. */
    void (*ready)(void *arg, const struct server_ready *ready);
    void *arg; /* of both */
};

/* Returns when a signal ended it (STATUS_OK) or when it could not start. */
enum status server_run(const struct server_options *options, struct err *err);

#endif
