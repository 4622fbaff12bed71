/* One call of a server and its answer, as a record sees it.
 *
 *     body ─► stream ─► headers: accepted_us
 *                    ─► data ─► grpc_frames ─► grpc_chunk ─► a message with content: its stamp
 *                    ─► trailers: the status ─► the stream closes: end_us, and what made it fail
 *
 * Bytes that come together have one stamp: the clock is read once a receive.
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_GRPC_CALL_H
#define FIRSTLIGHT_BENCH_CLIENT_GRPC_CALL_H

#include "base/buf.h"
#include "bench/client/grpc_frames.h"
#include "bench/client/grpc_peer.h"
#include "bench/client/net_call.h"
#include "bench/load/workload.h"

struct grpc_conn;

struct grpc_call {
    struct net_call base;
    const struct grpc_peer *peer;
    const char *path; /* "/package.Service/Method" */
    struct buf body;  /* with its frame; read while it is sent */
    size_t body_sent;
    struct grpc_frames frames;
    struct buf *list;               /* of ListModels: the message goes here instead */
    int grpc_status;                /* -1: none came */
    char type[64], words[256];      /* content-type; grpc-message as it came; cut */
    char retry_s[16], retry_ms[16]; /* retry-after, grpc-retry-pushback-ms */
    struct grpc_conn *conn;         /* its connection; NULL: not sent */
    int32_t stream_id;
    struct grpc_call *prev, *next; /* of the connection */
    /* The target's: told when the record has ended and the exchange is idle. */
    void (*ended)(struct grpc_call *x);
    void *owner;
    int64_t deadline_us;
    struct grpc_call *earlier, *later; /* those that run, by deadline */
};

/* NULL: no memory. The peer outlives it. */
struct grpc_call *grpc_call_create(const struct grpc_peer *p, void (*ended)(struct grpc_call *x),
                                   void *owner);
void grpc_call_destroy(struct grpc_call *x); /* takes NULL */

/* Makes the call; the record is running from here on. The item is not needed any more after. */
enum status grpc_call_prepare(struct grpc_call *x, const char *model, const struct work_item *item,
                              struct record *r, struct err *err);
/* The call for the models; the answer, a ListModelsResponse, is added to *list. */
enum status grpc_call_prepare_list(struct grpc_call *x, struct buf *list, struct record *r,
                                   struct err *err);

/* For the connection, in the order that things come. */
void grpc_call_field(struct grpc_call *x, const char *name, const char *value, size_t len);
void grpc_call_head(struct grpc_call *x, int64_t now_us); /* the fields were of a head */
/* False: it is of no use and need not go on. */
bool grpc_call_data(struct grpc_call *x, const char *bytes, size_t len, int64_t now_us);
/* The stream is closed; why_not NULL: not for an error. */
void grpc_call_end(struct grpc_call *x, const char *why_not);

/* Writes what was heard into the record and ends it. The exchange is idle. */
void grpc_call_end_cancelled(struct grpc_call *x);
void grpc_call_end_failed(struct grpc_call *x, const char *why);

#endif
