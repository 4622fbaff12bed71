/* What `bench curves` writes: the result and the tables. */
#include "bench/kinds/curves.h"
#include "bench/report/chart.h"

#include <math.h>
#include <string.h>

#define FIT_SAMPLES 64

/* How a figure of a point is drawn, told and kept. */
struct figure {
    enum curves_kind kind;
    const char *before, *after; /* x in the name of the metric; NULL: none */
    enum result_better better;
    const char *chart, *title;
    struct chart_axis x, y;
    struct series *(*of)(struct curves_point *);
    bool inverse; /* 1000 / value: a rate from milliseconds */
};

static struct series *curves_report_of_ttft(struct curves_point *p)
{
    return &p->ttft_ms;
}

static struct series *of_tpot(struct curves_point *p)
{
    return &p->tpot_ms;
}

static struct series *of_tokens(struct curves_point *p)
{
    return &p->tokens_per_s;
}

static struct series *of_requests(struct curves_point *p)
{
    return &p->requests_per_s;
}

// clang-format off
static const struct figure figures[] = {
    {CURVES_PROMPT, "ttft_at_", "_p50", RESULT_LOWER, "ttft_by_prompt",
     "TTFT by prompt length", {"prompt tokens", "log"}, {"TTFT p50, ms", "log"},
     curves_report_of_ttft, false},
    {CURVES_BATCH, "tokens_per_s_batch_", "", RESULT_HIGHER, "tokens_per_s_by_batch",
     "Throughput by requests at once", {"requests at once", "log"},
     {"output tokens/s", "linear"}, of_tokens, false},
    {CURVES_BATCH, "ttft_batch_", "_p50", RESULT_LOWER, "ttft_by_batch",
     "TTFT by requests at once", {"requests at once", "log"}, {"TTFT p50, ms", "log"},
     curves_report_of_ttft, false},
    {CURVES_CONTEXT, "decode_tokens_per_s_at_", "", RESULT_HIGHER, "decode_by_context",
     "Decode throughput by context length", {"context tokens", "log"},
     {"tokens/s of one request", "linear"}, of_tpot, true},
    {CURVES_RATE, NULL, NULL, RESULT_LOWER, "ttft_by_rate",
     "TTFT by request rate", {"requests offered per second", "log"}, {"TTFT p50, ms", "log"},
     curves_report_of_ttft, false},
    {CURVES_RATE, NULL, NULL, RESULT_HIGHER, "achieved_by_rate",
     "Achieved by offered request rate", {"requests offered per second", "log"},
     {"requests/s of the whole run", "log"}, of_requests, false},
    {CURVES_RATE, NULL, NULL, RESULT_HIGHER, "tokens_per_s_by_rate",
     "Throughput by request rate", {"requests offered per second", "log"},
     {"output tokens/s", "linear"}, of_tokens, false},
};
// clang-format on
#define N_FIGURES (sizeof figures / sizeof figures[0])

static double value_of(const struct figure *f, double x)
{
    return f->inverse ? 1e3 / x : x;
}

/* Of the repeats: median, least, most. */
struct range {
    double median, low, high;
};

static struct range range_of(const struct figure *f, struct curves_point *p)
{
    struct series *s = f->of(p);
    double a = value_of(f, series_percentile(s, 0)), b = value_of(f, series_percentile(s, 100));
    return (struct range){value_of(f, series_percentile(s, 50)), f->inverse ? b : a,
                          f->inverse ? a : b};
}

/* --- the result ----------------------------------------------------------------------------- */

static json_t *curve_list(const struct curves_options *o)
{
    json_t *list = json_array();
    int bad = list == NULL;
    for (int kind = 0; kind < CURVES_KINDS; kind++)
        if (o->which[kind])
            bad |= json_array_append_new(list, json_string(curves_names[kind]));
    return result_whole(list, bad);
}

json_t *curves_workload_json(const struct curves_options *o)
{
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I}", "curves",
                     curve_list(o), "max_prompt_tokens", (json_int_t)o->max_prompt_tokens,
                     "max_context", (json_int_t)o->max_context, "max_batch",
                     (json_int_t)o->max_batch, "prompt_tokens", (json_int_t)o->prompt_tokens,
                     "max_new_tokens", (json_int_t)o->max_new_tokens, "samples",
                     (json_int_t)o->samples, "num_requests", (json_int_t)o->num_requests,
                     "start_rate", o->start_rate, "max_rate", o->max_rate, "knee_factor",
                     o->knee_factor, "seed", (json_int_t)o->seed);
}

static json_t *point_json(const char *curve, const struct curves_point *p)
{
    return json_pack("{s:s, s:f, s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "curve", curve, "x",
                     p->x, "error", result_text(p->failed ? p->why : NULL), "generator_bottleneck",
                     p->bottleneck, "holds", p->holds, "ttft_ms", result_numbers(&p->ttft_ms),
                     "tpot_ms", result_numbers(&p->tpot_ms), "latency_ms",
                     result_numbers(&p->latency_ms), "tokens_per_s",
                     result_numbers(&p->tokens_per_s), "requests_per_s",
                     result_numbers(&p->requests_per_s), "kept_up", result_numbers(&p->kept_up));
}

static void set_points(const struct curves *c, struct result *out)
{
    json_t *list = json_array();
    int bad = list == NULL;
    if (c->of[CURVES_RATE].asked)
        bad |= json_array_append_new(list, point_json("unloaded", &c->unloaded));
    for (int kind = 0; kind < CURVES_KINDS; kind++)
        for (uint32_t i = 0; i < c->of[kind].n; i++)
            bad |=
                json_array_append_new(list, point_json(curves_names[kind], &c->of[kind].points[i]));
    out->failed |= bad != 0;
    result_set(out, "points", list);
}

static void curves_report_add_metrics(struct curves_point *p, const struct figure *f,
                                      struct result *out)
{
    char name[64];
    const struct series *s = f->of(p);
    if (!f->before)
        return;
    snprintf(name, sizeof name, "%s%.0f%s", f->before, p->x, f->after);
    for (size_t i = 0; i < s->n; i++)
        result_metric(out, name, f->better == RESULT_LOWER ? "ms" : "tokens/s", f->better,
                      value_of(f, s->v[i]));
}

/* As many points as a line needs, evenly spaced on the chart's logarithmic axis. */
static void add_fit_line(const struct curves *c, struct chart *chart)
{
    const struct curve *curve = &c->of[CURVES_PROMPT];
    double first = curve->points[0].x, last = curve->points[curve->n - 1].x;
    chart_line(chart, "a + b n + c n^2", "line");
    for (int i = 0; i <= FIT_SAMPLES; i++) {
        double x = first * pow(last / first, (double)i / FIT_SAMPLES);
        chart_point(chart, x, fit_at(&c->fit, x));
    }
}

static void curves_report_add_chart(struct curves *c, const struct figure *f, struct result *out)
{
    struct curve *curve = &c->of[f->kind];
    struct chart chart;
    bool repeated = false;
    chart_init(&chart, f->chart, f->title, f->x, f->y);
    chart_line(&chart, "measured", f->kind == CURVES_PROMPT ? "points" : "both");
    for (uint32_t i = 0; i < curve->n; i++) {
        if (curve->points[i].failed)
            continue;
        struct range r = range_of(f, &curve->points[i]);
        repeated |= f->of(&curve->points[i])->n > 1;
        chart_point_range(&chart, curve->points[i].x, r.median, r.low, r.high);
        curves_report_add_metrics(&curve->points[i], f, out);
    }
    if (f->kind == CURVES_PROMPT && c->has_fit)
        add_fit_line(c, &chart);
    if (f->kind == CURVES_RATE && !isnan(c->knee))
        chart_mark(&chart, c->knee, c->knee_reached ? "knee" : "highest rate, held");
    if (repeated)
        chart_note(&chart, "The median of the repeats, and the range.");
    result_add_chart(out, chart_take(&chart));
}

static void set_fit(const struct curves *c, struct result *out)
{
    const struct fit *f = &c->fit;
    result_set(out, "fit",
               !c->has_fit ? json_null()
                           : json_pack("{s:s, s:f, s:f, s:f, s:I, s:i, s:f, s:f}", "model",
                                       "ttft_ms = a + b n + c n^2", "a", f->a, "b", f->b, "c", f->c,
                                       "points", (json_int_t)f->n, "terms", f->terms,
                                       "relative_rms", f->rms, "relative_max", f->most));
}

static void set_knee(struct curves *c, const struct curves_options *o, struct result *out)
{
    if (!c->of[CURVES_RATE].asked)
        return;
    result_set(out, "knee",
               json_pack("{s:o, s:b, s:f, s:f, s:o}", "rate", result_number(c->knee), "reached",
                         c->knee_reached, "ttft_factor", o->knee_factor, "kept_up", CURVES_KEPT_UP,
                         "unloaded_ttft_ms",
                         result_number(series_percentile(&c->unloaded.ttft_ms, 50))));
    result_metric(out, "knee_rate", "1/s", RESULT_HIGHER, c->knee);
    for (size_t i = 0; i < c->unloaded.ttft_ms.n; i++)
        result_metric(out, "ttft_unloaded_p50", "ms", RESULT_LOWER, c->unloaded.ttft_ms.v[i]);
}

static void set_cost(struct curves *c, const struct curves_options *o, struct result *out)
{
    static const char *const names[] = {"cost_per_million_input_tokens",
                                        "cost_per_million_output_tokens"};
    if (!(o->cost_per_hour > 0))
        return;
    result_set(out, "cost", json_pack("{s:f}", "machine_per_hour", o->cost_per_hour));
    for (int which = 0; which < 2; which++) {
        struct series s;
        curves_cost(c, o, (enum curves_cost)which, &s);
        for (size_t i = 0; i < s.n; i++)
            result_metric(out, names[which], "per million", RESULT_LOWER, s.v[i]);
        series_fini(&s);
    }
}

void curves_result(struct curves *c, const struct curves_options *o, struct result *out)
{
    for (size_t i = 0; i < N_FIGURES; i++)
        if (c->of[figures[i].kind].asked)
            curves_report_add_chart(c, &figures[i], out);
    set_points(c, out);
    if (c->of[CURVES_PROMPT].asked)
        set_fit(c, out);
    set_knee(c, o, out);
    set_cost(c, o, out);
    result_set(out, "interrupted", json_boolean(c->interrupted));
}

/* --- the tables ----------------------------------------------------------------------------- */

static void add_heading(struct buf *out, const char *title, const char *x, const char *first,
                        const char *second, const char *third)
{
    buf_printf(out, "\n%s\n%10s  %12s %10s %10s", title, x, first, "min", "max");
    if (second)
        buf_printf(out, "  %12s %10s %10s", second, "min", "max");
    buf_printf(out, "%s\n", third);
}

static void add_cells(struct buf *out, const struct figure *f, struct curves_point *p)
{
    struct range r = range_of(f, p);
    buf_printf(out, "  %12.2f %10.2f %10.2f", r.median, r.low, r.high);
}

static void curves_report_add_rows(struct buf *out, struct curve *curve, const struct figure *first,
                                   const struct figure *second)
{
    for (uint32_t i = 0; i < curve->n; i++) {
        struct curves_point *p = &curve->points[i];
        buf_printf(out, first->kind == CURVES_RATE ? "%10.4g" : "%10.0f", p->x);
        if (p->failed) {
            buf_printf(out, "  failed: %s\n", p->why);
            continue;
        }
        add_cells(out, first, p);
        if (second)
            add_cells(out, second, p);
        if (first->kind == CURVES_RATE)
            buf_printf(out, "  %5.1f %%  %s", 100 * series_percentile(&p->kept_up, 50),
                       p->holds ? "holds" : "does not hold");
        buf_puts(out, p->bottleneck ? "  (the load generator was the bottleneck)\n" : "\n");
    }
}

static void add_skipped(struct buf *out, const struct curve *curve, const struct curves_options *o)
{
    if (curve->skipped_from)
        buf_printf(out, "%10u  and longer skipped: they do not fit the context of %u tokens\n",
                   curve->skipped_from, o->n_ctx);
}

static void add_fit(struct buf *out, const struct curves *c)
{
    const struct fit *f = &c->fit;
    if (!c->has_fit) {
        buf_puts(out, "fit: none, it takes two lengths\n");
        return;
    }
    buf_printf(out, "fit: %.4g %+.4g n %+.4g n^2 ms, ", f->a, f->b, f->c);
    if (f->n == (size_t)f->terms)
        buf_printf(out, "through its %zu points\n", f->n);
    else
        buf_printf(out, "off by %.1f %% (root mean square), at most %.1f %%\n", 100 * f->rms,
                   100 * f->most);
}

static void add_knee(struct buf *out, struct curves *c, const struct curves_options *o)
{
    buf_printf(out, "unloaded: ");
    if (c->unloaded.failed)
        buf_printf(out, "failed: %s\n", c->unloaded.why);
    else
        buf_printf(out, "TTFT p50 %.2f ms, latency p50 %.2f ms\n",
                   series_percentile(&c->unloaded.ttft_ms, 50),
                   series_percentile(&c->unloaded.latency_ms, 50));
    if (isnan(c->knee))
        buf_puts(out, "knee: no rate held\n");
    else if (c->knee_reached)
        buf_printf(out, "knee: %.4g requests/s\n", c->knee);
    else
        buf_printf(out, "knee: not reached; %.4g requests/s held\n", c->knee);
    buf_printf(
        out,
        "a rate holds while TTFT p50 is at most %g times the unloaded one and it keeps up by "
        "%g %% or more:\nthe last arrival and one unloaded latency, of the time the run "
        "took\n",
        o->knee_factor, 100 * CURVES_KEPT_UP);
}

static void add_costs(struct buf *out, struct curves *c, const struct curves_options *o)
{
    struct series input, output;
    if (!(o->cost_per_hour > 0))
        return;
    curves_cost(c, o, CURVES_COST_INPUT, &input);
    curves_cost(c, o, CURVES_COST_OUTPUT, &output);
    buf_printf(out, "\nCost per million tokens at %g an hour\n", o->cost_per_hour);
    if (input.n > 0)
        buf_printf(out, "%10s  %12.4f  at the best prompt tokens / TTFT of one request\n", "input",
                   series_percentile(&input, 50));
    if (output.n > 0)
        buf_printf(out,
                   "%10s  %12.4f  at the best throughput of requests at once, prompts of %u "
                   "tokens included\n",
                   "output", series_percentile(&output, 50), o->prompt_tokens);
    if (input.n + output.n == 0)
        buf_puts(out, "    not measured: it takes the prompt or the batch curve\n");
    series_fini(&input);
    series_fini(&output);
}

static const struct figure *figure_of(const char *chart)
{
    const struct figure *f = figures;
    while (f->chart != chart && strcmp(f->chart, chart) != 0)
        f++;
    return f;
}

static void add_curve(struct buf *out, struct curves *c, const struct curves_options *o,
                      enum curves_kind kind)
{
    struct curve *curve = &c->of[kind];
    switch (kind) {
    case CURVES_PROMPT:
        add_heading(out, "TTFT by prompt length, one request at a time", "tokens", "TTFT ms", NULL,
                    "");
        curves_report_add_rows(out, curve, figure_of("ttft_by_prompt"), NULL);
        add_skipped(out, curve, o);
        add_fit(out, c);
        break;
    case CURVES_BATCH:
        add_heading(out, "Throughput and TTFT by requests at once", "requests", "tokens/s",
                    "TTFT ms", "");
        curves_report_add_rows(out, curve, figure_of("tokens_per_s_by_batch"),
                               figure_of("ttft_by_batch"));
        break;
    case CURVES_CONTEXT:
        add_heading(out, "Decode throughput by context length, one request at a time", "tokens",
                    "tokens/s", NULL, "");
        curves_report_add_rows(out, curve, figure_of("decode_by_context"), NULL);
        add_skipped(out, curve, o);
        break;
    default:
        add_heading(out, "TTFT and throughput by request rate", "offered/s", "achieved/s",
                    "TTFT ms", "  kept up");
        curves_report_add_rows(out, curve, figure_of("achieved_by_rate"),
                               figure_of("ttft_by_rate"));
        add_knee(out, c, o);
    }
}

bool curves_table(struct buf *out, struct curves *c, const struct curves_options *o)
{
    for (int kind = 0; kind < CURVES_KINDS; kind++)
        if (c->of[kind].asked)
            add_curve(out, c, o, (enum curves_kind)kind);
    add_costs(out, c, o);
    if (c->interrupted)
        buf_puts(out, "\ninterrupted: what was not measured is missing\n");
    return !out->failed;
}
