/* How a call ends: its choices are given back, and when nobody holds it any more it is measured,
 * logged, recorded and freed. A request that is turned away before it becomes a call is recorded
 * here too. */
#include "api/completion.h"

#include "api/api_kind.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "observe/trace.h"

#include <event2/buffer.h>
#include <event2/event_struct.h>
#include <inttypes.h>
#include <stdio.h>

/* --- its choices ---------------------------------------------------------------------------- */

/* The call's times are those of the choice whose first content came first, up to the end of the
 * last one. */
static void take_times(struct completion *c, const struct timeline *t, bool first)
{
    int64_t ours = c->timeline.at_us[TIMELINE_FIRST_CONTENT];
    int64_t its = t->at_us[TIMELINE_FIRST_CONTENT];
    int64_t finished = c->timeline.at_us[TIMELINE_FINISHED];
    if (first || (its != 0 && (ours == 0 || its < ours)))
        c->timeline = *t;
    if (finished < t->at_us[TIMELINE_FINISHED])
        finished = t->at_us[TIMELINE_FINISHED];
    c->timeline.at_us[TIMELINE_FINISHED] = finished;
}

bool completion_is_broken(enum finish_reason finish)
{
    return finish == FINISH_CANCELLED || finish == FINISH_TIMEOUT || finish == FINISH_ERROR;
}

void completion_release(struct choice *ch)
{
    struct completion *c = ch->call;
    struct request_news all;
    request_all(ch->r, &all);
    const struct timeline *t = request_timeline(ch->r);
    if (c->finish == FINISH_NONE ||
        (completion_is_broken(all.finish) && !completion_is_broken(c->finish)))
        c->finish = all.finish; /* the first that was broken off: the others are cancelled for it */
    c->completion_tokens += all.n_tokens;
    if (ch->index == 0)
        c->first_tokens = all.n_tokens;
    if (all.n_tokens > 1) { /* the first token belongs to the prefill: n tokens have n - 1 gaps */
        c->n_gaps += all.n_tokens - 1;
        c->gaps_us += t->at_us[TIMELINE_FINISHED] - t->at_us[TIMELINE_FIRST_TOKEN];
    }
    take_times(c, t, c->n_live == c->n_choices);
    ch->cached_tokens = request_cached_tokens(ch->r);
    if (ch->index == 0) {
        request_waited(ch->r, &c->wait);
        c->was_evicted = request_was_evicted(ch->r);
    }
    metrics_end(&c->server->metrics, t, all.finish, all.n_tokens);
    engine_release(c->server->engine, ch->r);
    ch->r = NULL;
    c->n_live--;
}

/* A prompt counts once: with what was cached when its first choice came. */
uint32_t completion_cached_tokens(const struct completion *c)
{
    uint32_t sum = 0, n = c->ask.n;
    if (!c->choices)
        return c->cached_tokens;
    for (uint32_t i = 0; i < c->n_choices; i += n) {
        uint32_t least = c->choices[i].cached_tokens;
        for (uint32_t k = 1; k < n; k++)
            if (c->choices[i + k].cached_tokens < least)
                least = c->choices[i + k].cached_tokens;
        sum += least;
    }
    return sum;
}

const char *completion_cache(const struct completion *c)
{
    if (c->cache)
        return c->cache;
    if (c->was_evicted)
        return "dropped";
    return request_log_cache(c->server->info.prefix_cache, c->ask.prompts.n, c->prompt_tokens,
                             completion_cached_tokens(c));
}

void completion_drop(struct completion *c)
{
    for (uint32_t i = 0; c->choices && i < c->n_choices; i++) {
        struct choice *ch = &c->choices[i];
        if (ch->making && text_worker_drop(c->server->text, &ch->job)) {
            ch->making = false;
            completion_release(ch);
        }
        if (!ch->r)
            buf_fini(&ch->json);
    }
    byte_budget_end(&c->kept);
    c->kept_bytes = 0;
}

/* --- what is kept of it --------------------------------------------------------------------- */

/* The parts of TTFT, for answers that got so far. */
static void put_parts(struct buf *out, const struct timeline *timeline)
{
    struct timeline_ttft t = timeline_ttft(timeline);
    if (timeline->at_us[TIMELINE_FIRST_CONTENT] == 0)
        return;
    buf_printf(out,
               " receive_us=%" PRId64 " tokenize_us=%" PRId64 " submit_us=%" PRId64
               " queue_us=%" PRId64 " cache_us=%" PRId64 " prefill_us=%" PRId64
               " decode_us=%" PRId64 " first_write_us=%" PRId64 " ttft_us=%" PRId64,
               t.receive_us, t.tokenize_us, t.submit_us, t.queue_us, t.cache_us, t.prefill_us,
               t.decode_us, t.first_write_us, t.total_us);
}

static void log_call(const struct completion *c)
{
    struct buf parts = {0};
    put_parts(&parts, &c->timeline);
    log_info("request.done",
             "request_id=%s id=%s route=%s status=%d stream=%d choices=%u prompt_tokens=%u "
             "completion_tokens=%u finish=%s gone=%d%s",
             c->request_id, c->id, c->ask.kind->name, c->status, c->streaming, c->n_choices,
             c->prompt_tokens, c->completion_tokens, finish_reason_name(c->finish), c->gone,
             buf_str(&parts));
    buf_fini(&parts);
}

/* A client that left before its answer began is one who cancelled. */
static const char *finish_name(const struct completion *c)
{
    if (c->finish != FINISH_NONE)
        return finish_reason_name(c->finish);
    return c->gone && c->status == 0 ? "cancelled" : "refused";
}

/* How a request for completions ended, whether it became a call or not. */
struct how_ended {
    const struct api_kind *kind;
    const struct timeline *timeline;
    const char *request_id;
    int status;
    const char *finish;
    int64_t created;
};

/* Takes the line over; NULL: there was no memory for one. */
static void record(struct server *s, struct trace_line *l, const struct how_ended *how)
{
    if (!s->trace)
        return;
    if (l) {
        l->received_us = how->timeline->at_us[TIMELINE_RECEIVED];
        l->chat = how->kind->chat_template;
        l->status = how->status;
        l->finish = how->finish;
    }
    trace_add(s->trace, l);
}

/* For GET /v1/debug/requests; what is told of calls alone is the caller's to fill in. */
static struct request_log_entry *add_entry(struct server *s, const struct how_ended *how)
{
    struct request_log_entry *q = request_log_add(&s->recent, how->timeline);
    snprintf(q->request_id, sizeof q->request_id, "%s", how->request_id);
    q->route = how->kind->name;
    q->status = how->status;
    q->finish = how->finish;
    q->created = how->created;
    return q;
}

void completion_turn_away(struct server *s, struct http_exchange *x, const struct api_kind *kind,
                          const struct err *e, const char *reason)
{
    const struct how_ended how = {.kind = kind,
                                  .timeline = x->timeline,
                                  .request_id = x->request_id,
                                  .status = status_http(e->code),
                                  .finish = "refused",
                                  .created = clock_unix_s()};
    metrics_refuse(&s->metrics, how.status, reason);
    record(s, s->trace ? trace_line_new() : NULL, &how);
    event_stream_request(&s->events, add_entry(s, &how));
    http_fail(x, e, e->code == STATUS_OVERLOADED ? "rate_limit_exceeded" : NULL);
}

static struct how_ended how_ended(const struct completion *c)
{
    return (struct how_ended){.kind = c->ask.kind,
                              .timeline = &c->timeline,
                              .request_id = c->request_id,
                              .status = c->status,
                              .finish = finish_name(c),
                              .created = c->answer.created};
}

static void record_call(struct completion *c)
{
    const struct how_ended how = how_ended(c);
    struct trace_line *l = c->trace;
    if (l) {
        l->output_length = c->first_tokens;
        l->max_tokens = c->max_tokens;
        l->stream = c->ask.stream;
    }
    record(c->server, l, &how);
    c->trace = NULL;
    byte_budget_end(&c->traced);
}

static void remember_call(const struct completion *c)
{
    const struct how_ended how = how_ended(c);
    struct request_log_entry *q = add_entry(c->server, &how);
    snprintf(q->id, sizeof q->id, "%s", c->id);
    q->streamed = c->ask.stream;
    q->gone = c->gone;
    q->choices = c->n_choices;
    q->prompt_tokens = c->prompt_tokens;
    q->completion_tokens = c->completion_tokens;
    q->submitted = c->finish != FINISH_NONE;
    q->cached_tokens = completion_cached_tokens(c);
    q->cache = completion_cache(c);
    q->wait = c->wait;
    event_stream_request(&c->server->events, q);
}

static void measure_end(struct completion *c)
{
    struct server *s = c->server;
    if (c->finish == FINISH_NONE)
        return;
    s->metrics.cached_tokens += completion_cached_tokens(c);
    metrics_tick(&s->metrics, s->engine, clock_now_us());
}

/* --- the end -------------------------------------------------------------------------------- */

static void unlink_call(struct completion *c)
{
    *(c->prev ? &c->prev->next : &c->server->calls) = c->next;
    if (c->next)
        c->next->prev = c->prev;
}

void completion_forget_body(struct completion *c)
{
    if (c->body)
        evbuffer_free(c->body);
    c->body = NULL;
    byte_budget_end(&c->held);
}

void completion_let_go(struct completion *c)
{
    struct server *s = c->server;
    if (c->x || c->preparing || c->n_live > 0)
        return;
    client_admission_end(s, &c->admitted, c->completion_tokens);
    log_call(c);
    record_call(c);
    remember_call(c);
    measure_end(c);
    unlink_call(c);
    event_del(&c->timer);
    openai_request_fini(&c->ask);
    completion_forget_body(c);
    buf_fini(&c->out);
    buf_fini(&c->logprobs);
    completion_drop(c);
    mem_free(c->choices);
    mem_free(c);
    server_state_call_ended(s);
}

void completion_cancel(struct completion *c)
{
    for (uint32_t i = 0; c->choices && i < c->n_choices; i++)
        if (c->choices[i].r)
            engine_cancel(c->server->engine, c->choices[i].r);
}

void completion_on_ended(struct http_exchange *x, bool gone)
{
    struct completion *c = x->user;
    c->status = x->status;
    c->gone = gone;
    c->x = NULL;
    event_del(&c->timer); /* nobody is there to be told that it takes long */
    if (c->preparing && text_worker_drop(c->server->text, &c->job))
        c->preparing = false;
    completion_cancel(c);
    completion_drop(c);
    completion_let_go(c);
}
