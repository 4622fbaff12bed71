#include "bench/kinds/blocking.h"

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

void blocking_order(struct random *r, enum blocking_mode order[BLOCKING_MODES])
{
    for (uint32_t i = 0; i < BLOCKING_MODES; i++) { /* Fisher and Yates */
        uint32_t k = random_below(r, i + 1);
        order[i] = order[k];
        order[k] = (enum blocking_mode)i;
    }
}

/* --- how much better ------------------------------------------------------------------------ */

/* What the stream is over a baseline; above 1 and above 0 it is better. */
struct improvement {
    double ratio, percent;
};

static struct improvement blocking_of_ttft(double baseline, double stream)
{
    return (struct improvement){
        .ratio = stream > 0 ? baseline / stream : NAN,
        .percent = baseline > 0 ? 100 * (baseline - stream) / baseline : NAN,
    };
}

static struct improvement of_throughput(double baseline, double stream)
{
    return (struct improvement){
        .ratio = baseline > 0 ? stream / baseline : NAN,
        .percent = baseline > 0 ? 100 * (stream - baseline) / baseline : NAN,
    };
}

/* --- the table ------------------------------------------------------------------------------ */

static bool blocking_has(const struct blocking *b, int mode)
{
    return b->of[mode].n_runs > 0;
}

static void improvement(struct buf *out, struct improvement i)
{
    if (isnan(i.ratio) || isnan(i.percent))
        buf_printf(out, " %9s %9s", "n/a", "n/a");
    else
        buf_printf(out, " %8.2fx %+8.1f%%", i.ratio, i.percent);
}

static void values_of(struct buf *out, const char *label, const double values[BLOCKING_MODES])
{
    buf_printf(out, "%-*s", LABEL, label);
    for (int i = 0; i < BLOCKING_MODES; i++) {
        if (isnan(values[i]))
            buf_printf(out, " %10s", "n/a");
        else
            buf_printf(out, " %10.1f", values[i]);
    }
}

static void blocking_row(struct buf *out, const char *label, const double values[BLOCKING_MODES],
                         struct improvement (*over)(double baseline, double stream))
{
    values_of(out, label, values);
    improvement(out, over(values[BLOCKING_WHOLE], values[BLOCKING_STREAM]));
    improvement(out, over(values[BLOCKING_SYNC], values[BLOCKING_STREAM]));
    buf_putc(out, '\n');
}

static void ttft_row(struct buf *out, struct blocking *b, double percent)
{
    double v[BLOCKING_MODES];
    char label[32];
    for (int i = 0; i < BLOCKING_MODES; i++)
        v[i] = blocking_has(b, i) ? series_percentile(&b->of[i].pooled.ttft, percent) : NAN;
    snprintf(label, sizeof label, "TTFT P%.0f", percent);
    blocking_row(out, label, v, blocking_of_ttft);
}

/* What of it came after the first token: of a stream nothing. No row where no server tells. */
static void decode_row(struct buf *out, struct blocking *b)
{
    double v[BLOCKING_MODES];
    bool told = false;
    for (int i = 0; i < BLOCKING_MODES; i++) {
        v[i] = blocking_has(b, i) ? series_percentile(&b->of[i].pooled.decode, 50) : NAN;
        told |= !isnan(v[i]);
    }
    if (!told)
        return;
    values_of(out, "of it decode P50", v);
    buf_putc(out, '\n');
}

static void throughput_row(struct buf *out, const struct blocking *b)
{
    double v[BLOCKING_MODES];
    for (int i = 0; i < BLOCKING_MODES; i++)
        v[i] = blocking_has(b, i) ? b->of[i].pooled.output_throughput : NAN;
    blocking_row(out, "throughput, tokens/s", v, of_throughput);
}

static void blocking_count_row(struct buf *out, const struct blocking *b)
{
    buf_printf(out, "%-*s", LABEL, "completed of requests");
    for (int i = 0; i < BLOCKING_MODES; i++) {
        const struct summary *s = &b->of[i].pooled;
        char text[32] = "n/a";
        if (blocking_has(b, i))
            snprintf(text, sizeof text, "%u/%u", s->completed, s->n);
        buf_printf(out, " %10s", text);
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
    buf_printf(out, "%-*s %32s %19s %19s\n", LABEL, "", "", "streaming over", "streaming over");
    buf_printf(out, "%-*s", LABEL, "milliseconds");
    for (int i = 0; i < BLOCKING_MODES; i++)
        buf_printf(out, " %10s", names[i]);
    buf_printf(out, " %19s %19s\n", names[BLOCKING_WHOLE], names[BLOCKING_SYNC]);
    for (size_t i = 0; i < PERCENTS; i++)
        ttft_row(out, b, percents[i]);
    decode_row(out, b);
    throughput_row(out, b);
    blocking_count_row(out, b);
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

/* `of` tells which baseline and figure: "_p50", "_sync_p50". */
static void add_improvement(struct result *out, const char *of, struct improvement i)
{
    char name[64];
    snprintf(name, sizeof name, "improvement%s", of);
    result_metric(out, name, "x", RESULT_HIGHER, i.ratio);
    snprintf(name, sizeof name, "improvement_percent%s", of);
    result_metric(out, name, "%", RESULT_HIGHER, i.percent);
}

/* `suffix` tells which baseline: "" or "_sync". */
static void add_improvements(struct result *out, const char *suffix, const struct figures *base,
                             const struct figures *stream)
{
    char of[32];
    for (size_t i = 0; i < PERCENTS; i++) {
        snprintf(of, sizeof of, "%s_p%.0f", suffix, percents[i]);
        add_improvement(out, of, blocking_of_ttft(base->ttft[i], stream->ttft[i]));
    }
    snprintf(of, sizeof of, "%s_tokens_per_s", suffix);
    add_improvement(out, of, of_throughput(base->tokens_per_s, stream->tokens_per_s));
}

static void blocking_add_repeat(struct blocking *b, uint32_t repeat, struct result *out)
{
    struct figures f[BLOCKING_MODES];
    bool ran[BLOCKING_MODES];
    for (int i = 0; i < BLOCKING_MODES; i++) {
        ran[i] = repeat < b->of[i].n_runs;
        if (!ran[i])
            continue;
        out->failed |= !make_figures(&f[i], &b->of[i].runs[repeat]);
        add_figures(out, names[i], &f[i]);
    }
    if (ran[BLOCKING_STREAM] && ran[BLOCKING_WHOLE])
        add_improvements(out, "", &f[BLOCKING_WHOLE], &f[BLOCKING_STREAM]);
    if (ran[BLOCKING_STREAM] && ran[BLOCKING_SYNC])
        add_improvements(out, "_sync", &f[BLOCKING_SYNC], &f[BLOCKING_STREAM]);
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
        blocking_add_repeat(b, i, out);
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
