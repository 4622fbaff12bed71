/* The JSON of the live stream's events. Everything in it is counted anyway; the engine's part is
 * read from atomics. */
#include "observe/event_json.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/json.h"
#include "base/version.h"
#include "kernels/kv_layout.h"
#include "observe/measurements.h"
#include "params/sampling.h"

#include <inttypes.h>

static const char *truth(bool b)
{
    return b ? "true" : "false";
}

static void event_json_put_text(struct buf *out, const char *name, const char *value)
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
    event_json_put_text(out, "model", v->model_name);
    event_json_put_text(out, "policy", i->policy);
    event_json_put_text(out, "profile", i->profile);
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
    event_json_put_text(out, "commit", version_commit());
    event_json_put_text(out, "engine", v->engine_name);
    event_json_put_text(out, "cpu", cpu_levels_text(v->cpu_levels, levels, sizeof levels));
    event_json_put_text(out, "kv_type", kv_layout_names[v->kv_type]);
    if (v->engine)
        put_loaded(out, v);
    buf_printf(out, ",\"now_ms\":%" PRId64, clock_unix_us() / 1000);
    event_json_put_text(out, "state", v->state);
    buf_putc(out, '}');
}

/* --- stats ---------------------------------------------------------------------------------- */

void event_json_put_stats(struct buf *out, const struct server_view *v, struct event_window *window)
{
    struct histogram_view views[EVENT_WINDOW_VIEWS] = {0};
    struct server_view seen = *v;
    int64_t now_us = clock_now_us();
    measurements_views(v, views);
    if (window->n == 0)
        event_window_seed(window, now_us, views, v->recent);
    seen.window_us = event_window_slide(window, now_us, views);
    seen.window = views;
    buf_printf(out, "{\"now_ms\":%" PRId64, clock_unix_us() / 1000);
    event_json_put_text(out, "state", v->state);
    measurements_json(out, MEASUREMENTS_LIVE, &seen);
    buf_putc(out, '}');
}

/* --- waiting -------------------------------------------------------------------------------- */

static void event_json_own_put_waiting(struct buf *out, const struct server_view_waiting *w)
{
    buf_puts(out, "{\"id\":");
    json_put(out, w->id);
    event_json_put_text(out, "request_id", w->request_id);
    buf_puts(out, ",\"waited_ms\":");
    json_put_ms(out, clock_now_us() - w->queued_us);
    buf_printf(out, ",\"prompt_tokens\":%u,\"ahead\":%u}", w->prompt_tokens, w->ahead);
}

void event_json_put_waiting(struct buf *out, const struct server_view_waiting *w, uint32_t n)
{
    buf_puts(out, "{\"requests\":[");
    for (uint32_t i = 0; i < n && i < LIMIT_LIVE_REQUESTS; i++) {
        buf_puts(out, i > 0 ? "," : "");
        event_json_own_put_waiting(out, &w[i]);
    }
    buf_printf(out, "],\"count\":%u}", n);
}
