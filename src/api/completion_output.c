/* What is written of a call: streamed choices as they come, unstreamed ones at the end. */
#include "api/completion.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"

#include <string.h>

/* More log probabilities of a choice than this are made by the text worker: a thousand of them take
 * half a millisecond and more. */
#define LONG_LOGPROBS 512

/* What of a stream is written is made in memory that is kept for the next part, unless it is more.
 */
#define KEPT_BYTES (2u << 10)

/* The answer. The exchange may end inside the last call of each function here, and the call with
 * it, so nothing comes after. */

static void completion_output_put_error(struct completion *c, const struct err *e)
{
    if (c->form->error)
        c->form->error(&c->out, e);
}

/* Once a call: when the first of its choices has a token (is streamed: has been written). */
static void measure_first(struct choice *ch)
{
    struct completion *c = ch->call;
    const struct timeline *t = request_timeline(ch->r);
    if (c->measured || t->at_us[TIMELINE_FIRST_TOKEN] == 0)
        return;
    c->measured = true;
    text_worker_refund(c->server->text, &c->job);
    metrics_first(&c->server->metrics, t, c->streaming, c->prompt_tokens);
}

/* The content of a choice, or what stands for it, was handed to the socket at that moment. */
static void stamp_first(struct choice *ch, int64_t at_us)
{
    request_timeline(ch->r)->at_us[TIMELINE_FIRST_CONTENT] = at_us;
    measure_first(ch);
}

/* Some of what was to be written is lost: the stream ends here, with an error. */
static void lose(struct completion *c, bool no_room)
{
    struct err *e = &c->err;
    buf_clear(&c->out);
    if (no_room)
        http_no_room_to_send(c->x, e);
    else
        err_set(e, STATUS_NO_MEMORY, "no memory for the answer");
    completion_output_put_error(c, e);
    c->finish = FINISH_ERROR;
    c->lost = true;
    c->answered = true;
    completion_cancel(c);
}

static void clear(struct buf *b)
{
    buf_clear(b);
    if (b->cap > KEPT_BYTES)
        buf_fini(b);
}

static void write_out(struct completion *c)
{
    if (c->out.failed)
        lose(c, false);
    else if (!http_has_room(c->x, c->out.len))
        lose(c, true);
    if (c->out.failed) { /* not even for the error */
        const char *text = c->form->no_memory ? c->form->no_memory : "";
        http_stream_write(c->x, text, strlen(text));
    } else {
        http_stream_write(c->x, buf_str(&c->out), c->out.len);
    }
    c->written_us = clock_now_us();
    clear(&c->out);
    clear(&c->logprobs);
    for (uint32_t i = 0; i < c->n_choices; i++) {
        if (c->choices[i].begins)
            stamp_first(&c->choices[i], c->written_us);
        c->choices[i].begins = false;
    }
}

static void measure_news(struct choice *ch)
{
    struct completion *c = ch->call;
    struct request_news all;
    request_all(ch->r, &all);
    metrics_tokens(&c->server->metrics, &ch->track, request_timeline(ch->r), all.n_tokens,
                   clock_now_us());
    if (!c->streaming && all.n_tokens > 0)
        measure_first(ch);
}

static struct openai_response_end end_of(const struct completion *c)
{
    return (struct openai_response_end){
        .prompt_tokens = c->prompt_tokens,
        .completion_tokens = c->completion_tokens,
        .cached_tokens = completion_cached_tokens(c),
        .timeline = &c->timeline,
        .n_gaps = c->n_gaps,
        .gaps_us = c->gaps_us,
        .wait = &c->wait,
        .cache = completion_cache(c),
    };
}

static bool broken_off(const struct completion *c, enum finish_reason finish, struct err *e)
{
    if (finish == FINISH_CANCELLED)
        err_set(e, STATUS_UNAVAILABLE, "the server is shutting down: the answer was broken off");
    else if (finish == FINISH_TIMEOUT)
        err_set(e, STATUS_TIMEOUT,
                "the answer was not done in the time it was given (timeout of the request, "
                "--request-timeout of the server)");
    else if (finish == FINISH_ERROR && engine_failure(c->server->engine, e) == STATUS_OK)
        err_set(e, STATUS_INTERNAL, "the engine failed while computing this answer");
    return completion_is_broken(finish);
}

/* The log probabilities that belong to what is shown so far, made in *out; NULL: none. */
static const char *take_logprobs(struct choice *ch, const struct request_news *all, struct buf *out)
{
    const struct completion *c = ch->call;
    struct openai_logprobs_prompt prompt = {.ids = request_prompt(ch->r),
                                            .n = request_prompt_tokens(ch->r)};
    if (!all->logprobs)
        return NULL;
    prompt.text = prompts_text(&c->ask.prompts, ch->index / c->ask.n, &prompt.len);
    buf_clear(out);
    const struct api_kind *kind = c->form->logprobs_as ? c->form->logprobs_as : c->ask.kind;
    if (!openai_logprobs_put(out, kind, c->server->loader.tokenizer, all, &prompt, &ch->cursor))
        return NULL;
    return buf_str(out);
}

/* Echo, in a buffer of its own with the text behind it; false: what is to be shown is *text. */
static bool add_echo(const struct choice *ch, struct buf *both, const char **text, size_t *len)
{
    const struct openai_request *ask = &ch->call->ask;
    size_t n;
    if (!ask->echo || ch->begun)
        return false;
    const char *prompt = prompts_text(&ask->prompts, ch->index / ask->n, &n);
    buf_append(both, prompt, n);
    buf_append(both, *text, *len);
    *text = buf_str(both);
    *len = both->len;
    return true;
}

/* One frame of what is new. Log probabilities come with the text that they belong to, or, where
 * there is none, at the end. */
static void completion_output_put_text(struct choice *ch, const struct request_news *news,
                                       const struct request_news *all)
{
    struct completion *c = ch->call;
    bool ended = all->finish != FINISH_NONE;
    struct openai_response_choice part = {
        .index = ch->index, .first = !ch->begun, .text = news->text, .len = news->text_len};
    if (part.len == 0 && !ended)
        return;
    struct buf both = {0};
    bool echoed = add_echo(ch, &both, &part.text, &part.len);
    part.logprobs = take_logprobs(ch, all, &c->logprobs);
    c->out.failed |= c->logprobs.failed;
    if (part.len > 0 || part.logprobs) {
        c->form->text(&c->out, &c->answer, &part);
        ch->begins |= !ch->begun;
        ch->begun = true;
    }
    c->out.failed |= echoed && both.failed;
    buf_fini(&both);
}

/* The end may say when the first content was written. So content that is still to be written goes
 * out before the end is made; an answer without content has its end, or its error, instead. */
static void settle_first(struct choice *ch)
{
    if (ch->begins)
        write_out(ch->call);
    else if (!ch->begun)
        stamp_first(ch, clock_now_us());
}

static void put_end(struct choice *ch, enum finish_reason finish)
{
    struct completion *c = ch->call;
    struct openai_response_choice part = {
        .index = ch->index, .first = !ch->begun, .finish = finish_reason_name(finish)};
    settle_first(ch);
    completion_release(ch);
    if (c->lost)
        return;
    struct openai_response_end end = end_of(c);
    c->form->finish(&c->out, &c->answer, &part, c->n_live == 0 ? &end : NULL);
    c->answered = c->n_live == 0;
}

/* Of gRPC, with --grpc-coalesce-ms: tokens wait until so long after the last message, but never
 * those that are a choice's first. */
static bool gathers(struct choice *ch)
{
    struct completion *c = ch->call;
    int64_t left_us = c->written_us + c->coalesce_us - clock_now_us();
    if (c->coalesce_us == 0 || !ch->begun || left_us <= 0)
        return false;
    struct timeval tv = {.tv_sec = left_us / 1000000, .tv_usec = left_us % 1000000};
    if (!event_pending(&c->timer, EV_TIMEOUT, NULL))
        event_add(&c->timer, &tv);
    return true;
}

/* Appends what is ready of a choice. A client that does not read makes its tokens wait in the
 * request; but a finished request is written out whole, for its slot is wanted. */
static void completion_output_take_news(struct choice *ch)
{
    struct completion *c = ch->call;
    struct request_news news, all;
    struct err e;
    request_all(ch->r, &all);
    if (http_stream_waiting(c->x) > LIMIT_STREAM_BUFFER && all.finish == FINISH_NONE) {
        c->behind = true;
        return;
    }
    if (all.finish == FINISH_NONE && gathers(ch))
        return;
    request_read(ch->r, &news);
    all.n_tokens = (uint32_t)(news.tokens - all.tokens) + news.n_tokens;
    all.text_len = (size_t)(news.text - all.text) + news.text_len;
    if (!broken_off(c, news.finish, &e)) {
        completion_output_put_text(ch, &news, &all);
        if (news.finish != FINISH_NONE)
            put_end(ch, news.finish);
        return;
    }
    settle_first(ch);
    completion_release(ch);
    if (c->lost)
        return;
    completion_cancel(c); /* one is broken: so is the answer */
    completion_output_put_error(c, &e);
    c->answered = true;
}

/* The answer is made. Its client may take its time with it: all that it was made of goes. */
static void forget_parts(struct completion *c)
{
    if (c->n_live > 0)
        return;
    c->cached_tokens = completion_cached_tokens(c);
    c->cache = completion_cache(c);
    completion_drop(c);
    mem_free(c->choices);
    c->choices = NULL;
    prompts_fini(&c->ask.prompts);
    byte_budget_end(&c->held);
}

/* Everything that is ready in one write. */
static void completion_output_flush(struct completion *c)
{
    if (c->out.len > 0 || c->out.failed)
        write_out(c);
    struct err e;
    if (!c->answered)
        return;
    event_del(&c->timer);
    forget_parts(c);
    if (c->lost)
        c->form->end(c->x, &c->err);
    else
        c->form->end(c->x, broken_off(c, c->finish, &e) ? &e : NULL);
}

static void pump(struct choice *ch)
{
    completion_output_take_news(ch);
    completion_output_flush(ch->call);
}

static void fail_memory(struct completion *c)
{
    struct err e;
    err_set(&e, STATUS_NO_MEMORY, "no memory for the answer");
    http_fail(c->x, &e, NULL);
}

static bool add_timing(struct completion *c)
{
    struct buf timing = {0};
    openai_response_server_timing(&timing, &c->timeline);
    bool made = !timing.failed;
    if (made)
        http_add_header(c->x, "Server-Timing", buf_str(&timing));
    buf_fini(&timing);
    return made;
}

/* Before the choices are put together: the answer takes as much once more while that is done. */
static bool completion_output_fits(struct completion *c)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < c->n_choices; i++)
        bytes += c->choices[i].json.len;
    byte_budget_end(&c->kept); /* it is about to be held of the connection */
    return bytes <= LIMIT_STREAM_BUFFER || http_has_room(c->x, bytes);
}

static void put_together(struct completion *c)
{
    struct openai_response_end end = end_of(c);
    struct buf out = {0};
    c->form->head(&out, &c->answer);
    for (uint32_t i = 0; i < c->n_choices; i++) {
        struct buf *json = &c->choices[i].json;
        buf_puts(&out, i > 0 ? c->form->between : "");
        buf_append(&out, buf_str(json), json->len);
        buf_fini(json);
    }
    c->timeline.at_us[TIMELINE_DECODED] = c->timeline.at_us[TIMELINE_FINISHED];
    timeline_stamp(&c->timeline, TIMELINE_FIRST_CONTENT); /* of which the tail tells */
    c->form->tail(&out, &c->answer, &end);
    c->answered = true;
    forget_parts(c);
    if (out.failed || !add_timing(c))
        fail_memory(c);
    else
        c->form->reply(c->x, &out);
    buf_fini(&out);
}

/* Any one thread, while nobody else touches the choice: what it is, as JSON or whatever the form
 * wants. */
static void make_choice(struct text_job *job)
{
    struct choice *ch = (struct choice *)(void *)job;
    const struct completion *c = ch->call;
    struct request_news all;
    request_all(ch->r, &all);
    struct openai_response_choice part = {.index = ch->index,
                                          .text = all.text,
                                          .len = all.text_len,
                                          .finish = finish_reason_name(all.finish)};
    struct buf both = {0}, logprobs = {.limit = LIMIT_CHOICE_BYTES / 2};
    ch->json.limit = LIMIT_CHOICE_BYTES;
    bool echoed = add_echo(ch, &both, &part.text, &part.len);
    part.logprobs = take_logprobs(ch, &all, &logprobs);
    c->form->choice(&ch->json, &c->answer, &part);
    ch->json.failed |= logprobs.failed || (echoed && both.failed);
    buf_fini(&logprobs);
    buf_fini(&both);
}

/* The answer ends here, with an error. What still runs of it is cancelled. */
static void completion_output_give_up(struct completion *c, const struct err *e, const char *code)
{
    completion_cancel(c);
    c->answered = true;
    completion_drop(c);
    http_fail(c->x, e, code);
}

static void choice_failed(struct completion *c)
{
    struct err e;
    err_set(&e, STATUS_NO_MEMORY,
            "no memory for the answer: a choice may have %u bytes, its log probabilities half",
            LIMIT_CHOICE_BYTES);
    c->finish = FINISH_ERROR;
    completion_output_give_up(c, &e, NULL);
}

static void no_room(struct completion *c)
{
    struct err e;
    http_no_room_to_send(c->x, &e);
    c->finish = FINISH_ERROR;
    completion_output_give_up(c, &e, "unsent_memory");
}

/* The choice waits for the others, beside all that clients have not taken. */
static void completion_output_keep(struct choice *ch)
{
    struct completion *c = ch->call;
    char *fitted = mem_resize(ch->json.data, ch->json.len + 1);
    if (fitted) {
        ch->json.data = fitted;
        ch->json.cap = ch->json.len + 1;
    }
    c->kept_bytes += ch->json.cap;
    if (c->kept_bytes <= LIMIT_STREAM_BUFFER) /* so much every exchange may take */
        return;
    if (byte_budget_fits(&c->kept, c->kept_bytes))
        byte_budget_force(&c->kept, c->kept_bytes);
    else
        no_room(c);
}

/* Its slot is free; the last one of them ends the answer. */
static void choice_made(struct text_job *job)
{
    struct choice *ch = (struct choice *)(void *)job;
    struct completion *c = ch->call;
    ch->making = false;
    text_worker_refund(c->server->text, job);
    completion_release(ch);
    if (!c->x || c->answered) { /* the client left, or another choice was broken off */
        buf_fini(&ch->json);
        completion_let_go(c);
    } else if (ch->json.failed) {
        choice_failed(c);
    } else if (c->n_live > 0) {
        completion_output_keep(ch);
    } else if (completion_output_fits(c)) {
        put_together(c);
    } else {
        no_room(c);
    }
}

/* An unstreamed choice becomes JSON at its end. */
static void keep_choice(struct choice *ch, const struct request_news *all)
{
    size_t rows = all->n_tokens + (all->prompt_logprobs ? request_prompt_tokens(ch->r) : 0);
    ch->job = (struct text_job){.work = make_choice,
                                .done = choice_made,
                                .client = ch->call->admitted.client,
                                .bytes = rows * all->logprobs_width * sizeof *all->logprobs,
                                .never_slow = true};
    ch->making = rows * all->logprobs_width > LONG_LOGPROBS; /* until choice_made */
    if (ch->making && text_worker_submit(ch->call->server->text, &ch->job))
        return;
    make_choice(&ch->job);
    choice_made(&ch->job);
}

static void completion_output_break_off(struct choice *ch, const struct err *e)
{
    struct completion *c = ch->call;
    completion_release(ch);
    completion_output_give_up(c, e, NULL);
}

void completion_output_news(struct choice *ch)
{
    struct completion *c = ch->call;
    struct request_news all;
    struct err e;
    bool writing = c->x && !c->answered;
    if (writing)
        measure_news(ch);
    if (writing && c->streaming) {
        pump(ch);
        return;
    }
    request_all(ch->r, &all);
    if (all.finish == FINISH_NONE)
        return;
    if (!writing) {
        completion_release(ch);
        completion_let_go(c);
    } else if (broken_off(c, all.finish, &e)) {
        completion_output_break_off(ch, &e);
    } else {
        keep_choice(ch, &all);
    }
}

static void pump_all(struct completion *c)
{
    for (uint32_t i = 0; i < c->n_choices && !c->answered; i++)
        if (c->choices[i].r) {
            completion_output_take_news(&c->choices[i]);
            if (c->out.len > LIMIT_STREAM_BUFFER) /* what waits says who has to wait, too */
                write_out(c);
        }
    completion_output_flush(c);
}

void completion_output_drained(struct http_exchange *x)
{
    struct completion *c = x->user;
    if (!c->behind || c->answered)
        return;
    c->behind = false;
    pump_all(c);
}

/* Proxies and clients give up on a silent connection. The timer is set once per comment, not once
 * per frame: it looks at when something was written last. */
static void say_silence(struct completion *c)
{
    const int64_t every_us = c->server->options.sse_comment_seconds * INT64_C(1000000);
    int64_t silent_us = clock_now_us() - c->written_us;
    int64_t left_us = silent_us < every_us ? every_us - silent_us : every_us;
    struct timeval tv = {.tv_sec = left_us / 1000000, .tv_usec = left_us % 1000000};
    event_add(&c->timer, &tv);
    if (silent_us >= every_us && !c->behind) {
        buf_puts(&c->out, c->form->silence);
        completion_output_flush(c);
    }
}

void completion_output_timer(evutil_socket_t fd, short what, void *arg)
{
    struct completion *c = arg;
    (void)fd;
    (void)what;
    if (c->form->silence)
        say_silence(c);
    else
        pump_all(c);
}

void completion_output_start_stream(struct completion *c)
{
    const struct timeval silence = {.tv_sec = c->server->options.sse_comment_seconds};
    c->form->start(c->x);
    c->written_us = clock_now_us();
    if (!c->form->silence)
        return;
    event_add(&c->timer, &silence);
    buf_puts(&c->out, c->form->accepted);
    completion_output_flush(c);
}
