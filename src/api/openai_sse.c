#include "api/openai_sse.h"

static void frame_start(struct buf *out)
{
    buf_puts(out, "data: ");
}

static void frame_end(struct buf *out)
{
    buf_puts(out, "\n\n");
}

static void openai_sse_put_text(struct buf *out, const struct openai_response *a,
                                const struct openai_response_choice *c)
{
    frame_start(out);
    openai_response_delta(out, a, c);
    frame_end(out);
}

static void openai_sse_put_finish(struct buf *out, const struct openai_response *a,
                                  const struct openai_response_choice *c,
                                  const struct openai_response_end *end)
{
    if (c->first) {
        const struct openai_response_choice empty = {.index = c->index, .first = true, .text = ""};
        openai_sse_put_text(out, a, &empty);
    }
    frame_start(out);
    openai_response_finish(out, a, c, end);
    frame_end(out);
    if (!end)
        return;
    if (a->include_usage) {
        frame_start(out);
        openai_response_usage(out, a, end);
        frame_end(out);
    }
    buf_puts(out, "data: [DONE]\n\n");
}

static void openai_sse_put_error(struct buf *out, const struct err *err)
{
    frame_start(out);
    openai_response_error(out, err, NULL);
    frame_end(out);
}

static void openai_sse_start(struct http_exchange *x)
{
    http_stream_start(x, "text/event-stream; charset=utf-8");
}

static void openai_sse_end(struct http_exchange *x, const struct err *broken)
{
    http_stream_end(x, broken != NULL);
}

static void openai_sse_put_tail(struct buf *out, const struct openai_response *a,
                                const struct openai_response_end *e)
{
    (void)a;
    openai_response_tail(out, e);
}

static void openai_sse_reply(struct http_exchange *x, const struct buf *whole)
{
    http_reply(x, 200, "application/json", buf_str(whole), whole->len);
}

const struct wire_format openai_sse_format = {
    .read = openai_request_parse,
    .start = openai_sse_start,
    .accepted = ": accepted\n\n",
    .silence = ": still here\n\n",
    .text = openai_sse_put_text,
    .finish = openai_sse_put_finish,
    .error = openai_sse_put_error,
    .no_memory = "data: {\"error\":{\"message\":\"no memory for the answer\",\"type\":"
                 "\"out_of_memory_error\",\"param\":null,\"code\":null}}\n\n",
    .end = openai_sse_end,
    .between = ",",
    .head = openai_response_head,
    .choice = openai_response_choice,
    .tail = openai_sse_put_tail,
    .reply = openai_sse_reply,
};
