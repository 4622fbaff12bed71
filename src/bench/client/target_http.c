/* A server that speaks the OpenAI API, as a target. */
#include "bench/client/target_open.h"
#include "bench/client/target_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "bench/client/http_call.h"
#include "bench/client/http_loop.h"
#include "bench/client/http_peer.h"
#include "bench/client/net_bytes.h"

struct http_target {
    struct target base;
    struct http_peer peer;
    struct http_loop loop;
    struct net_bytes wire;  /* of all but the question for models */
    char *model;            /* whole, as the server knows it */
    struct http_call *all;  /* (at most max_connections at once) */
    struct http_call *idle; /* those without a record */
    uint32_t n_cancelled;   /* to be taken out by the next poll */
};

static struct http_target *of(struct target *t)
{
    return (struct http_target *)t;
}

static struct http_call *take_exchange(struct http_target *t)
{
    struct http_call *x = t->idle;
    if (x) {
        t->idle = x->next_idle;
        return x;
    }
    x = http_call_create(&t->peer);
    if (x) {
        x->next = t->all;
        t->all = x;
    }
    return x;
}

static void give_exchange(struct http_target *t, struct http_call *x)
{
    x->next_idle = t->idle;
    t->idle = x;
}

static void send_item(struct target *base, const struct work_item *item, struct record *r)
{
    struct http_target *t = of(base);
    struct err err;
    struct http_call *x = take_exchange(t);
    if (!x) {
        r->sent_us = clock_now_us();
        record_end(r, RECORD_FAILED, r->sent_us, "no memory for a request");
        return;
    }
    enum status st = http_call_prepare(x, t->model, item, r, &err);
    if (st == STATUS_OK && !net_bytes_watch(&t->wire, x->easy))
        st = err_set(&err, STATUS_NO_MEMORY, "no memory for a request");
    r->sent_us = clock_now_us();
    if (st == STATUS_OK)
        st = http_loop_start(&t->loop, x->easy, &err);
    if (st) {
        http_call_end_failed(x, err.text);
        give_exchange(t, x);
    }
}

static void end_cancelled(struct http_target *t)
{
    for (struct http_call *x = t->all; x && t->n_cancelled > 0; x = x->next) {
        if (!x->record || !x->cancelled)
            continue;
        http_loop_stop(&t->loop, x->easy);
        http_call_end_cancelled(x);
        give_exchange(t, x);
        t->n_cancelled--;
    }
}

static void poll_answers(struct target *base, int64_t until_us)
{
    struct http_target *t = of(base);
    CURL *easy;
    CURLcode code;
    http_loop_step(&t->loop, t->n_cancelled > 0 ? 0 : until_us);
    base->woke_us = t->loop.woke_us;
    while ((easy = http_loop_ended(&t->loop, &code))) {
        struct http_call *x = NULL;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, &x);
        t->n_cancelled -= x->cancelled; /* its end came first */
        http_call_end(x, code);
        give_exchange(t, x);
    }
    end_cancelled(t);
}

/* Not at once: the transfer may have ended already, and then its end counts. */
static void cancel(struct target *base, struct record *r)
{
    struct http_call *x = r->state == RECORD_RUNNING ? r->user : NULL;
    if (!x || x->cancelled)
        return;
    x->cancelled = true;
    of(base)->n_cancelled++;
}

static void close_target(struct target *base)
{
    struct http_target *t = of(base);
    for (struct http_call *x = t->all, *next; x; x = next) {
        next = x->next;
        if (x->record) {
            http_loop_stop(&t->loop, x->easy);
            http_call_end_cancelled(x);
        }
        http_call_destroy(x);
    }
    http_loop_close(&t->loop);
    net_bytes_fini(&t->wire);
    http_peer_fini(&t->peer);
    mem_free(t->model);
    mem_free(t);
    curl_global_cleanup();
}

static uint64_t received(const struct target *base)
{
    return net_bytes_received(&((const struct http_target *)base)->wire);
}

static const struct target_ops ops = {
    .send = send_item,
    .poll = poll_answers,
    .cancel = cancel,
    .close = close_target,
    .received = received,
};

static enum status find_model(struct http_target *t, const char *asked, struct err *err)
{
    char name[1024];
    enum status st = http_peer_model(&t->peer, asked, name, sizeof name, err);
    if (st)
        return st;
    t->model = mem_strdup(name);
    if (!t->model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a model's name");
    target_put_label(t->base.model, sizeof t->base.model, name);
    target_put_label(t->base.engine, sizeof t->base.engine, t->peer.base);
    return STATUS_OK;
}

enum status target_open_http(struct target **out, const struct http_options *options,
                             struct err *err)
{
    enum status st = target_allow_files(options->max_connections, err);
    if (st)
        return st;
    struct http_target *t = mem_zalloc(sizeof *t);
    if (!t)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a target");
    t->base.ops = &ops;
    t->loop.epoll_fd = -1;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    st = http_peer_init(&t->peer, options->url, options->api_key_file, options->timeout_seconds,
                        err);
    if (st == STATUS_OK)
        st = http_loop_open(&t->loop, options->max_connections, err);
    if (st == STATUS_OK)
        st = find_model(t, options->model, err);
    if (st) {
        close_target(&t->base);
        return st;
    }
    *out = &t->base;
    return STATUS_OK;
}
