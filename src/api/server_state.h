/* What the parts of the server share. I/O thread only, but for what the loader thread fills before
 * it wakes the I/O thread, and `loader` and `model_name`, which never change from then on. */
#ifndef FIRSTLIGHT_API_SERVER_STATE_H
#define FIRSTLIGHT_API_SERVER_STATE_H

#include "api/keys.h"
#include "api/memory_trim.h"
#include "api/openai_request.h"
#include "api/rate_limit.h"
#include "api/server.h"
#include "api/wire_format.h"
#include "base/wake.h"
#include "http/access.h"
#include "http/client_limit.h"
#include "http/http1.h"
#include "http/http2.h"
#include "http/text_worker.h"
#include "observe/event_stream.h"
#include "observe/metrics.h"
#include "observe/request_log.h"
#include "observe/trace.h"

#include <event2/event.h>
#include <pthread.h>

struct completion;

enum server_state { SERVER_LOADING, SERVER_READY, SERVER_DRAINING, SERVER_FAILED };
/* "loading", "ok", "draining", "failed" */
const char *server_state_name(enum server_state state);

/* Part of something that is to be told when the server's state changes. */
struct server_watch {
    void (*changed)(struct server_watch *w);
    struct server_watch *next, *prev;
};

#define SERVER_SIGNALS 5 /* that are answered */

struct server {
    struct server_options options;
    enum server_state state;
    int64_t start_us;
    int64_t start_unix_s;
    struct event_base *base;
    struct http1 *http;
    struct http2 *http2; /* NULL without --grpc-port */
    struct keys *keys;
    bool keyed;               /* each API key has cached prompts of its own ... */
    struct key_secret secret; /* ... by this secret of the process: see cache_salt.h */
    struct access access;     /* before the first request: which pages may ask, by which names */
    struct byte_budget unsent_memory;  /* answers that clients have not taken ... */
    struct byte_budget keyless_memory; /* ... and those of them for which no key is asked */
    struct byte_budget request_memory; /* the bodies of requests, until they are tokens */
    struct byte_budget stream_memory;  /* streams of HTTP/2, and bodies that need no key */
    struct client_limit *clients;      /* NULL without --max-requests-per-client */
    struct client_limit *addresses; /* of connections; NULL without --max-connections-per-address */
    struct rate_limit *rates; /* NULL without --max-requests-per-second, --max-tokens-per-second */
    struct text_worker *text;
    struct memory_trim *trim;
    struct trace *trace; /* NULL without --record */
    struct metrics metrics;
    struct request_log recent;
    struct event_stream events;
    struct server_watch *watches;
    struct completion *calls; /* all calls under way, from completion_begin to their log line */
    uint32_t n_awaited;       /* exchanges of server_state_await that have not ended */

    /* filled by the loader thread */
    pthread_t load_thread;
    struct wake loaded;
    enum status load_status;
    struct err load_err;
    struct loader loader;
    struct engine *engine;

    struct engine_info info;
    struct err failure; /* the engine's; all zero while it can be believed */
    const char *model_name;
    struct event *loaded_event, *engine_event, *deadline_event;
    struct event *signal_events[SERVER_SIGNALS];
    bool loading;   /* the loader thread has not been joined */
    bool cancelled; /* the time to drain was up once */
};

/* STATUS_UNAVAILABLE while the model is loading: what needs it has to wait. */
enum status server_state_check_loaded(const struct server *s, struct err *err);

/* From then on, until it is taken out, w->changed is called on every change of the state. */
void server_state_watch(struct server *s, struct server_watch *w);
void server_state_unwatch(struct server *s, struct server_watch *w);
/* Calls them. None of them may take a watch out. */
void server_state_tell(const struct server *s);

/* A call, an exchange that is awaited, or a reader of the live stream has ended: while draining,
 * the last one ends the server. */
void server_state_call_ended(struct server *s);

/* A request that has come whole, over HTTP/2: while draining, the server waits for the end of its
 * answer as it does for that of a call. */
void server_state_await(struct server *s, struct http_exchange *x);

/* May a client with this Authorization header (NULL: none came) be answered? *key is the client's,
 * and *secret (NULL: not asked for) makes the salts of its prompts. STATUS_UNAUTHENTICATED,
 * STATUS_NO_MEMORY. */
enum status server_state_check_key(const struct server *s, const char *authorization, uint64_t *key,
                                   struct key_secret *secret, struct err *err);

/* The server as observe sees it; the moving averages are as they were ... */
void server_state_view(const struct server *s, struct server_view *out);
/* ... or brought up to date first. */
void server_state_look(struct server *s, struct server_view *out);

#endif
