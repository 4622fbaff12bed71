#include "serve/stream.h"

static void frame_start(struct buf *out)
{
    buf_puts(out, "data: ");
}

static void frame_end(struct buf *out)
{
    buf_puts(out, "\n\n");
}

void stream_text(struct buf *out, const struct answer *a, const struct answer_choice *c)
{
    frame_start(out);
    answer_delta(out, a, c);
    frame_end(out);
}

void stream_finish(struct buf *out, const struct answer *a, const struct answer_choice *c,
                   const struct answer_end *end)
{
    if (c->first) {
        const struct answer_choice empty = {.index = c->index, .first = true, .text = ""};
        stream_text(out, a, &empty);
    }
    frame_start(out);
    answer_finish(out, a, c, end);
    frame_end(out);
    if (!end)
        return;
    if (a->include_usage) {
        frame_start(out);
        answer_usage(out, a, end);
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
