/* Fuzz target of what a server sends to a benchmark: an event stream, whole and in pieces, each
 * event's data read as a chunk of an answer; and the same bytes as the body of an error.
 *
 * tests/fuzz/sse_seeds.py writes the seeds.
 */
#include "base/buf.h"
#include "base/err.h"
#include "bench/client/openai_chunk.h"
#include "bench/client/sse.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reader {
    struct sse sse;
    struct openai_chunk chunk;
    struct buf events; /* the data of each, with its length before it */
};

/* Whatever was read is within what the header says; whatever was refused says why. */
static void check_chunk(struct openai_chunk *c, const char *data, size_t len)
{
    struct err e = {0};
    enum status st = openai_chunk_read(c, data, len, &e);
    REQUIRE(st == STATUS_OK ? !e.text[0] : e.text[0] != '\0');
    REQUIRE(st == STATUS_OK || st == STATUS_INVALID || st == STATUS_INTERNAL);
    REQUIRE(memchr(c->finish, '\0', sizeof c->finish));
    REQUIRE(isnan(c->ttft_ms) || c->ttft_ms >= 0);
    REQUIRE(isnan(c->queue_ms) || c->queue_ms >= 0);
    REQUIRE(!c->has_ttft || c->ttft.total_us >= 0);
}

static enum status on_event(void *arg, const char *data, size_t len, struct err *err)
{
    struct reader *r = arg;
    (void)err;
    check_chunk(&r->chunk, data, len);
    buf_append(&r->events, &len, sizeof len);
    buf_append(&r->events, data, len);
    return STATUS_OK;
}

/* Each piece in a block of its own size, so that a read past it is seen. */
static void read_cut(struct reader *r, const uint8_t *data, size_t size, size_t step)
{
    sse_init(&r->sse, on_event, r);
    openai_chunk_init(&r->chunk);
    for (size_t at = 0, n; at < size; at += n) {
        struct buf piece = {0};
        n = step < size - at ? step : size - at;
        buf_append(&piece, data + at, n);
        REQUIRE(sse_feed(&r->sse, piece.data, n, NULL) == STATUS_OK);
        buf_fini(&piece);
    }
    sse_fini(&r->sse);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader whole = {0};
    char words[64];
    if (size == 0)
        return 0;
    read_cut(&whole, data, size, size);
    for (size_t step = 1; step <= 5; step += 2) {
        struct reader cut = {0};
        read_cut(&cut, data, size, step);
        REQUIRE(cut.events.len == whole.events.len);
        REQUIRE(memcmp(buf_str(&cut.events), buf_str(&whole.events), whole.events.len) == 0);
        REQUIRE(cut.chunk.prompt_tokens == whole.chunk.prompt_tokens);
        buf_fini(&cut.events);
    }
    buf_fini(&whole.events);
    openai_chunk_error((const char *)data, size, words, sizeof words);
    REQUIRE(memchr(words, '\0', sizeof words));
    return 0;
}
