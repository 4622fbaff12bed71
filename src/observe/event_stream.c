#include "observe/event_stream.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "http/http.h"
#include "observe/event_json.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdio.h>
#include <string.h>

struct listener {
    struct event_stream_live *live;
    struct http_exchange *x; /* NULL: it has left */
    struct listener *next, *prev;
    uint64_t missed; /* events, not yet told */
    int64_t since_us;
};

struct event_stream_live {
    struct event_stream *of;
    struct listener *first;
    uint32_t telling;   /* writes under way: who leaves meanwhile is swept up afterwards */
    bool ended;         /* nothing more is told */
    bool abandoned;     /* after that: time was up */
    bool waited;        /* somebody did, at the last look */
    struct event timer; /* the next second; ended: when time is up */
    struct event_window window;
};

/* --- events --------------------------------------------------------------------------------- */

static void event_start(struct buf *out, const char *name)
{
    buf_printf(out, "event: %s\ndata: ", name);
}

static void event_end(struct buf *out)
{
    buf_puts(out, "\n\n");
}

static struct server_view event_stream_look(const struct event_stream_live *live)
{
    struct server_view v;
    live->of->look(live->of->arg, &v);
    return v;
}

static void put_server(struct buf *out, const struct server_view *v)
{
    event_start(out, "server");
    event_json_put_server(out, v);
    event_end(out);
}

static void put_request(struct buf *out, const struct request_log_entry *q)
{
    event_start(out, "request");
    request_log_put(out, q);
    event_end(out);
}

static void put_stats(struct buf *out, const struct server_view *v, struct event_window *window)
{
    event_start(out, "stats");
    event_json_put_stats(out, v, window);
    event_end(out);
}

/* How many events: none when nobody waits and the last one said so. */
static uint32_t event_stream_put_waiting(struct buf *out, struct event_stream_live *live)
{
    struct server_view_waiting waiting[LIMIT_LIVE_REQUESTS];
    uint32_t n = live->of->waiting(live->of->arg, waiting);
    bool tell = n > 0 || live->waited;
    if (tell) {
        event_start(out, "waiting");
        event_json_put_waiting(out, waiting, n);
        event_end(out);
    }
    live->waited = n > 0;
    return tell;
}

/* --- the end -------------------------------------------------------------------------------- */

static void free_listener(struct listener *l)
{
    *(l->prev ? &l->prev->next : &l->live->first) = l->next;
    if (l->next)
        l->next->prev = l->prev;
    mem_free(l);
}

/* Frees who has left, and everything with the last of them. */
static void sweep(struct event_stream_live *live)
{
    struct event_stream *e = live->of;
    if (live->telling > 0)
        return;
    for (struct listener *l = live->first, *next; l; l = next) {
        next = l->next;
        if (!l->x)
            free_listener(l);
    }
    if (live->first)
        return;
    event_del(&live->timer);
    mem_free(live);
    e->live = NULL;
    e->ended(e->arg);
}

static void event_stream_on_ended(struct http_exchange *x, bool gone)
{
    struct listener *l = x->user;
    log_info("live.end", "request_id=%s gone=%d seconds=%.1f missed=%llu", x->request_id, gone,
             (double)(clock_now_us() - l->since_us) / 1e6, (unsigned long long)l->missed);
    l->x = NULL;
    sweep(l->live);
}

/* --- telling -------------------------------------------------------------------------------- */

/* Whole events or nothing: a reader that does not read costs LIMIT_LIVE_BUFFER bytes. */
static void event_stream_tell(struct listener *l, const struct buf *events, uint32_t n)
{
    char missed[64];
    int len = 0;
    if (l->missed > 0)
        len = snprintf(missed, sizeof missed, "event: missed\ndata: {\"events\":%llu}\n\n",
                       (unsigned long long)l->missed);
    if (events->failed || !http_has_room(l->x, (size_t)len + events->len) ||
        http_stream_waiting(l->x) + (size_t)len + events->len > LIMIT_LIVE_BUFFER) {
        l->missed += n;
        return;
    }
    l->missed = 0;
    if (len > 0)
        http_stream_write(l->x, missed, (size_t)len);
    if (l->x)
        http_stream_write(l->x, buf_str(events), events->len);
}

/* Afterwards there may be no `live` any more. */
static void tell_all(struct event_stream_live *live, struct buf *events, uint32_t n)
{
    live->telling++;
    for (struct listener *l = live->first; l; l = l->next)
        if (l->x)
            event_stream_tell(l, events, n);
    live->telling--;
    buf_fini(events);
    sweep(live);
}

static void on_second(evutil_socket_t fd, short what, void *arg)
{
    struct event_stream_live *live = arg;
    struct buf out = {0};
    (void)fd;
    (void)what;
    const struct server_view v = event_stream_look(live);
    put_stats(&out, &v, &live->window);
    uint32_t n = 1 + event_stream_put_waiting(&out, live);
    tell_all(live, &out, n);
}

void event_stream_request(struct event_stream *e, const struct request_log_entry *q)
{
    struct buf out = {0};
    if (!e->live || e->live->ended)
        return;
    put_request(&out, q);
    tell_all(e->live, &out, 1);
}

/* --- the state ------------------------------------------------------------------------------ */

static void on_time_up(evutil_socket_t fd, short what, void *arg)
{
    struct event_stream_live *live = arg;
    (void)fd;
    (void)what;
    live->abandoned = true;
    live->of->ended(live->of->arg);
}

bool event_stream_is_over(const struct event_stream *e)
{
    return !e->live || e->live->abandoned;
}

/* The last event says why; the server waits for those who read it. */
static void end_all(struct event_stream_live *live)
{
    const struct timeval linger = {.tv_sec = LIMIT_LINGER_SECONDS};
    live->ended = true;
    event_del(&live->timer);
    event_assign(&live->timer, live->of->base, -1, 0, on_time_up, live);
    event_add(&live->timer, &linger);
    live->telling++;
    for (struct listener *l = live->first; l; l = l->next)
        if (l->x)
            http_stream_end(l->x, false);
    live->telling--;
    sweep(live);
}

void event_stream_changed(struct event_stream *e)
{
    struct buf out = {0};
    if (!e->live || e->live->ended)
        return;
    const struct server_view v = event_stream_look(e->live);
    put_server(&out, &v);
    tell_all(e->live, &out, 1);
    if (e->live && v.draining)
        end_all(e->live);
}

/* --- the start ------------------------------------------------------------------------------ */

static struct event_stream_live *open_live(struct event_stream *e)
{
    const struct timeval second = {.tv_sec = 1};
    struct event_stream_live *live = mem_zalloc(sizeof *live);
    if (!live)
        return NULL;
    live->of = e;
    event_assign(&live->timer, e->base, -1, EV_PERSIST, on_second, live);
    event_add(&live->timer, &second);
    return live;
}

static struct listener *open_listener(struct event_stream *e, struct http_exchange *x)
{
    struct listener *l = mem_zalloc(sizeof *l);
    if (l && !e->live)
        e->live = open_live(e);
    if (!l || !e->live) {
        mem_free(l);
        return NULL;
    }
    *l = (struct listener){
        .live = e->live, .x = x, .next = e->live->first, .since_us = clock_now_us()};
    if (l->next)
        l->next->prev = l;
    e->live->first = l;
    x->user = l;
    x->ended = event_stream_on_ended;
    return l;
}

static void put_recent(struct buf *out, const struct request_log *r)
{
    uint64_t i = r->n < LIMIT_LIVE_REQUESTS ? 0 : r->n - LIMIT_LIVE_REQUESTS;
    for (; i < r->n; i++)
        put_request(out, &r->requests[i % LIMIT_RECENT_REQUESTS]);
}

/* What has been so far goes out whole: a reader for whose greeting there is no room is told so. */
static void greet(struct listener *l)
{
    struct http_exchange *x = l->x;
    struct buf out = {0};
    struct err e;
    const struct server_view v = event_stream_look(l->live);
    put_server(&out, &v);
    put_recent(&out, v.recent);
    put_stats(&out, &v, &l->live->window);
    if (http_has_room(x, out.len)) {
        l->missed += out.failed;
        http_stream_start(x, "text/event-stream; charset=utf-8");
        if (l->x && !out.failed)
            http_stream_write(x, buf_str(&out), out.len);
    } else {
        http_no_room_to_send(x, &e);
        http_fail(x, &e, "unsent_memory");
    }
    buf_fini(&out);
}

void event_stream_begin(struct event_stream *e, struct http_exchange *x)
{
    struct err err;
    struct server_view v;
    struct listener *l = NULL;
    if (strcmp(x->method, "HEAD") == 0) {
        http_reply(x, 200, "text/event-stream; charset=utf-8", NULL, 0);
        return;
    }
    e->look(e->arg, &v);
    if (v.draining)
        err_set(&err, STATUS_UNAVAILABLE, "the server is shutting down");
    else if (!(l = open_listener(e, x)))
        err_set(&err, STATUS_NO_MEMORY, "no memory for the stream");
    if (!l) {
        http_fail(x, &err, NULL);
        return;
    }
    struct event_stream_live *live = l->live;
    live->telling++;
    greet(l);
    live->telling--;
    sweep(live);
}
