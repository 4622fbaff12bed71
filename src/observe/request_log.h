/* The last requests, each with all that is known of where its time went: GET /v1/debug/requests.
 *
 * A ring of LIMIT_RECENT_REQUESTS; the oldest makes room. I/O thread.
 */
#ifndef FIRSTLIGHT_OBSERVE_REQUEST_LOG_H
#define FIRSTLIGHT_OBSERVE_REQUEST_LOG_H

#include "base/buf.h"
#include "base/limits.h"
#include "base/timeline.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

struct request_log_entry {
    char id[48];
    char request_id[LIMIT_REQUEST_ID_BYTES + 1];
    const char *route; /* static: "chat", "completions" */
    bool streamed;
    bool gone;          /* the client left before the answer's end */
    bool submitted;     /* to the engine: what follows tokens is of meaning only then */
    int status;         /* HTTP's; 0: the client left before there was one */
    const char *finish; /* static; "refused" when it was not taken */
    int64_t created;    /* seconds since 1970 */
    struct timeline timeline;
    int64_t received_unix_us; /* the same moment as the timeline's received, by the wall clock */
    int64_t added_us;         /* of clock_now_us */
    uint32_t choices;         /* wait is that of the first */
    uint32_t prompt_tokens, completion_tokens;
    uint32_t cached_tokens;
    const char *cache; /* static; see request_log_cache */
    struct request_wait wait;
};

struct request_log {
    struct request_log_entry requests[LIMIT_RECENT_REQUESTS];
    uint64_t n; /* ever added */
};

/* The place of a new one, zeroed but for its timeline and what follows from that. */
struct request_log_entry *request_log_add(struct request_log *r, const struct timeline *t);

/* Why so much of a prompt was in the prefix cache: "hit" (all that may be), "part" (it differs from
 * what is cached from there on, or the rest was dropped), "miss" (no cached prompt of its salt
 * begins like it), "dropped" (completion_end.c: one did, but had to make room), "short" (one token
 * each, which is always computed), "off". */
const char *request_log_cache(bool cache_on, uint32_t n_prompts, uint32_t prompt_tokens,
                              uint32_t cached_tokens);

/* One of them as a JSON object. */
void request_log_put(struct buf *out, const struct request_log_entry *q);

/* The newest `limit`, newest first: {"object":"list","data":[...]}. */
void request_log_json(const struct request_log *r, uint32_t limit, struct buf *out);

#endif
