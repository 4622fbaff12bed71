/* What was seen of one request, by the client's clock and, where the server tells, by its own.
 *
 *     due ─► sent ─► accepted ─► first ─► chunk ─► chunk ... ─► end
 *          lag │ client's TTFT ────┤   gaps (ITL)   │
 *
 * Stamps are clock_now_us(), 0: never happened. A target writes them; everyone else reads.
 */
#ifndef FIRSTLIGHT_BENCH_LOAD_RECORD_H
#define FIRSTLIGHT_BENCH_LOAD_RECORD_H

#include "base/err.h"
#include "base/timeline.h"

#include <stdbool.h>
#include <stdint.h>

enum record_state {
    RECORD_UNSENT,
    RECORD_RUNNING,
    RECORD_OK,
    RECORD_FAILED,    /* error says why */
    RECORD_CANCELLED, /* by the generator: the run was over or interrupted */
};

struct record {
    enum record_state state;
    int64_t due_us;      /* on the clock; when a place became free, where concurrency is bounded */
    int64_t sent_us;     /* the request began to leave */
    int64_t accepted_us; /* in-process: engine_submit returned; HTTP: the status line came */
    int64_t first_us;    /* first chunk with content; unstreamed: the whole answer */
    int64_t end_us;      /* nothing more comes */
    int64_t *chunk_us;   /* (n_chunks) each chunk with content, the first included */
    uint32_t n_chunks, cap_chunks;
    uint32_t prompt_tokens;     /* by the target's count; 0: it did not say */
    uint32_t completion_tokens; /* by the target's count, else the chunks: */
    bool uncounted;             /* the target did not say; a chunk may hold several */
    uint32_t cached_tokens;     /* of the prompt, found in a prefix cache */
    uint32_t n_messages; /* that a server answered with, with content or without: events, messages
                            of gRPC, a whole answer; 0 in-process */
    uint64_t payload_bytes; /* what was in them */
    bool whole;             /* asked for unstreamed: first_us is the whole answer's */
    bool has_ttft;          /* the target split its TTFT: */
    struct timeline_ttft ttft;
    double server_ttft_ms;  /* as the server's `metrics` or `ttft` say; NAN: unknown */
    double server_queue_ms; /* NAN: unknown */
    int http_status;        /* of gRPC too; 0: none came, or no HTTP */
    char finish[16];        /* "stop", "length", "" */
    char error[256];
    void *user; /* the target's own while RECORD_RUNNING */
};

void record_init(struct record *r);
void record_fini(struct record *r);
/* Room for so many chunks, so that record_chunk need not allocate. False: no memory. */
bool record_reserve(struct record *r, uint32_t n_chunks);
/* A chunk with content came now; the first one sets first_us. False: no memory. */
bool record_chunk(struct record *r, int64_t now_us);
/* Ends it, once, at now_us; `error` NULL unless state is RECORD_FAILED: any bytes, kept as one line
 * of UTF-8. Without a count of the target's, completion_tokens becomes that of the chunks. */
void record_end(struct record *r, enum record_state state, int64_t now_us, const char *error);

bool record_has_ended(const struct record *r);

/* Milliseconds; NAN where it never came to that. */
double record_ttft_ms(const struct record *r);    /* sent -> first */
double record_latency_ms(const struct record *r); /* sent -> end; RECORD_OK only */
/* (end - first) / max(1, tokens - 1); RECORD_OK only, and only of an answer that came in more than
 * one chunk: without a gap there is no pace. */
double record_tpot_ms(const struct record *r);

#endif
