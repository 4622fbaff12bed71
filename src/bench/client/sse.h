/* Reads text/event-stream (WHATWG HTML, section 9.2.6) in whatever pieces it comes.
 *
 * Only data is handed on: `event`, `id`, `retry` and comments say nothing that a measurement needs.
 * An event that no empty line ended is dropped, as the specification has it.
 */
#ifndef FIRSTLIGHT_BENCH_CLIENT_SSE_H
#define FIRSTLIGHT_BENCH_CLIENT_SSE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct sse {
    /* The data of one event, its lines joined by LF; not terminated, gone after the call. A failure
     * ends sse_feed, which passes it on. */
    enum status (*event)(void *arg, const char *data, size_t len, struct err *err);
    void *arg;
    struct buf line; /* of a line that has not ended yet */
    struct buf data; /* of an event that has not ended yet: each line followed by LF */
    bool past_start; /* the first line, which may begin with a byte order mark, has come */
    bool after_cr;   /* an LF that comes now belongs to the CR before it */
};

void sse_init(struct sse *s,
              enum status (*event)(void *arg, const char *data, size_t len, struct err *err),
              void *arg);
void sse_reset(struct sse *s); /* for another stream; keeps the memory */
void sse_fini(struct sse *s);

/* STATUS_INVALID: an event or line of more than LIMIT_SSE_EVENT_BYTES. After a failure only
 * sse_reset and sse_fini may follow. */
enum status sse_feed(struct sse *s, const char *bytes, size_t len, struct err *err);

#endif
