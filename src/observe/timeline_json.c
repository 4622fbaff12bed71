#include "observe/timeline_json.h"

#include "base/json.h"

void timeline_json_ttft(struct buf *out, const struct timeline *timeline)
{
    const struct timeline_ttft ttft = timeline_ttft(timeline), *t = &ttft;
    const struct {
        const char *name;
        int64_t us;
    } parts[] = {
        {"receive", t->receive_us}, {"tokenize", t->tokenize_us},
        {"submit", t->submit_us},   {"queue", t->queue_us},
        {"cache", t->cache_us},     {"prefill", t->prefill_us},
        {"decode", t->decode_us},   {"first_write", t->first_write_us},
        {"total", t->total_us},
    };
    buf_puts(out, ",\"ttft\":{");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        buf_printf(out, "%s\"%s_ms\":", i > 0 ? "," : "", parts[i].name);
        json_put_ms(out, parts[i].us);
    }
    buf_putc(out, '}');
}
