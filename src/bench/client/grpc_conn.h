/* A connection to a gRPC server: HTTP/2 with prior knowledge, without TLS; a client's session of
 * nghttp2 over a socket that an epoll watches, with a pointer to the connection as its data.
 *
 * Windows are as large as they go: what comes is read at once, and the server never waits for us.
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_GRPC_CONN_H
#define FIRSTLIGHT_BENCH_CLIENT_GRPC_CONN_H

#include "base/buf.h"
#include "bench/client/grpc_call.h"

#include <nghttp2/nghttp2.h>

struct grpc_conn {
    const struct grpc_peer *peer;
    nghttp2_session *session;
    int epoll_fd, fd;
    bool connected;
    bool going; /* the server takes no more requests on it */
    bool over;  /* of no use, because of: */
    char why[160];
    bool wants_out; /* the epoll watches for it */
    struct buf out; /* frames that the socket did not take yet, from out_sent on */
    size_t out_sent;
    int64_t now_us; /* what is being read was received */
    uint64_t received;
    struct grpc_call *exchanges; /* under way on it */
    uint32_t n_exchanges;
    struct grpc_conn *next; /* the target's */
};

/* Begins to connect to the peer's address; what becomes of it a turn tells. */
enum status grpc_conn_open(struct grpc_conn **out, const struct grpc_peer *p, int epoll_fd,
                           struct err *err);
void grpc_conn_close(struct grpc_conn *c); /* takes NULL; no exchange is under way on it */

/* How many more requests it takes now. */
uint32_t grpc_conn_room(const struct grpc_conn *c);
/* Sends the call as far as that goes without waiting. Its end comes in a turn, or here already. */
enum status grpc_conn_start(struct grpc_conn *c, struct grpc_call *x, struct err *err);
/* Takes it from the connection, which tells the server (RST_STREAM with CANCEL). */
void grpc_conn_stop(struct grpc_conn *c, struct grpc_call *x);
/* Receives and sends what can be; `over` says whether the connection is then of use. */
void grpc_conn_turn(struct grpc_conn *c);
/* Ends all that is under way on one that is over. */
void grpc_conn_fail_all(struct grpc_conn *c);

#endif
