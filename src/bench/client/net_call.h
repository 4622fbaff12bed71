/* What a call of a server and its answer are, whatever protocol carries them: the first member of
 * struct http_call and of struct grpc_call. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_NET_CALL_H
#define FIRSTLIGHT_BENCH_CLIENT_NET_CALL_H

#include "bench/client/openai_chunk.h"
#include "bench/load/record.h"

struct net_call {
    struct record *record; /* NULL: idle */
    bool stream;
    bool cancelled;            /* to be taken out by the next poll */
    struct openai_chunk heard; /* what the answer has said so far */
    int64_t last_us;           /* something came */
    bool refused;              /* the answer is of no use, because of: */
    struct err err;
    struct net_call *next, *next_idle; /* of the target: all of them, and those that are idle */
};

/* The record is running from here on. */
void net_call_begin(struct net_call *c, struct record *r, bool stream);
/* Writes what was heard into the record and ends it. The call is idle. */
void net_call_end(struct net_call *c, enum record_state state, int64_t at_us, const char *why);

/* A message was read into `heard`: one with content has its stamp. */
enum status net_call_stamp(struct net_call *c, struct err *err);
/* Why the connection ended it, told with how far it had come. */
enum status net_call_broke_off(const struct net_call *c, const char *why, struct err *err);

#endif
