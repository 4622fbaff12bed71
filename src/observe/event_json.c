/* The JSON of the live stream's events. Everything in it is counted anyway; the engine's part is
 * read from atomics. */
#include "observe/event_json.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/json.h"
#include "base/version.h"
#include "kernels/kv_layout.h"
#include "params/sampling.h"

#include <inttypes.h>

static const char *truth(bool b)
{
    return b ? "true" : "false";
}

static void put_text(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, ",\"%s\":", name);
    json_put(out, value);
}

/* --- server --------------------------------------------------------------------------------- */

static void put_sampling(struct buf *out, const struct sampling *p)
{
    buf_puts(out, ",\"sampling\":{");
    for (int i = 0; i < SAMPLING_PARAMS; i++)
        buf_printf(out, sampling_rows[i].whole ? "\"%s\":%.0f," : "\"%s\":%g,",
                   sampling_rows[i].name, sampling_get(p, i));
    buf_printf(out, "\"max_tokens\":%d}", LIMIT_DEFAULT_MAX_TOKENS);
}

/* Known once it is loaded. */
static void put_loaded(struct buf *out, const struct server_view *v)
{
    const struct engine_info *i = &v->info;
    put_text(out, "model", v->model_name);
    put_text(out, "policy", i->policy);
    put_text(out, "profile", i->profile);
    buf_printf(out,
               ",\"n_ctx\":%u,\"slots\":%u,\"threads\":%d,\"kv_blocks\":%u,\"prefix_cache\":%s,"
               "\"max_decode_gap_ms\":%lld,\"max_queued_requests\":%u",
               i->n_ctx, i->n_slots, i->n_threads, i->n_kv_blocks, truth(i->prefix_cache),
               (long long)i->decode_gap_us / 1000, i->max_queued_requests);
    put_sampling(out, &v->sampling);
}

void event_json_put_server(struct buf *out, const struct server_view *v)
{
    char levels[128];
    buf_puts(out, "{\"version\":");
    json_put(out, version_number());
    put_text(out, "commit", version_commit());
    put_text(out, "engine", v->engine_name);
    put_text(out, "cpu", cpu_levels_text(v->cpu_levels, levels, sizeof levels));
    put_text(out, "kv_type", kv_layout_names[v->kv_type]);
    if (v->engine)
        put_loaded(out, v);
    buf_printf(out, ",\"now_ms\":%" PRId64, clock_unix_us() / 1000);
    put_text(out, "state", v->state);
    buf_putc(out, '}');
}

/* --- stats ---------------------------------------------------------------------------------- */

static void put_level(struct buf *out, const struct server_view *v)
{
    const struct engine_stats *e = &v->stats;
    buf_printf(out, "{\"now_ms\":%" PRId64, clock_unix_us() / 1000);
    put_text(out, "state", v->state);
    buf_printf(out,
               ",\"running\":%u,\"waiting\":%u,\"connections\":%u,\"backlog_tokens\":%" PRIu64
               ",\"kv\":{\"total\":%u,\"free\":%u,\"cached\":%u},\"prefix\":{\"queries\":%" PRIu64
               ",\"hits\":%" PRIu64 ",\"evictions\":%" PRIu64 "}",
               e->running, e->waiting, v->connections, e->backlog_tokens, e->kv_blocks_total,
               e->kv_blocks_free, e->kv_blocks_cached, e->prefix_queried, e->prefix_hit,
               e->prefix_evicted);
}

static void put_rates(struct buf *out, const struct metrics *m)
{
    double capacity = m->workers_capacity.per_second;
    buf_printf(out,
               ",\"rates\":{\"prompt\":%.3f,\"generated\":%.3f,\"requests\":%.3f},"
               "\"utilisation\":{\"engine\":%.4f,\"workers\":%.4f}",
               m->prompt_rate.per_second, m->generated_rate.per_second, m->request_rate.per_second,
               m->engine_busy.per_second, capacity > 0 ? m->workers_busy.per_second / capacity : 0);
}

static double ms_of(const struct histogram_view *v, double q)
{
    return histogram_quantile(v, q) / 1e3;
}

/* tail: with p99; max: with that too, the bound of the bucket that holds it. */
static void put_view(struct buf *out, const char *name, const struct histogram_view *v, bool tail,
                     bool max)
{
    buf_printf(out,
               "\"%s\":{\"count\":%" PRIu64 ",\"mean_ms\":%.3f,\"p50_ms\":%.3f,\"p95_ms\":%.3f",
               name, v->count, v->count > 0 ? (double)v->sum / (double)v->count / 1e3 : 0,
               ms_of(v, 0.5), ms_of(v, 0.95));
    if (tail)
        buf_printf(out, ",\"p99_ms\":%.3f", ms_of(v, 0.99));
    if (max)
        buf_printf(out, ",\"max_ms\":%.3f", ms_of(v, 1));
    buf_putc(out, '}');
}

static void read_views(const struct server_view *v, struct histogram_view views[EVENT_WINDOW_VIEWS])
{
    struct engine_step_stats steps = {0};
    if (v->engine)
        engine_step_stats(v->engine, &steps);
    for (int i = 0; i < METRICS_PARTS; i++)
        metrics_read(v->metrics, (enum metrics_id)i, &views[i]);
    metrics_read(v->metrics, METRICS_TTFT, &views[EVENT_WINDOW_TTFT]);
    metrics_read(v->metrics, METRICS_ITL, &views[EVENT_WINDOW_ITL]);
    views[EVENT_WINDOW_STEP] = steps.time;
}

static void put_window(struct buf *out, const struct server_view *v, struct event_window *window)
{
    struct histogram_view views[EVENT_WINDOW_VIEWS];
    read_views(v, views);
    int64_t now_us = clock_now_us();
    if (window->n == 0)
        event_window_seed(window, now_us, views, v->recent);
    int64_t us = event_window_slide(window, now_us, views);
    buf_printf(out, ",\"window_s\":%.1f,", (double)us / 1e6);
    put_view(out, "ttft", &views[EVENT_WINDOW_TTFT], true, false);
    buf_puts(out, ",\"parts\":{");
    for (int i = 0; i < METRICS_PARTS; i++) {
        buf_puts(out, i > 0 ? "," : "");
        put_view(out, metrics_name((enum metrics_id)i), &views[i], false, false);
    }
    buf_puts(out, "},");
    put_view(out, "itl", &views[EVENT_WINDOW_ITL], true, true);
    buf_putc(out, ',');
    put_view(out, "step", &views[EVENT_WINDOW_STEP], true, false);
    buf_printf(out, ",\"gap\":{\"promised_ms\":%lld,\"p95_ms\":%.3f,\"p99_ms\":%.3f,",
               (long long)v->info.decode_gap_us / 1000, ms_of(&views[EVENT_WINDOW_ITL], 0.95),
               ms_of(&views[EVENT_WINDOW_ITL], 0.99));
}

static void put_finished(struct buf *out, const struct metrics *m)
{
    buf_puts(out, ",\"finished\":{");
    for (int i = FINISH_STOP; i <= FINISH_ERROR; i++)
        buf_printf(out, "%s\"%s\":%" PRIu64, i > FINISH_STOP ? "," : "",
                   metrics_finish_name((enum finish_reason)i), m->finished[i]);
    buf_putc(out, '}');
}

static void put_refused(struct buf *out, const struct metrics *m)
{
    uint64_t busy = 0, away = 0, other = 0;
    for (uint32_t i = 0; i < m->n_refusals; i++) {
        const struct metrics_refusal *r = &m->refusals[i];
        *(r->http_status == 429 ? &busy : r->http_status == 503 ? &away : &other) += r->n;
    }
    buf_printf(out, ",\"refused\":{\"429\":%" PRIu64 ",\"503\":%" PRIu64 ",\"other\":%" PRIu64 "}",
               busy, away, other);
}

void event_json_put_stats(struct buf *out, const struct server_view *v, struct event_window *window)
{
    put_level(out, v);
    put_rates(out, v->metrics);
    put_window(out, v, window);
    buf_printf(out, "\"missed\":%" PRIu64 "}", v->stats.gap_missed);
    put_finished(out, v->metrics);
    put_refused(out, v->metrics);
    buf_printf(out, ",\"preemptions\":%" PRIu64 "}", v->stats.preempted);
}

/* --- waiting -------------------------------------------------------------------------------- */

static void put_waiting(struct buf *out, const struct server_view_waiting *w)
{
    buf_puts(out, "{\"id\":");
    json_put(out, w->id);
    put_text(out, "request_id", w->request_id);
    buf_puts(out, ",\"waited_ms\":");
    json_put_ms(out, clock_now_us() - w->queued_us);
    buf_printf(out, ",\"prompt_tokens\":%u,\"ahead\":%u}", w->prompt_tokens, w->ahead);
}

void event_json_put_waiting(struct buf *out, const struct server_view_waiting *w, uint32_t n)
{
    buf_puts(out, "{\"requests\":[");
    for (uint32_t i = 0; i < n && i < LIMIT_LIVE_REQUESTS; i++) {
        buf_puts(out, i > 0 ? "," : "");
        put_waiting(out, &w[i]);
    }
    buf_printf(out, "],\"count\":%u}", n);
}
