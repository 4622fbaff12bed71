/* A trace: what was asked of a server and when, without a word of it (docs/traces.md has the
 * format). `firstlight bench replay` plays it again.
 *
 *     trace_line_new ─► trace_line_hash ─► trace_add ══ ring ══► writer: format, write ─► file
 *       I/O thread      I/O or text worker  I/O thread            its own thread, so that a slow
 *                                                                 disk holds up nobody
 *
 * What a reader of the file can learn of a prompt is its length and which prompts begin alike, in
 * steps of TRACE_BLOCK_TOKENS: the hashes are keyed with 128 random bits that no file ever holds.
 */
#ifndef FIRSTLIGHT_OBSERVE_TRACE_H
#define FIRSTLIGHT_OBSERVE_TRACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_SCHEMA       "firstlight-trace/1"
#define TRACE_BLOCK_TOKENS 32 /* tokens to a hash */

struct trace;

/* One request; of several choices, the first. The times are clock_now_us(). */
struct trace_line {
    int64_t received_us;
    uint32_t output_length;
    uint32_t max_tokens; /* 0: it never came to that */
    bool stream;
    bool chat;           /* the prompt went through the chat template */
    int status;          /* HTTP's; 0: the client left before there was one */
    const char *finish;  /* static: "stop", "length", "cancelled", "timeout", "error",
                            "refused" */
    uint32_t n_prompt;   /* by trace_line_hash */
    uint32_t n_hashes;   /* n_prompt / TRACE_BLOCK_TOKENS */
    uint64_t hash_ids[]; /* (n_hashes), below 2^53 so that every reader of JSON keeps them */
};

/* Makes the file, which must not exist: a trace is never overwritten. It is apart from trace_open
 * because a server that is confined (base/sandbox.h) makes no files. */
enum status trace_create(int *fd, const char *path, struct err *err);
/* Begins to write; takes `take_fd` over, also when it fails, and needs `path` for its errors. The
 * file is good to read at any time up to its last whole line, at most a second behind. */
enum status trace_open(struct trace **out, int take_fd, const char *path, struct err *err);
/* Writes what waits; the last line then says how many were dropped, if any were. NULL is fine. */
void trace_close(struct trace *t);

/* Any thread, and NULL when memory is short; freed by mem_free, unless trace_add took it. */
struct trace_line *trace_line_new(void);
/* Any one thread. Adds what the prompt tells; *line moves, and is NULL when memory was short. Each
 * hash is over its block of ids and the hash before, so equal ones mean equal beginnings. */
void trace_line_hash(const struct trace *t, struct trace_line **line, const int32_t *ids,
                     uint32_t n);

size_t trace_line_bytes(const struct trace_line *line); /* 0: NULL */

/* I/O thread; never waits. A line is dropped, and counted, when it is NULL or when more wait for
 * the disk than LIMIT_TRACE_LINES or LIMIT_TRACE_BYTES. */
void trace_add(struct trace *t, struct trace_line *take_line);

unsigned long trace_dropped(const struct trace *t); /* lines so far; any thread */

#endif
