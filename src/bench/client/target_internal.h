/* What targets over a network share: their model, and their calls, which are made once and then
 * used again. Private to target*.c. */
#ifndef FIRSTLIGHT_BENCH_CLIENT_TARGET_INTERNAL_H
#define FIRSTLIGHT_BENCH_CLIENT_TARGET_INTERNAL_H

#include "bench/client/net_call.h"
#include "bench/load/target.h"

/* The first member of both targets. */
struct target_net {
    struct target base;
    char *model;           /* whole, as the server knows it */
    struct net_call *all;  /* (at most as many as ran at once) */
    struct net_call *idle; /* those without a record */
    uint32_t n_cancelled;  /* to be taken out by the next poll */
};

/* A call for the record: an idle one, else a new one. NULL: no memory, and the record has failed.
 */
void *target_net_take(struct target_net *t, struct net_call *(*create)(void *target),
                      struct record *r);
void target_net_give(struct target_net *t, struct net_call *c); /* one that has ended */
/* target_ops' cancel. Not at once: its end may have come already, and then that counts. */
void target_net_cancel(struct target *t, struct record *r);
/* Keeps the model's name, and both as labels: cut between characters, since they end in JSON, and
 * of characters that a terminal shows. */
enum status target_net_name(struct target_net *t, const char *model, const char *url,
                            struct err *err);
/* All of it but `t` itself; no call has a record any more. */
void target_net_fini(struct target_net *t, void (*destroy)(struct net_call *c));

/* One file a connection: the soft limit, often 1024, is raised as far as that needs. */
enum status target_net_allow_files(uint32_t max_connections, struct err *err);

#endif
