#include "bench/kinds/simulation.h"

#include "bench/result/table.h"

#include <stdio.h>

json_t *simulation_workload_json(const struct simulation_options *o)
{
    const struct simulate_options *e = &o->engine;
    const struct simulate_machine *m = &e->machine;
    bool trace = o->arrivals == SIMULATION_TRACE;
    return json_pack(
        "{s:s, s:s?, s:I, s:o, s:I, s:o, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:s, s:b,"
        " s:{s:f, s:f, s:f, s:f, s:f, s:f}}",
        "arrivals", simulation_arrivals_names[o->arrivals], "trace_sha256",
        trace ? o->replay->sha256 : NULL, "num_requests",
        (json_int_t)(trace ? o->replay->n : o->num_requests), "request_rate",
        trace ? json_null() : json_real(o->request_rate), "max_new_tokens",
        (json_int_t)o->max_new_tokens, "load", o->speed > 0 ? json_null() : json_real(o->load),
        "speed", o->speed, "trace_speed", o->replay_options.speed, "ttft_ms", o->ttft_ms, "gap_ms",
        o->gap_ms, "kv_blocks", (json_int_t)e->kv_blocks, "max_batch_size",
        (json_int_t)e->engine.max_batch_seqs, "max_requests", (json_int_t)e->engine.n_slots,
        "decode_gap_ms", (json_int_t)e->engine.decode_gap_ms, "seed", (json_int_t)o->seed,
        "profile", e->engine.profile, "prefix_cache", !e->engine.no_prefix_cache, "machine",
        "step_us", m->step_us, "token_us", m->token_us, "pair_us", m->pair_us, "decode_us",
        m->decode_us, "read_us", m->read_us, "noise", m->noise);
}

static void metric(struct result *out, const struct simulation_run *r, const char *name,
                   const char *unit, enum result_better better, double value)
{
    char full[96];
    snprintf(full, sizeof full, "%s_%s", name, r->policy);
    result_metric(out, full, unit, better, value);
}

static double goodput(const struct simulation_run *r)
{
    return r->good / r->duration_s;
}

static double worst(struct series *s)
{
    return series_percentile(s, 100);
}

static json_t *simulation_report_run_json(struct simulation_run *r, uint32_t repeat)
{
    const struct engine_stats *s = &r->stats;
    return json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I,"
        " s:{s:o, s:o, s:o, s:o, s:o}}",
        "policy", r->policy, "repeat", (json_int_t)repeat, "n", (json_int_t)r->n, "refused",
        (json_int_t)r->refused, "good", (json_int_t)r->good, "duration_s", r->duration_s, "speed",
        r->speed, "most_waiting", (json_int_t)r->most_waiting, "steps", (json_int_t)s->steps,
        "parked", (json_int_t)s->parked, "preempted", (json_int_t)s->preempted, "gap_missed",
        (json_int_t)s->gap_missed, "prompt_tokens", (json_int_t)s->prompt_tokens, "cached_tokens",
        (json_int_t)s->prefix_hit, "distributions", "ttft", result_spread(&r->ttft), "queue",
        result_spread(&r->queue), "worst_gap", result_spread(&r->gap), "scheduler",
        result_spread(&r->scheduler), "overhead", result_spread(&r->overhead));
}

void simulation_result(struct simulation_run *r, uint32_t repeat, struct result *out)
{
    metric(out, r, "ttft_p50", "ms", RESULT_LOWER, series_percentile(&r->ttft, 50));
    metric(out, r, "ttft_p95", "ms", RESULT_LOWER, series_percentile(&r->ttft, 95));
    metric(out, r, "ttft_p99", "ms", RESULT_LOWER, series_percentile(&r->ttft, 99));
    metric(out, r, "queue_p99", "ms", RESULT_LOWER, series_percentile(&r->queue, 99));
    metric(out, r, "gap_worst", "ms", RESULT_LOWER, worst(&r->gap));
    metric(out, r, "goodput_per_s", "1/s", RESULT_HIGHER, goodput(r));
    metric(out, r, "scheduler_p50", "ms", RESULT_LOWER, series_percentile(&r->scheduler, 50));
    metric(out, r, "scheduler_p99", "ms", RESULT_LOWER, series_percentile(&r->scheduler, 99));
    result_add_run(out, simulation_report_run_json(r, repeat));
}

void simulation_table_head(struct buf *out, const struct simulation_options *o)
{
    bool trace = o->arrivals == SIMULATION_TRACE;
    buf_printf(out, "arrivals  %s, %u requests", simulation_arrivals_names[o->arrivals],
               trace ? o->replay->n : o->num_requests);
    if (!trace)
        buf_printf(out, ", %g a second", o->request_rate);
    if (!(o->speed > 0))
        buf_printf(out, ", %g of what the machine can do", o->load);
    buf_printf(out, "\ngoodput   TTFT at most %g ms, no gap above %g ms\n", o->ttft_ms, o->gap_ms);
    buf_printf(out, "TTFT and gaps are milliseconds of virtual time, scheduling is microseconds of "
                    "real time\n\n");
    buf_printf(out, "%-10s %9s %9s %9s %9s %9s %8s %8s %8s %8s %8s %8s\n", "policy", "TTFT p50",
               "p95", "p99", "worst gap", "good/s", "refused", "waiting", "parked", "put back",
               "sched50", "sched99");
}

void simulation_table_row(struct buf *out, struct simulation_run *r)
{
    buf_printf(out, "%-10s", r->policy);
    table_number(out, 9, 1, series_percentile(&r->ttft, 50));
    table_number(out, 9, 1, series_percentile(&r->ttft, 95));
    table_number(out, 9, 1, series_percentile(&r->ttft, 99));
    table_number(out, 9, 1, worst(&r->gap));
    table_number(out, 9, 1, goodput(r));
    buf_printf(out, " %8u %8u %8llu %8llu", r->refused, r->most_waiting,
               (unsigned long long)r->stats.parked, (unsigned long long)r->stats.preempted);
    table_number(out, 8, 1, 1e3 * series_percentile(&r->scheduler, 50));
    table_number(out, 8, 1, 1e3 * series_percentile(&r->scheduler, 99));
    buf_putc(out, '\n');
}
