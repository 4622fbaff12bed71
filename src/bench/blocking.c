#include "bench/blocking.h"

#include <math.h>
#include <stdio.h>

#define LABEL 26 /* columns */

static const char *const names[BLOCKING_MODES] = {"blocking", "sync", "streaming"};
static const double percents[] = {50, 90, 95};
#define PERCENTS (sizeof percents / sizeof percents[0])

const char *blocking_mode_name(enum blocking_mode mode)
{
    return names[mode];
}

void blocking_fini(struct blocking *b)
{
    for (int i = 0; i < BLOCKING_MODES; i++)
        measure_fini(&b->of[i]);
    *b = (struct blocking){0};
}

/* --- the table ------------------------------------------------------------------------------ */

/* The last two columns: how many times better the stream is than each baseline. */
enum { WHOLE_RATIO = BLOCKING_MODES, SYNC_RATIO, COLUMNS };

static void row(struct buf *out, const char *label, const double values[COLUMNS])
{
    buf_printf(out, "%-*s", LABEL, label);
    for (int i = 0; i < COLUMNS; i++) {
        if (isnan(values[i]))
            buf_printf(out, " %12s", "n/a");
        else if (i < BLOCKING_MODES)
            buf_printf(out, " %12.1f", values[i]);
        else
            buf_printf(out, " %11.2fx", values[i]);
    }
    buf_putc(out, '\n');
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

static void first_token_row(struct buf *out, struct blocking *b, double percent)
{
    double v[COLUMNS];
    char label[32];
    for (int i = 0; i < BLOCKING_MODES; i++)
        v[i] = b->has[i] ? series_percentile(&b->of[i].pooled.ttft, percent) : NAN;
    v[WHOLE_RATIO] = ratio(v[BLOCKING_WHOLE], v[BLOCKING_STREAM]);
    v[SYNC_RATIO] = ratio(v[BLOCKING_SYNC], v[BLOCKING_STREAM]);
    snprintf(label, sizeof label, "first visible token P%.0f", percent);
    row(out, label, v);
}

static void throughput_row(struct buf *out, const struct blocking *b)
{
    double v[COLUMNS];
    for (int i = 0; i < BLOCKING_MODES; i++)
        v[i] = b->has[i] ? b->of[i].pooled.output_throughput : NAN;
    v[WHOLE_RATIO] = ratio(v[BLOCKING_STREAM], v[BLOCKING_WHOLE]);
    v[SYNC_RATIO] = ratio(v[BLOCKING_STREAM], v[BLOCKING_SYNC]);
    row(out, "throughput, tokens/s", v);
}

static void count_row(struct buf *out, const struct blocking *b)
{
    buf_printf(out, "%-*s", LABEL, "completed of requests");
    for (int i = 0; i < BLOCKING_MODES; i++) {
        const struct summary *s = &b->of[i].pooled;
        char text[32] = "n/a";
        if (b->has[i])
            snprintf(text, sizeof text, "%u/%u", s->completed, s->n);
        buf_printf(out, " %12s", text);
    }
    buf_putc(out, '\n');
}

static void generators(struct buf *out, const struct blocking *b)
{
    for (int i = 0; i < BLOCKING_MODES; i++) {
        for (uint32_t k = 0; k < b->of[i].n_runs; k++) {
            const struct load_generator *g = &b->of[i].runs[k].generator;
            if (g->bottleneck)
                buf_printf(out, "%s, run %u: THE BOTTLENECK WAS THE GENERATOR: %s\n", names[i],
                           k + 1, g->why);
        }
    }
}

bool blocking_table(struct buf *out, struct blocking *b)
{
    buf_printf(out, "%-*s %12s %12s %12s %25s\n", LABEL, "", "stream off", "cpu-sync", "streaming",
               "improvement over");
    buf_printf(out, "%-*s %12s %12s %12s %12s %12s\n", LABEL, "milliseconds", "", "", "",
               "stream off", "cpu-sync");
    for (size_t i = 0; i < PERCENTS; i++)
        first_token_row(out, b, percents[i]);
    throughput_row(out, b);
    count_row(out, b);
    generators(out, b);
    return !out->failed;
}

/* --- the result ----------------------------------------------------------------------------- */

/* What one repeat of one mode comes to. */
struct figures {
    double ttft[PERCENTS];
    double tokens_per_s;
};

static bool make_figures(struct figures *out, const struct load_result *run)
{
    struct summary s = {0};
    bool ok = summary_make(&s, run, 1, NULL);
    for (size_t i = 0; i < PERCENTS; i++)
        out->ttft[i] = series_percentile(&s.ttft, percents[i]);
    out->tokens_per_s = s.output_throughput;
    summary_fini(&s);
    return ok;
}

static void add_figures(struct result *out, const char *mode, const struct figures *f)
{
    char name[64];
    for (size_t i = 0; i < PERCENTS; i++) {
        snprintf(name, sizeof name, "%s_ttft_p%.0f", mode, percents[i]);
        result_metric(out, name, "ms", RESULT_LOWER, f->ttft[i]);
    }
    snprintf(name, sizeof name, "%s_tokens_per_s", mode);
    result_metric(out, name, "tokens/s", RESULT_HIGHER, f->tokens_per_s);
}

/* `suffix` tells which baseline: "" or "_sync". */
static void add_improvement(struct result *out, const char *suffix, const struct figures *base,
                            const struct figures *stream)
{
    char name[64];
    for (size_t i = 0; i < PERCENTS; i++) {
        snprintf(name, sizeof name, "improvement%s_p%.0f", suffix, percents[i]);
        result_metric(out, name, "x", RESULT_HIGHER, ratio(base->ttft[i], stream->ttft[i]));
    }
    snprintf(name, sizeof name, "improvement%s_tokens_per_s", suffix);
    result_metric(out, name, "x", RESULT_HIGHER, ratio(stream->tokens_per_s, base->tokens_per_s));
}

static void add_repeat(struct blocking *b, uint32_t repeat, struct result *out)
{
    struct figures f[BLOCKING_MODES];
    bool has[BLOCKING_MODES];
    for (int i = 0; i < BLOCKING_MODES; i++) {
        has[i] = repeat < b->of[i].n_runs;
        if (!has[i])
            continue;
        out->failed |= !make_figures(&f[i], &b->of[i].runs[repeat]);
        add_figures(out, names[i], &f[i]);
    }
    if (has[BLOCKING_STREAM] && has[BLOCKING_WHOLE])
        add_improvement(out, "", &f[BLOCKING_WHOLE], &f[BLOCKING_STREAM]);
    if (has[BLOCKING_STREAM] && has[BLOCKING_SYNC])
        add_improvement(out, "_sync", &f[BLOCKING_SYNC], &f[BLOCKING_STREAM]);
}

static void add_runs(struct measurement *m, const char *mode, const struct goodput *goodput,
                     struct result *out)
{
    for (uint32_t i = 0; i < m->n_runs; i++) {
        json_t *run = measure_run_json(&m->runs[i], goodput);
        if (!run || json_object_set_new(run, "mode", json_string(mode)) != 0)
            out->failed = true;
        result_add_run(out, run);
    }
}

void blocking_result(struct blocking *b, const struct goodput *goodput, struct result *out)
{
    uint32_t n = 0;
    for (int i = 0; i < BLOCKING_MODES; i++) {
        n = b->of[i].n_runs > n ? b->of[i].n_runs : n;
        add_runs(&b->of[i], names[i], goodput, out);
    }
    for (uint32_t i = 0; i < n; i++)
        add_repeat(b, i, out);
}

bool blocking_failed(const struct blocking *b, struct err *err)
{
    for (int i = 0; i < BLOCKING_MODES; i++)
        if (measure_failed(&b->of[i], err)) {
            err_context(err, "%s", names[i]);
            return true;
        }
    return false;
}
