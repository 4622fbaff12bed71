/* A server that speaks the OpenAI API, as a target. */
#include "bench/client/target_internal.h"
#include "bench/client/target_open.h"

#include "base/clock.h"
#include "base/mem.h"
#include "bench/client/http_call.h"
#include "bench/client/http_loop.h"
#include "bench/client/http_peer.h"
#include "bench/client/net_bytes.h"

struct http_target {
    struct target_net net;
    struct http_peer peer;
    struct http_loop loop;
    struct net_bytes wire; /* of all but the question for models */
};

static struct http_target *target_http_of(struct target *t)
{
    return (struct http_target *)t;
}

static struct net_call *target_http_create_call(void *target)
{
    struct http_call *x = http_call_create(&((struct http_target *)target)->peer);
    return x ? &x->base : NULL;
}

static void target_http_destroy_call(struct net_call *c)
{
    http_call_destroy((struct http_call *)c);
}

static void target_http_send_item(struct target *base, const struct work_item *item,
                                  struct record *r)
{
    struct http_target *t = target_http_of(base);
    struct err err;
    struct http_call *x = target_net_take(&t->net, target_http_create_call, r);
    if (!x)
        return;
    enum status st = http_call_prepare(x, t->net.model, item, r, &err);
    if (st == STATUS_OK && !net_bytes_watch(&t->wire, x->easy))
        st = err_set(&err, STATUS_NO_MEMORY, "no memory for a request");
    r->sent_us = clock_now_us();
    if (st == STATUS_OK)
        st = http_loop_start(&t->loop, x->easy, &err);
    if (st) {
        http_call_end_failed(x, err.text);
        target_net_give(&t->net, &x->base);
    }
}

static void end_one(struct http_target *t, struct http_call *x)
{
    http_loop_stop(&t->loop, x->easy);
    http_call_end_cancelled(x);
    target_net_give(&t->net, &x->base);
}

static void target_http_end_cancelled(struct http_target *t)
{
    for (struct net_call *c = t->net.all; c && t->net.n_cancelled > 0; c = c->next)
        if (c->record && c->cancelled)
            end_one(t, (struct http_call *)c);
}

static void target_http_poll_answers(struct target *base, int64_t until_us)
{
    struct http_target *t = target_http_of(base);
    CURL *easy;
    CURLcode code;
    http_loop_step(&t->loop, t->net.n_cancelled > 0 ? 0 : until_us);
    base->woke_us = t->loop.woke_us;
    while ((easy = http_loop_ended(&t->loop, &code))) {
        struct http_call *x = NULL;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, &x);
        http_call_end(x, code);
        target_net_give(&t->net, &x->base);
    }
    target_http_end_cancelled(t);
}

static void target_http_close_target(struct target *base)
{
    struct http_target *t = target_http_of(base);
    for (struct net_call *c = t->net.all; c; c = c->next)
        if (c->record)
            end_one(t, (struct http_call *)c);
    target_net_fini(&t->net, target_http_destroy_call);
    http_loop_close(&t->loop);
    net_bytes_fini(&t->wire);
    http_peer_fini(&t->peer);
    mem_free(t);
    curl_global_cleanup();
}

static uint64_t target_http_received(const struct target *base)
{
    return net_bytes_received(&((const struct http_target *)base)->wire);
}

static const struct target_ops ops = {
    .send = target_http_send_item,
    .poll = target_http_poll_answers,
    .cancel = target_net_cancel,
    .close = target_http_close_target,
    .received = target_http_received,
};

static enum status target_http_find_model(struct http_target *t, const char *asked, struct err *err)
{
    char name[1024];
    enum status st = http_peer_model(&t->peer, asked, name, sizeof name, err);
    return st ? st : target_net_name(&t->net, name, t->peer.base, err);
}

enum status target_open_http(struct target **out, const struct http_options *options,
                             struct err *err)
{
    enum status st = target_net_allow_files(options->max_connections, err);
    if (st)
        return st;
    struct http_target *t = mem_zalloc(sizeof *t);
    if (!t)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a target");
    t->net.base.ops = &ops;
    t->loop.epoll_fd = -1;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    st = http_peer_init(&t->peer, options->url, options->api_key_file, options->timeout_seconds,
                        err);
    if (st == STATUS_OK)
        st = http_loop_open(&t->loop, options->max_connections, err);
    if (st == STATUS_OK)
        st = target_http_find_model(t, options->model, err);
    if (st) {
        target_http_close_target(&t->net.base);
        return st;
    }
    *out = &t->net.base;
    return STATUS_OK;
}
