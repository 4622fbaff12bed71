/* The timeline of a request: one stamp per stage; the first stamp of a stage stays.
 *
 *   received -> parsed -> tokenized -> queued -> admitted -> prefill_started -> first_token
 *            -> decoded -> first_content;   finished comes when the last token was sampled.
 *
 * Only an answer that comes whole is decoded before its first content: then this is finished of its
 * last choice. first_content comes when the first text was handed to the connection. An answer that
 * comes whole tells its own figures, and takes it when all else of its body is made.
 *
 * Stamps are clock_now_us() values, 0 while the stage has not been reached. The I/O thread and the
 * text workers write received .. queued, decoded and first_content, the engine thread the others;
 * who reads the engine's stamps does so after an acquire on the request's published token count.
 */
#ifndef FIRSTLIGHT_BASE_TIMELINE_H
#define FIRSTLIGHT_BASE_TIMELINE_H

#include <stdint.h>

enum timeline_stage {
    TIMELINE_RECEIVED,
    TIMELINE_PARSED,
    TIMELINE_TOKENIZED,
    TIMELINE_QUEUED,
    TIMELINE_ADMITTED,
    TIMELINE_PREFILL_STARTED,
    TIMELINE_FIRST_TOKEN,
    TIMELINE_DECODED,
    TIMELINE_FIRST_CONTENT,
    TIMELINE_FINISHED,
    TIMELINE_STAGES,
};

struct timeline {
    int64_t at_us[TIMELINE_STAGES];
};

/* Writes the stamp; a stage is stamped once (later calls change nothing). */
void timeline_stamp(struct timeline *t, enum timeline_stage stage);

/* The parts of TTFT, in microseconds. The eight parts add up exactly to total_us. */
struct timeline_ttft {
    int64_t receive_us;     /* received -> parsed */
    int64_t tokenize_us;    /* parsed -> tokenized */
    int64_t submit_us;      /* tokenized -> queued */
    int64_t queue_us;       /* queued -> admitted */
    int64_t cache_us;       /* admitted -> prefill_started */
    int64_t prefill_us;     /* prefill_started -> first_token */
    int64_t decode_us;      /* first_token -> decoded; 0 of a streamed answer */
    int64_t first_write_us; /* decoded (streamed: first_token) -> first_content */
    int64_t total_us;       /* received -> first_content */
};

/* A stage never reached counts as reached with the next later one that was, but decoded with
 * first_token. So the parts always add up. */
struct timeline_ttft timeline_ttft(const struct timeline *t);

#endif
