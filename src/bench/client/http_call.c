#include "bench/client/http_call.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* ---- The answer comes ---- */

static bool accepted(const struct http_call *x)
{
    return x->base.record->http_status / 100 == 2;
}

/* One of the lines of the head; a status line begins with "HTTP/". 1xx are not yet the answer. */
static size_t http_call_on_header(char *line, size_t size, size_t n, void *arg)
{
    struct http_call *x = arg;
    size_t len = size * n;
    const char *blank = len > 5 && memcmp(line, "HTTP/", 5) == 0 ? memchr(line, ' ', len) : NULL;
    if (!blank)
        return len;
    x->base.record->http_status = atoi(blank); /* a whole line with its end */
    if (x->base.record->http_status >= 200)
        x->base.record->accepted_us = clock_now_us();
    return len;
}

static void http_call_count_message(struct http_call *x, size_t len)
{
    x->base.record->n_messages++;
    x->base.record->payload_bytes += len;
}

static enum status http_call_on_event(void *arg, const char *data, size_t len, struct err *err)
{
    struct http_call *x = arg;
    if (x->done_us || len == 0)
        return STATUS_OK;
    http_call_count_message(x, len);
    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
        x->done_us = x->base.last_us;
        return STATUS_OK;
    }
    enum status st = openai_chunk_read(&x->base.heard, data, len, err);
    return st ? st : net_call_stamp(&x->base, err);
}

/* Returning less than came makes libcurl end the transfer and close the connection. */
static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg)
{
    struct http_call *x = arg;
    size_t len = size * n;
    enum status st = STATUS_OK;
    x->base.last_us = clock_now_us();
    if (x->base.stream && accepted(x))
        st = sse_feed(&x->sse, bytes, len, &x->base.err);
    else if (!buf_append(&x->answer, bytes, len))
        st = err_set(&x->base.err, STATUS_INVALID, "the answer has more than %u bytes",
                     LIMIT_ANSWER_BYTES);
    x->base.refused = st != STATUS_OK;
    return x->base.refused ? 0 : len;
}

/* ---- The request ---- */

/* libcurl counts over a handle's whole life how often it found a kept connection closed by the
 * server and sent again on a new one, and gives up at the sixth time: a handle is for one request.
 * Connections belong to the multi handle and outlive it. */
static bool renew_handle(struct http_call *x)
{
    curl_easy_cleanup(x->easy);
    x->easy = http_peer_easy(x->peer, x->why);
    if (!x->easy)
        return false;
    curl_easy_setopt(x->easy, CURLOPT_PRIVATE, x);
    curl_easy_setopt(x->easy, CURLOPT_POST, 1L);
    curl_easy_setopt(x->easy, CURLOPT_HEADERFUNCTION, http_call_on_header);
    curl_easy_setopt(x->easy, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(x->easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
    return true;
}

struct http_call *http_call_create(const struct http_peer *p)
{
    struct http_call *x = mem_zalloc(sizeof *x);
    if (!x)
        return NULL;
    x->peer = p;
    x->answer.limit = LIMIT_ANSWER_BYTES;
    sse_init(&x->sse, http_call_on_event, x);
    return x;
}

void http_call_destroy(struct http_call *x)
{
    if (!x)
        return;
    curl_easy_cleanup(x->easy);
    buf_fini(&x->body);
    sse_fini(&x->sse);
    buf_fini(&x->answer);
    mem_free(x);
}

/* ignore_eos is no field of OpenAI's: it is sent only where it is asked for. */
static bool http_call_put_body(struct buf *b, const char *model, const struct work_item *item)
{
    buf_clear(b);
    buf_puts(b, "{\"model\":");
    json_put(b, model);
    buf_puts(b, item->chat ? ",\"messages\":[{\"role\":\"user\",\"content\":" : ",\"prompt\":");
    json_put(b, item->prompt);
    buf_puts(b, item->chat ? "}]" : "");
    buf_printf(b, ",\"max_tokens\":%u,\"temperature\":0", item->max_tokens);
    if (item->ignore_eos)
        buf_puts(b, ",\"ignore_eos\":true");
    buf_puts(b, item->stream ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}}"
                             : ",\"stream\":false}");
    return !b->failed;
}

enum status http_call_prepare(struct http_call *x, const char *model, const struct work_item *item,
                              struct record *r, struct err *err)
{
    net_call_begin(&x->base, r, item->stream);
    x->done_us = 0;
    x->why[0] = '\0';
    sse_reset(&x->sse);
    buf_clear(&x->answer);
    const char *url = item->chat ? x->peer->chat_url : x->peer->completions_url;
    if (!renew_handle(x) || !http_call_put_body(&x->body, model, item) ||
        curl_easy_setopt(x->easy, CURLOPT_URL, url) ||
        curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, buf_str(&x->body)) ||
        curl_easy_setopt(x->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body.len))
        return err_set(err, STATUS_NO_MEMORY, "no memory for a request");
    return STATUS_OK;
}

/* ---- The end ---- */

void http_call_end_cancelled(struct http_call *x)
{
    net_call_end(&x->base, RECORD_CANCELLED, clock_now_us(), NULL);
}

void http_call_end_failed(struct http_call *x, const char *why)
{
    net_call_end(&x->base, RECORD_FAILED, clock_now_us(), why);
}

/* What the transfer itself ran into, told with how far it had come. */
static enum status transfer_failed(struct http_call *x, CURLcode code, struct err *err)
{
    const char *why = x->why[0] ? x->why : curl_easy_strerror(code);
    if (code == CURLE_OPERATION_TIMEDOUT)
        return err_set(err, STATUS_TIMEOUT, "no end within %u s: %u chunks had come",
                       x->peer->timeout_seconds, x->base.record->n_chunks);
    return net_call_broke_off(&x->base, why, err);
}

static enum status not_accepted(struct http_call *x, struct err *err)
{
    char words[200];
    openai_chunk_error(buf_str(&x->answer), x->answer.len, words, sizeof words);
    return err_set(err, STATUS_UNAVAILABLE, "HTTP %d: %s", x->base.record->http_status, words);
}

static enum status check_stream(const struct http_call *x, struct err *err)
{
    char *type = NULL;
    if (x->done_us || x->base.heard.finish[0])
        return STATUS_OK;
    curl_easy_getinfo(x->easy, CURLINFO_CONTENT_TYPE, &type);
    if (type && strncmp(type, "text/event-stream", 17) == 0)
        return err_set(err, STATUS_INVALID,
                       "the stream ended after %u chunks without [DONE] or a finish_reason",
                       x->base.record->n_chunks);
    return err_set(err, STATUS_INVALID,
                   "asked for a stream of text/event-stream, the answer is %.80s",
                   type ? type : "of no type");
}

static enum status http_call_take_whole(struct http_call *x, struct err *err)
{
    http_call_count_message(x, x->answer.len);
    enum status st = openai_chunk_read(&x->base.heard, buf_str(&x->answer), x->answer.len, err);
    if (st)
        return st;
    if (!x->base.heard.content && !x->base.heard.finish[0])
        return err_set(err, STATUS_INVALID, "the answer has neither a text nor a finish_reason");
    return net_call_stamp(&x->base, err);
}

static enum status http_call_judge(struct http_call *x, CURLcode code, struct err *err)
{
    if (x->base.refused) {
        *err = x->base.err;
        return err->code;
    }
    if (x->done_us) /* whatever became of the connection */
        return STATUS_OK;
    if (x->base.record->http_status >= 200 && !accepted(x))
        return not_accepted(x, err);
    if (code)
        return transfer_failed(x, code, err);
    return x->base.stream ? check_stream(x, err) : http_call_take_whole(x, err);
}

/* An answer ends with its last bytes, a failure when it is known. */
void http_call_end(struct http_call *x, CURLcode code)
{
    struct err err;
    if (http_call_judge(x, code, &err)) {
        api_key_mask(&x->peer->key, err.text);
        http_call_end_failed(x, err.text);
        return;
    }
    net_call_end(&x->base, RECORD_OK, x->done_us ? x->done_us : x->base.last_us, NULL);
}
