#include "observe/request_log.h"

#include "base/clock.h"
#include "base/json.h"
#include "observe/timeline_json.h"
#include "observe/wait_reason.h"

#include <inttypes.h>

struct request_log_entry *request_log_add(struct request_log *r, const struct timeline *t)
{
    struct request_log_entry *q = &r->requests[r->n++ % LIMIT_RECENT_REQUESTS];
    int64_t now_us = clock_now_us();
    *q = (struct request_log_entry){.timeline = *t, .added_us = now_us};
    q->received_unix_us = clock_unix_us() - (now_us - t->at_us[TIMELINE_RECEIVED]);
    return q;
}

const char *request_log_cache(bool cache_on, uint32_t n_prompts, uint32_t prompt_tokens,
                              uint32_t cached_tokens)
{
    if (!cache_on)
        return "off";
    if (prompt_tokens <= n_prompts)
        return "short";
    if (cached_tokens == 0)
        return "miss";
    return cached_tokens + n_prompts >= prompt_tokens ? "hit" : "part";
}

/* --- JSON ----------------------------------------------------------------------------------- */

/* Since the request's first byte; null where it never came. */
static void put_timeline(struct buf *out, const struct timeline *t)
{
    static const char *const names[TIMELINE_STAGES] = {
        [TIMELINE_RECEIVED] = "received",           [TIMELINE_PARSED] = "parsed",
        [TIMELINE_TOKENIZED] = "tokenized",         [TIMELINE_QUEUED] = "queued",
        [TIMELINE_ADMITTED] = "admitted",           [TIMELINE_PREFILL_STARTED] = "prefill_started",
        [TIMELINE_FIRST_TOKEN] = "first_token",     [TIMELINE_DECODED] = "decoded",
        [TIMELINE_FIRST_CONTENT] = "first_content", [TIMELINE_FINISHED] = "finished",
    };
    buf_puts(out, ",\"timeline\":{");
    for (int i = 0; i < TIMELINE_STAGES; i++) {
        buf_printf(out, "%s\"%s_ms\":", i > 0 ? "," : "", names[i]);
        if (t->at_us[i] != 0)
            json_put_ms(out, t->at_us[i] - t->at_us[TIMELINE_RECEIVED]);
        else
            buf_puts(out, "null");
    }
    buf_putc(out, '}');
}

void request_log_put(struct buf *out, const struct request_log_entry *q)
{
    buf_puts(out, "{\"id\":");
    json_put(out, q->id);
    buf_puts(out, ",\"request_id\":");
    json_put(out, q->request_id);
    buf_printf(out,
               ",\"route\":\"%s\",\"stream\":%s,\"created\":%" PRId64
               ",\"status\":%d,\"gone\":%s,\"finish\":\"%s\",\"choices\":%u,\"prompt_tokens\":%u,"
               "\"completion_tokens\":%u",
               q->route, q->streamed ? "true" : "false", q->created, q->status,
               q->gone ? "true" : "false", q->finish, q->choices, q->prompt_tokens,
               q->completion_tokens);
    buf_puts(out, ",\"received_unix_ms\":");
    json_put_ms(out, q->received_unix_us);
    put_timeline(out, &q->timeline);
    if (q->submitted) {
        buf_printf(out, ",\"cached_tokens\":%u,\"cache\":\"%s\"", q->cached_tokens, q->cache);
        wait_reason_json(out, &q->wait, &q->timeline);
    }
    if (q->timeline.at_us[TIMELINE_FIRST_CONTENT] != 0)
        timeline_json_ttft(out, &q->timeline);
    buf_putc(out, '}');
}

void request_log_json(const struct request_log *r, uint32_t limit, struct buf *out)
{
    uint64_t n = r->n < LIMIT_RECENT_REQUESTS ? r->n : LIMIT_RECENT_REQUESTS;
    if (limit < n)
        n = limit;
    buf_puts(out, "{\"object\":\"list\",\"data\":[");
    for (uint64_t i = 0; i < n; i++) {
        if (i > 0)
            buf_putc(out, ',');
        request_log_put(out, &r->requests[(r->n - 1 - i) % LIMIT_RECENT_REQUESTS]);
    }
    buf_puts(out, "]}");
}
