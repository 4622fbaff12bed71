#include "serve/stream.h"

static void frame_start(struct buf *out)
{
    buf_puts(out, "data: ");
}

static void frame_end(struct buf *out)
{
    buf_puts(out, "\n\n");
}

void stream_text(struct stream *s, struct buf *out, const char *text, size_t len)
{
    frame_start(out);
    answer_delta(out, &s->answer, !s->begun, text, len);
    frame_end(out);
    s->begun = true;
}

void stream_finish(struct stream *s, struct buf *out, const struct answer_end *end)
{
    if (!s->begun)
        stream_text(s, out, "", 0);
    frame_start(out);
    answer_finish(out, &s->answer, end);
    frame_end(out);
    if (s->answer.include_usage) {
        frame_start(out);
        answer_usage(out, &s->answer, end);
        frame_end(out);
    }
    buf_puts(out, "data: [DONE]\n\n");
}

void stream_error(struct buf *out, const struct err *err)
{
    frame_start(out);
    answer_error(out, err, NULL);
    frame_end(out);
}
