/* The JSON of the live stream's events. Everything in it is counted anyway; the engine's part is
 * read from atomics. */
#include "observe/event_stream.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/version.h"
#include "kernels/kv_layout.h"
#include "api/completion.h"
#include "base/json.h"
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

/* What a request gets that says nothing. */
static void put_sampling(struct buf *out, const struct server *s)
{
    struct sampling told = sampling_default;
    sampling_take(&told, &s->loader.generation);
    buf_puts(out, ",\"sampling\":{");
    for (int p = 0; p < SAMPLING_PARAMS; p++)
        buf_printf(out, sampling_rows[p].whole ? "\"%s\":%.0f," : "\"%s\":%g,",
                   sampling_rows[p].name, sampling_get(&told, p));
    buf_printf(out, "\"max_tokens\":%d}", LIMIT_DEFAULT_MAX_TOKENS);
}

/* Known once it is loaded. */
static void put_loaded(struct buf *out, const struct server *s)
{
    const struct engine_info *i = &s->info;
    put_text(out, "model", s->model_name);
    put_text(out, "policy", i->policy);
    put_text(out, "profile", i->profile);
    buf_printf(out,
               ",\"n_ctx\":%u,\"slots\":%u,\"threads\":%d,\"kv_blocks\":%u,\"prefix_cache\":%s,"
               "\"max_decode_gap_ms\":%lld,\"max_queued_requests\":%u",
               i->n_ctx, i->n_slots, i->n_threads, i->n_kv_blocks, truth(i->prefix_cache),
               (long long)i->decode_gap_us / 1000, i->max_queued_requests);
    put_sampling(out, s);
}

void event_json_put_server(struct buf *out, const struct server *s)
{
    const struct engine_options *o = &s->options.engine;
    char levels[128];
    buf_puts(out, "{\"version\":");
    json_put(out, version_number());
    put_text(out, "commit", version_commit());
    put_text(out, "engine", o->kind ? o->kind->name : "auto");
    put_text(out, "cpu", cpu_levels_text(o->cpu_levels, levels, sizeof levels));
    put_text(out, "kv_type", kv_layout_names[o->kv_type]);
    if (s->state != SERVER_LOADING)
        put_loaded(out, s);
    buf_printf(out, ",\"now_ms\":%" PRId64, clock_unix_us() / 1000);
    put_text(out, "state", server_state_name(s->state));
    buf_putc(out, '}');
}

/* --- stats ---------------------------------------------------------------------------------- */

static void put_level(struct buf *out, const struct server *s, const struct engine_stats *e)
{
    buf_printf(out, "{\"now_ms\":%" PRId64, clock_unix_us() / 1000);
    put_text(out, "state", server_state_name(s->state));
    buf_printf(out,
               ",\"running\":%u,\"waiting\":%u,\"connections\":%u,\"backlog_tokens\":%" PRIu64
               ",\"kv\":{\"total\":%u,\"free\":%u,\"cached\":%u},\"prefix\":{\"queries\":%" PRIu64
               ",\"hits\":%" PRIu64 ",\"evictions\":%" PRIu64 "}",
               e->running, e->waiting, http1_connections(s->http), e->backlog_tokens,
               e->kv_blocks_total, e->kv_blocks_free, e->kv_blocks_cached, e->prefix_queried,
               e->prefix_hit, e->prefix_evicted);
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

static void read_views(const struct server *s, struct histogram_view v[EVENT_WINDOW_VIEWS])
{
    struct engine_step_stats steps = {0};
    if (s->state != SERVER_LOADING)
        engine_step_stats(s->engine, &steps);
    for (int i = 0; i < METRICS_PARTS; i++)
        metrics_read(&s->metrics, (enum metrics_id)i, &v[i]);
    metrics_read(&s->metrics, METRICS_TTFT, &v[EVENT_WINDOW_TTFT]);
    metrics_read(&s->metrics, METRICS_ITL, &v[EVENT_WINDOW_ITL]);
    v[EVENT_WINDOW_STEP] = steps.time;
}

static void put_window(struct buf *out, const struct server *s, struct event_window *window)
{
    struct histogram_view v[EVENT_WINDOW_VIEWS];
    read_views(s, v);
    int64_t now_us = clock_now_us();
    if (window->n == 0)
        event_window_seed(window, now_us, v, &s->recent);
    int64_t us = event_window_slide(window, now_us, v);
    buf_printf(out, ",\"window_s\":%.1f,", (double)us / 1e6);
    put_view(out, "ttft", &v[EVENT_WINDOW_TTFT], true, false);
    buf_puts(out, ",\"parts\":{");
    for (int i = 0; i < METRICS_PARTS; i++) {
        buf_puts(out, i > 0 ? "," : "");
        put_view(out, metrics_name((enum metrics_id)i), &v[i], false, false);
    }
    buf_puts(out, "},");
    put_view(out, "itl", &v[EVENT_WINDOW_ITL], true, true);
    buf_putc(out, ',');
    put_view(out, "step", &v[EVENT_WINDOW_STEP], true, false);
    buf_printf(out, ",\"gap\":{\"promised_ms\":%lld,\"p95_ms\":%.3f,\"p99_ms\":%.3f,",
               (long long)s->info.decode_gap_us / 1000, ms_of(&v[EVENT_WINDOW_ITL], 0.95),
               ms_of(&v[EVENT_WINDOW_ITL], 0.99));
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

void event_json_put_stats(struct buf *out, struct server *s, struct event_window *window)
{
    struct engine_stats e = {0};
    if (s->state != SERVER_LOADING) {
        metrics_tick(&s->metrics, s->engine, clock_now_us());
        engine_stats(s->engine, &e);
    }
    put_level(out, s, &e);
    put_rates(out, &s->metrics);
    put_window(out, s, window);
    buf_printf(out, "\"missed\":%" PRIu64 "}", e.gap_missed);
    put_finished(out, &s->metrics);
    put_refused(out, &s->metrics);
    buf_printf(out, ",\"preemptions\":%" PRIu64 "}", e.preempted);
}

/* --- waiting -------------------------------------------------------------------------------- */

static bool waits(const struct completion *c)
{
    return c->n_live > 0 && c->choices[0].r && !request_is_admitted(c->choices[0].r);
}

/* It has no token yet, so whoever came later is behind it. */
static bool is_ahead(const struct completion *c)
{
    return c->n_live > 0 && !c->measured;
}

static void put_waiting(struct buf *out, const struct completion *c, uint32_t ahead)
{
    int64_t queued_us = request_timeline(c->choices[0].r)->at_us[TIMELINE_QUEUED];
    buf_puts(out, "{\"id\":");
    json_put(out, c->id);
    put_text(out, "request_id", c->request_id);
    buf_puts(out, ",\"waited_ms\":");
    json_put_ms(out, clock_now_us() - queued_us);
    buf_printf(out, ",\"prompt_tokens\":%u,\"ahead\":%u}", c->prompt_tokens, ahead);
}

uint32_t event_json_put_waiting(struct buf *out, const struct server *s)
{
    uint32_t n = 0, ahead = 0;
    const struct completion *c = s->calls; /* the newest */
    while (c && c->next)
        c = c->next;
    buf_puts(out, "{\"requests\":[");
    for (; c; c = c->prev) {
        if (waits(c) && n++ < LIMIT_LIVE_REQUESTS) {
            buf_puts(out, n > 1 ? "," : "");
            put_waiting(out, c, ahead);
        }
        ahead += is_ahead(c);
    }
    buf_printf(out, "],\"count\":%u}", n);
    return n;
}
