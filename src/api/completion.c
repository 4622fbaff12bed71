/* A call (struct completion): one request for completions and its choices, from its body to its log
 * line.
 *
 *     completion_begin ─► prepare, maybe on a text worker ─► engine_submit ─► news ─► finished ─┐
 *         │                         │                        │                              │
 *         └─ refused ───────────────┴────────────────────────┴─► answer ─► exchange ended ──┴─► log
 *
 * A call lives until all three have let go of it: the exchange (x), the text workers (preparing)
 * and the engine (n_live). If the exchange ends first, the client has left: the requests are
 * cancelled, and their finished events are awaited.
 */
#include "api/completion.h"

#include "api/api_kind.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/reserve.h"
#include "observe/trace.h"

#include <event2/buffer.h>
#include <event2/event_struct.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Refusals */

/* All that it holds, and not what the log says of it. */
static void forget_openai_request(struct openai_request *ask)
{
    const struct openai_request was = *ask;
    openai_request_fini(ask);
    ask->kind = was.kind;
    ask->stream = was.stream;
    ask->n = was.n;
}

/* It never was the engine's. The client may take its time with the error: the question goes now. */
static void completion_refuse(struct completion *c, const struct err *e, const char *code)
{
    struct err failure;
    const char *reason = e->code != STATUS_UNAVAILABLE ? status_name(e->code) : "draining";
    if (engine_failure(c->server->engine, &failure) != STATUS_OK)
        reason = "failed";
    metrics_refuse(&c->server->metrics, status_http(e->code), code ? code : reason);
    forget_openai_request(&c->ask);
    http_fail(c->x, e, code);
}

/* limit: the one that is reached, for /metrics. */
static void refuse_overload(struct completion *c, const struct err *e, const char *limit)
{
    metrics_refuse(&c->server->metrics, status_http(e->code), limit);
    forget_openai_request(&c->ask);
    http_fail(c->x, e, "rate_limit_exceeded");
}

/* From the body to the engine */

static enum status check_model(struct completion *c)
{
    const char *asked = c->ask.model;
    if (!asked || strcmp(asked, c->server->model_name) == 0)
        return STATUS_OK;
    c->code = "model_not_found";
    return err_param(&c->err, STATUS_NOT_FOUND, "model",
                     "model: \"%.100s\" is not served here: leave it out or ask for \"%s\"", asked,
                     c->server->model_name);
}

static enum status completion_too_long(struct completion *c, const struct tokens *ids)
{
    c->code = "context_length_exceeded";
    return err_param(&c->err, STATUS_INVALID, c->ask.kind->prompts,
                     "the prompt has %s%zu tokens, but the context holds %u, at least one of them "
                     "for the answer: shorten the prompt, or start the server with a larger --ctx",
                     ids->over ? "more than " : "", ids->count, c->server->info.n_ctx);
}

/* A prompt that is too long is not tokenized to its end; none is begun whose client has left. */
static enum status completion_tokenize(struct completion *c)
{
    struct prompts *p = &c->ask.prompts;
    uint32_t n_ctx = c->server->info.n_ctx;
    p->dropped = &c->job.dropped;
    enum status st = openai_request_tokenize(&c->ask, &c->server->loader, n_ctx, &c->err);
    for (uint32_t i = 0; i < p->n; i++)
        if (p->all[i].ids.over || (st == STATUS_OK && p->all[i].ids.count >= n_ctx))
            return completion_too_long(c, &p->all[i].ids);
    return st;
}

static uint64_t tokens_read(const struct completion *c)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < c->ask.prompts.n; i++)
        n += c->ask.prompts.all[i].ids.count;
    return n;
}

/* Any one thread: touches nothing that others do. */
static void completion_work(struct text_job *job)
{
    struct completion *c = (struct completion *)(void *)job;
    size_t len;
    const char *bytes;
    c->prepared = http_in_one_piece(c->body, &bytes, &len, &c->err);
    if (c->prepared == STATUS_OK)
        c->prepared = c->form->read(&c->ask, c->ask.kind, bytes ? bytes : "", len, &c->err);
    c->ask.stream |= c->stream_asked;
    if (c->prepared == STATUS_OK && c->keyed)
        c->prepared = cache_salt_of_key(&c->ask.params.salt, &c->key_secret, &c->err);
    timeline_stamp(&c->timeline, TIMELINE_PARSED);
    if (c->prepared == STATUS_OK)
        c->prepared = check_model(c);
    if (c->prepared == STATUS_OK)
        c->prepared = completion_tokenize(c);
    if (c->prepared == STATUS_OK)
        c->prepared = openai_request_check_logprobs(&c->ask, c->server->info.n_ctx, &c->err);
    if (c->prepared == STATUS_OK)
        c->prepared = openai_request_forget_text(&c->ask, &c->err);
    timeline_stamp(&c->timeline, TIMELINE_TOKENIZED);
    if (c->trace && c->ask.prompts.n > 0 && c->ask.prompts.all[0].ids.count > 0)
        trace_line_hash(c->server->trace, &c->trace, c->ask.prompts.all[0].ids.ids,
                        (uint32_t)c->ask.prompts.all[0].ids.count);
    c->tokens_read = tokens_read(c);
    if (c->prepared != STATUS_OK)
        forget_openai_request(&c->ask);
}

/* The earliest of the server's and the request's own, from the first byte on. */
static int64_t deadline(const struct completion *c)
{
    const double all[] = {c->ask.timeout_s, c->timeout_s, c->server->options.request_timeout_s};
    double s = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] > 0 && (s == 0 || all[i] < s))
            s = all[i];
    return s > 0 ? c->timeline.at_us[TIMELINE_RECEIVED] + (int64_t)(s * 1e6) : 0;
}

/* The last one takes what the question has; the others get copies. */
static enum status completion_make_params(struct completion *c, struct request_params *out)
{
    struct openai_request *ask = &c->ask;
    struct request_params *p = &ask->params;
    p->timeline = c->timeline;
    p->deadline_us = deadline(c);
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

static enum status make_choices(struct completion *c)
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

static enum status submit_choices(struct completion *c)
{
    uint32_t n = c->n_choices;
    struct request_params *params = mem_array(n, sizeof *params);
    struct request **requests = mem_array(n, sizeof(struct request *));
    enum status st = STATUS_NO_MEMORY;
    if (params && requests)
        st = completion_make_params(c, params);
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

static void overloaded(struct completion *c)
{
    const struct engine *e = c->server->engine;
    uint64_t tokens = (uint64_t)c->prompt_tokens * c->ask.n;
    http_retry_after(c->x, engine_retry_after_us(e, c->n_choices, tokens));
    refuse_overload(c, &c->err, engine_limit(e));
}

/* Are all its answers more than the client may have? */
static bool too_many_answers(struct completion *c)
{
    const char *limit;
    uint32_t n = c->ask.prompts.n * c->ask.n;
    if (client_admission_answers(c->server, c->x, &c->admitted, n, &limit, &c->err) == STATUS_OK)
        return false;
    refuse_overload(c, &c->err, limit);
    return true;
}

static void submit(struct completion *c)
{
    c->prompt_tokens = (uint32_t)c->tokens_read;
    if (too_many_answers(c))
        return;
    c->max_tokens = c->ask.params.max_tokens;
    if (make_choices(c) || submit_choices(c)) {
        if (c->err.code == STATUS_OVERLOADED)
            overloaded(c);
        else
            completion_refuse(c, &c->err, NULL);
        return;
    }
    c->streaming = c->ask.stream;
    c->answer.include_usage = c->ask.include_usage;
    if (c->streaming)
        completion_output_start_stream(c);
}

/* The body has become tokens. What echo gives back is held from now on: token ids spell more than
 * they came as. */
static bool hold_echo(struct completion *c)
{
    size_t bytes = prompts_shown(&c->ask.prompts);
    if (bytes <= LIMIT_STREAM_BUFFER) /* so much every exchange may take */
        return true;
    if (byte_budget_open(&c->held, &c->server->request_memory, &c->admitted.client) &&
        byte_budget_set(&c->held, bytes))
        return true;
    http_no_room(&c->held, &c->err);
    forget_openai_request(&c->ask);
    http_fail(c->x, &c->err, http_code_memory);
    return false;
}

/* Until the call has ended, which its client decides. Without room the line is dropped. */
static void hold_trace(struct completion *c)
{
    size_t bytes = trace_line_bytes(c->trace);
    if (bytes <= LIMIT_STREAM_BUFFER / 4) /* so much every call may take */
        return;
    if (byte_budget_fits(&c->traced, bytes)) {
        byte_budget_force(&c->traced, bytes);
        return;
    }
    mem_free(c->trace);
    c->trace = NULL;
}

static void completion_done(struct text_job *job)
{
    struct completion *c = (struct completion *)(void *)job;
    c->preparing = false;
    completion_forget_body(c);
    hold_trace(c);
    client_admission_tokens(c->server, c->x, &c->admitted, c->tokens_read);
    if (!c->x)
        completion_let_go(c);
    else if (c->prepared != STATUS_OK)
        completion_refuse(c, &c->err, c->code);
    else if (hold_echo(c))
        submit(c);
}

static void completion_prepare(struct completion *c)
{
    const char *limit;
    c->preparing = true; /* until done, which may come at once */
    if (client_admission_text(c->server, c->x, &c->job, &limit, &c->err) == STATUS_OK)
        return;
    c->preparing = false;
    completion_forget_body(c);
    refuse_overload(c, &c->err, limit);
}

/* When the last one has ended, or time is up, another server may be here. */
static int64_t drained_us(const struct server *s)
{
    int64_t us = engine_retry_after_us(s->engine, 0, 0);
    int64_t most_us = s->options.drain_seconds * INT64_C(1000000);
    return us < most_us ? us : most_us;
}

static bool completion_refused(struct server *s, struct http_exchange *x,
                               const struct api_kind *kind)
{
    static const char *const reasons[] = {"loading", "memory", "draining", "failed"};
    struct err e = s->failure;
    if (s->state == SERVER_READY && !reserve_is_low())
        return false;
    if (s->state == SERVER_DRAINING)
        http_retry_after(x, drained_us(s));
    if (s->state == SERVER_LOADING)
        (void)server_state_check_loaded(s, &e);
    else if (s->state == SERVER_READY)
        err_set(&e, STATUS_NO_MEMORY, "the server is short of memory: try again");
    else if (s->state == SERVER_DRAINING)
        err_set(&e, STATUS_UNAVAILABLE, "the server is shutting down: ask another, or try later");
    completion_turn_away(s, x, kind, &e, reasons[s->state]);
    return true;
}

static bool too_many(struct server *s, struct http_exchange *x, const struct api_kind *kind,
                     struct admitted *out)
{
    struct err e;
    const char *limit;
    if (client_admission_begin(s, x, out, &limit, &e) == STATUS_OK)
        return false;
    completion_turn_away(s, x, kind, &e, limit);
    return true;
}

static void completion_fill(struct completion *c, struct server *s, struct http_exchange *x,
                            const struct completion_question *question)
{
    const struct api_kind *kind = question->kind;
    char digits[REQUEST_ID_DIGITS + 1];
    request_id_random(digits);
    snprintf(c->id, sizeof c->id, "%s-%s", kind->id_prefix, digits);
    snprintf(c->request_id, sizeof c->request_id, "%s", x->request_id);
    c->job = (struct text_job){.work = completion_work,
                               .done = completion_done,
                               .client = c->admitted.client,
                               .bytes = evbuffer_get_length(question->body)};
    c->server = s;
    c->x = x;
    c->trace = s->trace ? trace_line_new() : NULL;
    c->form = question->form;
    c->stream_asked = question->stream;
    c->coalesce_us = question->coalesce_us;
    c->timeout_s = question->timeout_s;
    c->keyed = s->keyed;
    c->key_secret = x->key_secret;
    c->body = question->body;
    byte_budget_move(&c->held, &x->held);
    c->ask.kind = kind;
    c->timeline = *x->timeline;
    c->answer = (struct openai_response){
        .kind = kind, .id = c->id, .model = s->model_name, .created = clock_unix_s()};
    event_assign(&c->timer, s->base, -1, 0, completion_output_timer, c);
    http_hold_answer(x, &c->kept);
    http_hold_answer(x, &c->traced);
    c->out.limit = LIMIT_CHOICE_BYTES;
    c->logprobs.limit = LIMIT_CHOICE_BYTES / 2;
    x->user = c;
    x->ended = completion_on_ended;
    x->drained = completion_output_drained;
    c->next = s->calls;
    if (c->next)
        c->next->prev = c;
    s->calls = c;
}

void completion_begin(struct server *s, struct http_exchange *x,
                      const struct completion_question *question)
{
    struct err e;
    struct admitted admitted;
    if (completion_refused(s, x, question->kind) || too_many(s, x, question->kind, &admitted)) {
        if (question->body)
            evbuffer_free(question->body);
        return;
    }
    struct completion *c = question->body ? mem_zalloc(sizeof *c) : NULL;
    if (!c) {
        if (question->body)
            evbuffer_free(question->body);
        client_admission_end(s, &admitted, 0);
        err_set(&e, STATUS_NO_MEMORY, "no memory for the request");
        completion_turn_away(s, x, question->kind, &e, "memory");
        return;
    }
    c->admitted = admitted;
    completion_fill(c, s, x, question);
    completion_prepare(c);
}

void completion_cancel_all(struct server *s)
{
    for (struct completion *c = s->calls; c; c = c->next)
        completion_cancel(c);
}

/* --- who waits ------------------------------------------------------------------------------ */

static bool waits(const struct completion *c)
{
    return c->n_live > 0 && c->choices[0].r && !request_is_admitted(c->choices[0].r);
}

/* It has no token yet, so whoever came later is behind it. */
static bool is_ahead(const struct completion *c)
{
    return c->n_live > 0 && !c->measured;
}

static struct server_view_waiting view(const struct completion *c, uint32_t ahead)
{
    return (struct server_view_waiting){
        .id = c->id,
        .request_id = c->request_id,
        .queued_us = request_timeline(c->choices[0].r)->at_us[TIMELINE_QUEUED],
        .prompt_tokens = c->prompt_tokens,
        .ahead = ahead};
}

uint32_t completion_waiting(const struct server *s, struct server_view_waiting *out)
{
    uint32_t n = 0, ahead = 0;
    const struct completion *c = s->calls; /* the newest */
    while (c && c->next)
        c = c->next;
    for (; c; c = c->prev) {
        if (waits(c) && n++ < LIMIT_LIVE_REQUESTS)
            out[n - 1] = view(c, ahead);
        ahead += is_ahead(c);
    }
    return n;
}
