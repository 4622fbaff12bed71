#include "bench/kinds/scheduler_bench.h"

#include "bench/load/load_table.h"
#include "bench/result/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *scheduler_bench_name_of(enum scheduler_bench mode)
{
    return mode == SCHEDULER_BENCH_ONLINE ? "online" : "offline";
}

json_t *scheduler_bench_workload_json(enum scheduler_bench mode, const struct workload_options *w)
{
    json_t *json = workload_json(w);
    if (json && json_object_set_new(json, "mode", json_string(scheduler_bench_name_of(mode)))) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/* --- offline: the passes -------------------------------------------------------------------- */

struct source {
    const struct workload_options *w;
    const struct tokenizer *tokenizer;
};

/* Even passes prefill, odd ones are whole. A pass is a run of its own to workload_make, so that no
 * two have a prompt in common. */
static enum status make_pass(void *arg, uint32_t pass, struct workload *out, struct err *err)
{
    const struct source *s = arg;
    struct workload_options w = *s->w;
    if (pass % 2 == 0)
        w.max_new_tokens = 1;
    return workload_make(out, &w, s->tokenizer, pass, err);
}

enum status scheduler_bench_measure_offline(struct target *t, const struct workload_options *w,
                                            const struct measure_options *m,
                                            struct measurement *out, struct err *err)
{
    *out = (struct measurement){0};
    if (w->prompt_tokens == 0)
        return err_param(err, STATUS_INVALID, "--prompt-tokens",
                         "--prompt-tokens: offline prompts need a length");
    if (w->max_new_tokens < 2)
        return err_param(err, STATUS_INVALID, "--max-new-tokens",
                         "--max-new-tokens: expected 2 or more, or there is no decode to time");
    struct source source = {w, m->tokenizer};
    struct measure_options passes = *m;
    passes.warmup_runs *= 2;
    passes.repeat_runs *= 2;
    return measure_made(t, make_pass, &source, 0, &passes, out, err);
}

/* --- offline: the figures ------------------------------------------------------------------- */

struct pass_sums {
    uint64_t prompt_tokens, completion_tokens;
    double seconds;
};

static bool sum_pass(struct pass_sums *out, const struct load_result *r)
{
    *out = (struct pass_sums){.seconds = (double)(r->end_us - r->start_us) / 1e6};
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->records[i].state != RECORD_OK)
            return false;
        out->prompt_tokens += r->records[i].prompt_tokens;
        out->completion_tokens += r->records[i].completion_tokens;
    }
    return r->n > 0;
}

static double scheduler_bench_rate(uint64_t tokens, double seconds)
{
    return seconds > 0 ? (double)tokens / seconds : NAN;
}

bool scheduler_bench_split(struct scheduler_bench_split *out, const struct load_result *prefill,
                           const struct load_result *whole)
{
    struct pass_sums p, w;
    if (!sum_pass(&p, prefill) || !sum_pass(&w, whole))
        return false;
    *out = (struct scheduler_bench_split){
        .prefill_s = p.seconds,
        .decode_s = w.seconds > p.seconds ? w.seconds - p.seconds : NAN,
        .whole_s = w.seconds,
        .prompt_tokens = p.prompt_tokens,
        .decoded_tokens = w.completion_tokens > whole->n ? w.completion_tokens - whole->n : 0,
        .tokens_per_s = scheduler_bench_rate(w.completion_tokens, w.seconds),
    };
    out->prefill_tokens_per_s = scheduler_bench_rate(out->prompt_tokens, out->prefill_s);
    out->decode_tokens_per_s = scheduler_bench_rate(out->decoded_tokens, out->decode_s);
    return true;
}

/* --- the result ----------------------------------------------------------------------------- */

static json_t *split_json(const struct scheduler_bench_split *s)
{
    return json_pack("{s:o, s:o, s:o, s:I, s:I}", "prefill_s", result_number(s->prefill_s),
                     "decode_s", result_number(s->decode_s), "duration_s",
                     result_number(s->whole_s), "prompt_tokens", (json_int_t)s->prompt_tokens,
                     "decoded_tokens", (json_int_t)s->decoded_tokens);
}

static void offline_result(struct measurement *m, struct result *out)
{
    for (uint32_t i = 0; i + 1 < m->n_runs; i += 2) {
        struct scheduler_bench_split s;
        if (!scheduler_bench_split(&s, &m->runs[i], &m->runs[i + 1]))
            continue;
        result_metric(out, "prefill_s", "s", RESULT_LOWER, s.prefill_s);
        result_metric(out, "decode_s", "s", RESULT_LOWER, s.decode_s);
        result_metric(out, "duration_s", "s", RESULT_LOWER, s.whole_s);
        result_metric(out, "prefill_tokens_per_s", "tokens/s", RESULT_HIGHER,
                      s.prefill_tokens_per_s);
        result_metric(out, "decode_tokens_per_s", "tokens/s", RESULT_HIGHER, s.decode_tokens_per_s);
        result_metric(out, "tokens_per_s", "tokens/s", RESULT_HIGHER, s.tokens_per_s);
        result_add_run(out, split_json(&s));
    }
}

void scheduler_bench_result(enum scheduler_bench mode, struct measurement *m, struct result *out)
{
    if (mode == SCHEDULER_BENCH_ONLINE)
        measure_result(m, NULL, out);
    else
        offline_result(m, out);
}

/* --- the tables ----------------------------------------------------------------------------- */

static void spread_row(struct buf *out, const char *name, struct series *s)
{
    struct spread spread = series_spread(s);
    buf_printf(out, "%-14s", name);
    table_number(out, 10, 1, spread.p50);
    table_number(out, 10, 1, spread.mean);
    buf_putc(out, '\n');
}

static void online_table(struct buf *out, struct summary *s)
{
    buf_printf(out, "%-14s %10s %10s\n", "ms", "p50", "mean");
    spread_row(out, "TTFT", &s->ttft);
    spread_row(out, "TPOT", &s->tpot);
    spread_row(out, "latency", &s->latency);
    buf_printf(out, "\n%-14s", "throughput");
    table_number(out, 10, 2, s->request_throughput);
    buf_puts(out, " requests/s");
    table_number(out, 10, 1, s->output_throughput);
    buf_puts(out, " new tokens/s\n");
}

/* The median over the runs, as the result has it. */
struct offline_series {
    struct series prefill_s, decode_s, whole_s, prefill_rate, decode_rate, whole_rate;
    uint64_t prompt_tokens, decoded_tokens; /* of the last run */
    uint32_t n_requests;
    uint32_t n, n_without_decode; /* runs */
};

static void collect_splits(struct offline_series *o, const struct measurement *m)
{
    for (uint32_t i = 0; i + 1 < m->n_runs; i += 2) {
        struct scheduler_bench_split s;
        if (!scheduler_bench_split(&s, &m->runs[i], &m->runs[i + 1]))
            continue;
        series_add(&o->prefill_s, s.prefill_s);
        series_add(&o->decode_s, s.decode_s);
        series_add(&o->whole_s, s.whole_s);
        series_add(&o->prefill_rate, s.prefill_tokens_per_s);
        series_add(&o->decode_rate, s.decode_tokens_per_s);
        series_add(&o->whole_rate, s.tokens_per_s);
        o->prompt_tokens = s.prompt_tokens;
        o->decoded_tokens = s.decoded_tokens;
        o->n_requests = m->runs[i].n;
        o->n++;
        o->n_without_decode += isnan(s.decode_s);
    }
}

static void offline_row(struct buf *out, const char *name, struct series *seconds, uint64_t tokens,
                        struct series *rate_of)
{
    buf_printf(out, "%-14s", name);
    table_number(out, 10, 3, series_percentile(seconds, 50));
    buf_printf(out, " %10" PRIu64, tokens);
    table_number(out, 10, 1, series_percentile(rate_of, 50));
    buf_putc(out, '\n');
    series_fini(seconds);
    series_fini(rate_of);
}

static void offline_table(struct buf *out, const struct measurement *m)
{
    struct offline_series o = {0};
    collect_splits(&o, m);
    buf_printf(out, "%-14s %10s %10s %10s\n", "median", "seconds", "tokens", "tokens/s");
    offline_row(out, "prefill", &o.prefill_s, o.prompt_tokens, &o.prefill_rate);
    offline_row(out, "decode", &o.decode_s, o.decoded_tokens, &o.decode_rate);
    offline_row(out, "whole run", &o.whole_s, o.decoded_tokens + o.n_requests, &o.whole_rate);
    if (o.n_without_decode > 0)
        buf_printf(out,
                   "\nIn %u of %u runs the pass of one token a request took longer than the whole: "
                   "nothing is\nknown of their decode. Ask for more --max-new-tokens.\n",
                   o.n_without_decode, o.n);
    buf_puts(out, "\nTTFT           n/a: offline, every request is there at once and only the end "
                  "counts\n");
}

static void arrivals(struct buf *out, enum scheduler_bench mode, const struct workload_options *w)
{
    if (mode == SCHEDULER_BENCH_OFFLINE)
        buf_puts(out, "all at once");
    else
        buf_printf(out, "%g a second, burstiness %g", w->request_rate, w->burstiness);
}

void scheduler_bench_table(struct buf *out, enum scheduler_bench mode, struct measurement *m,
                           const struct workload_options *w, const struct target *t)
{
    struct summary *s = &m->pooled;
    buf_printf(out, "mode      %s, the engine without HTTP\n", scheduler_bench_name_of(mode));
    buf_printf(out, "model     %s\nengine    %s\nrequests  %u, ", t->model, t->engine,
               w->num_requests);
    arrivals(out, mode, w);
    buf_puts(out, "; ");
    table_count(out, mode == SCHEDULER_BENCH_OFFLINE ? m->n_runs / 2 : m->n_runs, "run");
    buf_printf(out, "\ntokens    %u of each prompt, %u of each answer\n\n", w->prompt_tokens,
               w->max_new_tokens);
    if (mode == SCHEDULER_BENCH_ONLINE)
        online_table(out, s);
    else
        offline_table(out, m);
    buf_putc(out, '\n');
    if (s->completed < s->n)
        buf_printf(out, "%u of %u requests were not answered%s\n", s->n - s->completed, s->n,
                   s->completed == 0                 ? ""
                   : mode == SCHEDULER_BENCH_OFFLINE ? "; a run that lacks one is left out"
                                                     : "; the figures are of the others");
    out->failed |= !load_table_generator(out, 10, m->runs, m->n_runs);
}
