#include "bench/client/openai_chunk.h"

#include "base/json.h"
#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GREATEST_MS 1e12 /* 30 years; more is no measurement */

void openai_chunk_init(struct openai_chunk *c)
{
    *c = (struct openai_chunk){.ttft_ms = NAN, .queue_ms = NAN};
}

/* A field that is there and not null, else NULL. */
static const json_t *openai_chunk_given(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_null(v) ? NULL : v;
}

/* ---- What must be right ---- */

static enum status openai_chunk_wrong(const char *name, const char *expected, const json_t *v,
                                      struct err *err)
{
    char found[64];
    return err_set(err, STATUS_INVALID, "%s: expected %s, found %s", name, expected,
                   json_found(v, found, sizeof found));
}

static enum status openai_chunk_take_text(struct openai_chunk *c, const json_t *o, const char *name,
                                          struct err *err)
{
    const json_t *v = openai_chunk_given(o, name);
    if (v && !json_is_string(v))
        return openai_chunk_wrong(name, "a string", v, err);
    c->content |= v && json_string_length(v) > 0;
    return STATUS_OK;
}

/* The text of a delta (a stream's) or a message (a whole answer's). Reasoning is read by people as
 * well: `reasoning_content` of llama.cpp and DeepSeek, `reasoning` of vLLM. */
static enum status take_message(struct openai_chunk *c, const json_t *choice, const char *name,
                                struct err *err)
{
    static const char *const texts[] = {"content", "reasoning_content", "reasoning"};
    const json_t *message = openai_chunk_given(choice, name);
    enum status st = STATUS_OK;
    if (message && !json_is_object(message))
        return openai_chunk_wrong(name, "an object", message, err);
    for (size_t i = 0; message && i < sizeof texts / sizeof *texts && st == STATUS_OK; i++)
        st = openai_chunk_take_text(c, message, texts[i], err);
    return st;
}

void openai_chunk_finish(struct openai_chunk *c, const char *finish)
{
    size_t len = strnlen(finish, sizeof c->finish - 1);
    len = utf8_valid_prefix(finish, len); /* whole characters: it ends in JSON */
    memcpy(c->finish, finish, len);
    c->finish[len] = '\0';
}

void openai_chunk_tell(const struct openai_chunk *c, struct record *r)
{
    r->prompt_tokens = c->prompt_tokens;
    r->completion_tokens = c->completion_tokens;
    r->cached_tokens = c->cached_tokens;
    r->has_ttft = c->has_ttft;
    r->ttft = c->ttft;
    r->server_ttft_ms = c->ttft_ms;
    r->server_queue_ms = c->queue_ms;
    snprintf(r->finish, sizeof r->finish, "%s", c->finish);
}

static enum status openai_chunk_take_choice(struct openai_chunk *c, const json_t *choices,
                                            struct err *err)
{
    const json_t *choice = json_array_get(choices, 0);
    const char *finish = NULL;
    if (choices && !json_is_array(choices))
        return openai_chunk_wrong("choices", "an array", choices, err);
    if (!choice)
        return STATUS_OK;
    if (!json_is_object(choice))
        return openai_chunk_wrong("choices[0]", "an object", choice, err);
    enum status st = take_message(c, choice, "delta", err);
    if (st == STATUS_OK)
        st = take_message(c, choice, "message", err);
    if (st == STATUS_OK)
        st = openai_chunk_take_text(c, choice, "text", err);
    if (st == STATUS_OK)
        st = json_field_text(choice, "finish_reason", &finish, err);
    if (finish)
        openai_chunk_finish(c, finish);
    return st;
}

static enum status openai_chunk_take_usage(struct openai_chunk *c, const json_t *usage,
                                           struct err *err)
{
    int64_t prompt = 0, completion = 0, cached = 0;
    if (!usage)
        return STATUS_OK;
    if (!json_is_object(usage))
        return openai_chunk_wrong("usage", "an object", usage, err);
    const json_t *details = openai_chunk_given(usage, "prompt_tokens_details");
    enum status st = json_field_int(usage, "prompt_tokens", 0, UINT32_MAX, &prompt, err);
    if (st == STATUS_OK)
        st = json_field_int(usage, "completion_tokens", 0, UINT32_MAX, &completion, err);
    if (st == STATUS_OK)
        st = json_field_int(details, "cached_tokens", 0, UINT32_MAX, &cached, err);
    if (st)
        return err_context(err, "usage");
    c->counted = OPENAI_COUNTED_USAGE;
    c->prompt_tokens = (uint32_t)prompt;
    c->completion_tokens = (uint32_t)completion;
    if (cached > 0) /* else timings may have said */
        c->cached_tokens = (uint32_t)cached;
    return STATUS_OK;
}

/* ---- What may be there ---- */

static double number(const json_t *o, const char *name, double greatest)
{
    const json_t *v = json_object_get(o, name);
    double x = json_is_number(v) ? json_number_value(v) : NAN;
    return x >= 0 && x <= greatest ? x : NAN;
}

/* llama.cpp's: prompt_n were computed, cache_n more came from its cache. */
static void take_timings(struct openai_chunk *c, const json_t *timings)
{
    double computed = number(timings, "prompt_n", UINT32_MAX / 2);
    double cached = number(timings, "cache_n", UINT32_MAX / 2);
    double predicted = number(timings, "predicted_n", UINT32_MAX);
    if (!isnan(cached) && c->cached_tokens == 0)
        c->cached_tokens = (uint32_t)cached;
    if (isnan(computed) || isnan(predicted) || c->counted == OPENAI_COUNTED_USAGE)
        return;
    c->counted = OPENAI_COUNTED_TIMINGS;
    c->prompt_tokens = (uint32_t)computed + c->cached_tokens;
    c->completion_tokens = (uint32_t)predicted;
}

static bool openai_chunk_part(const json_t *ttft, const char *name, int64_t *us)
{
    double ms = number(ttft, name, GREATEST_MS);
    if (isnan(ms))
        return false;
    *us = llround(ms * 1000);
    return true;
}

static void openai_chunk_take_ttft(struct openai_chunk *c, const json_t *ttft)
{
    struct timeline_ttft t = {0};
    if (openai_chunk_part(ttft, "receive_ms", &t.receive_us) &&
        openai_chunk_part(ttft, "tokenize_ms", &t.tokenize_us) &&
        openai_chunk_part(ttft, "submit_ms", &t.submit_us) &&
        openai_chunk_part(ttft, "queue_ms", &t.queue_us) &&
        openai_chunk_part(ttft, "cache_ms", &t.cache_us) &&
        openai_chunk_part(ttft, "prefill_ms", &t.prefill_us) &&
        openai_chunk_part(ttft, "first_write_ms", &t.first_write_us) &&
        openai_chunk_part(ttft, "total_ms", &t.total_us)) {
        openai_chunk_part(ttft, "decode_ms", &t.decode_us); /* older servers have none */
        c->has_ttft = true;
        c->ttft = t;
    }
}

/* The first of two that is known, else what was known before. */
static void openai_chunk_take_ms(double *ms, double first, double second)
{
    double x = isnan(first) ? second : first;
    if (!isnan(x))
        *ms = x;
}

static void take_measurements(struct openai_chunk *c, const json_t *o)
{
    const json_t *ttft = json_object_get(o, "ttft");
    const json_t *metrics = json_object_get(o, "metrics");
    take_timings(c, json_object_get(o, "timings"));
    openai_chunk_take_ttft(c, ttft);
    openai_chunk_take_ms(&c->ttft_ms, number(ttft, "total_ms", GREATEST_MS),
                         number(metrics, "time_to_first_token_ms", GREATEST_MS));
    openai_chunk_take_ms(&c->queue_ms, number(ttft, "queue_ms", GREATEST_MS),
                         number(metrics, "queue_time_ms", GREATEST_MS));
}

/* ---- Errors ---- */

/* How some bytes begin, as a C string; NUL becomes a blank. */
static const char *beginning(const char *bytes, size_t len, char *out, size_t out_size)
{
    size_t n = len < out_size - 1 ? len : out_size - 1;
    for (size_t i = 0; i < n; i++)
        out[i] = bytes[i] ? bytes[i] : ' ';
    out[n] = '\0';
    return out;
}

/* The message of an error: {"error": {"message": M}}, {"error": M}, {"message": M} (older vLLM),
 * {"detail": M} (FastAPI). NULL: none of these. */
static const char *message_of(const json_t *o)
{
    const json_t *error = openai_chunk_given(o, "error");
    const json_t *candidates[] = {json_object_get(error, "message"), error,
                                  json_object_get(o, "message"), json_object_get(o, "detail")};
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (json_string_length(candidates[i]) > 0)
            return json_string_value(candidates[i]);
    }
    return NULL;
}

static bool is_error(const json_t *o)
{
    const char *object = json_string_value(json_object_get(o, "object"));
    return openai_chunk_given(o, "error") || (object && strcmp(object, "error") == 0);
}

static enum status read_object(struct openai_chunk *c, const json_t *o, struct err *err)
{
    char found[64];
    if (!json_is_object(o))
        return err_set(err, STATUS_INVALID, "expected an object, found %s",
                       json_found(o, found, sizeof found));
    if (is_error(o)) {
        const char *message = message_of(o);
        return err_set(err, STATUS_INTERNAL, "the server reports: %s",
                       message ? message : "an error without a message");
    }
    enum status st = openai_chunk_take_choice(c, openai_chunk_given(o, "choices"), err);
    if (st == STATUS_OK)
        st = openai_chunk_take_usage(c, openai_chunk_given(o, "usage"), err);
    if (st == STATUS_OK)
        take_measurements(c, o);
    return st;
}

enum status openai_chunk_read(struct openai_chunk *c, const char *json, size_t len, struct err *err)
{
    char start[64];
    json_error_t fault;
    c->content = false;
    json_t *o = json_loadb(json, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &fault);
    if (!o && json_error_code(&fault) == json_error_out_of_memory)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a chunk of %zu bytes", len);
    if (!o)
        return err_set(err, STATUS_INVALID, "malformed chunk: %s at byte %d: %s", fault.text,
                       fault.position, beginning(json, len, start, sizeof start));
    enum status st = read_object(c, o, err);
    json_decref(o);
    return st == STATUS_INVALID ? err_context(err, "malformed chunk") : st;
}

const char *openai_chunk_error(const char *body, size_t len, char *out, size_t out_size)
{
    json_t *o = json_loadb(body, len, JSON_ALLOW_NUL, NULL);
    const char *message = o ? message_of(o) : NULL;
    if (message)
        snprintf(out, out_size, "%s", message);
    else
        beginning(body, len, out, out_size);
    json_decref(o);
    return out;
}
