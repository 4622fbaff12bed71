#include "observe/measurements.h"

#include "base/log_writer.h"
#include "http/http.h"
#include "observe/prometheus.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum kind { COUNTER, GAUGE, HISTOGRAM };
enum unit { COUNT, BYTES, SECONDS, MILLISECONDS, MICROSECONDS, PER_SECOND, RATIO, MILLIONTHS };

/* Prometheus is told seconds, JSON milliseconds, each with so many decimals. Of MILLISECONDS the
 * value is in microseconds too, and JSON shows whole ones. */
static const struct {
    double to_prometheus, to_json; /* divisors */
    int decimals;
    const char *suffix; /* of percentiles */
} units[] = {
    [COUNT] = {1, 1, 0, ""},
    [BYTES] = {1, 1, 0, ""},
    [SECONDS] = {1, 1, 1, ""},
    [MILLISECONDS] = {1e6, 1e3, 0, ""},
    [MICROSECONDS] = {1e6, 1e3, 3, "_ms"},
    [PER_SECOND] = {1, 1, 3, ""},
    [RATIO] = {1, 1, 4, ""},
    [MILLIONTHS] = {1e6, 1e6, 4, ""},
};

/* The percentiles that a page has of a histogram; 100 is the most. */
static const struct {
    int percentiles[4];
    int decimals;
} pages[] = {
    [MEASUREMENTS_DEBUG] = {{50, 90, 95, 99}, 6},
    [MEASUREMENTS_LIVE] = {{50, 95, 99, 100}, 3},
};

struct sample {
    const char *labels[2]; /* values of the row's labels */
    char text[12];         /* for one of them */
    double value;          /* counts are exact up to 2^53 */
    struct histogram_view histogram;
    int window; /* enum event_window_view: where the live stream keeps that; -1: nowhere */
};

/* Where it is in a page's JSON. */
struct field {
    uint8_t order;    /* fields stand in this order; 0: it is not there */
    const char *path; /* "kv.free" is `free` of the object `kv`; with labels, the object of all */
    uint8_t percentiles; /* of a histogram: so many of those that the page has */
};

struct row {
    enum kind kind;
    enum unit unit;
    const char *name; /* in Prometheus; NULL: it is not shown there */
    const char *help;
    bool early;            /* shown in Prometheus while the model loads too */
    const char *labels[2]; /* names; NULL: none */
    struct field json[MEASUREMENTS_PAGES];

    /* Where the value is: the first of these that is there. */
    bool (*at)(const struct server_view *v, uint32_t i, struct sample *out); /* false: no i-th */
    double (*compute)(const struct server_view *v);
    enum metrics_id histogram; /* of kind HISTOGRAM */
    enum { OF_VIEW, OF_METRICS } base;
    enum type { BOOL, I32, U32, I64, U64, F64 } type;
    size_t offset;
};

// clang-format off
#define TYPE_OF(x) \
    _Generic((x), bool: BOOL, int32_t: I32, uint32_t: U32, int64_t: I64, uint64_t: U64, double: F64)
// clang-format on
#define MEMBER(what, of, member)                                                                   \
    .base = what, .offset = offsetof(struct of, member),                                           \
    .type = TYPE_OF(((const struct of *)NULL)->member)
#define VALUE(member)  MEMBER(OF_VIEW, server_view, member)
#define METRIC(member) MEMBER(OF_METRICS, metrics, member)

#define HEALTH(n, path)              .json[MEASUREMENTS_HEALTH] = {n, path, 0}
#define LIVE(n, path)                .json[MEASUREMENTS_LIVE] = {n, path, 0}
#define DEBUG(n, path)               .json[MEASUREMENTS_DEBUG] = {n, path, 4}
#define LIVE_HISTOGRAM(n, path, few) .json[MEASUREMENTS_LIVE] = {n, path, few}

/* --- values that stand nowhere -------------------------------------------------------------- */

static double log_dropped(const struct server_view *v)
{
    (void)v;
    return (double)log_writer_dropped();
}

static double kv_used(const struct server_view *v)
{
    double total = v->stats.kv_blocks_total;
    return total > 0 ? 1 - v->stats.kv_blocks_free / total : 0;
}

static double workers_share(const struct server_view *v)
{
    double capacity = v->metrics->workers_capacity.per_second;
    return capacity > 0 ? v->metrics->workers_busy.per_second / capacity : 0;
}

static double gap_us(const struct server_view *v, double q)
{
    return v->window ? histogram_quantile(&v->window[EVENT_WINDOW_ITL], q) : 0;
}

static double gap_p95(const struct server_view *v)
{
    return gap_us(v, 0.95);
}

static double gap_p99(const struct server_view *v)
{
    return gap_us(v, 0.99);
}

static double window_s(const struct server_view *v)
{
    return (double)v->window_us / 1e6;
}

/* --- histograms ----------------------------------------------------------------------------- */

static int window_of(enum metrics_id id)
{
    return id < METRICS_PARTS   ? (int)id
           : id == METRICS_TTFT ? (int)EVENT_WINDOW_TTFT
           : id == METRICS_ITL  ? (int)EVENT_WINDOW_ITL
                                : -1;
}

static void read_histogram(const struct server_view *v, enum metrics_id id, struct sample *out)
{
    metrics_read(v->metrics, id, &out->histogram);
    out->window = window_of(id);
}

static struct engine_step_stats steps(const struct server_view *v)
{
    struct engine_step_stats s = {0};
    if (v->engine)
        engine_step_stats(v->engine, &s);
    return s;
}

static bool step_time(const struct server_view *v, uint32_t i, struct sample *out)
{
    out->histogram = steps(v).time;
    out->window = EVENT_WINDOW_STEP;
    return i == 0;
}

static bool step_error(const struct server_view *v, uint32_t i, struct sample *out)
{
    out->histogram = steps(v).error;
    return i == 0;
}

/* --- with labels ---------------------------------------------------------------------------- */

static bool measurements_part(const struct server_view *v, uint32_t i, struct sample *out)
{
    if (i >= METRICS_PARTS)
        return false;
    out->labels[0] = metrics_name((enum metrics_id)i);
    read_histogram(v, (enum metrics_id)i, out);
    return true;
}

static bool finished(const struct server_view *v, uint32_t i, struct sample *out)
{
    enum finish_reason reason = FINISH_STOP + i;
    if (reason > FINISH_ERROR)
        return false;
    out->labels[0] = metrics_finish_name(reason);
    out->value = (double)v->metrics->finished[reason];
    return true;
}

static const char *put_status(struct sample *out, int http_status)
{
    snprintf(out->text, sizeof out->text, "%d", http_status);
    return out->text;
}

static bool measurements_refusal(const struct server_view *v, uint32_t i, struct sample *out)
{
    const struct metrics *m = v->metrics;
    const struct metrics_refusal memory[] = {
        {503, http_code_memory, v->request_memory.refused + v->stream_memory.refused},
        {503, "unsent_memory", v->unsent_memory.refused},
    };
    if (i >= m->n_refusals + sizeof memory / sizeof *memory)
        return false;
    const struct metrics_refusal *r =
        i < m->n_refusals ? &m->refusals[i] : &memory[i - m->n_refusals];
    out->labels[0] = put_status(out, r->http_status);
    out->labels[1] = r->reason;
    out->value = (double)r->n;
    return true;
}

/* What the page draws: those that come again later, those that need another server, the rest. */
static bool measurements_refused(const struct server_view *v, uint32_t i, struct sample *out)
{
    static const struct {
        int http_status;
        const char *name;
    } kinds[] = {{429, "429"}, {503, "503"}, {0, "other"}};
    const struct metrics *m = v->metrics;
    if (i >= sizeof kinds / sizeof *kinds)
        return false;
    out->labels[0] = kinds[i].name;
    for (uint32_t r = 0; r < m->n_refusals; r++) {
        int status = m->refusals[r].http_status;
        bool other = status != 429 && status != 503;
        if (status == kinds[i].http_status || (other && kinds[i].http_status == 0))
            out->value += (double)m->refusals[r].n;
    }
    return true;
}

static bool connection(const struct server_view *v, uint32_t i, struct sample *out)
{
    if (i >= v->n_refusals)
        return false;
    out->labels[0] = put_status(out, v->refusals[i].http_status);
    out->value = (double)v->refusals[i].n;
    return true;
}

/* --- the rows ------------------------------------------------------------------------------- */

/* Kind, unit, name and help in Prometheus, where the value is, where else it is shown. They stand
 * in the order of /metrics. */
// clang-format off
static const struct row rows[] = {
    {GAUGE, COUNT, "firstlight_ready", "1 while requests are taken.", VALUE(ready),
     .early = true},
    {GAUGE, COUNT, "firstlight_connections", "Open connections.", VALUE(connections),
     .early = true, HEALTH(8, "connections"), LIVE(3, "connections")},
    {GAUGE, SECONDS, "process_start_time_seconds",
     "When the server started, in seconds since 1970.", VALUE(start_unix_s), .early = true},
    {COUNTER, COUNT, "firstlight_log_lines_dropped_total",
     "Log lines lost because nobody read them in time.", .compute = log_dropped, .early = true},
    {COUNTER, COUNT, "firstlight_requests_refused_total",
     "Requests that were not taken, by status and why.", .at = measurements_refusal,
     .labels = {"status", "reason"}, .early = true},
    {COUNTER, COUNT, NULL, NULL, .at = measurements_refused, .labels = {"status"},
     LIVE(26, "refused")},
    {GAUGE, BYTES, "firstlight_unsent_memory_bytes", "Of answers that clients have not taken.",
     VALUE(unsent_memory.held), .early = true},
    {GAUGE, BYTES, "firstlight_unsent_memory_most_bytes", "And at most (--max-unsent-memory).",
     VALUE(unsent_memory.most), .early = true},
    {GAUGE, BYTES, "firstlight_request_memory_bytes",
     "Held by bodies of requests until they are tokens.", VALUE(request_memory.held),
     .early = true},
    {GAUGE, BYTES, "firstlight_request_memory_most_bytes", "And at most (--max-request-memory).",
     VALUE(request_memory.most), .early = true},
    {GAUGE, BYTES, "firstlight_stream_memory_bytes",
     "Held by HTTP/2's streams, their headers, and bodies that need no key.",
     VALUE(stream_memory.held), .early = true},
    {GAUGE, BYTES, "firstlight_stream_memory_most_bytes",
     "And at most (as --max-request-memory).", VALUE(stream_memory.most), .early = true},
    {COUNTER, COUNT, "firstlight_connections_refused_total",
     "Requests refused for their framing or pace, and connections too many.", .at = connection,
     .labels = {"status"}, .early = true},
    {GAUGE, COUNT, "vllm:num_requests_running", "Requests admitted.", VALUE(stats.running),
     HEALTH(1, "running"), LIVE(1, "running")},
    {GAUGE, COUNT, "vllm:num_requests_waiting", "Requests waiting to be admitted.",
     VALUE(stats.waiting), HEALTH(2, "waiting"), LIVE(2, "waiting")},
    {GAUGE, COUNT, "firstlight_backlog_tokens", "Prompt tokens still to be computed.",
     VALUE(stats.backlog_tokens), LIVE(4, "backlog_tokens")},
    {GAUGE, RATIO, "vllm:kv_cache_usage_perc", "KV blocks in use, as a share of all.",
     .compute = kv_used},
    {GAUGE, COUNT, "firstlight_kv_blocks", "KV blocks there are.", VALUE(stats.kv_blocks_total),
     HEALTH(5, "kv_blocks_total"), LIVE(5, "kv.total")},
    {GAUGE, COUNT, "firstlight_kv_blocks_free", "KV blocks that nobody uses.",
     VALUE(stats.kv_blocks_free), HEALTH(3, "kv_blocks_free"), LIVE(6, "kv.free")},
    {GAUGE, COUNT, "firstlight_kv_blocks_cached",
     "Free KV blocks that are kept for prompts to come.", VALUE(stats.kv_blocks_cached),
     HEALTH(4, "kv_blocks_cached"), LIVE(7, "kv.cached")},
    {COUNTER, COUNT, "vllm:request_success_total", "Requests that ended, by the reason.",
     .at = finished, .labels = {"finished_reason"}, LIVE(25, "finished")},
    {COUNTER, COUNT, NULL, NULL, VALUE(stats.finished), HEALTH(6, "finished")},
    {COUNTER, COUNT, NULL, NULL, VALUE(stats.cancelled), HEALTH(7, "cancelled")},
    {COUNTER, COUNT, "vllm:prompt_tokens_total", "Prompt tokens of requests with a first token.",
     METRIC(prompt_tokens)},
    {COUNTER, COUNT, "firstlight_prompt_tokens_cached_total",
     "Of these, found in the prefix cache.", METRIC(cached_tokens)},
    {COUNTER, COUNT, "firstlight_prompt_tokens_computed_total",
     "Tokens that prefill has computed, those after a preemption too.",
     VALUE(stats.prompt_tokens)},
    {COUNTER, COUNT, "vllm:generation_tokens_total", "Tokens generated.",
     VALUE(stats.generated_tokens)},
    {GAUGE, PER_SECOND, "firstlight_prompt_tokens_per_second",
     "Prompt tokens computed, a moving average of 10 seconds.", METRIC(prompt_rate.per_second),
     LIVE(11, "rates.prompt")},
    {GAUGE, PER_SECOND, "firstlight_generation_tokens_per_second",
     "Tokens generated, a moving average of 10 seconds.", METRIC(generated_rate.per_second),
     LIVE(12, "rates.generated")},
    {GAUGE, PER_SECOND, NULL, NULL, METRIC(request_rate.per_second), LIVE(13, "rates.requests")},
    {COUNTER, COUNT, "vllm:prefix_cache_queries_total",
     "Prompt tokens looked up in the prefix cache.", VALUE(stats.prefix_queried),
     LIVE(8, "prefix.queries")},
    {COUNTER, COUNT, "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
     VALUE(stats.prefix_hit), LIVE(9, "prefix.hits")},
    {COUNTER, COUNT, "firstlight_prefix_cache_evictions_total",
     "KV blocks dropped from the cache.", VALUE(stats.prefix_evicted),
     LIVE(10, "prefix.evictions")},
    {COUNTER, COUNT, "vllm:num_preemptions_total", "Requests put back for want of KV blocks.",
     VALUE(stats.preempted), LIVE(27, "preemptions")},
    {COUNTER, COUNT, "firstlight_steps_total", "Engine steps begun.", VALUE(stats.steps)},
    {COUNTER, COUNT, "firstlight_steps_parked_total",
     "Times that a step stood aside for another.", VALUE(stats.parked)},
    {GAUGE, MILLISECONDS, "firstlight_decode_gap_promised_seconds",
     "Between two tokens of a stream at most; 0: nothing is promised.", VALUE(info.decode_gap_us),
     LIVE(21, "gap.promised_ms")},
    {GAUGE, MICROSECONDS, NULL, NULL, .compute = gap_p95, LIVE(22, "gap.p95_ms")},
    {GAUGE, MICROSECONDS, NULL, NULL, .compute = gap_p99, LIVE(23, "gap.p99_ms")},
    {COUNTER, COUNT, "firstlight_gap_missed_total",
     "Steps whose decodes alone take longer than the promised gap.", VALUE(stats.gap_missed),
     LIVE(24, "gap.missed")},
    {COUNTER, MICROSECONDS, "firstlight_engine_busy_seconds_total",
     "Time that the engine thread spent in steps.", VALUE(stats.busy_us)},
    {GAUGE, RATIO, "firstlight_engine_utilisation",
     "Share of time that steps were running, a moving average of 10 seconds.",
     METRIC(engine_busy.per_second), LIVE(14, "utilisation.engine")},
    {GAUGE, RATIO, "firstlight_workers_utilisation",
     "Share of the workers' time that they computed in, a moving average of 10 seconds.",
     .compute = workers_share, LIVE(15, "utilisation.workers")},
    {GAUGE, SECONDS, NULL, NULL, .compute = window_s, LIVE(16, "window_s")},
    {HISTOGRAM, MICROSECONDS, "vllm:time_to_first_token_seconds",
     "From a request's first byte to its first content (unstreamed: to its first token).",
     .histogram = METRICS_TTFT, DEBUG(2, "latencies.ttft"), LIVE_HISTOGRAM(17, "ttft", 3)},
    {HISTOGRAM, MICROSECONDS, "vllm:request_queue_time_seconds", "From queued to admitted.",
     .histogram = METRICS_QUEUE},
    {HISTOGRAM, MICROSECONDS, "vllm:request_prefill_time_seconds",
     "From admitted to first token.", .histogram = METRICS_ADMITTED,
     DEBUG(3, "latencies.admitted")},
    {HISTOGRAM, MICROSECONDS, "vllm:inter_token_latency_seconds",
     "Between two tokens of an answer.", .histogram = METRICS_ITL, DEBUG(4, "latencies.itl"),
     LIVE_HISTOGRAM(19, "itl", 4)},
    {HISTOGRAM, MICROSECONDS, "vllm:request_time_per_output_token_seconds",
     "Per finished request: from the first token to the end, per token after the first.",
     .histogram = METRICS_TPOT, DEBUG(5, "latencies.tpot")},
    {HISTOGRAM, MICROSECONDS, "vllm:request_decode_time_seconds",
     "Per finished request: from the first token to the end.", .histogram = METRICS_DECODE,
     DEBUG(6, "latencies.decode")},
    {HISTOGRAM, MICROSECONDS, "vllm:e2e_request_latency_seconds",
     "Per finished request: from its first byte to its last token.", .histogram = METRICS_E2E,
     DEBUG(7, "latencies.e2e")},
    {HISTOGRAM, MICROSECONDS, "firstlight_ttft_part_seconds",
     "The parts that time to first token is the sum of.", .at = measurements_part,
     .labels = {"part"}, DEBUG(1, "latencies"), LIVE_HISTOGRAM(18, "parts", 2)},
    {HISTOGRAM, MICROSECONDS, "firstlight_step_seconds", "Time of an engine step.",
     .at = step_time, DEBUG(8, "latencies.step"), LIVE_HISTOGRAM(20, "step", 3)},
    {HISTOGRAM, MILLIONTHS, "firstlight_step_prediction_error_ratio",
     "How far off the predicted time of a step was, as a share of the actual.", .at = step_error,
     DEBUG(9, "step_prediction_error")},
};
// clang-format on
#define N_ROWS (sizeof rows / sizeof *rows)

static double measurements_read_value(const struct row *r, const struct server_view *v)
{
    const char *base = r->base == OF_VIEW ? (const char *)v : (const char *)v->metrics;
    const void *at = base + r->offset;
    switch (r->type) {
    case BOOL:
        return *(const bool *)at;
    case I32:
        return *(const int32_t *)at;
    case U32:
        return *(const uint32_t *)at;
    case I64:
        return (double)*(const int64_t *)at;
    case U64:
        return (double)*(const uint64_t *)at;
    case F64:
        return *(const double *)at;
    }
    return 0;
}

/* The i-th sample of a row, of those without labels the only one. */
static bool read_sample(const struct row *r, const struct server_view *v, uint32_t i,
                        struct sample *out)
{
    *out = (struct sample){.window = -1};
    if (r->at)
        return r->at(v, i, out);
    if (r->kind == HISTOGRAM)
        read_histogram(v, r->histogram, out);
    else
        out->value = r->compute ? r->compute(v) : measurements_read_value(r, v);
    return i == 0;
}

/* --- Prometheus ----------------------------------------------------------------------------- */

static void put_sample(struct buf *out, const struct row *r, const char *labels,
                       const struct sample *s)
{
    double divisor = units[r->unit].to_prometheus;
    if (r->kind == HISTOGRAM)
        prometheus_histogram(out, r->name, labels, &s->histogram);
    else if (r->kind == COUNTER && divisor == 1)
        prometheus_count(out, r->name, labels, (uint64_t)s->value);
    else
        prometheus_value(out, r->name, labels, s->value / divisor);
}

static void put_family(struct buf *out, const struct row *r, const char *model,
                       const struct server_view *v)
{
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    struct sample s;
    prometheus_family(out, r->name, kinds[r->kind], r->help);
    for (uint32_t i = 0; read_sample(r, v, i, &s); i++) {
        struct buf labels = {0};
        buf_puts(&labels, model);
        for (size_t l = 0; l < 2 && r->labels[l]; l++)
            prometheus_label(&labels, r->labels[l], s.labels[l]);
        put_sample(out, r, buf_str(&labels), &s);
        out->failed |= labels.failed;
        buf_fini(&labels);
    }
}

void measurements_prometheus(struct buf *out, const struct server_view *v)
{
    struct buf model = {0};
    if (v->engine)
        prometheus_label(&model, "model_name", v->model_name);
    for (size_t i = 0; i < N_ROWS; i++)
        if (rows[i].name && (rows[i].early || v->engine))
            put_family(out, &rows[i], buf_str(&model), v);
    out->failed |= model.failed;
    buf_fini(&model);
}

/* --- JSON ----------------------------------------------------------------------------------- */

/* Fields one after the other; those of one object stand together. */
struct fields {
    struct buf *out;
    const char *object; /* the one that is open: the first len bytes; len 0: none is */
    size_t len;
};

static void close_object(struct fields *f)
{
    if (f->len > 0)
        buf_putc(f->out, '}');
    f->len = 0;
}

/* `object` is len bytes; 0: the field stands outside of all. */
static void measurements_put_name(struct fields *f, const char *object, size_t len,
                                  const char *name)
{
    bool open = len > 0 && len == f->len && memcmp(object, f->object, len) == 0;
    if (!open) {
        close_object(f);
        if (len > 0)
            buf_printf(f->out, ",\"%.*s\":{", (int)len, object);
    }
    buf_printf(f->out, "%s\"%s\":", open || len == 0 ? "," : "", name);
    f->object = object;
    f->len = len;
}

static void put_histogram(struct buf *out, enum measurements_page page, const struct row *r,
                          const struct histogram_view *h)
{
    const char *suffix = units[r->unit].suffix;
    double divisor = units[r->unit].to_json;
    double mean = h->count > 0 ? (double)h->sum / (double)h->count : 0;
    int decimals = pages[page].decimals;
    buf_printf(out, "{\"count\":%" PRIu64 ",\"mean%s\":%.*f", h->count, suffix, decimals,
               mean / divisor);
    for (int i = 0; i < r->json[page].percentiles; i++) {
        int percent = pages[page].percentiles[i];
        char name[16] = "max";
        if (percent < 100)
            snprintf(name, sizeof name, "p%d", percent);
        buf_printf(out, ",\"%s%s\":%.*f", name, suffix, decimals,
                   histogram_quantile(h, percent / 100.0) / divisor);
    }
    buf_putc(out, '}');
}

static void put_field(struct fields *f, enum measurements_page page, const struct row *r,
                      const struct server_view *v)
{
    const char *path = r->json[page].path, *dot = strchr(path, '.');
    struct sample s;
    for (uint32_t i = 0; read_sample(r, v, i, &s); i++) {
        if (r->labels[0])
            measurements_put_name(f, path, strlen(path), s.labels[0]);
        else
            measurements_put_name(f, path, dot ? (size_t)(dot - path) : 0, dot ? dot + 1 : path);
        if (r->kind != HISTOGRAM)
            buf_printf(f->out, "%.*f", units[r->unit].decimals, s.value / units[r->unit].to_json);
        else if (v->window && s.window >= 0)
            put_histogram(f->out, page, r, &v->window[s.window]);
        else
            put_histogram(f->out, page, r, &s.histogram);
    }
}

void measurements_json(struct buf *out, enum measurements_page page, const struct server_view *v)
{
    struct fields f = {.out = out};
    for (unsigned order = 1; order <= UINT8_MAX; order++)
        for (size_t i = 0; i < N_ROWS; i++)
            if (rows[i].json[page].order == order)
                put_field(&f, page, &rows[i], v);
    close_object(&f);
}

void measurements_views(const struct server_view *v, struct histogram_view out[EVENT_WINDOW_VIEWS])
{
    struct sample s;
    for (size_t r = 0; r < N_ROWS; r++) {
        if (rows[r].kind != HISTOGRAM || rows[r].json[MEASUREMENTS_LIVE].order == 0)
            continue;
        for (uint32_t i = 0; read_sample(&rows[r], v, i, &s); i++)
            if (s.window >= 0)
                out[s.window] = s.histogram;
    }
}
