/* A server that speaks the OpenAI API, as a target. */
#include "bench/target.h"

#include "base/clock.h"
#include "base/mem.h"
#include "bench/http_exchange.h"
#include "bench/http_loop.h"
#include "bench/http_peer.h"
#include "text/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define OTHER_FILES 64 /* of this process beside the connections */

struct http_target {
    struct target base;
    struct http_peer peer;
    struct http_loop loop;
    char *model;                /* whole, as the server knows it */
    struct http_exchange *all;  /* (at most max_connections at once) */
    struct http_exchange *idle; /* those without a record */
    uint32_t n_cancelled;       /* to be taken out by the next poll */
};

static struct http_target *of(struct target *t)
{
    return (struct http_target *)t;
}

static struct http_exchange *take_exchange(struct http_target *t)
{
    struct http_exchange *x = t->idle;
    if (x) {
        t->idle = x->next_idle;
        return x;
    }
    x = http_exchange_create(&t->peer);
    if (x) {
        x->next = t->all;
        t->all = x;
    }
    return x;
}

static void give_exchange(struct http_target *t, struct http_exchange *x)
{
    x->next_idle = t->idle;
    t->idle = x;
}

static void send_item(struct target *base, const struct work_item *item, struct record *r)
{
    struct http_target *t = of(base);
    struct err err;
    struct http_exchange *x = take_exchange(t);
    if (!x) {
        r->sent_us = clock_now_us();
        record_end(r, RECORD_FAILED, r->sent_us, "no memory for a request");
        return;
    }
    enum status st = http_exchange_prepare(x, t->model, item, r, &err);
    r->sent_us = clock_now_us();
    if (st == STATUS_OK)
        st = http_loop_start(&t->loop, x->easy, &err);
    if (st) {
        http_exchange_end_failed(x, err.text);
        give_exchange(t, x);
    }
}

static void end_cancelled(struct http_target *t)
{
    for (struct http_exchange *x = t->all; x && t->n_cancelled > 0; x = x->next) {
        if (!x->record || !x->cancelled)
            continue;
        http_loop_stop(&t->loop, x->easy);
        http_exchange_end_cancelled(x);
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
        struct http_exchange *x = NULL;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, &x);
        t->n_cancelled -= x->cancelled; /* its end came first */
        http_exchange_end(x, code);
        give_exchange(t, x);
    }
    end_cancelled(t);
}

/* Not at once: the transfer may have ended already, and then its end counts. */
static void cancel(struct target *base, struct record *r)
{
    struct http_exchange *x = r->state == RECORD_RUNNING ? r->user : NULL;
    if (!x || x->cancelled)
        return;
    x->cancelled = true;
    of(base)->n_cancelled++;
}

static void close_target(struct target *base)
{
    struct http_target *t = of(base);
    for (struct http_exchange *x = t->all, *next; x; x = next) {
        next = x->next;
        if (x->record) {
            http_loop_stop(&t->loop, x->easy);
            http_exchange_end_cancelled(x);
        }
        http_exchange_destroy(x);
    }
    http_loop_close(&t->loop);
    http_peer_fini(&t->peer);
    mem_free(t->model);
    mem_free(t);
    curl_global_cleanup();
}

static const struct target_ops ops = {
    .send = send_item,
    .poll = poll_answers,
    .cancel = cancel,
    .close = close_target,
};

/* One file a connection: the soft limit, often 1024, is raised as far as that needs. */
static enum status allow_files(uint32_t max_connections, struct err *err)
{
    struct rlimit files;
    rlim_t need = (rlim_t)max_connections + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return err_set(err, STATUS_IO, "getrlimit: %s", strerror(errno));
    if (files.rlim_cur >= need)
        return STATUS_OK;
    if (files.rlim_max < need)
        return err_param(err, STATUS_INVALID, "--max-concurrency",
                         "%u connections at once need %ju open files, this process may have %ju: "
                         "lower --max-concurrency or raise the limit (ulimit -Hn)",
                         max_connections, (uintmax_t)need, (uintmax_t)files.rlim_max);
    files.rlim_cur = need;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        return err_set(err, STATUS_IO, "setrlimit of %ju open files: %s", (uintmax_t)need,
                       strerror(errno));
    return STATUS_OK;
}

/* Cut between characters, since labels end in JSON; of characters that a terminal shows. */
static void put_label(char *out, size_t out_size, const char *text)
{
    size_t len = strlen(text);
    if (len > out_size - 1)
        len = out_size - 1;
    len = utf8_valid_prefix(text, len);
    memcpy(out, text, len);
    out[len] = '\0';
    utf8_make_plain(out, false);
}

static enum status find_model(struct http_target *t, const char *asked, struct err *err)
{
    char name[1024];
    enum status st = http_peer_model(&t->peer, asked, name, sizeof name, err);
    if (st)
        return st;
    t->model = mem_strdup(name);
    if (!t->model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a model's name");
    put_label(t->base.model, sizeof t->base.model, name);
    put_label(t->base.engine, sizeof t->base.engine, t->peer.base);
    return STATUS_OK;
}

enum status target_open_http(struct target **out, const struct http_options *options,
                             struct err *err)
{
    enum status st = allow_files(options->max_connections, err);
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
