#include "bench/client/sse.h"

#include "base/limits.h"

#include <string.h>

/* What a line of an event of the greatest size has before its data. */
#define FIELD_BYTES (sizeof "data: " - 1)

void sse_init(struct sse *s,
              enum status (*event)(void *arg, const char *data, size_t len, struct err *err),
              void *arg)
{
    *s = (struct sse){.event = event, .arg = arg};
}

void sse_reset(struct sse *s)
{
    buf_clear(&s->line);
    buf_clear(&s->data);
    s->past_start = false;
    s->after_cr = false;
}

void sse_fini(struct sse *s)
{
    buf_fini(&s->line);
    buf_fini(&s->data);
}

static enum status sse_append(struct buf *b, const char *bytes, size_t len, struct err *err)
{
    if (buf_append(b, bytes, len))
        return STATUS_OK;
    return err_set(err, STATUS_NO_MEMORY, "no memory for an event of the stream");
}

static enum status sse_too_long(struct err *err)
{
    return err_set(err, STATUS_INVALID, "an event of the stream has more than %u bytes",
                   LIMIT_SSE_EVENT_BYTES);
}

/* An empty line: data that never came is no event, one empty data line is one. */
static enum status dispatch(struct sse *s, struct err *err)
{
    enum status st = STATUS_OK;
    if (s->data.len > 0)
        st = s->event(s->arg, s->data.data, s->data.len - 1, err);
    buf_clear(&s->data);
    return st;
}

static enum status take_line(struct sse *s, const char *line, size_t len, struct err *err)
{
    if (!s->past_start && len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) {
        line += 3;
        len -= 3;
    }
    s->past_start = true;
    if (len == 0)
        return dispatch(s, err);
    const char *colon = memchr(line, ':', len);
    size_t name = colon ? (size_t)(colon - line) : len;
    if (name != 4 || memcmp(line, "data", 4) != 0)
        return STATUS_OK;
    const char *value = colon ? colon + 1 : line + len;
    const char *end = line + len;
    if (value < end && *value == ' ')
        value++;
    if (s->data.len + (size_t)(end - value) > LIMIT_SSE_EVENT_BYTES)
        return sse_too_long(err);
    enum status st = sse_append(&s->data, value, (size_t)(end - value), err);
    return st ? st : sse_append(&s->data, "\n", 1, err);
}

/* Bytes before the first CR or LF; len when there is none. */
static size_t line_length(const char *bytes, size_t len)
{
    const char *lf = memchr(bytes, '\n', len);
    size_t n = lf ? (size_t)(lf - bytes) : len;
    const char *cr = memchr(bytes, '\r', n);
    return cr ? (size_t)(cr - bytes) : n;
}

/* Takes one line, or the piece of one that is there; *took: how many of the bytes. A line that is
 * whole in the bytes is not copied. */
static enum status take_piece(struct sse *s, const char *bytes, size_t len, size_t *took,
                              struct err *err)
{
    size_t n = line_length(bytes, len);
    bool whole = n < len;
    enum status st = STATUS_OK;
    *took = whole ? n + 1 : n;
    if (s->line.len + n > LIMIT_SSE_EVENT_BYTES + FIELD_BYTES)
        return sse_too_long(err);
    if (s->line.len > 0 || !whole)
        st = sse_append(&s->line, bytes, n, err);
    if (st || !whole)
        return st;
    s->after_cr = bytes[n] == '\r';
    st = s->line.len > 0 ? take_line(s, s->line.data, s->line.len, err)
                         : take_line(s, bytes, n, err);
    buf_clear(&s->line);
    return st;
}

enum status sse_feed(struct sse *s, const char *bytes, size_t len, struct err *err)
{
    enum status st = STATUS_OK;
    while (len > 0 && st == STATUS_OK) {
        size_t took = 1;
        bool ended_before = s->after_cr && *bytes == '\n';
        s->after_cr = false;
        if (!ended_before)
            st = take_piece(s, bytes, len, &took, err);
        bytes += took;
        len -= took;
    }
    return st;
}
