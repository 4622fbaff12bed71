#include "bench/load/measure.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/* --- running -------------------------------------------------------------------------------- */

struct job {
    struct target *target;
    measure_make *make;
    void *make_arg;
    const struct workload_options *options; /* of the background's prompts; may be NULL */
    uint32_t max_concurrency;
    const struct measure_options *o;
    const struct machine *machine; /* to try before a run; NULL: is not tried */
    uint32_t run;                  /* the one under way, warm-ups first */
    uint32_t start;                /* of the target */
};

static uint32_t count_runs(const struct measure_options *o)
{
    uint32_t warmed = o->restart ? o->repeat_runs : 1; /* starts with warm-ups of their own */
    return warmed * o->warmup_runs + o->repeat_runs;
}

static void measure_report(void *arg, uint32_t ended, uint32_t failed, uint32_t n)
{
    const struct job *job = arg;
    const struct measure_options *o = job->o;
    o->progress(o->arg, job->run, count_runs(o), ended, failed, n);
}

static enum status load_one(struct job *job, const struct workload *w, struct load_result *out,
                            struct err *err)
{
    const struct load_options options = {
        .max_concurrency = job->max_concurrency,
        .n_background = job->options ? job->options->background : 0,
        .background_of = job->options,
        .stop = job->o->stop,
        .progress = job->o->progress ? measure_report : NULL,
        .arg = job,
    };
    return load_run(job->target, w, &options, out, err);
}

static enum status load_made(struct job *job, struct load_result *out, struct err *err)
{
    struct workload w = {0};
    enum status status = job->make(job->make_arg, job->o->first_run + job->run, &w, err);
    if (status == STATUS_OK)
        status = load_one(job, &w, out, err);
    workload_fini(&w);
    return status;
}

/* The same, and what the machine did. */
static enum status load_watched(struct job *job, struct load_result *out, struct err *err)
{
    struct machine_run machine = {.speed = {NAN, NAN}};
    if (job->machine)
        machine.speed = machine_try(job->machine);
    struct machine_time before = machine_time();
    enum status status = load_made(job, out, err);
    machine.stolen_percent = machine_stolen(before, machine_time());
    out->machine = machine;
    out->start = job->start;
    return status;
}

/* On success *m owns what *result held. */
static enum status measure_append(struct measurement *m, const struct load_result *result,
                                  struct err *err)
{
    struct load_result *runs = mem_resize(m->runs, (m->n_runs + 1) * sizeof *runs);
    if (!runs)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u runs", m->n_runs + 1);
    runs[m->n_runs++] = *result;
    m->runs = runs;
    return STATUS_OK;
}

/* job->run; its figures are appended to *out, or thrown away where that is NULL. */
static enum status measure_run_one(struct job *job, struct measurement *out, struct err *err)
{
    struct load_result result = {0};
    enum status status = load_watched(job, &result, err);
    if (status == STATUS_OK && !out && result.interrupted)
        status = err_set(err, STATUS_CANCELLED, "interrupted before anything was measured");
    if (status == STATUS_OK && out)
        status = measure_append(out, &result, err);
    if (status != STATUS_OK || !out)
        load_fini(&result);
    return status;
}

static enum status measure_warm_up(struct job *job, struct err *err)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < job->o->warmup_runs && status == STATUS_OK; i++, job->run++)
        status = measure_run_one(job, NULL, err);
    return status;
}

static enum status restart(struct job *job, struct err *err)
{
    const struct measure_options *o = job->o;
    if (o->stop && atomic_load(o->stop))
        return err_set(err, STATUS_CANCELLED, "interrupted between two repeats");
    job->start++;
    enum status status = o->restart(o->restart_arg, &job->target, err);
    return status == STATUS_OK ? measure_warm_up(job, err) : status;
}

/* The repeats after the first. An interruption between two of them leaves those before it. */
static enum status run_others(struct job *job, struct measurement *out, struct err *err)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && out->n_runs < job->o->repeat_runs &&
           !out->runs[out->n_runs - 1].interrupted) {
        if (job->o->restart)
            status = restart(job, err);
        if (status == STATUS_OK)
            status = measure_run_one(job, out, err);
        job->run++;
    }
    return status == STATUS_CANCELLED ? STATUS_OK : status;
}

static enum status measure_measure(struct job *job, struct measurement *out, struct err *err)
{
    struct machine machine;
    *out = (struct measurement){0};
    machine_open(&machine);
    job->machine = &machine;
    enum status status = measure_warm_up(job, err);
    if (status == STATUS_OK)
        status = measure_run_one(job, out, err);
    job->run++;
    if (status == STATUS_OK)
        status = run_others(job, out, err);
    machine_close(&machine);
    if (!measure_pool(out, job->o->goodput))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the figures of %u runs", out->n_runs);
    return status;
}

/* measure_make for a struct job. */
static enum status make_of_options(void *arg, uint32_t run, struct workload *out, struct err *err)
{
    const struct job *job = arg;
    return workload_make(out, job->options, job->o->tokenizer, run, err);
}

static void init_job(struct job *job, struct target *t, const struct workload_options *w,
                     const struct measure_options *o)
{
    *job = (struct job){
        .target = t,
        .make = make_of_options,
        .make_arg = job,
        .options = w,
        .max_concurrency = w->max_concurrency,
        .o = o,
    };
}

enum status measure_one(struct target *t, const struct workload_options *w,
                        const struct measure_options *o, uint32_t run, struct measurement *out,
                        struct err *err)
{
    struct job job;
    init_job(&job, t, w, o);
    job.run = run;
    return measure_run_one(&job, out, err);
}

bool measure_pool(struct measurement *m, const struct goodput *goodput)
{
    summary_fini(&m->pooled);
    return m->n_runs == 0 || summary_make(&m->pooled, m->runs, m->n_runs, goodput);
}

enum status measure_run(struct target *t, const struct workload_options *w,
                        const struct measure_options *o, struct measurement *out, struct err *err)
{
    struct job job;
    init_job(&job, t, w, o);
    return measure_measure(&job, out, err);
}

enum status measure_made(struct target *t, measure_make *make, void *make_arg,
                         uint32_t max_concurrency, const struct measure_options *o,
                         struct measurement *out, struct err *err)
{
    struct job job = {.target = t,
                      .make = make,
                      .make_arg = make_arg,
                      .max_concurrency = max_concurrency,
                      .o = o};
    return measure_measure(&job, out, err);
}

void measure_fini(struct measurement *m)
{
    for (uint32_t i = 0; i < m->n_runs; i++)
        load_fini(&m->runs[i]);
    mem_free(m->runs);
    summary_fini(&m->pooled);
    *m = (struct measurement){0};
}

bool measure_failed(const struct measurement *m, struct err *err)
{
    uint32_t n = 0, failed = 0, background = 0;
    const char *why = "";
    for (uint32_t i = 0; i < m->n_runs; i++) {
        const struct load_result *run = &m->runs[i];
        n += run->n;
        background += run->background_failed;
        for (uint32_t k = 0; k < run->n; k++)
            if (run->records[k].state == RECORD_FAILED && failed++ == 0)
                why = run->records[k].error;
    }
    if (failed > 0)
        err_set(err, STATUS_UNAVAILABLE, "%u of %u requests failed; the first: %s", failed, n, why);
    else if (background > 0)
        err_set(err, STATUS_UNAVAILABLE, "%u background streams failed", background);
    return failed > 0 || background > 0;
}

/* --- as JSON -------------------------------------------------------------------------------- */

static json_t *at_ms(int64_t at_us, int64_t start_us)
{
    return result_number(at_us > 0 ? (double)(at_us - start_us) / 1e3 : NAN);
}

static const char *state_name(enum record_state state)
{
    switch (state) {
    case RECORD_UNSENT:
        return "unsent";
    case RECORD_RUNNING:
        return "running";
    case RECORD_OK:
        return "ok";
    case RECORD_FAILED:
        return "failed";
    case RECORD_CANCELLED:
        return "cancelled";
    }
    return "";
}

static json_t *measure_ttft_json(const struct record *r)
{
    const struct timeline_ttft *t = &r->ttft;
    if (!r->has_ttft)
        return json_null();
    return json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "receive_ms", (double)t->receive_us / 1e3,
        "tokenize_ms", (double)t->tokenize_us / 1e3, "submit_ms", (double)t->submit_us / 1e3,
        "queue_ms", (double)t->queue_us / 1e3, "cache_ms", (double)t->cache_us / 1e3, "prefill_ms",
        (double)t->prefill_us / 1e3, "decode_ms", (double)t->decode_us / 1e3, "first_write_ms",
        (double)t->first_write_us / 1e3, "total_ms", (double)t->total_us / 1e3);
}

static json_t *chunks_json(const struct record *r, int64_t start_us)
{
    json_t *list = json_array();
    int bad = 0;
    for (uint32_t i = 0; i < r->n_chunks; i++)
        bad |= json_array_append_new(list, at_ms(r->chunk_us[i], start_us));
    return result_whole(list, bad);
}

static json_t *some(uint64_t n)
{
    return n > 0 ? json_integer((json_int_t)n) : json_null();
}

static json_t *request_json(const struct record *r, int64_t start_us)
{
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o}",
        "due_ms", at_ms(r->due_us, start_us), "sent_ms", at_ms(r->sent_us, start_us), "accepted_ms",
        at_ms(r->accepted_us, start_us), "first_ms", at_ms(r->first_us, start_us), "end_ms",
        at_ms(r->end_us, start_us), "state", state_name(r->state), "error",
        r->error[0] ? result_text(r->error) : json_null(), "http_status",
        r->http_status ? json_integer(r->http_status) : json_null(), "prompt_tokens",
        (json_int_t)r->prompt_tokens, "completion_tokens", (json_int_t)r->completion_tokens,
        "cached_tokens", (json_int_t)r->cached_tokens, "messages", some(r->n_messages),
        "payload_bytes", some(r->payload_bytes), "finish",
        r->finish[0] ? result_text(r->finish) : json_null(), "ttft", measure_ttft_json(r),
        "server_ttft_ms", result_number(r->server_ttft_ms), "server_queue_ms",
        result_number(r->server_queue_ms), "chunks_ms", chunks_json(r, start_us));
}

static json_t *requests_json(const struct load_result *run)
{
    json_t *list = json_array();
    int bad = list == NULL;
    for (uint32_t i = 0; i < run->n && !bad; i++)
        bad = json_array_append_new(list, request_json(&run->records[i], run->start_us));
    return result_whole(list, bad);
}

static json_t *generator_json(struct load_generator *g)
{
    return json_pack("{s:o, s:o, s:o, s:b, s:s}", "lag_ms", result_spread(&g->lag_ms), "turn_ms",
                     result_spread(&g->turn_ms), "cpu_share", result_number(g->cpu_share),
                     "bottleneck", g->bottleneck, "why", g->why);
}

static json_t *background_json(const struct load_result *run)
{
    return json_pack("{s:o, s:I}", "gaps_ms", result_numbers(&run->background_gap_ms), "failed",
                     (json_int_t)run->background_failed);
}

static json_t *distributions_json(struct summary *s)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "add_request",
                     result_spread(&s->add_request), "queue", result_spread(&s->queue), "prefill",
                     result_spread(&s->prefill), "decode", result_spread(&s->decode), "ttft",
                     result_spread(&s->ttft), "tpot", result_spread(&s->tpot), "itl",
                     result_spread(&s->itl), "latency", result_spread(&s->latency),
                     "client_minus_server", result_spread(&s->client_minus_server),
                     "background_gap", result_spread(&s->background_gap));
}

static json_t *machine_json(const struct machine_run *m)
{
    return json_pack("{s:o, s:o, s:o}", "arithmetic", result_number(m->speed.arithmetic), "reading",
                     result_number(m->speed.reading), "stolen_percent",
                     result_number(m->stolen_percent));
}

/* Null where there is no wire. */
static json_t *measure_traffic(const struct summary *s, uint64_t n)
{
    return s->on_wire ? json_integer((json_int_t)n) : json_null();
}

static json_t *measure_own_run_json(struct load_result *run, struct summary *s)
{
    return json_pack(
        "{s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:b, "
        "s:o, s:o, s:o, s:o, s:o}",
        "start", (json_int_t)run->start, "start_us", (json_int_t)run->start_us, "duration_s",
        result_number(s->duration_s), "submit_wall_ms", result_number(s->submit_wall_ms), "n",
        (json_int_t)s->n, "completed", (json_int_t)s->completed, "failed", (json_int_t)s->failed,
        "cancelled", (json_int_t)s->cancelled, "without_content", (json_int_t)s->without_content,
        "uncounted", (json_int_t)s->uncounted, "prompt_tokens", (json_int_t)s->prompt_tokens,
        "completion_tokens", (json_int_t)s->completion_tokens, "cached_tokens",
        (json_int_t)s->cached_tokens, "messages", measure_traffic(s, s->messages), "payload_bytes",
        measure_traffic(s, s->payload_bytes), "received_bytes",
        measure_traffic(s, s->received_bytes), "interrupted", run->interrupted, "machine",
        machine_json(&run->machine), "distributions", distributions_json(s), "generator",
        generator_json(&run->generator), "requests", requests_json(run), "background",
        background_json(run));
}

json_t *measure_run_json(struct load_result *run, const struct goodput *goodput)
{
    struct summary s = {0};
    json_t *json = summary_make(&s, run, 1, goodput) ? measure_own_run_json(run, &s) : NULL;
    summary_fini(&s);
    return json;
}

/* --- metrics -------------------------------------------------------------------------------- */

static void measure_add_metrics(struct summary *s, struct result *out)
{
    result_metric_series(out, "ttft", &s->ttft);
    result_metric_series(out, "tpot", &s->tpot);
    result_metric_series(out, "itl", &s->itl);
    result_metric_series(out, "latency", &s->latency);
    result_metric_series(out, "queue", &s->queue);
    result_metric_series(out, "prefill", &s->prefill);
    result_metric_series(out, "add_request", &s->add_request);
    result_metric_series(out, "background_gap", &s->background_gap);
    result_metric(out, "tokens_per_s", "tokens/s", RESULT_HIGHER, s->output_throughput);
    result_metric(out, "messages_per_token", "1", RESULT_LOWER, s->messages_per_token);
    result_metric(out, "payload_per_token", "B", RESULT_LOWER, s->payload_per_token);
    result_metric(out, "received_per_token", "B", RESULT_LOWER, s->received_per_token);
    result_metric(out, "requests_per_s", "1/s", RESULT_HIGHER, s->request_throughput);
    result_metric(out, "failures", "1", RESULT_LOWER, s->failed);
    if (s->has_goodput)
        result_metric(out, "goodput_per_s", "1/s", RESULT_HIGHER, s->request_goodput);
}

/* --- under the names of `vllm bench serve --save-result` ------------------------------------- */

static void set_int(struct result *out, const char *key, uint64_t value)
{
    result_set(out, key, json_integer((json_int_t)value));
}

static void set_statistics(struct result *out, const char *name, struct series *s)
{
    const struct spread spread = series_spread(s);
    const struct {
        const char *what;
        double value;
    } rows[] = {
        {"mean", spread.mean}, {"median", spread.p50}, {"std", spread.sd},  {"p50", spread.p50},
        {"p90", spread.p90},   {"p95", spread.p95},    {"p99", spread.p99},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s_%s_ms", rows[i].what, name);
        result_set(out, key, result_number(rows[i].value));
    }
}

/* Seconds between chunks. */
static json_t *gaps_json(const struct record *r)
{
    json_t *list = json_array();
    int bad = 0;
    for (uint32_t i = 1; i < r->n_chunks; i++)
        bad |= json_array_append_new(
            list, json_real((double)(r->chunk_us[i] - r->chunk_us[i - 1]) / 1e6));
    return result_whole(list, bad);
}

/* One entry a request, as vLLM has it: 0 and "" where there is none. */
static void set_lists(const struct measurement *m, struct result *out)
{
    json_t *inputs = json_array(), *outputs = json_array(), *ttfts = json_array();
    json_t *itls = json_array(), *errors = json_array();
    int bad = 0;
    for (uint32_t i = 0; i < m->n_runs; i++) {
        for (uint32_t k = 0; k < m->runs[i].n; k++) {
            const struct record *r = &m->runs[i].records[k];
            double ttft = record_ttft_ms(r);
            bad |= json_array_append_new(inputs, json_integer(r->prompt_tokens));
            bad |= json_array_append_new(outputs, json_integer(r->completion_tokens));
            bad |= json_array_append_new(ttfts, json_real(isnan(ttft) ? 0 : ttft / 1e3));
            bad |= json_array_append_new(itls, gaps_json(r));
            bad |= json_array_append_new(errors, result_text(r->error));
        }
    }
    out->failed |= bad != 0;
    result_set(out, "input_lens", inputs);
    result_set(out, "output_lens", outputs);
    result_set(out, "ttfts", ttfts);
    result_set(out, "itls", itls);
    result_set(out, "errors", errors);
}

static const char *backend_of(const char *target)
{
    if (strcmp(target, "in-process") == 0)
        return "firstlight";
    return strncasecmp(target, "grpc:", 5) == 0 ? "grpc" : "openai";
}

/* What was asked, from the result's own blocks. */
static void set_question(struct result *out)
{
    json_t *workload = json_object_get(out->root, "workload");
    json_t *environment = json_object_get(out->root, "environment");
    json_t *rate = json_object_get(workload, "request_rate");
    json_t *model = json_object_get(environment, "model");
    json_t *burstiness = json_object_get(workload, "burstiness");
    json_t *most = json_object_get(workload, "max_concurrency");
    const char *target = json_string_value(json_object_get(environment, "target"));
    result_set(out, "backend", json_string(backend_of(target ? target : "")));
    result_set(out, "model_id", model ? json_incref(model) : json_null());
    result_set(out, "request_rate",
               json_number_value(rate) > 0 ? json_incref(rate) : json_string("inf"));
    result_set(out, "burstiness", burstiness ? json_incref(burstiness) : json_real(1));
    result_set(out, "max_concurrency",
               json_integer_value(most) > 0 ? json_incref(most) : json_null());
}

static void set_vllm(struct measurement *m, struct result *out)
{
    struct summary *s = &m->pooled;
    set_question(out);
    set_int(out, "num_prompts", s->n);
    set_int(out, "completed", s->completed);
    set_int(out, "failed", s->failed);
    set_int(out, "total_input_tokens", s->prompt_tokens);
    set_int(out, "total_output_tokens", s->completion_tokens);
    result_set(out, "duration", result_number(s->duration_s));
    result_set(out, "request_throughput", result_number(s->request_throughput));
    result_set(out, "request_goodput",
               s->has_goodput ? result_number(s->request_goodput) : json_null());
    result_set(out, "output_throughput", result_number(s->output_throughput));
    result_set(out, "total_token_throughput", result_number(s->total_throughput));
    set_statistics(out, "ttft", &s->ttft);
    set_statistics(out, "tpot", &s->tpot);
    set_statistics(out, "itl", &s->itl);
    set_statistics(out, "e2el", &s->latency);
    set_lists(m, out);
}

void measure_result(struct measurement *m, const struct goodput *goodput, struct result *out)
{
    for (uint32_t i = 0; i < m->n_runs; i++) {
        struct summary s = {0};
        if (summary_make(&s, &m->runs[i], 1, goodput)) {
            measure_add_metrics(&s, out);
            result_add_run(out, measure_own_run_json(&m->runs[i], &s));
        } else {
            out->failed = true;
        }
        summary_fini(&s);
    }
    set_vllm(m, out);
}
