#include "api/debug_page.h"

#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum status debug_page_requests(const struct server *s, const struct http_exchange *x,
                                struct buf *out, struct err *err)
{
    char text[24];
    uint32_t limit = LIMIT_RECENT_REQUESTS;
    if (http_query(x, "limit", text, sizeof text)) {
        char *end;
        errno = 0;
        unsigned long n = strtoul(text, &end, 10);
        if (text[0] < '0' || text[0] > '9' || *end || errno || n == 0)
            return err_param(err, STATUS_INVALID, "limit",
                             "limit: expected a whole number from 1, found \"%s\"", text);
        if (n < limit)
            limit = (uint32_t)n;
    }
    request_log_json(&s->recent, limit, out);
    return STATUS_OK;
}

/* --- percentiles ---------------------------------------------------------------------------- */

/* unit: "_ms" for us, "" for a ratio in millionths; both leave a division. */
static void put_percentiles(struct buf *out, const char *name, const char *unit, double division,
                            const struct histogram_view *v)
{
    static const int percentiles[] = {50, 90, 95, 99};
    double mean = v->count > 0 ? (double)v->sum / (double)v->count : 0;
    buf_printf(out, "\"%s\":{\"count\":%" PRIu64 ",\"mean%s\":%.6f", name, v->count, unit,
               mean / division);
    for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++)
        buf_printf(out, ",\"p%d%s\":%.6f", percentiles[i], unit,
                   histogram_quantile(v, percentiles[i] / 100.0) / division);
    buf_putc(out, '}');
}

void debug_page_stats(const struct server *s, struct buf *out)
{
    struct engine_step_stats steps = {0};
    if (s->state != SERVER_LOADING)
        engine_step_stats(s->engine, &steps);
    buf_puts(out, "{\"object\":\"stats\",\"latencies\":{");
    for (int id = 0; id < METRICS_HISTOGRAMS; id++) {
        struct histogram_view v;
        metrics_read(&s->metrics, (enum metrics_id)id, &v);
        put_percentiles(out, metrics_name((enum metrics_id)id), "_ms", 1e3, &v);
        buf_putc(out, ',');
    }
    put_percentiles(out, "step", "_ms", 1e3, &steps.time);
    buf_puts(out, "},");
    put_percentiles(out, "step_prediction_error", "", 1e6, &steps.error);
    buf_putc(out, '}');
}
