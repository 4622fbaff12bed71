#include "bench/client/target_internal.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#define OTHER_FILES 64 /* of this process beside the connections */

enum status target_net_allow_files(uint32_t max_connections, struct err *err)
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

void *target_net_take(struct target_net *t, struct net_call *(*create)(void *target),
                      struct record *r)
{
    struct net_call *c = t->idle;
    if (c) {
        t->idle = c->next_idle;
        return c;
    }
    c = create(t);
    if (!c) {
        r->sent_us = clock_now_us();
        record_end(r, RECORD_FAILED, r->sent_us, "no memory for a request");
        return NULL;
    }
    c->next = t->all;
    t->all = c;
    return c;
}

void target_net_give(struct target_net *t, struct net_call *c)
{
    t->n_cancelled -= c->cancelled;
    c->next_idle = t->idle;
    t->idle = c;
}

void target_net_cancel(struct target *t, struct record *r)
{
    struct net_call *c = r->state == RECORD_RUNNING ? r->user : NULL;
    if (!c || c->cancelled)
        return;
    c->cancelled = true;
    ((struct target_net *)t)->n_cancelled++;
}

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

enum status target_net_name(struct target_net *t, const char *model, const char *url,
                            struct err *err)
{
    t->model = mem_strdup(model);
    if (!t->model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a model's name");
    put_label(t->base.model, sizeof t->base.model, model);
    put_label(t->base.engine, sizeof t->base.engine, url);
    return STATUS_OK;
}

void target_net_fini(struct target_net *t, void (*destroy)(struct net_call *c))
{
    for (struct net_call *c = t->all, *next; c; c = next) {
        next = c->next;
        destroy(c);
    }
    mem_free(t->model);
}
