/* Answers of gRPC: a GenerateResponse for whatever is ready. A message whose fields stand in parts
 * is the parts one after the other (protobuf's "last one wins", repeated ones add up), which is how
 * a whole answer is put together. */
#include "api/api_kind.h"
#include "base/arena.h"
#include "base/json_memory.h"
#include "grpc/grpc.h"

#include <proto/firstlight.pb-c.h>
#include <string.h>

typedef Firstlight__V1__TokenLogprob token_logprob;
typedef Firstlight__V1__GenerateResponse response;

static ProtobufCBinaryData bytes_of(const char *text, size_t len)
{
    return (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)text};
}

/* Log probabilities */

/* Tokens of an array as openai_logprobs.c writes them for chats; false: no memory. */
static bool fill_logprobs(struct arena *a, const json_t *array, token_logprob ***out, size_t *n)
{
    *n = 0;
    *out = arena_array(a, json_array_size(array), sizeof **out);
    for (size_t i = 0; i < json_array_size(array) && *out; i++) {
        const json_t *token = json_array_get(array, i), *text = json_object_get(token, "token");
        const json_t *list = json_object_get(token, "bytes");
        token_logprob *l = arena_array(a, 1, sizeof *l);
        uint8_t *bytes = arena_array(a, json_array_size(list) + 1, 1);
        if (!l || !bytes)
            return false;
        firstlight__v1__token_logprob__init(l);
        for (size_t k = 0; k < json_array_size(list); k++)
            bytes[k] = (uint8_t)json_integer_value(json_array_get(list, k));
        l->has_token = l->has_logprob = l->has_bytes = true;
        l->token = bytes_of(json_string_value(text), json_string_length(text));
        l->logprob = (float)json_number_value(json_object_get(token, "logprob"));
        l->bytes = (ProtobufCBinaryData){json_array_size(list), bytes};
        if (!fill_logprobs(a, json_object_get(token, "top_logprobs"), &l->top, &l->n_top))
            return false;
        (*out)[(*n)++] = l;
    }
    return *out || json_array_size(array) == 0;
}

/* Messages */

static void choice_of(Firstlight__V1__Choice *out, const struct openai_response_choice *c)
{
    firstlight__v1__choice__init(out);
    out->has_index = true;
    out->index = c->index;
    out->has_text = c->len > 0;
    out->text = bytes_of(c->text, c->len);
    out->finish_reason = (char *)(uintptr_t)c->finish;
}

/* What says whose answer it is goes with the first message of each choice. */
static void name_answer(response *r, const struct openai_response *a)
{
    r->id = (char *)(uintptr_t)a->id;
    r->model = (char *)(uintptr_t)a->model;
    r->has_created = true;
    r->created = a->created;
}

typedef void put_message(struct buf *out, const ProtobufCMessage *message);

/* Appends the response, with the log probabilities of its only choice. */
static void put_with_logprobs(struct buf *out, response *r, const char *logprobs, put_message *put)
{
    struct arena arena;
    json_error_t fault;
    bool no_memory;
    json_t *json = NULL;
    if (logprobs) /* a token may spell a NUL byte */
        json = json_memory_read(logprobs, strlen(logprobs), JSON_ALLOW_NUL, &fault, &no_memory);
    Firstlight__V1__Choice *choice = r->choices[0];
    arena_init(&arena, SIZE_MAX); /* it holds what the JSON does */
    bool made = !logprobs || (json && fill_logprobs(&arena, json_object_get(json, "content"),
                                                    &choice->logprobs, &choice->n_logprobs));
    if (made)
        put(out, &r->base);
    else
        out->failed = true;
    arena_fini(&arena);
    json_decref(json);
}

static void put_choice(struct buf *out, const struct openai_response *a,
                       const struct openai_response_choice *c, put_message *put)
{
    Firstlight__V1__Choice choice, *choices[] = {&choice};
    response r = FIRSTLIGHT__V1__GENERATE_RESPONSE__INIT;
    choice_of(&choice, c);
    r.n_choices = 1;
    r.choices = choices;
    if (a)
        name_answer(&r, a);
    put_with_logprobs(out, &r, c->logprobs, put);
}

static double grpc_response_ms(int64_t us)
{
    return (double)us / 1e3;
}

/* Appends the response with how it went added. */
static void put_measured(struct buf *out, response *r, const struct openai_response_end *e,
                         put_message *put)
{
    Firstlight__V1__Usage usage = FIRSTLIGHT__V1__USAGE__INIT;
    Firstlight__V1__Ttft ttft = FIRSTLIGHT__V1__TTFT__INIT;
    Firstlight__V1__Metrics metrics = FIRSTLIGHT__V1__METRICS__INIT;
    const struct timeline_ttft t = timeline_ttft(e->timeline);
    int64_t first = e->timeline->at_us[TIMELINE_FIRST_TOKEN];
    int64_t generation_us = first ? e->timeline->at_us[TIMELINE_FINISHED] - first : 0;
    usage.has_prompt_tokens = usage.has_completion_tokens = usage.has_cached_tokens = true;
    usage.prompt_tokens = e->prompt_tokens;
    usage.completion_tokens = e->completion_tokens;
    usage.cached_tokens = e->cached_tokens;
    ttft.has_receive_ms = ttft.has_tokenize_ms = ttft.has_submit_ms = ttft.has_queue_ms = true;
    ttft.has_cache_ms = ttft.has_prefill_ms = ttft.has_decode_ms = true;
    ttft.has_first_write_ms = ttft.has_total_ms = true;
    ttft.receive_ms = grpc_response_ms(t.receive_us);
    ttft.tokenize_ms = grpc_response_ms(t.tokenize_us);
    ttft.submit_ms = grpc_response_ms(t.submit_us);
    ttft.queue_ms = grpc_response_ms(t.queue_us);
    ttft.cache_ms = grpc_response_ms(t.cache_us);
    ttft.prefill_ms = grpc_response_ms(t.prefill_us);
    ttft.decode_ms = grpc_response_ms(t.decode_us);
    ttft.first_write_ms = grpc_response_ms(t.first_write_us);
    ttft.total_ms = grpc_response_ms(t.total_us);
    metrics.has_generation_time_ms = metrics.has_mean_itl_ms = metrics.has_tokens_per_second = true;
    metrics.generation_time_ms = grpc_response_ms(generation_us);
    metrics.mean_itl_ms = e->n_gaps > 0 ? grpc_response_ms(e->gaps_us) / e->n_gaps : 0;
    metrics.tokens_per_second = generation_us > 0 ? e->n_gaps * 1e6 / (double)generation_us : 0;
    r->usage = &usage;
    r->ttft = &ttft;
    r->metrics = &metrics;
    put(out, &r->base);
}

/* Streams */

static void grpc_response_put_text(struct buf *out, const struct openai_response *a,
                                   const struct openai_response_choice *c)
{
    put_choice(out, c->first ? a : NULL, c, grpc_put);
}

static void grpc_response_put_finish(struct buf *out, const struct openai_response *a,
                                     const struct openai_response_choice *c,
                                     const struct openai_response_end *end)
{
    Firstlight__V1__Choice choice, *choices[] = {&choice};
    response r = FIRSTLIGHT__V1__GENERATE_RESPONSE__INIT;
    choice_of(&choice, c);
    r.n_choices = 1;
    r.choices = choices;
    if (c->first)
        name_answer(&r, a);
    if (end)
        put_measured(out, &r, end, grpc_put);
    else
        grpc_put(out, &r.base);
}

/* Whole answers: one frame, whose length is known at the end */

static void grpc_response_put_head(struct buf *out, const struct openai_response *a)
{
    response r = FIRSTLIGHT__V1__GENERATE_RESPONSE__INIT;
    name_answer(&r, a);
    grpc_put_bare(out, &r.base);
}

static void put_whole_choice(struct buf *out, const struct openai_response *a,
                             const struct openai_response_choice *c)
{
    (void)a;
    put_choice(out, NULL, c, grpc_put_bare);
}

static void grpc_response_put_tail(struct buf *out, const struct openai_response *a,
                                   const struct openai_response_end *end)
{
    response r = FIRSTLIGHT__V1__GENERATE_RESPONSE__INIT;
    (void)a;
    put_measured(out, &r, end, grpc_put_bare);
}

const struct wire_format grpc_response_format = {
    .read = grpc_request_read,
    .start = grpc_stream,
    .text = grpc_response_put_text,
    .finish = grpc_response_put_finish,
    .end = grpc_end,
    .between = "",
    .head = grpc_response_put_head,
    .choice = put_whole_choice,
    .tail = grpc_response_put_tail,
    .reply = grpc_reply_packed,
    .logprobs_as = &api_chat,
};
