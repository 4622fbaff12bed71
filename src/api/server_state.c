#include "api/server_state.h"

#include "base/clock.h"

const char *server_state_name(enum server_state state)
{
    static const char *const names[] = {"loading", "ok", "draining", "failed"};
    return names[state];
}

enum status server_state_check_loaded(const struct server *s, struct err *err)
{
    if (s->state != SERVER_LOADING)
        return STATUS_OK;
    return err_set(err, STATUS_UNAVAILABLE, "the model is still loading: try again soon");
}

void server_state_watch(struct server *s, struct server_watch *w)
{
    w->next = s->watches;
    w->prev = NULL;
    if (w->next)
        w->next->prev = w;
    s->watches = w;
}

void server_state_unwatch(struct server *s, struct server_watch *w)
{
    *(w->prev ? &w->prev->next : &s->watches) = w->next;
    if (w->next)
        w->next->prev = w->prev;
}

void server_state_tell(const struct server *s)
{
    for (struct server_watch *w = s->watches; w; w = w->next)
        w->changed(w);
}

void server_state_call_ended(struct server *s)
{
    if (s->state == SERVER_DRAINING && !s->calls && s->n_awaited == 0 &&
        event_stream_is_over(&s->events))
        event_base_loopbreak(s->base);
    memory_trim_soon(s->trim);
}

static void awaited_ended(void *server)
{
    struct server *s = server;
    s->n_awaited--;
    server_state_call_ended(s);
}

void server_state_await(struct server *s, struct http_exchange *x)
{
    s->n_awaited++;
    x->over = awaited_ended;
    x->over_arg = s;
}

enum status server_state_check_key(const struct server *s, const char *authorization, uint64_t *key,
                                   struct key_secret *secret, struct err *err)
{
    enum status st = keys_check(s->keys, authorization, key, err);
    if (st || !s->keyed || !secret)
        return st;
    return keys_secret(s->keys, *key, &s->secret, secret, err);
}

/* --- what observe sees ---------------------------------------------------------------------- */

static struct server_view_memory both(const struct byte_budget *a, const struct byte_budget *b)
{
    return (struct server_view_memory){.held = a->held + (b ? b->held : 0),
                                       .most = a->most + (b ? b->most : 0),
                                       .refused = a->refused + (b ? b->refused : 0)};
}

static void view_ports(const struct server *s, struct server_view *out)
{
    struct http1_refusal r;
    out->connections = http1_connections(s->http) + (s->http2 ? http2_connections(s->http2) : 0);
    for (size_t i = 0; i < SERVER_VIEW_REFUSALS && http1_refusal_at(s->http, i, &r); i++) {
        out->refusals[i].http_status = r.status;
        out->refusals[i].n = r.n + (s->http2 ? http2_refused(s->http2, r.status) : 0);
        out->n_refusals++;
    }
}

static void view_loaded(const struct server *s, struct server_view *out)
{
    out->engine = s->engine;
    out->model_name = s->model_name;
    out->info = s->info;
    engine_stats(s->engine, &out->stats);
    out->sampling = sampling_default;
    sampling_take(&out->sampling, &s->loader.generation);
}

void server_state_view(const struct server *s, struct server_view *out)
{
    const struct engine_options *o = &s->options.engine;
    *out = (struct server_view){.state = server_state_name(s->state),
                                .ready = s->state == SERVER_READY,
                                .draining = s->state == SERVER_DRAINING,
                                .start_unix_s = s->start_unix_s,
                                .engine_name = o->kind ? o->kind->name : "auto",
                                .cpu_levels = o->cpu_levels,
                                .kv_type = o->kv_type,
                                .metrics = &s->metrics,
                                .recent = &s->recent,
                                .request_memory = both(&s->request_memory, NULL),
                                .stream_memory = both(&s->stream_memory, NULL),
                                .unsent_memory = both(&s->unsent_memory, &s->keyless_memory)};
    view_ports(s, out);
    if (s->state != SERVER_LOADING)
        view_loaded(s, out);
}

void server_state_look(struct server *s, struct server_view *out)
{
    if (s->state != SERVER_LOADING)
        metrics_tick(&s->metrics, s->engine, clock_now_us());
    server_state_view(s, out);
}
