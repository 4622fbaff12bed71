/* A server of proto/firstlight.proto, as a target: requests share connections. */
#include "bench/client/target_internal.h"
#include "bench/client/target_open.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "bench/client/epoll_wait_us.h"
#include "bench/client/grpc_conn.h"

#include <errno.h>
#include <proto/firstlight.pb-c.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS_A_STEP 64

struct grpc_target {
    struct target_net net;
    struct grpc_peer peer;
    int epoll_fd;
    struct grpc_conn *conns;
    uint32_t n_conns, max_conns;
    uint64_t closed_received;       /* by connections that are no more */
    struct grpc_call *first, *last; /* those that run, by deadline */
};

static struct grpc_target *target_grpc_of(struct target *t)
{
    return (struct grpc_target *)t;
}

/* ---- Exchanges ---- */

static void target_grpc_ended(struct grpc_call *x)
{
    struct grpc_target *t = x->owner;
    *(x->earlier ? &x->earlier->later : &t->first) = x->later;
    *(x->later ? &x->later->earlier : &t->last) = x->earlier;
    target_net_give(&t->net, &x->base);
}

static struct net_call *target_grpc_create_call(void *target)
{
    struct grpc_call *x =
        grpc_call_create(&((struct grpc_target *)target)->peer, target_grpc_ended, target);
    return x ? &x->base : NULL;
}

static void target_grpc_destroy_call(struct net_call *c)
{
    grpc_call_destroy((struct grpc_call *)c);
}

/* All have the same time, so those sent later are due later. */
static void run_until(struct grpc_target *t, struct grpc_call *x, int64_t deadline_us)
{
    x->deadline_us = deadline_us;
    x->later = NULL;
    x->earlier = t->last;
    *(t->last ? &t->last->later : &t->first) = x;
    t->last = x;
}

/* ---- Connections ---- */

static void close_conn(struct grpc_target *t, struct grpc_conn **at)
{
    struct grpc_conn *c = *at;
    *at = c->next;
    t->n_conns--;
    t->closed_received += c->received;
    grpc_conn_close(c);
}

/* Those that are over, with all that was under way on them. */
static void reap(struct grpc_target *t)
{
    for (struct grpc_conn **at = &t->conns; *at;) {
        if (!(*at)->over) {
            at = &(*at)->next;
            continue;
        }
        grpc_conn_fail_all(*at);
        close_conn(t, at);
    }
}

/* The first with room. What was said on a connection that rests, its end perhaps, is heard first,
 * so that no request is lost on one that the server has closed. */
static struct grpc_conn *find_room(struct grpc_target *t)
{
    for (struct grpc_conn *c = t->conns; c; c = c->next) {
        if (c->n_exchanges == 0)
            grpc_conn_turn(c);
        if (grpc_conn_room(c) > 0)
            return c;
    }
    return NULL;
}

/* Where every connection is full the request waits on one of them, inside nghttp2. */
static struct grpc_conn *find_least(struct grpc_target *t)
{
    struct grpc_conn *least = NULL;
    for (struct grpc_conn *c = t->conns; c; c = c->next)
        if (!c->over && !c->going && (!least || c->n_exchanges < least->n_exchanges))
            least = c;
    return least;
}

static enum status find_conn(struct grpc_target *t, struct grpc_conn **out, struct err *err)
{
    *out = find_room(t);
    if (!*out && t->n_conns >= t->max_conns)
        *out = find_least(t);
    if (*out)
        return STATUS_OK;
    enum status st = grpc_conn_open(out, &t->peer, t->epoll_fd, err);
    if (st)
        return st;
    struct grpc_conn **end = &t->conns; /* the oldest is filled first */
    while (*end)
        end = &(*end)->next;
    *end = *out;
    t->n_conns++;
    return STATUS_OK;
}

/* ---- As a target ---- */

static void target_grpc_start(struct grpc_target *t, struct grpc_call *x, uint32_t seconds)
{
    struct err err;
    struct grpc_conn *c;
    x->base.record->sent_us = clock_now_us();
    run_until(t, x, x->base.record->sent_us + (int64_t)seconds * 1000000);
    enum status st = find_conn(t, &c, &err);
    if (st == STATUS_OK)
        st = grpc_conn_start(c, x, &err);
    if (st)
        grpc_call_end_failed(x, err.text);
}

static void target_grpc_send_item(struct target *base, const struct work_item *item,
                                  struct record *r)
{
    struct grpc_target *t = target_grpc_of(base);
    struct err err;
    struct grpc_call *x = target_net_take(&t->net, target_grpc_create_call, r);
    if (!x)
        return;
    if (grpc_call_prepare(x, t->net.model, item, r, &err) == STATUS_OK) {
        target_grpc_start(t, x, t->peer.timeout_seconds);
        return;
    }
    r->sent_us = clock_now_us();
    run_until(t, x, INT64_MAX);
    grpc_call_end_failed(x, err.text);
}

static void stop(struct grpc_call *x)
{
    if (x->conn)
        grpc_conn_stop(x->conn, x);
}

static void end_late(struct grpc_target *t)
{
    char why[96];
    while (t->first && t->first->deadline_us <= clock_now_us()) {
        struct grpc_call *x = t->first;
        stop(x);
        snprintf(why, sizeof why, "no end within %lld s: %u chunks had come",
                 (long long)(x->deadline_us - x->base.record->sent_us) / 1000000,
                 x->base.record->n_chunks);
        grpc_call_end_failed(x, why);
    }
}

static void target_grpc_end_cancelled(struct grpc_target *t)
{
    for (struct grpc_call *x = t->first, *later; x && t->net.n_cancelled > 0; x = later) {
        later = x->later;
        if (!x->base.cancelled)
            continue;
        stop(x);
        grpc_call_end_cancelled(x);
    }
}

static bool any_over(const struct grpc_target *t)
{
    for (const struct grpc_conn *c = t->conns; c; c = c->next)
        if (c->over)
            return true;
    return false;
}

static void target_grpc_poll_answers(struct target *base, int64_t until_us)
{
    struct grpc_target *t = target_grpc_of(base);
    struct epoll_event events[EVENTS_A_STEP];
    if (t->first && t->first->deadline_us < until_us)
        until_us = t->first->deadline_us;
    epoll_wait_us(t->epoll_fd, t->net.n_cancelled > 0 || any_over(t) ? 0 : until_us);
    base->woke_us = clock_now_us();
    int n = epoll_wait(t->epoll_fd, events, EVENTS_A_STEP, 0);
    for (int i = 0; i < n; i++)
        grpc_conn_turn(events[i].data.ptr);
    reap(t);
    end_late(t);
    target_grpc_end_cancelled(t);
}

static uint64_t target_grpc_received(const struct target *base)
{
    const struct grpc_target *t = (const struct grpc_target *)base;
    uint64_t n = t->closed_received;
    for (const struct grpc_conn *c = t->conns; c; c = c->next)
        n += c->received;
    return n;
}

static void target_grpc_close_target(struct target *base)
{
    struct grpc_target *t = target_grpc_of(base);
    while (t->first) {
        struct grpc_call *x = t->first;
        stop(x);
        grpc_call_end_cancelled(x);
    }
    while (t->conns)
        close_conn(t, &t->conns);
    target_net_fini(&t->net, target_grpc_destroy_call);
    if (t->epoll_fd >= 0)
        close(t->epoll_fd);
    grpc_peer_fini(&t->peer);
    mem_free(t);
}

static const struct target_ops ops = {
    .send = target_grpc_send_item,
    .poll = target_grpc_poll_answers,
    .cancel = target_net_cancel,
    .close = target_grpc_close_target,
    .received = target_grpc_received,
};

/* ---- Its models ---- */

typedef Firstlight__V1__ListModelsResponse model_list;

static enum status target_grpc_not_listed(const struct grpc_target *t, const model_list *list,
                                          const char *asked, struct err *err)
{
    struct buf names = {0};
    size_t shown = 0;
    for (; shown < list->n_models && names.len < 200; shown++)
        buf_printf(&names, "%s\"%.100s\"", shown > 0 ? ", " : "", list->models[shown]->id);
    if (shown < list->n_models)
        buf_printf(&names, " and %zu more", list->n_models - shown);
    err_param(err, STATUS_NOT_FOUND, "--model", "--model: %s has no \"%.100s\": it has %s",
              t->peer.base, asked, buf_str(&names));
    buf_fini(&names);
    return STATUS_NOT_FOUND;
}

static enum status target_grpc_choose(struct grpc_target *t, const model_list *list,
                                      const char *asked, struct err *err)
{
    if (list->n_models == 0 && !asked)
        return err_param(err, STATUS_INVALID, "--model", "--model: %s lists no model: name one",
                         t->peer.base);
    bool listed = list->n_models == 0 || !asked;
    for (size_t i = 0; i < list->n_models; i++)
        listed |= asked && strcmp(list->models[i]->id, asked) == 0;
    if (!listed)
        return target_grpc_not_listed(t, list, asked, err);
    return target_net_name(&t->net, asked ? asked : list->models[0]->id, t->peer.base, err);
}

/* A server need not list its models (UNIMPLEMENTED), if one is named. */
static enum status target_grpc_refused(struct grpc_target *t, int status, const char *why,
                                       const char *asked, struct err *err)
{
    const model_list none = FIRSTLIGHT__V1__LIST_MODELS_RESPONSE__INIT;
    if (status == status_grpc(STATUS_UNSUPPORTED) && asked)
        return target_grpc_choose(t, &none, asked, err);
    if (status == status_grpc(STATUS_UNAUTHENTICATED))
        return err_set(err, STATUS_UNAUTHENTICATED, "%s %s: %s", t->peer.base,
                       t->peer.key.text[0] ? "refuses the key of --api-key-file"
                                           : "wants a key: give one with --api-key-file",
                       why);
    return err_set(err, STATUS_UNAVAILABLE, "--url: no answer from %s: %s", t->peer.base, why);
}

static enum status read_list(struct grpc_target *t, const struct buf *answer, const char *asked,
                             struct err *err)
{
    model_list *list = firstlight__v1__list_models_response__unpack(
        NULL, answer->len, (const uint8_t *)buf_str(answer));
    if (!list)
        return err_set(err, STATUS_INVALID, "--url: %s: expected a ListModelsResponse",
                       t->peer.base);
    enum status st = target_grpc_choose(t, list, asked, err);
    firstlight__v1__list_models_response__free_unpacked(list, NULL);
    return st;
}

/* Asks at the peer's address. *reached: something answered there. */
static enum status target_grpc_ask_models(struct grpc_target *t, const char *asked, bool *reached,
                                          struct err *err)
{
    struct buf answer = {.limit = LIMIT_ANSWER_BYTES};
    struct record r;
    uint32_t most = t->peer.timeout_seconds;
    record_init(&r);
    struct grpc_call *x = target_net_take(&t->net, target_grpc_create_call, &r);
    if (!x || grpc_call_prepare_list(x, &answer, &r, err))
        return err_set(err, STATUS_NO_MEMORY, "no memory for a request");
    target_grpc_start(t, x, most < LIMIT_MODELS_SECONDS ? most : LIMIT_MODELS_SECONDS);
    while (!record_has_ended(&r))
        target_grpc_poll_answers(&t->net.base, INT64_MAX);
    *reached = r.accepted_us > 0 || t->closed_received > 0;
    enum status st = r.state == RECORD_OK
                         ? read_list(t, &answer, asked, err)
                         : target_grpc_refused(t, x->grpc_status, r.error, asked, err);
    buf_fini(&answer);
    record_fini(&r);
    return st;
}

/* The first of the host's addresses at which there is an answer. */
static enum status target_grpc_find_model(struct grpc_target *t, const char *asked, struct err *err)
{
    bool reached = false;
    enum status st = STATUS_UNAVAILABLE;
    while (st == STATUS_UNAVAILABLE && t->peer.address) {
        st = target_grpc_ask_models(t, asked, &reached, err);
        if (reached || st != STATUS_UNAVAILABLE)
            break;
        t->peer.address = t->peer.address->ai_next;
    }
    return st;
}

enum status target_open_grpc(struct target **out, const struct http_options *options,
                             struct err *err)
{
    struct grpc_target *t = mem_zalloc(sizeof *t);
    if (!t)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a target");
    t->net.base.ops = &ops;
    t->max_conns = options->max_connections;
    t->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    enum status st =
        t->epoll_fd < 0
            ? err_set(err, STATUS_IO, "epoll_create1: %s", strerror(errno))
            : target_net_allow_files(options->max_connections / LIMIT_BENCH_STREAMS, err);
    if (st == STATUS_OK)
        st = grpc_peer_init(&t->peer, options->url, options->api_key_file, options->timeout_seconds,
                            err);
    if (st == STATUS_OK)
        st = target_grpc_find_model(t, options->model, err);
    if (st) {
        target_grpc_close_target(&t->net.base);
        return st;
    }
    *out = &t->net.base;
    return STATUS_OK;
}
