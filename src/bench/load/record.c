#include "bench/load/record.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

#define CHUNKS_AT_FIRST 16

void record_init(struct record *r)
{
    *r = (struct record){.server_ttft_ms = NAN, .server_queue_ms = NAN};
}

void record_fini(struct record *r)
{
    mem_free(r->chunk_us);
    record_init(r);
}

bool record_has_ended(const struct record *r)
{
    return r->state > RECORD_RUNNING;
}

bool record_reserve(struct record *r, uint32_t n_chunks)
{
    size_t size;
    if (n_chunks <= r->cap_chunks)
        return true;
    if (!mem_mul(n_chunks, sizeof *r->chunk_us, &size))
        return false;
    int64_t *grown = mem_resize(r->chunk_us, size);
    if (!grown)
        return false;
    r->chunk_us = grown;
    r->cap_chunks = n_chunks;
    return true;
}

bool record_chunk(struct record *r, int64_t now_us)
{
    REQUIRE(r->state == RECORD_RUNNING);
    if (r->n_chunks == r->cap_chunks) {
        uint32_t more = r->cap_chunks < CHUNKS_AT_FIRST ? CHUNKS_AT_FIRST : r->cap_chunks;
        if (more > UINT32_MAX - r->cap_chunks || !record_reserve(r, r->cap_chunks + more))
            return false;
    }
    r->chunk_us[r->n_chunks++] = now_us;
    if (r->first_us == 0)
        r->first_us = now_us;
    return true;
}

/* A server's words may be any bytes; a result is JSON and a table has lines. */
static void copy_line(char *out, size_t out_size, const char *text)
{
    size_t left = strlen(text), used = 0, n;
    for (; left > 0; text += n, left -= n) {
        bool whole = utf8_step(text, left, &n) == UTF8_WHOLE;
        size_t len = whole ? n : 1;
        if (used + len >= out_size)
            break;
        memcpy(out + used, whole ? text : "?", len);
        used += len;
    }
    out[used] = '\0';
    utf8_make_plain(out, false);
}

void record_end(struct record *r, enum record_state state, int64_t now_us, const char *error)
{
    REQUIRE(!record_has_ended(r) && state > RECORD_RUNNING);
    REQUIRE((error != NULL) == (state == RECORD_FAILED));
    r->state = state;
    r->end_us = now_us;
    r->uncounted = r->completion_tokens == 0 && r->n_chunks > 0;
    if (r->uncounted)
        r->completion_tokens = r->n_chunks;
    if (error)
        copy_line(r->error, sizeof r->error, error);
}

static double record_between(int64_t from_us, int64_t to_us)
{
    return from_us == 0 || to_us == 0 ? NAN : (double)(to_us - from_us) / 1000;
}

double record_ttft_ms(const struct record *r)
{
    return record_between(r->sent_us, r->first_us);
}

double record_latency_ms(const struct record *r)
{
    return r->state == RECORD_OK ? record_between(r->sent_us, r->end_us) : NAN;
}

double record_tpot_ms(const struct record *r)
{
    uint32_t gaps = r->completion_tokens > 1 ? r->completion_tokens - 1 : 1;
    return r->state == RECORD_OK && r->n_chunks > 1 ? record_between(r->first_us, r->end_us) / gaps
                                                    : NAN;
}
