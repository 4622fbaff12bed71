/* A call: one completion request, from its body to its log line.
 *
 *     call_begin ─► prepare (here, or on the text worker) ─► engine_submit ─► news* ─► finished ─┐
 *         └ refused ──────────┴───────────────────────────────┴─► the answer ─────────────────────┤
 *                                                                         exchange ended
 * ─────────┴─► log, freed
 *
 * A call lives until all three have let go of it: the exchange (x), the text worker (preparing) and
 * the engine (r). If the exchange ends first, the client has left: the request is cancelled, and
 * its finished event is awaited.
 */
#include "serve/internal.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "serve/id.h"
#include "serve/stream.h"
#include "serve/trace.h"

#include <event2/buffer.h>
#include <event2/event_struct.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct call {
    struct server *server;
    struct call *next, *prev;
    struct http_exchange *x; /* NULL once it has ended */
    struct request *r;       /* NULL before submission and after release */
    bool preparing;          /* the text worker has it */

    struct evbuffer *body;
    struct openai_request ask;
    struct timeline timeline; /* before submission; then the request's, and at last its copy */
    enum status prepared;
    struct err err;
    const char *code; /* of err, for the client */

    struct stream stream; /* .answer serves unstreamed answers too */
    bool streaming;
    bool behind; /* news waits until the client has taken what was written */
    struct event comment_event;
    int64_t written_us;
    char id[ID_DIGITS + 16];
    struct buf out;

    struct trace_line *trace; /* what --record will say of it; NULL without, or without memory */

    /* for the log line and the trace */
    char request_id[LIMIT_REQUEST_ID_BYTES + 1];
    int status;
    bool gone;
    uint32_t prompt_tokens, completion_tokens, max_tokens;
    enum finish_reason finish;
};

/* The end */

/* The parts of TTFT, for answers that got so far. */
static void put_parts(struct buf *out, const struct timeline *timeline)
{
    struct timeline_ttft t = timeline_ttft(timeline);
    if (timeline->at_us[TIMELINE_FIRST_CONTENT] == 0)
        return;
    buf_printf(out,
               " receive_us=%" PRId64 " tokenize_us=%" PRId64 " submit_us=%" PRId64
               " queue_us=%" PRId64 " cache_us=%" PRId64 " prefill_us=%" PRId64
               " first_write_us=%" PRId64 " ttft_us=%" PRId64,
               t.receive_us, t.tokenize_us, t.submit_us, t.queue_us, t.cache_us, t.prefill_us,
               t.first_write_us, t.total_us);
}

static void log_call(const struct call *c)
{
    struct buf parts = {0};
    put_parts(&parts, &c->timeline);
    log_info("request.done",
             "request_id=%s id=%s route=%s status=%d stream=%d prompt_tokens=%u "
             "completion_tokens=%u finish=%s gone=%d%s",
             c->request_id, c->id, c->ask.kind == OPENAI_CHAT ? "chat" : "completions", c->status,
             c->streaming, c->prompt_tokens, c->completion_tokens, finish_reason_name(c->finish),
             c->gone, buf_str(&parts));
    buf_fini(&parts);
}

/* A client that left before its answer began is one who cancelled. */
static const char *trace_finish(const struct call *c)
{
    if (c->finish != FINISH_NONE)
        return finish_reason_name(c->finish);
    return c->gone && c->status == 0 ? "cancelled" : "refused";
}

static void record(struct call *c)
{
    struct trace_line *l = c->trace;
    if (!c->server->trace)
        return;
    if (l) {
        l->received_us = c->timeline.at_us[TIMELINE_RECEIVED];
        l->output_length = c->completion_tokens;
        l->max_tokens = c->max_tokens;
        l->stream = c->ask.stream;
        l->chat = c->ask.kind == OPENAI_CHAT;
        l->status = c->status;
        l->finish = trace_finish(c);
    }
    trace_add(c->server->trace, l);
    c->trace = NULL;
}

/* Refuses what does not become a call. */
static void turn_away(struct server *s, struct http_exchange *x, enum openai_kind kind,
                      const struct err *e)
{
    struct trace_line *l = s->trace ? trace_line_new() : NULL;
    if (l) {
        l->received_us = x->timeline->at_us[TIMELINE_RECEIVED];
        l->chat = kind == OPENAI_CHAT;
        l->status = status_http(e->code);
        l->finish = "refused";
    }
    if (s->trace)
        trace_add(s->trace, l);
    http_fail(x, e, NULL);
}

static void unlink_call(struct call *c)
{
    *(c->prev ? &c->prev->next : &c->server->calls) = c->next;
    if (c->next)
        c->next->prev = c->prev;
}

/* Frees the call if nobody holds it any more. */
static void let_go(struct call *c)
{
    struct server *s = c->server;
    if (c->x || c->preparing || c->r)
        return;
    log_call(c);
    record(c);
    unlink_call(c);
    event_del(&c->comment_event);
    openai_request_fini(&c->ask);
    if (c->body)
        evbuffer_free(c->body);
    buf_fini(&c->out);
    mem_free(c);
    server_call_ended(s);
}

static void on_ended(struct http_exchange *x, bool gone)
{
    struct call *c = x->user;
    c->status = x->status;
    c->gone = gone;
    c->x = NULL;
    if (c->r)
        engine_cancel(c->server->engine, c->r);
    let_go(c);
}

static void fail(struct call *c, const struct err *e, const char *code)
{
    http_fail(c->x, e, code);
}

/* The answer. The exchange may end inside the last call of each function here, and the call with
 * it, so nothing comes after. */

static void write_out(struct call *c)
{
    struct err e;
    if (c->out.failed) {
        buf_clear(&c->out);
        err_set(&e, STATUS_NO_MEMORY, "no memory for the answer");
        stream_error(&c->out, &e);
    }
    http_stream_write(c->x, buf_str(&c->out), c->out.len);
    c->written_us = clock_now_us();
    buf_clear(&c->out);
}

/* Takes what the log and the answer need, and gives the slot back. */
static struct answer_end release(struct call *c)
{
    struct request_news all;
    request_all(c->r, &all);
    c->finish = all.finish;
    c->completion_tokens = all.n_tokens;
    c->timeline = *request_timeline(c->r);
    uint32_t cached_tokens = request_cached_tokens(c->r);
    engine_release(c->server->engine, c->r);
    c->r = NULL;
    return (struct answer_end){
        .finish = finish_reason_name(c->finish),
        .prompt_tokens = c->prompt_tokens,
        .completion_tokens = c->completion_tokens,
        .cached_tokens = cached_tokens,
        .timeline = &c->timeline,
    };
}

static bool broken_off(enum finish_reason finish, struct err *e)
{
    if (finish == FINISH_CANCELLED)
        err_set(e, STATUS_UNAVAILABLE, "the server is shutting down: the answer was broken off");
    else if (finish == FINISH_ERROR)
        err_set(e, STATUS_INTERNAL, "the engine failed while computing this answer");
    return finish == FINISH_CANCELLED || finish == FINISH_ERROR;
}

static void end_stream(struct call *c)
{
    struct err e;
    struct answer_end end = release(c);
    bool cut = broken_off(c->finish, &e);
    if (cut)
        stream_error(&c->out, &e);
    else
        stream_finish(&c->stream, &c->out, &end);
    event_del(&c->comment_event);
    write_out(c);
    http_stream_end(c->x, cut);
}

/* Everything that is ready as one frame in one write. A client that does not read makes its tokens
 * wait in the request; but a finished request is written out whole, for its slot is wanted. */
static void pump(struct call *c)
{
    struct request_news news;
    request_all(c->r, &news);
    c->behind = http_stream_waiting(c->x) > LIMIT_STREAM_BUFFER && news.finish == FINISH_NONE;
    if (c->behind)
        return;
    request_read(c->r, &news);
    if (news.text_len > 0 || news.finish != FINISH_NONE)
        timeline_stamp(request_timeline(c->r), TIMELINE_FIRST_CONTENT);
    if (news.text_len > 0)
        stream_text(&c->stream, &c->out, news.text, news.text_len);
    if (news.finish != FINISH_NONE)
        end_stream(c);
    else if (c->out.len > 0)
        write_out(c);
}

static void reply_whole(struct call *c)
{
    struct request_news all;
    struct err e;
    request_all(c->r, &all);
    if (broken_off(all.finish, &e)) {
        release(c);
        fail(c, &e, NULL);
        return;
    }
    timeline_stamp(request_timeline(c->r), TIMELINE_FIRST_CONTENT);
    /* the text is the request's: copy it out before the slot goes */
    struct buf text = {0};
    buf_append(&text, all.text, all.text_len);
    struct answer_end end = release(c);
    answer_whole(&c->out, &c->stream.answer, buf_str(&text), text.len, &end);
    bool failed = text.failed || c->out.failed;
    buf_fini(&text);
    if (failed) {
        err_set(&e, STATUS_NO_MEMORY, "no memory for the answer");
        fail(c, &e, NULL);
        return;
    }
    http_reply(c->x, 200, "application/json", buf_str(&c->out), c->out.len);
}

void call_news(struct call *c)
{
    struct request_news all;
    if (c->x && c->streaming) {
        pump(c);
        return;
    }
    request_all(c->r, &all);
    if (all.finish == FINISH_NONE)
        return;
    if (c->x) {
        reply_whole(c);
    } else {
        release(c);
        let_go(c);
    }
}

static void on_drained(struct http_exchange *x)
{
    struct call *c = x->user;
    if (c->behind)
        pump(c);
}

/* Proxies and clients give up on a silent connection. The timer is set once per comment, not once
 * per frame: it looks at when something was written last. */
static void on_comment_timer(evutil_socket_t fd, short what, void *arg)
{
    struct call *c = arg;
    (void)fd;
    (void)what;
    const int64_t every_us = LIMIT_SSE_COMMENT_SECONDS * INT64_C(1000000);
    int64_t silent_us = clock_now_us() - c->written_us;
    if (silent_us >= every_us && !c->behind) {
        buf_puts(&c->out, STREAM_COMMENT);
        write_out(c);
    }
    int64_t left_us = silent_us < every_us ? every_us - silent_us : every_us;
    struct timeval tv = {.tv_sec = left_us / 1000000, .tv_usec = left_us % 1000000};
    event_add(&c->comment_event, &tv);
}

static void start_stream(struct call *c)
{
    static const struct timeval silence = {.tv_sec = LIMIT_SSE_COMMENT_SECONDS};
    http_stream_start(c->x, STREAM_CONTENT_TYPE);
    buf_puts(&c->out, STREAM_ACCEPTED);
    write_out(c);
    event_add(&c->comment_event, &silence);
}

/* From the body to the engine */

static enum status check_model(struct call *c)
{
    const char *asked = c->ask.model;
    if (!asked || strcmp(asked, c->server->model_name) == 0)
        return STATUS_OK;
    c->code = "model_not_found";
    return err_param(&c->err, STATUS_NOT_FOUND, "model",
                     "model: \"%.100s\" is not served here: leave it out or ask for \"%s\"", asked,
                     c->server->model_name);
}

static enum status check_length(struct call *c)
{
    uint32_t n_ctx = c->server->info.n_ctx;
    if (c->ask.params.n_prompt < n_ctx)
        return STATUS_OK;
    c->code = "context_length_exceeded";
    return err_param(&c->err, STATUS_INVALID, c->ask.kind == OPENAI_CHAT ? "messages" : "prompt",
                     "the prompt has %u tokens, but the context holds %u, at least one of them "
                     "for the answer: shorten the prompt, or start the server with a larger --ctx",
                     c->ask.params.n_prompt, n_ctx);
}

/* Any one thread: touches nothing that others do. */
void call_prepare(void *call)
{
    struct call *c = call;
    size_t len = evbuffer_get_length(c->body);
    const char *bytes = (const char *)evbuffer_pullup(c->body, -1);
    c->prepared = openai_parse(&c->ask, c->ask.kind, bytes ? bytes : "", bytes ? len : 0, &c->err);
    timeline_stamp(&c->timeline, TIMELINE_PARSED);
    if (c->prepared == STATUS_OK)
        c->prepared = check_model(c);
    if (c->prepared == STATUS_OK)
        c->prepared = openai_tokenize(&c->ask, &c->server->loader, &c->err);
    if (c->prepared == STATUS_OK)
        c->prepared = check_length(c);
    timeline_stamp(&c->timeline, TIMELINE_TOKENIZED);
    if (c->trace && c->ask.params.n_prompt > 0)
        trace_line_hash(c->server->trace, &c->trace, c->ask.params.prompt, c->ask.params.n_prompt);
}

static void submit(struct call *c)
{
    struct request_params *p = &c->ask.params;
    c->prompt_tokens = p->n_prompt;
    c->max_tokens = p->max_tokens;
    p->timeline = c->timeline;
    p->user = c;
    if (engine_submit(c->server->engine, p, &c->r, &c->err)) {
        c->r = NULL;
        fail(c, &c->err, c->err.code == STATUS_OVERLOADED ? "rate_limit_exceeded" : NULL);
        return;
    }
    c->streaming = c->ask.stream;
    c->stream.answer.include_usage = c->ask.include_usage;
    if (c->streaming)
        start_stream(c);
}

void call_prepared(void *call)
{
    struct call *c = call;
    c->preparing = false;
    evbuffer_free(c->body);
    c->body = NULL;
    if (!c->x)
        let_go(c);
    else if (c->prepared != STATUS_OK)
        fail(c, &c->err, c->code);
    else
        submit(c);
}

static void prepare(struct call *c)
{
    if (evbuffer_get_length(c->body) <= LIMIT_BODY_INLINE) {
        call_prepare(c);
        call_prepared(c);
        return;
    }
    c->preparing = text_worker_submit(c->server->text, c);
    if (c->preparing)
        return;
    err_set(&c->err, STATUS_OVERLOADED, "too many large requests at once: try again");
    fail(c, &c->err, "rate_limit_exceeded");
}

static bool refused(struct server *s, struct http_exchange *x, enum openai_kind kind)
{
    struct err e;
    if (s->state == SERVER_READY)
        return false;
    err_set(&e, STATUS_UNAVAILABLE,
            s->state == SERVER_LOADING ? "the model is still loading: try again soon"
                                       : "the server is shutting down: ask another, or try later");
    turn_away(s, x, kind, &e);
    return true;
}

static void fill(struct call *c, struct server *s, struct http_exchange *x, enum openai_kind kind)
{
    char digits[ID_DIGITS + 1];
    id_random(digits);
    snprintf(c->id, sizeof c->id, "%s-%s", kind == OPENAI_CHAT ? "chatcmpl" : "cmpl", digits);
    snprintf(c->request_id, sizeof c->request_id, "%s", x->request_id);
    c->server = s;
    c->x = x;
    c->trace = s->trace ? trace_line_new() : NULL;
    c->ask.kind = kind;
    c->timeline = *x->timeline;
    c->stream.answer = (struct answer){
        .kind = kind, .id = c->id, .model = s->model_name, .created = clock_unix_s()};
    event_assign(&c->comment_event, s->base, -1, 0, on_comment_timer, c);
    x->user = c;
    x->ended = on_ended;
    x->drained = on_drained;
    c->next = s->calls;
    if (c->next)
        c->next->prev = c;
    s->calls = c;
}

void call_begin(struct server *s, struct http_exchange *x, enum openai_kind kind)
{
    struct err e;
    if (refused(s, x, kind))
        return;
    struct call *c = mem_zalloc(sizeof *c);
    struct evbuffer *body = http_take_body(x);
    if (!c || !body) {
        mem_free(c);
        if (body)
            evbuffer_free(body);
        err_set(&e, STATUS_NO_MEMORY, "no memory for the request");
        turn_away(s, x, kind, &e);
        return;
    }
    fill(c, s, x, kind);
    c->body = body;
    prepare(c);
}

void call_cancel_all(struct server *s)
{
    for (struct call *c = s->calls; c; c = c->next)
        if (c->r)
            engine_cancel(s->engine, c->r);
}
