/* The server as observe sees it: values of one moment, and what they are read from. Whoever runs a
 * server fills one in for each look (server_state_view). I/O thread. */
#ifndef FIRSTLIGHT_OBSERVE_SERVER_VIEW_H
#define FIRSTLIGHT_OBSERVE_SERVER_VIEW_H

#include "engine/engine.h"
#include "observe/metrics.h"
#include "observe/request_log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a bound on memory holds. */
struct server_view_memory {
    size_t held, most;
    uint64_t refused;
};

#define SERVER_VIEW_REFUSALS 16

struct server_view {
    const char *state; /* "loading", "ok", "draining", "failed" */
    bool ready, draining;
    int64_t start_unix_s;
    const char *engine_name;
    uint32_t cpu_levels;
    enum kv_type kv_type;

    const struct metrics *metrics;
    const struct request_log *recent;
    const struct histogram_view *window; /* the live stream's, by enum event_window_view; or NULL */
    int64_t window_us;                   /* and how long it is */
    uint32_t connections;                /* open now, of all ports */
    uint32_t n_refusals;
    struct {
        int http_status;
        uint64_t n;
    } refusals[SERVER_VIEW_REFUSALS]; /* before a request was made of them, of all ports */
    struct server_view_memory request_memory, stream_memory, unsent_memory;

    /* Once the model is loaded; NULL and zeros before. */
    const struct engine *engine;
    const char *model_name;
    struct engine_info info;
    struct engine_stats stats;
    struct sampling sampling; /* what a request gets that says nothing */
};

/* A request that is not admitted yet. The texts are the request's. */
struct server_view_waiting {
    const char *id, *request_id;
    int64_t queued_us; /* of clock_now_us */
    uint32_t prompt_tokens;
    uint32_t ahead; /* who came before it and has no token either */
};

#endif
