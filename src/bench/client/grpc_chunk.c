#include "bench/client/grpc_chunk.h"

#include <math.h>
#include <proto/firstlight.pb-c.h>

#define GREATEST_MS 1e12 /* 30 years; more is no measurement */

static void grpc_chunk_take_choice(struct openai_chunk *c, const Firstlight__V1__Choice *choice)
{
    c->content |= choice->text.len > 0;
    if (choice->finish_reason && choice->finish_reason[0])
        openai_chunk_finish(c, choice->finish_reason);
}

static void grpc_chunk_take_usage(struct openai_chunk *c, const Firstlight__V1__Usage *usage)
{
    if (!usage)
        return;
    c->counted = OPENAI_COUNTED_USAGE;
    c->prompt_tokens = usage->prompt_tokens;
    c->completion_tokens = usage->completion_tokens;
    c->cached_tokens = usage->cached_tokens;
}

static bool grpc_chunk_part(protobuf_c_boolean has, double ms, int64_t *us)
{
    if (!has || !(ms >= 0 && ms <= GREATEST_MS))
        return false;
    *us = llround(ms * 1000);
    return true;
}

static void grpc_chunk_take_ms(double *out, protobuf_c_boolean has, double ms)
{
    if (has && ms >= 0 && ms <= GREATEST_MS)
        *out = ms;
}

static void grpc_chunk_take_ttft(struct openai_chunk *c, const Firstlight__V1__Ttft *t)
{
    struct timeline_ttft parts = {0};
    if (!t)
        return;
    if (grpc_chunk_part(t->has_receive_ms, t->receive_ms, &parts.receive_us) &&
        grpc_chunk_part(t->has_tokenize_ms, t->tokenize_ms, &parts.tokenize_us) &&
        grpc_chunk_part(t->has_submit_ms, t->submit_ms, &parts.submit_us) &&
        grpc_chunk_part(t->has_queue_ms, t->queue_ms, &parts.queue_us) &&
        grpc_chunk_part(t->has_cache_ms, t->cache_ms, &parts.cache_us) &&
        grpc_chunk_part(t->has_prefill_ms, t->prefill_ms, &parts.prefill_us) &&
        grpc_chunk_part(t->has_first_write_ms, t->first_write_ms, &parts.first_write_us) &&
        grpc_chunk_part(t->has_total_ms, t->total_ms, &parts.total_us)) {
        grpc_chunk_part(t->has_decode_ms, t->decode_ms,
                        &parts.decode_us); /* older servers have none */
        c->has_ttft = true;
        c->ttft = parts;
    }
    grpc_chunk_take_ms(&c->ttft_ms, t->has_total_ms, t->total_ms);
    grpc_chunk_take_ms(&c->queue_ms, t->has_queue_ms, t->queue_ms);
}

enum status grpc_chunk_read(struct openai_chunk *c, const char *bytes, size_t len, struct err *err)
{
    c->content = false;
    Firstlight__V1__GenerateResponse *m =
        firstlight__v1__generate_response__unpack(NULL, len, (const uint8_t *)bytes);
    if (!m)
        return err_set(err, STATUS_INVALID,
                       "malformed message: %zu bytes that are no GenerateResponse", len);
    if (m->n_choices > 0)
        grpc_chunk_take_choice(c, m->choices[0]);
    grpc_chunk_take_usage(c, m->usage);
    grpc_chunk_take_ttft(c, m->ttft);
    firstlight__v1__generate_response__free_unpacked(m, NULL);
    return STATUS_OK;
}
