/* Fuzz target of what a gRPC server sends to a benchmark: the body of an answer, whole and in
 * pieces, each message read as a chunk of an answer.
 *
 * tests/fuzz/grpc_answer_seeds.py writes the seeds.
 */
#include "base/buf.h"
#include "bench/client/grpc_chunk.h"
#include "bench/client/grpc_frames.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct reader {
    struct grpc_frames frames;
    struct openai_chunk chunk;
    struct buf messages; /* each with its length before it */
    enum status status;
    bool is_cut;
};

/* Whatever was read is within what the header says; whatever was refused says why. */
static enum status on_message(void *arg, const char *bytes, size_t len, struct err *err)
{
    struct reader *r = arg;
    struct err e = {0};
    enum status st = grpc_chunk_read(&r->chunk, bytes, len, &e);
    (void)err;
    REQUIRE(st == STATUS_OK ? !e.text[0] : st == STATUS_INVALID && e.text[0]);
    REQUIRE(memchr(r->chunk.finish, '\0', sizeof r->chunk.finish));
    REQUIRE(isnan(r->chunk.ttft_ms) || r->chunk.ttft_ms >= 0);
    REQUIRE(isnan(r->chunk.queue_ms) || r->chunk.queue_ms >= 0);
    REQUIRE(!r->chunk.has_ttft || r->chunk.ttft.total_us >= 0);
    buf_append(&r->messages, &len, sizeof len);
    buf_append(&r->messages, bytes, len);
    return STATUS_OK;
}

/* Each piece in a block of its own size, so that a read past it is seen. */
static void read_cut(struct reader *r, const uint8_t *data, size_t size, size_t step)
{
    grpc_frames_init(&r->frames, on_message, r);
    openai_chunk_init(&r->chunk);
    for (size_t at = 0, n; at < size && r->status == STATUS_OK; at += n) {
        struct buf piece = {0};
        n = step < size - at ? step : size - at;
        buf_append(&piece, data + at, n);
        r->status = grpc_frames_feed(&r->frames, piece.data, n, NULL);
        buf_fini(&piece);
    }
    r->is_cut = grpc_frames_is_cut(&r->frames);
    grpc_frames_fini(&r->frames);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader whole = {0};
    read_cut(&whole, data, size, size);
    for (size_t step = 1; step <= 7; step += 2) {
        struct reader cut = {0};
        read_cut(&cut, data, size, step);
        REQUIRE(cut.status == whole.status);
        REQUIRE(cut.status != STATUS_OK || cut.is_cut == whole.is_cut);
        REQUIRE(cut.messages.len == whole.messages.len);
        REQUIRE(memcmp(buf_str(&cut.messages), buf_str(&whole.messages), whole.messages.len) == 0);
        REQUIRE(cut.chunk.prompt_tokens == whole.chunk.prompt_tokens);
        buf_fini(&cut.messages);
    }
    buf_fini(&whole.messages);
    return 0;
}
