/* A call: one completion request, from its body to its log line.
 *
 *     call_begin ─► prepare (here, or on the text worker) ─► engine_submit ─► news* ─► finished ─┐
 *         └ refused ──────────┴───────────────────────────────┴─► the answer ─────────────────────┤
 *                                                                         exchange ended
 * ─────────┴─► log, freed
 *
 * A call lives until all three have let go of it: the exchange (x), the text worker (preparing) and
 * the engine (n_live). If the exchange ends first, the client has left: the requests are cancelled,
 * and their finished events are awaited.
 *
 * A call has one choice or several, each a request of its own: those of the first prompt, then
 * those of the next. All of them are submitted at once or none. Each is written, or kept as JSON,
 * as it comes; the answer ends with the last of them.
 */
#include "serve/internal.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "serve/id.h"
#include "serve/stream.h"
#include "serve/token_json.h"
#include "serve/trace.h"

#include <event2/buffer.h>
#include <event2/event_struct.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct choice {
    struct call *call;
    struct request *r; /* NULL before submission and after release */
    uint32_t index;
    bool begun;                 /* some of it was written */
    uint32_t cached_tokens;     /* once released */
    struct token_cursor cursor; /* of its log probabilities */
    struct buf json;            /* unstreamed: what it became */
};

struct call {
    struct server *server;
    struct call *next, *prev;
    struct http_exchange *x; /* NULL once it has ended */
    struct choice *choices;  /* (n_choices); NULL before submission */
    uint32_t n_choices;
    uint32_t n_live; /* choices whose requests are the engine's */
    bool preparing;  /* the text worker has it */

    struct evbuffer *body;
    struct openai_request ask;
    struct timeline timeline; /* until the answer; then that of the choice that came first */
    enum status prepared;
    struct err err;
    const char *code; /* of err, for the client */

    struct answer answer;
    bool streaming;
    bool answered; /* nothing more is written */
    bool behind;   /* news waits until the client has taken what was written */
    struct event comment_event;
    int64_t written_us;
    char id[ID_DIGITS + 16];
    struct buf out, logprobs;

    struct trace_line *trace; /* what --record will say of it; NULL without, or without memory */

    /* for the log line and the trace */
    char request_id[LIMIT_REQUEST_ID_BYTES + 1];
    int status;
    bool gone;
    uint32_t prompt_tokens, completion_tokens, max_tokens; /* of all choices but the last */
    uint32_t first_tokens;                                 /* of the first choice */
    enum finish_reason finish;
    uint32_t n_gaps; /* between tokens */
    int64_t gaps_us;
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
             "request_id=%s id=%s route=%s status=%d stream=%d choices=%u prompt_tokens=%u "
             "completion_tokens=%u finish=%s gone=%d%s",
             c->request_id, c->id, c->ask.kind == OPENAI_CHAT ? "chat" : "completions", c->status,
             c->streaming, c->n_choices, c->prompt_tokens, c->completion_tokens,
             finish_reason_name(c->finish), c->gone, buf_str(&parts));
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
        l->output_length = c->first_tokens;
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
    if (c->x || c->preparing || c->n_live > 0)
        return;
    log_call(c);
    record(c);
    unlink_call(c);
    event_del(&c->comment_event);
    openai_request_fini(&c->ask);
    if (c->body)
        evbuffer_free(c->body);
    buf_fini(&c->out);
    buf_fini(&c->logprobs);
    for (uint32_t i = 0; i < c->n_choices; i++)
        buf_fini(&c->choices[i].json);
    mem_free(c->choices);
    mem_free(c);
    server_call_ended(s);
}

static void cancel(struct call *c)
{
    for (uint32_t i = 0; i < c->n_choices; i++)
        if (c->choices[i].r)
            engine_cancel(c->server->engine, c->choices[i].r);
}

static void on_ended(struct http_exchange *x, bool gone)
{
    struct call *c = x->user;
    c->status = x->status;
    c->gone = gone;
    c->x = NULL;
    cancel(c);
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

/* The call's times are those of the choice whose first content came first, up to the end of the
 * last one. */
static void take_times(struct call *c, const struct timeline *t, bool first)
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

/* Takes what the log and the answer need, and gives the slot back. */
static void release(struct choice *ch)
{
    struct call *c = ch->call;
    struct request_news all;
    request_all(ch->r, &all);
    const struct timeline *t = request_timeline(ch->r);
    if (c->finish == FINISH_NONE || all.finish == FINISH_CANCELLED || all.finish == FINISH_ERROR)
        c->finish = all.finish;
    c->completion_tokens += all.n_tokens;
    if (ch->index == 0)
        c->first_tokens = all.n_tokens;
    if (all.n_tokens > 1) { /* the first token belongs to the prefill: n tokens have n - 1 gaps */
        c->n_gaps += all.n_tokens - 1;
        c->gaps_us += t->at_us[TIMELINE_FINISHED] - t->at_us[TIMELINE_FIRST_TOKEN];
    }
    take_times(c, t, c->n_live == c->n_choices);
    ch->cached_tokens = request_cached_tokens(ch->r);
    engine_release(c->server->engine, ch->r);
    ch->r = NULL;
    c->n_live--;
}

/* A prompt counts once: with what was cached when its first choice came. */
static uint32_t cached_tokens(const struct call *c)
{
    uint32_t sum = 0, n = c->ask.n;
    for (uint32_t i = 0; i < c->n_choices; i += n) {
        uint32_t least = c->choices[i].cached_tokens;
        for (uint32_t k = 1; k < n; k++)
            if (c->choices[i + k].cached_tokens < least)
                least = c->choices[i + k].cached_tokens;
        sum += least;
    }
    return sum;
}

static struct answer_end end_of(const struct call *c)
{
    return (struct answer_end){
        .prompt_tokens = c->prompt_tokens,
        .completion_tokens = c->completion_tokens,
        .cached_tokens = cached_tokens(c),
        .timeline = &c->timeline,
        .n_gaps = c->n_gaps,
        .gaps_us = c->gaps_us,
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

/* The log probabilities that belong to what is shown so far; NULL: none. */
static const char *take_logprobs(struct choice *ch, const struct request_news *all)
{
    struct call *c = ch->call;
    buf_clear(&c->logprobs);
    if (!all->logprobs ||
        !token_json_put(&c->logprobs, c->ask.kind, c->server->loader.tokenizer, all, &ch->cursor))
        return NULL;
    c->out.failed |= c->logprobs.failed;
    return buf_str(&c->logprobs);
}

/* Echo, in a buffer of its own with the text behind it; false: what is to be shown is *text. */
static bool add_echo(const struct choice *ch, struct buf *both, const char **text, size_t *len)
{
    const struct openai_request *ask = &ch->call->ask;
    size_t n;
    if (!ask->echo || ch->begun)
        return false;
    const char *prompt = asked_text(&ask->prompts, ch->index / ask->n, &n);
    buf_append(both, prompt, n);
    buf_append(both, *text, *len);
    *text = buf_str(both);
    *len = both->len;
    return true;
}

/* One frame of what is new. Log probabilities come with the text that they belong to, or, where
 * there is none, at the end. */
static void put_text(struct choice *ch, const struct request_news *news,
                     const struct request_news *all)
{
    struct call *c = ch->call;
    bool ended = all->finish != FINISH_NONE;
    struct answer_choice part = {
        .index = ch->index, .first = !ch->begun, .text = news->text, .len = news->text_len};
    if (part.len == 0 && !ended)
        return;
    struct buf both = {0};
    bool echoed = add_echo(ch, &both, &part.text, &part.len);
    part.logprobs = take_logprobs(ch, all);
    if (part.len > 0 || part.logprobs) {
        stream_text(&c->out, &c->answer, &part);
        ch->begun = true;
    }
    c->out.failed |= echoed && both.failed;
    buf_fini(&both);
}

static void put_end(struct choice *ch, enum finish_reason finish)
{
    struct call *c = ch->call;
    struct answer_choice part = {
        .index = ch->index, .first = !ch->begun, .finish = finish_reason_name(finish)};
    release(ch);
    struct answer_end end = end_of(c);
    stream_finish(&c->out, &c->answer, &part, c->n_live == 0 ? &end : NULL);
    c->answered = c->n_live == 0;
}

/* Appends what is ready of a choice. A client that does not read makes its tokens wait in the
 * request; but a finished request is written out whole, for its slot is wanted. */
static void take_news(struct choice *ch)
{
    struct call *c = ch->call;
    struct request_news news, all;
    struct err e;
    request_all(ch->r, &all);
    if (http_stream_waiting(c->x) > LIMIT_STREAM_BUFFER && all.finish == FINISH_NONE) {
        c->behind = true;
        return;
    }
    request_read(ch->r, &news);
    all.n_tokens = (uint32_t)(news.tokens - all.tokens) + news.n_tokens;
    all.text_len = (size_t)(news.text - all.text) + news.text_len;
    if (news.text_len > 0 || news.finish != FINISH_NONE)
        timeline_stamp(request_timeline(ch->r), TIMELINE_FIRST_CONTENT);
    if (!broken_off(news.finish, &e)) {
        put_text(ch, &news, &all);
        if (news.finish != FINISH_NONE)
            put_end(ch, news.finish);
        return;
    }
    release(ch);
    cancel(c); /* one is broken: so is the answer */
    stream_error(&c->out, &e);
    c->answered = true;
}

/* Everything that is ready in one write. */
static void flush(struct call *c)
{
    if (c->answered)
        event_del(&c->comment_event);
    if (c->out.len > 0 || c->out.failed)
        write_out(c);
    if (c->answered)
        http_stream_end(c->x, broken_off(c->finish, &(struct err){0}));
}

static void pump(struct choice *ch)
{
    take_news(ch);
    flush(ch->call);
}

static void fail_memory(struct call *c)
{
    struct err e;
    err_set(&e, STATUS_NO_MEMORY, "no memory for the answer");
    fail(c, &e, NULL);
}

static void reply_whole(struct call *c)
{
    struct answer_end end = end_of(c);
    bool failed = c->out.failed; /* log probabilities */
    answer_head(&c->out, &c->answer);
    for (uint32_t i = 0; i < c->n_choices; i++) {
        const struct buf *json = &c->choices[i].json;
        failed |= json->failed;
        buf_puts(&c->out, i > 0 ? "," : "");
        buf_append(&c->out, buf_str(json), json->len);
    }
    answer_tail(&c->out, &end);
    c->answered = true;
    if (failed || c->out.failed)
        fail_memory(c);
    else
        http_reply(c->x, 200, "application/json", buf_str(&c->out), c->out.len);
}

/* An unstreamed choice becomes JSON at its end, and its slot is free; the last one of them ends the
 * answer. */
static void keep_choice(struct choice *ch, const struct request_news *all)
{
    struct call *c = ch->call;
    struct answer_choice part = {.index = ch->index,
                                 .text = all->text,
                                 .len = all->text_len,
                                 .finish = finish_reason_name(all->finish)};
    struct buf both = {0};
    struct timeline written = {0};
    timeline_stamp(&written, TIMELINE_FIRST_CONTENT);
    bool echoed = add_echo(ch, &both, &part.text, &part.len);
    part.logprobs = take_logprobs(ch, all);
    answer_choice(&ch->json, &c->answer, &part);
    ch->json.failed |= echoed && both.failed;
    buf_fini(&both);
    release(ch);
    if (c->n_live > 0)
        return;
    c->timeline.at_us[TIMELINE_FIRST_CONTENT] = written.at_us[TIMELINE_FIRST_CONTENT];
    reply_whole(c);
}

static void break_off(struct choice *ch, const struct err *e)
{
    struct call *c = ch->call;
    release(ch);
    cancel(c);
    c->answered = true;
    fail(c, e, NULL);
}

void call_news(struct choice *ch)
{
    struct call *c = ch->call;
    struct request_news all;
    struct err e;
    bool writing = c->x && !c->answered;
    if (writing && c->streaming) {
        pump(ch);
        return;
    }
    request_all(ch->r, &all);
    if (all.finish == FINISH_NONE)
        return;
    if (!writing) {
        release(ch);
        let_go(c);
    } else if (broken_off(all.finish, &e)) {
        break_off(ch, &e);
    } else {
        keep_choice(ch, &all);
    }
}

static void on_drained(struct http_exchange *x)
{
    struct call *c = x->user;
    if (!c->behind || c->answered)
        return;
    c->behind = false;
    for (uint32_t i = 0; i < c->n_choices && !c->answered; i++)
        if (c->choices[i].r)
            take_news(&c->choices[i]);
    flush(c);
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
    const struct asked *p = &c->ask.prompts;
    uint32_t n_ctx = c->server->info.n_ctx, i = 0;
    while (i < p->n && p->all[i].ids.count < n_ctx)
        i++;
    if (i == p->n)
        return STATUS_OK;
    c->code = "context_length_exceeded";
    return err_param(&c->err, STATUS_INVALID, c->ask.kind == OPENAI_CHAT ? "messages" : "prompt",
                     "the prompt has %zu tokens, but the context holds %u, at least one of them "
                     "for the answer: shorten the prompt, or start the server with a larger --ctx",
                     p->all[i].ids.count, n_ctx);
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
    if (c->trace && c->ask.prompts.n > 0 && c->ask.prompts.all[0].ids.count > 0)
        trace_line_hash(c->server->trace, &c->trace, c->ask.prompts.all[0].ids.ids,
                        (uint32_t)c->ask.prompts.all[0].ids.count);
}

/* The last one takes what the question has; the others get copies. */
static enum status make_params(struct call *c, struct request_params *out)
{
    struct openai_request *ask = &c->ask;
    struct request_params *p = &ask->params;
    p->timeline = c->timeline;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        struct tokens *ids = &ask->prompts.all[i / ask->n].ids;
        if (i + 1 < c->n_choices) {
            enum status st =
                request_params_copy(&out[i], p, ids->ids, (uint32_t)ids->count, &c->err);
            if (st)
                return st;
        } else {
            out[i] = *p;
            out[i].prompt = ids->ids;
            out[i].n_prompt = (uint32_t)ids->count;
            *p = (struct request_params){0};
            *ids = (struct tokens){0};
        }
        out[i].sampling.choice = i % ask->n;
        out[i].user = &c->choices[i];
    }
    return STATUS_OK;
}

static enum status make_choices(struct call *c)
{
    uint32_t n = c->ask.prompts.n * c->ask.n;
    c->choices = mem_array(n, sizeof *c->choices);
    if (!c->choices)
        return err_set(&c->err, STATUS_NO_MEMORY, "no memory for %u choices", n);
    c->n_choices = n;
    for (uint32_t i = 0; i < n; i++)
        c->choices[i] =
            (struct choice){.call = c, .index = i, .cursor.ends_shown = c->ask.params.ignore_eos};
    return STATUS_OK;
}

static enum status submit_choices(struct call *c)
{
    uint32_t n = c->n_choices;
    struct request_params *params = mem_array(n, sizeof *params);
    struct request **requests = mem_array(n, sizeof(struct request *));
    enum status st = STATUS_NO_MEMORY;
    if (params && requests)
        st = make_params(c, params);
    else
        err_set(&c->err, st, "no memory for %u choices", n);
    if (st == STATUS_OK)
        st = engine_submit_all(c->server->engine, params, n, requests, &c->err);
    for (uint32_t i = 0; i < n && st == STATUS_OK; i++)
        c->choices[i].r = requests[i];
    for (uint32_t i = 0; params && i < n; i++)
        request_params_fini(&params[i]); /* what was taken is empty */
    c->n_live = st == STATUS_OK ? n : 0;
    mem_free(params);
    mem_free(requests);
    return st;
}

static void submit(struct call *c)
{
    for (uint32_t i = 0; i < c->ask.prompts.n; i++)
        c->prompt_tokens += (uint32_t)c->ask.prompts.all[i].ids.count;
    c->max_tokens = c->ask.params.max_tokens;
    if (make_choices(c) || submit_choices(c)) {
        fail(c, &c->err, c->err.code == STATUS_OVERLOADED ? "rate_limit_exceeded" : NULL);
        return;
    }
    c->streaming = c->ask.stream;
    c->answer.include_usage = c->ask.include_usage;
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
    c->answer = (struct answer){
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
        cancel(c);
}
