/* One request to a server and its answer, as a record sees it.
 *
 *     body ─► easy handle ─► status line: accepted_us
 *                         ─► bytes ─► sse ─► openai_chunk ─► a chunk with content: its stamp
 *                         ─► end of the transfer: end_us, and what made it fail
 *
 * Bytes that come together have one stamp: the clock is read once a write callback.
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_HTTP_CALL_H
#define FIRSTLIGHT_BENCH_CLIENT_HTTP_CALL_H

#include "base/buf.h"
#include "bench/client/http_peer.h"
#include "bench/client/net_call.h"
#include "bench/client/sse.h"
#include "bench/load/workload.h"

struct http_call {
    struct net_call base;
    CURL *easy; /* of one request; NULL before the first */
    const struct http_peer *peer;
    struct buf body;   /* of the request; libcurl reads it while it is sent */
    struct sse sse;    /* of a stream */
    struct buf answer; /* of what is no stream: a whole answer, an error */
    int64_t done_us;   /* [DONE] came */
    char why[CURL_ERROR_SIZE];
};

/* NULL: no memory. The peer outlives it. */
struct http_call *http_call_create(const struct http_peer *p);
void http_call_destroy(struct http_call *x); /* takes NULL */

/* Makes the request; the record is running from here on. The item is not needed any more after. */
enum status http_call_prepare(struct http_call *x, const char *model, const struct work_item *item,
                              struct record *r, struct err *err);
/* Writes what was heard into the record and ends it. The exchange is idle. */
void http_call_end(struct http_call *x, CURLcode code);
void http_call_end_cancelled(struct http_call *x);
void http_call_end_failed(struct http_call *x, const char *why);

#endif
