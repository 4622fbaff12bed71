/* Names that vLLM has are vLLM's, so that its dashboards work; the others begin with firstlight_.
 * Atomics and the I/O thread's own numbers: the engine thread does not notice. */
#include "observe/metrics_page.h"

#include "base/log_writer.h"
#include "http/http.h"
#include "observe/prometheus.h"

struct report_page {
    struct buf *out;
    const char *labels; /* of every sample: the model */
};

static void counter(const struct report_page *p, const char *name, const char *help, uint64_t value)
{
    prometheus_family(p->out, name, "counter", help);
    prometheus_count(p->out, name, p->labels, value);
}

static void gauge(const struct report_page *p, const char *name, const char *help, double value)
{
    prometheus_family(p->out, name, "gauge", help);
    prometheus_value(p->out, name, p->labels, value);
}

/* The model's labels and one more. */
static void labelled(const struct report_page *p, const char *name, const char *label,
                     const char *value, uint64_t n)
{
    struct buf labels = {0};
    buf_puts(&labels, p->labels);
    prometheus_label(&labels, label, value);
    prometheus_count(p->out, name, buf_str(&labels), n);
    p->out->failed |= labels.failed;
    buf_fini(&labels);
}

/* --- histograms ----------------------------------------------------------------------------- */

static void put_latencies(const struct report_page *p, const struct metrics *m)
{
    static const struct {
        enum metrics_id id;
        const char *name, *help;
    } families[] = {
        {METRICS_TTFT, "vllm:time_to_first_token_seconds",
         "From a request's first byte to its first content (unstreamed: to its first token)."},
        {METRICS_QUEUE, "vllm:request_queue_time_seconds", "From queued to admitted."},
        {METRICS_ADMITTED, "vllm:request_prefill_time_seconds", "From admitted to first token."},
        {METRICS_ITL, "vllm:inter_token_latency_seconds", "Between two tokens of an answer."},
        {METRICS_TPOT, "vllm:request_time_per_output_token_seconds",
         "Per finished request: from the first token to the end, per token after the first."},
        {METRICS_DECODE, "vllm:request_decode_time_seconds",
         "Per finished request: from the first token to the end."},
        {METRICS_E2E, "vllm:e2e_request_latency_seconds",
         "Per finished request: from its first byte to its last token."},
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        struct histogram_view v;
        metrics_read(m, families[i].id, &v);
        prometheus_family(p->out, families[i].name, "histogram", families[i].help);
        prometheus_histogram(p->out, families[i].name, p->labels, &v);
    }
}

static void put_parts(const struct report_page *p, const struct metrics *m)
{
    const char *name = "firstlight_ttft_part_seconds";
    prometheus_family(p->out, name, "histogram",
                      "The parts that time to first token is the sum of.");
    for (int id = 0; id < METRICS_PARTS; id++) {
        struct histogram_view v;
        struct buf labels = {0};
        metrics_read(m, (enum metrics_id)id, &v);
        buf_puts(&labels, p->labels);
        prometheus_label(&labels, "part", metrics_name((enum metrics_id)id));
        prometheus_histogram(p->out, name, buf_str(&labels), &v);
        p->out->failed |= labels.failed;
        buf_fini(&labels);
    }
}

static void put_steps(const struct report_page *p, const struct engine *e)
{
    struct engine_step_stats steps;
    engine_step_stats(e, &steps);
    prometheus_family(p->out, "firstlight_step_seconds", "histogram", "Time of an engine step.");
    prometheus_histogram(p->out, "firstlight_step_seconds", p->labels, &steps.time);
    prometheus_family(p->out, "firstlight_step_prediction_error_ratio", "histogram",
                      "How far off the predicted time of a step was, as a share of the actual.");
    prometheus_histogram(p->out, "firstlight_step_prediction_error_ratio", p->labels, &steps.error);
}

/* --- counts and levels ---------------------------------------------------------------------- */

static void put_finished(const struct report_page *p, const struct metrics *m)
{
    const char *name = "vllm:request_success_total";
    prometheus_family(p->out, name, "counter", "Requests that ended, by the reason.");
    for (int i = FINISH_STOP; i <= FINISH_ERROR; i++)
        labelled(p, name, "finished_reason", metrics_finish_name((enum finish_reason)i),
                 m->finished[i]);
}

static void put_refused(const struct report_page *p, int http_status, const char *reason,
                        uint64_t n)
{
    struct buf labels = {0};
    char status[12];
    snprintf(status, sizeof status, "%d", http_status);
    buf_puts(&labels, p->labels);
    prometheus_label(&labels, "status", status);
    prometheus_label(&labels, "reason", reason);
    prometheus_count(p->out, "firstlight_requests_refused_total", buf_str(&labels), n);
    p->out->failed |= labels.failed;
    buf_fini(&labels);
}

static void put_refusals(const struct report_page *p, const struct server_view *v)
{
    const struct metrics *m = v->metrics;
    prometheus_family(p->out, "firstlight_requests_refused_total", "counter",
                      "Requests that were not taken, by status and why.");
    for (uint32_t i = 0; i < m->n_refusals; i++)
        put_refused(p, m->refusals[i].http_status, m->refusals[i].reason, m->refusals[i].n);
    put_refused(p, 503, http_code_memory, v->request_memory.refused + v->stream_memory.refused);
    put_refused(p, 503, "unsent_memory", v->unsent_memory.refused);
}

static void put_load(const struct report_page *p, const struct engine_stats *s)
{
    double total = s->kv_blocks_total;
    gauge(p, "vllm:num_requests_running", "Requests admitted.", s->running);
    gauge(p, "vllm:num_requests_waiting", "Requests waiting to be admitted.", s->waiting);
    gauge(p, "firstlight_backlog_tokens", "Prompt tokens still to be computed.",
          (double)s->backlog_tokens);
    gauge(p, "vllm:kv_cache_usage_perc", "KV blocks in use, as a share of all.",
          total > 0 ? 1 - s->kv_blocks_free / total : 0);
    gauge(p, "firstlight_kv_blocks", "KV blocks there are.", total);
    gauge(p, "firstlight_kv_blocks_free", "KV blocks that nobody uses.", s->kv_blocks_free);
    gauge(p, "firstlight_kv_blocks_cached", "Free KV blocks that are kept for prompts to come.",
          s->kv_blocks_cached);
}

static void put_tokens(const struct report_page *p, const struct metrics *m,
                       const struct engine_stats *s)
{
    counter(p, "vllm:prompt_tokens_total", "Prompt tokens of requests with a first token.",
            m->prompt_tokens);
    counter(p, "firstlight_prompt_tokens_cached_total", "Of these, found in the prefix cache.",
            m->cached_tokens);
    counter(p, "firstlight_prompt_tokens_computed_total",
            "Tokens that prefill has computed, those after a preemption too.", s->prompt_tokens);
    counter(p, "vllm:generation_tokens_total", "Tokens generated.", s->generated_tokens);
    gauge(p, "firstlight_prompt_tokens_per_second",
          "Prompt tokens computed, a moving average of 10 seconds.", m->prompt_rate.per_second);
    gauge(p, "firstlight_generation_tokens_per_second",
          "Tokens generated, a moving average of 10 seconds.", m->generated_rate.per_second);
}

static void put_engine(const struct report_page *p, const struct engine_info *info,
                       const struct engine_stats *s)
{
    counter(p, "vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
            s->prefix_queried);
    counter(p, "vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
            s->prefix_hit);
    counter(p, "firstlight_prefix_cache_evictions_total", "KV blocks dropped from the cache.",
            s->prefix_evicted);
    counter(p, "vllm:num_preemptions_total", "Requests put back for want of KV blocks.",
            s->preempted);
    counter(p, "firstlight_steps_total", "Engine steps begun.", s->steps);
    counter(p, "firstlight_steps_parked_total", "Times that a step stood aside for another.",
            s->parked);
    gauge(p, "firstlight_decode_gap_promised_seconds",
          "Between two tokens of a stream at most; 0: nothing is promised.",
          (double)info->decode_gap_us / 1e6);
    counter(p, "firstlight_gap_missed_total",
            "Steps whose decodes alone take longer than the promised gap.", s->gap_missed);
    prometheus_family(p->out, "firstlight_engine_busy_seconds_total", "counter",
                      "Time that the engine thread spent in steps.");
    prometheus_value(p->out, "firstlight_engine_busy_seconds_total", p->labels,
                     (double)s->busy_us / 1e6);
}

static void put_utilisation(const struct report_page *p, const struct metrics *m)
{
    double capacity = m->workers_capacity.per_second;
    gauge(p, "firstlight_engine_utilisation",
          "Share of time that steps were running, a moving average of 10 seconds.",
          m->engine_busy.per_second);
    gauge(p, "firstlight_workers_utilisation",
          "Share of the workers' time that they computed in, a moving average of 10 seconds.",
          capacity > 0 ? m->workers_busy.per_second / capacity : 0);
}

static void put_server(const struct report_page *p, const struct server_view *v)
{
    gauge(p, "firstlight_ready", "1 while requests are taken.", v->ready);
    gauge(p, "firstlight_connections", "Open connections.", v->connections);
    gauge(p, "process_start_time_seconds", "When the server started, in seconds since 1970.",
          (double)v->start_unix_s);
    counter(p, "firstlight_log_lines_dropped_total",
            "Log lines lost because nobody read them in time.", log_writer_dropped());
    put_refusals(p, v);
    gauge(p, "firstlight_unsent_memory_bytes", "Of answers that clients have not taken.",
          (double)v->unsent_memory.held);
    gauge(p, "firstlight_unsent_memory_most_bytes", "And at most (--max-unsent-memory).",
          (double)v->unsent_memory.most);
    gauge(p, "firstlight_request_memory_bytes", "Held by bodies of requests until they are tokens.",
          (double)v->request_memory.held);
    gauge(p, "firstlight_request_memory_most_bytes", "And at most (--max-request-memory).",
          (double)v->request_memory.most);
    gauge(p, "firstlight_stream_memory_bytes",
          "Held by HTTP/2's streams, their headers, and bodies that need no key.",
          (double)v->stream_memory.held);
    gauge(p, "firstlight_stream_memory_most_bytes", "And at most (as --max-request-memory).",
          (double)v->stream_memory.most);
    const char *name = "firstlight_connections_refused_total";
    prometheus_family(p->out, name, "counter",
                      "Requests refused for their framing or pace, and connections too many.");
    for (uint32_t i = 0; i < v->n_refusals; i++) {
        char status[12];
        snprintf(status, sizeof status, "%d", v->refusals[i].http_status);
        labelled(p, name, "status", status, v->refusals[i].n);
    }
}

void metrics_page(const struct server_view *v, struct buf *out)
{
    struct buf labels = {0};
    bool loaded = v->engine != NULL;
    if (loaded)
        prometheus_label(&labels, "model_name", v->model_name);
    const struct report_page p = {out, buf_str(&labels)};
    put_server(&p, v);
    if (loaded) {
        put_load(&p, &v->stats);
        put_finished(&p, v->metrics);
        put_tokens(&p, v->metrics, &v->stats);
        put_engine(&p, &v->info, &v->stats);
        put_utilisation(&p, v->metrics);
        put_latencies(&p, v->metrics);
        put_parts(&p, v->metrics);
        put_steps(&p, v->engine);
    }
    out->failed |= labels.failed;
    buf_fini(&labels);
}
