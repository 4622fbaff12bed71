#include "bench/kinds/streaming_table.h"

#include "bench/load/load_table.h"
#include "bench/result/table.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define LABEL 26 /* columns */

static void label(struct buf *out, const char *name)
{
    buf_printf(out, "%-*s", LABEL, name);
}

static void line(struct buf *out, const char *name, const char *text)
{
    label(out, name);
    buf_printf(out, "%s\n", text);
}

static void percentiles(struct buf *out, const char *name, struct series *s)
{
    label(out, name);
    buf_printf(out, "%12s %12s %12s\n", table_cell(series_percentile(s, 50)).text,
               table_cell(series_percentile(s, 95)).text,
               table_cell(series_percentile(s, 99)).text);
}

static void more(struct buf *out, uint32_t n, const char *what)
{
    if (n > 0)
        buf_printf(out, ", %u %s", n, what);
}

/* --- what was asked ------------------------------------------------------------------------- */

static void batch(struct buf *out, const struct streaming_setup *setup)
{
    label(out, "batch settings");
    if (!setup->in_process) {
        buf_puts(out, "n/a\n");
    } else if (setup->sync) {
        buf_puts(out, "one request at a time\n");
    } else {
        buf_printf(out, "%u requests", setup->max_batch);
        more(out, setup->prefill_batch, "prompts a step");
        more(out, setup->prefill_tokens, "prompt tokens a step");
        buf_putc(out, '\n');
    }
}

static void question(struct buf *out, const struct streaming_setup *setup)
{
    line(out, "model", setup->model);
    line(out, "device and engine", setup->engine);
    label(out, "paged attention");
    if (setup->in_process)
        buf_printf(out, "on, blocks of %u positions\n", (unsigned)KV_BLOCK);
    else
        buf_puts(out, "n/a\n");
    batch(out, setup);
}

/* --- the answer ----------------------------------------------------------------------------- */

static void streaming_table_requests(struct buf *out, const struct summary *s, uint32_t n_runs)
{
    label(out, "requests");
    buf_printf(out, "%u", s->n);
    if (n_runs > 1)
        buf_printf(out, " in %u runs", n_runs);
    buf_printf(out, ": %u completed, %u failed", s->completed, s->failed);
    more(out, s->cancelled, "cancelled");
    more(out, s->without_content, "without content");
    buf_putc(out, '\n');
}

/* Totals of all repeats; a server that counts no tokens leaves them unknown. */
static void tokens(struct buf *out, const char *name, uint64_t n, const struct summary *s,
                   uint64_t n_noted, const char *note)
{
    label(out, name);
    if (n == 0 && s->completed > 0)
        buf_puts(out, "n/a");
    else
        buf_printf(out, "%" PRIu64, n);
    if (n_noted > 0)
        buf_printf(out, " (%" PRIu64 " %s)", n_noted, note);
    buf_putc(out, '\n');
}

static void streaming_table_traffic(struct buf *out, const struct summary *s)
{
    label(out, "messages");
    if (isnan(s->messages_per_token)) {
        buf_puts(out, "n/a\n");
        return;
    }
    buf_printf(out, "%" PRIu64 ": %s a token, %s bytes in them", s->messages,
               table_cell(s->messages_per_token).text, table_cell(s->payload_per_token).text);
    if (!isnan(s->received_per_token))
        buf_printf(out, ", %s received", table_cell(s->received_per_token).text);
    buf_putc(out, '\n');
}

static void totals(struct buf *out, const struct measurement *m)
{
    const struct summary *s = &m->pooled;
    streaming_table_requests(out, s, m->n_runs);
    tokens(out, "prompt tokens", s->prompt_tokens, s, s->cached_tokens, "from a prefix cache");
    tokens(out, "completion tokens", s->completion_tokens, s, s->uncounted,
           "answers by their chunks: the server counted no tokens");
    streaming_table_traffic(out, s);
    label(out, "submit wall");
    buf_printf(out, "%s ms%s\n", table_cell(s->submit_wall_ms / m->n_runs).text,
               m->n_runs > 1 ? " (mean of the repeats)" : "");
}

static void times(struct buf *out, struct summary *s)
{
    label(out, "milliseconds");
    buf_printf(out, "%12s %12s %12s\n", "p50", "p95", "p99");
    percentiles(out, "add_request latency", &s->add_request);
    percentiles(out, "queue wait", &s->queue);
    percentiles(out, "prefill->first token", &s->prefill);
    percentiles(out, "TTFT", &s->ttft);
    percentiles(out, "TPOT", &s->tpot);
    percentiles(out, "ITL", &s->itl);
    percentiles(out, "latency", &s->latency);
}

static void objective(struct buf *out, const char *name, double ms)
{
    if (ms > 0)
        buf_printf(out, " %s<=%g", name, ms);
}

static void rates(struct buf *out, const struct summary *s, const struct goodput *goodput)
{
    label(out, "throughput");
    if (isnan(s->request_throughput))
        buf_puts(out, "n/a\n");
    else
        buf_printf(out, "%s tokens/s, %s requests/s\n", table_cell(s->output_throughput).text,
                   table_cell(s->request_throughput).text);
    label(out, "goodput");
    if (!goodput || !s->has_goodput) {
        buf_puts(out, "n/a (no --goodput)\n");
        return;
    }
    buf_printf(out, "%s requests/s, %u of %u with", table_cell(s->request_goodput).text, s->good,
               s->n);
    objective(out, "ttft", goodput->ttft_ms);
    objective(out, "tpot", goodput->tpot_ms);
    objective(out, "e2el", goodput->e2el_ms);
    buf_puts(out, " ms\n");
}

/* --- how far to trust it -------------------------------------------------------------------- */

static void background(struct buf *out, struct measurement *m)
{
    struct series *gaps = &m->pooled.background_gap;
    uint32_t failed = 0;
    for (uint32_t i = 0; i < m->n_runs; i++)
        failed += m->runs[i].background_failed;
    if (gaps->n > 0)
        percentiles(out, "background gaps", gaps);
    if (failed > 0) {
        label(out, gaps->n > 0 ? "" : "background gaps");
        buf_printf(out, "%u background streams failed\n", failed);
    }
}

/* --- the spread of the repeats -------------------------------------------------------------- */

struct medians {
    struct series ttft, tpot, latency, tokens_per_s;
};

static void spread(struct buf *out, const char *name, struct series *s, const char *unit)
{
    label(out, name);
    buf_printf(out, "%s (%s to %s) %s\n", table_cell(series_percentile(s, 50)).text,
               table_cell(series_percentile(s, 0)).text, table_cell(series_percentile(s, 100)).text,
               unit);
}

static bool add_medians(struct medians *all, const struct load_result *run)
{
    struct summary s = {0};
    bool ok = summary_make(&s, run, 1, NULL);
    if (ok) {
        series_add(&all->ttft, series_percentile(&s.ttft, 50));
        series_add(&all->tpot, series_percentile(&s.tpot, 50));
        series_add(&all->latency, series_percentile(&s.latency, 50));
        series_add(&all->tokens_per_s, s.output_throughput);
    }
    summary_fini(&s);
    return ok;
}

static bool repeats(struct buf *out, const struct measurement *m)
{
    struct medians all = {0};
    bool ok = true;
    for (uint32_t i = 0; i < m->n_runs; i++)
        ok = ok && add_medians(&all, &m->runs[i]);
    buf_printf(out, "\n%u repeats: the median of their medians (lowest to highest)\n", m->n_runs);
    spread(out, "TTFT", &all.ttft, "ms");
    spread(out, "TPOT", &all.tpot, "ms");
    spread(out, "latency", &all.latency, "ms");
    spread(out, "throughput", &all.tokens_per_s, "tokens/s");
    series_fini(&all.ttft);
    series_fini(&all.tpot);
    series_fini(&all.latency);
    series_fini(&all.tokens_per_s);
    return ok;
}

static bool is_interrupted(const struct measurement *m)
{
    return m->n_runs > 0 && m->runs[m->n_runs - 1].interrupted;
}

bool streaming_table(struct buf *out, struct measurement *m, const struct streaming_setup *setup,
                     const struct goodput *goodput)
{
    if (is_interrupted(m))
        buf_printf(out, "INTERRUPTED in run %u of %u: what there was until then\n", m->n_runs,
                   setup->repeat_runs);
    question(out, setup);
    totals(out, m);
    times(out, &m->pooled);
    rates(out, &m->pooled, goodput);
    bool ok = load_table_generator(out, LABEL, m->runs, m->n_runs);
    percentiles(out, "client minus server TTFT", &m->pooled.client_minus_server);
    background(out, m);
    if (m->n_runs > 1)
        ok = repeats(out, m) && ok;
    return ok && !out->failed;
}
