#include "api/openai_response.h"

#include "api/api_kind.h"
#include "base/json.h"
#include "observe/timeline_json.h"
#include "observe/wait_reason.h"

#include <inttypes.h>

static void openai_response_put_head(struct buf *out, const struct openai_response *a,
                                     const char *object)
{
    buf_puts(out, "{\"id\":");
    json_put(out, a->id);
    buf_printf(out, ",\"object\":\"%s\",\"created\":%" PRId64 ",\"model\":", object, a->created);
    json_put(out, a->model);
}

static void put_choice_start(struct buf *out, const struct openai_response *a,
                             const struct openai_response_choice *c)
{
    openai_response_put_head(out, a, a->kind->chunk_object);
    buf_printf(out, ",\"choices\":[{\"index\":%u,", c->index);
}

static void put_text(struct buf *out, const struct openai_response_choice *c,
                     const struct api_around *around)
{
    buf_puts(out, around->before);
    json_put_text(out, c->text, c->len);
    buf_puts(out, around->behind);
}

static void put_choice_end(struct buf *out, const struct openai_response_choice *c)
{
    buf_puts(out, ",\"logprobs\":");
    buf_puts(out, c->logprobs ? c->logprobs : "null");
    buf_puts(out, ",\"finish_reason\":");
    json_put(out, c->finish);
    buf_putc(out, '}');
}

static void put_usage(struct buf *out, const struct openai_response_end *end)
{
    buf_printf(out,
               ",\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
               "\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
               end->prompt_tokens, end->completion_tokens,
               end->prompt_tokens + end->completion_tokens, end->cached_tokens);
}

static void put_part(struct buf *out, const char *name, int64_t us)
{
    buf_printf(out, "\"%s_ms\":", name);
    json_put_ms(out, us);
}

void openai_response_server_timing(struct buf *out, const struct timeline *t)
{
    const struct timeline_ttft parts = timeline_ttft(t);
    const struct {
        const char *name;
        int64_t us;
    } entries[] = {
        {"receive", parts.receive_us},
        {"tokenize", parts.tokenize_us},
        {"submit", parts.submit_us},
        {"queue", parts.queue_us},
        {"cache", parts.cache_us},
        {"prefill", parts.prefill_us},
        {"ttft", parts.total_us - parts.decode_us - parts.first_write_us},
        {"decode", parts.decode_us},
        {"write", parts.first_write_us},
        {"total", parts.total_us},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        buf_printf(out, "%s%s;dur=", i > 0 ? ", " : "", entries[i].name);
        json_put_ms(out, entries[i].us);
    }
}

static double per(double amount, double of)
{
    return of > 0 ? amount / of : 0;
}

/* llama.cpp's names: how long n tokens took, and that per token and per second. */
static void put_rate(struct buf *out, const char *name, uint32_t n, int64_t us)
{
    buf_printf(out, "\"%s_n\":%u,\"%s_ms\":%.3f,\"%s_per_token_ms\":%.6f,\"%s_per_second\":%.6f",
               name, n, name, (double)us / 1e3, name, per((double)us / 1e3, n), name,
               per(n * 1e6, (double)us));
}

static void put_measurements(struct buf *out, const struct openai_response_end *end)
{
    const struct timeline *t = end->timeline;
    struct timeline_ttft ttft = timeline_ttft(t);
    int64_t first = t->at_us[TIMELINE_FIRST_TOKEN];
    int64_t generation_us = first ? t->at_us[TIMELINE_FINISHED] - first : 0;
    timeline_json_ttft(out, t);
    wait_reason_json(out, end->wait, t);
    buf_printf(out, ",\"cache\":\"%s\"", end->cache);
    buf_puts(out, ",\"timings\":{");
    put_rate(out, "prompt", end->prompt_tokens, ttft.prefill_us);
    buf_putc(out, ',');
    put_rate(out, "predicted", end->completion_tokens, generation_us);
    buf_puts(out, "},\"metrics\":{");
    put_part(out, "time_to_first_token", ttft.total_us);
    buf_putc(out, ',');
    put_part(out, "queue_time", ttft.queue_us);
    buf_putc(out, ',');
    put_part(out, "generation_time", generation_us);
    buf_printf(out, ",\"mean_itl_ms\":%.6f,\"tokens_per_second\":%.6f}",
               per((double)end->gaps_us / 1e3, end->n_gaps),
               per(end->n_gaps * 1e6, (double)generation_us));
}

void openai_response_delta(struct buf *out, const struct openai_response *a,
                           const struct openai_response_choice *c)
{
    put_choice_start(out, a, c);
    put_text(out, c, c->first ? &a->kind->first_chunk : &a->kind->chunk);
    put_choice_end(out, c);
    buf_puts(out, a->include_usage ? "],\"usage\":null}" : "]}");
}

void openai_response_finish(struct buf *out, const struct openai_response *a,
                            const struct openai_response_choice *c,
                            const struct openai_response_end *end)
{
    put_choice_start(out, a, c);
    buf_puts(out, a->kind->last_chunk);
    put_choice_end(out, c);
    buf_putc(out, ']');
    if (a->include_usage)
        buf_puts(out, ",\"usage\":null");
    else if (end)
        put_measurements(out, end);
    buf_putc(out, '}');
}

void openai_response_usage(struct buf *out, const struct openai_response *a,
                           const struct openai_response_end *end)
{
    openai_response_put_head(out, a, a->kind->chunk_object);
    buf_puts(out, ",\"choices\":[]");
    put_usage(out, end);
    put_measurements(out, end);
    buf_putc(out, '}');
}

void openai_response_head(struct buf *out, const struct openai_response *a)
{
    openai_response_put_head(out, a, a->kind->object);
    buf_puts(out, ",\"choices\":[");
}

void openai_response_choice(struct buf *out, const struct openai_response *a,
                            const struct openai_response_choice *c)
{
    buf_printf(out, "{\"index\":%u,", c->index);
    put_text(out, c, &a->kind->whole);
    put_choice_end(out, c);
}

void openai_response_tail(struct buf *out, const struct openai_response_end *end)
{
    buf_putc(out, ']');
    put_usage(out, end);
    put_measurements(out, end);
    buf_putc(out, '}');
}

void openai_response_error(struct buf *out, const struct err *err, const char *code)
{
    buf_puts(out, "{\"error\":{\"message\":");
    json_put(out, err->text);
    buf_puts(out, ",\"type\":");
    json_put(out, status_name(err->code));
    buf_puts(out, ",\"param\":");
    json_put(out, err->param[0] ? err->param : NULL);
    buf_puts(out, ",\"code\":");
    json_put(out, code);
    buf_puts(out, "}}");
}

const struct http_error_format openai_response_errors = {
    .content_type = "application/json",
    .write = openai_response_error,
    .no_memory = "{\"error\":{\"message\":\"no memory\",\"type\":\"out_of_memory_error\","
                 "\"param\":null,\"code\":null}}",
};
