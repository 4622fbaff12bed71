/* An engine in this process as a target: the load generator's thread is the engine's owner and does
 * what the server's I/O thread would, but for HTTP and JSON. */
#include "bench/client/target_engine.h"
#include "bench/client/target_open.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "text/template/chat.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* One request on its way; the engine's request points to it and the record's `user` does. */
struct flight {
    struct flight *next; /* of those free */
    struct record *record;
    struct request *request;
    bool stream;
    bool no_memory; /* a chunk found no room; the request is being cancelled */
};

struct engine_target {
    struct target base;
    const struct loader *loader;
    struct engine *engine;
    struct flight *flights; /* one for each of the engine's slots */
    struct flight *free;
};

/* --- requests in ---------------------------------------------------------------------------- */

static enum status tokenize_chat(const struct loader *l, const char *prompt, struct tokens *out,
                                 struct err *err)
{
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", prompt);
    if (!messages)
        return err_set(err, STATUS_INVALID, "the prompt is not UTF-8");
    enum status status =
        chat_tokens(l->chat_template, l->tokenizer, messages, NULL, true, out, err);
    json_decref(messages);
    return status;
}

static enum status target_engine_tokenize(const struct loader *l, const struct work_item *item,
                                          struct tokens *out, struct err *err)
{
    if (item->chat)
        return tokenize_chat(l, item->prompt, out, err);
    return tokenizer_encode(l->tokenizer, item->prompt, strlen(item->prompt), NULL,
                            TOKENIZE_SPECIAL | TOKENIZE_ADD, out, err);
}

static enum status target_engine_make_params(const struct engine_target *t,
                                             const struct work_item *item, struct request_params *p,
                                             struct err *err)
{
    struct tokens tokens = {0};
    timeline_stamp(&p->timeline, TIMELINE_PARSED);
    enum status status = target_engine_tokenize(t->loader, item, &tokens, err);
    p->prompt = tokens.ids; /* ours to give away: tokens_fini is not called */
    p->n_prompt = (uint32_t)tokens.count;
    p->max_tokens = item->max_tokens;
    p->sampling = sampling_default;
    p->sampling.temperature = 0; /* greedy, so that a run can be repeated */
    p->ignore_eos = item->ignore_eos;
    p->user = t->free;
    timeline_stamp(&p->timeline, TIMELINE_TOKENIZED);
    return status;
}

/* The engine has as many slots as we have flights: it refuses when none is free. */
static void target_engine_take_off(struct engine_target *t, const struct work_item *item,
                                   struct record *r, struct request *request)
{
    struct flight *f = t->free;
    REQUIRE(f && request_user(request) == f);
    t->free = f->next;
    *f = (struct flight){.record = r, .request = request, .stream = item->stream};
    r->accepted_us = clock_now_us();
    r->prompt_tokens = request_prompt_tokens(request);
    r->user = f;
}

static void engine_target_send(struct target *base, const struct work_item *item, struct record *r)
{
    struct engine_target *t = (struct engine_target *)base;
    struct request_params params = {0};
    struct request *request;
    struct err err = {0};
    r->state = RECORD_RUNNING;
    r->sent_us = params.timeline.at_us[TIMELINE_RECEIVED] = clock_now_us();
    enum status status = target_engine_make_params(t, item, &params, &err);
    if (status == STATUS_OK)
        status = engine_submit(t->engine, &params, &request, &err);
    if (status == STATUS_OK)
        target_engine_take_off(t, item, r, request);
    else
        record_end(r, RECORD_FAILED, clock_now_us(), err.text);
    request_params_fini(&params);
}

static void engine_target_cancel(struct target *base, struct record *r)
{
    struct engine_target *t = (struct engine_target *)base;
    struct flight *f = r->user;
    if (r->state == RECORD_RUNNING)
        engine_cancel(t->engine, f->request);
}

/* --- events out ----------------------------------------------------------------------------- */

/* What one event brings is one chunk, however many tokens, as the server makes one frame of it. */
static void take_chunk(struct engine_target *t, struct flight *f, int64_t now_us)
{
    struct timeline *timeline = request_timeline(f->request);
    if (timeline->at_us[TIMELINE_FIRST_CONTENT] == 0)
        timeline->at_us[TIMELINE_FIRST_CONTENT] = now_us; /* the same as the record's first_us */
    if (record_chunk(f->record, now_us) || f->no_memory)
        return;
    f->no_memory = true;
    engine_cancel(t->engine, f->request);
}

static void target_engine_take_whole(struct engine_target *t, struct flight *f, int64_t now_us)
{
    struct timeline *timeline = request_timeline(f->request);
    timeline->at_us[TIMELINE_DECODED] = timeline->at_us[TIMELINE_FINISHED];
    take_chunk(t, f, now_us);
}

static void take_timeline(struct record *r, const struct timeline *t)
{
    if (r->first_us == 0)
        return; /* no content: there is no TTFT to split */
    r->ttft = timeline_ttft(t);
    r->has_ttft = true;
    r->server_ttft_ms = (double)r->ttft.total_us / 1000;
    r->server_queue_ms = (double)r->ttft.queue_us / 1000;
}

static void end_record(const struct engine_target *t, const struct flight *f,
                       const struct request_news *all, int64_t now_us)
{
    struct err err = {.text = "the model computed logits that are not finite"};
    struct record *r = f->record;
    take_timeline(r, request_timeline(f->request));
    r->completion_tokens = all->n_tokens;
    r->cached_tokens = request_cached_tokens(f->request);
    r->user = NULL;
    if (f->no_memory)
        record_end(r, RECORD_FAILED, now_us, "no memory for the stamps of its chunks");
    else if (all->finish == FINISH_CANCELLED)
        record_end(r, RECORD_CANCELLED, now_us, NULL);
    else if (all->finish == FINISH_ERROR) {
        engine_failure(t->engine, &err);
        record_end(r, RECORD_FAILED, now_us, err.text);
    } else {
        snprintf(r->finish, sizeof r->finish, "%s", finish_reason_name(all->finish));
        record_end(r, RECORD_OK, now_us, NULL);
    }
}

static void land(struct engine_target *t, struct flight *f)
{
    engine_release(t->engine, f->request);
    *f = (struct flight){.next = t->free};
    t->free = f;
}

static void target_engine_take_news(struct engine_target *t, struct request *request)
{
    struct flight *f = request_user(request);
    struct request_news news, all;
    int64_t now = clock_now_us();
    request_read(request, &news);
    if (f->stream && news.text_len > 0)
        take_chunk(t, f, now);
    if (news.finish == FINISH_NONE)
        return;
    request_all(request, &all);
    if (!f->stream && all.text_len > 0)
        target_engine_take_whole(t, f, now);
    end_record(t, f, &all, now);
    land(t, f);
}

static void engine_target_poll(struct target *base, int64_t until_us)
{
    struct engine_target *t = (struct engine_target *)base;
    struct pollfd fd = {.fd = engine_event_fd(t->engine), .events = POLLIN};
    int64_t left_us = until_us - clock_now_us();
    if (left_us < 0)
        left_us = 0;
    const struct timespec timeout = {.tv_sec = left_us / 1000000,
                                     .tv_nsec = left_us % 1000000 * 1000};
    ppoll(&fd, 1, &timeout, NULL); /* a signal ends it too: the caller may have to stop */
    base->woke_us = clock_now_us();
    engine_events_clear(t->engine);
    struct request *request;
    while ((request = engine_next_event(t->engine)))
        target_engine_take_news(t, request);
}

/* --- opening and closing -------------------------------------------------------------------- */

static void engine_target_close(struct target *base)
{
    struct engine_target *t = (struct engine_target *)base;
    engine_close(t->engine);
    mem_free(t->flights);
    mem_free(t);
}

static const struct target_ops engine_target_ops = {
    .send = engine_target_send,
    .poll = engine_target_poll,
    .cancel = engine_target_cancel,
    .close = engine_target_close,
};

const struct engine *target_engine(const struct target *t)
{
    return t->ops == &engine_target_ops ? ((const struct engine_target *)t)->engine : NULL;
}

enum status target_engine_wrap(struct target **out, const struct loader *loader,
                               struct engine *engine, const char *name, struct err *err)
{
    struct engine_info info;
    engine_info(engine, &info);
    struct engine_target *t = mem_zalloc(sizeof *t);
    struct flight *flights = mem_array(info.n_slots, sizeof *flights);
    if (!t || !flights) {
        engine_close(engine);
        mem_free(flights);
        mem_free(t);
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u requests", info.n_slots);
    }
    *t = (struct engine_target){.base = {.ops = &engine_target_ops, .in_process = true},
                                .loader = loader,
                                .engine = engine,
                                .flights = flights,
                                .free = flights};
    for (uint32_t i = 0; i + 1 < info.n_slots; i++)
        flights[i].next = &flights[i + 1];
    snprintf(t->base.model, sizeof t->base.model, "%s", loader->name);
    snprintf(t->base.engine, sizeof t->base.engine, "%s", name);
    *out = &t->base;
    return STATUS_OK;
}

/* "cpu on AMD EPYC 9B45, 2 threads" */
static void name_engine(char *out, size_t size, const struct engine_kind *kind,
                        const struct engine *e)
{
    struct engine_info info;
    engine_info(e, &info);
    snprintf(out, size, "%s on %.80s, %d thread%s", kind->name, cpu_model_name(), info.n_threads,
             info.n_threads == 1 ? "" : "s");
}

enum status target_open_engine(struct target **out, const struct loader *loader,
                               const struct engine_options *options, struct err *err)
{
    struct engine_options chosen = *options;
    struct engine *engine;
    char name[128];
    if (!chosen.kind && !(chosen.kind = engine_kind_find("auto", err)))
        return STATUS_UNSUPPORTED;
    enum status status = engine_open(&engine, loader, &chosen, err);
    if (status != STATUS_OK)
        return status;
    name_engine(name, sizeof name, chosen.kind, engine);
    status = engine_warm(engine, NULL, 0, err);
    if (status == STATUS_OK)
        return target_engine_wrap(out, loader, engine, name, err);
    engine_close(engine);
    return status;
}
