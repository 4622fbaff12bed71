/* The charts that come from single requests: distributions, the parts of TTFT, the timeline. */
#include "bench/report/figures_internal.h"

#include "base/mem.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#define BINS_WANTED     60
#define BINS_MOST       400
#define BINS_PER_DECADE 12
/* A maximum so many times the median makes the axis logarithmic, or the bulk is one bar. */
#define LONG_TAIL 8
/* What is smaller than so much of the median counts as so much on a logarithmic axis. */
#define SHORTEST 1e-2
/* Steps of a cumulative line: more than it has pixels. */
#define CUMULATIVE_STEPS 1000

/* One quantity of all sources. */
struct quantity {
    enum figures_section section;
    const char *id, *name, *unit, *counted; /* "ttft", "TTFT", "ms", "requests" */
    const struct figures_source *sources;
    struct series v[FIGURES_SOURCES];            /* (n) borrowed of the sources */
    const struct series *marks[FIGURES_SOURCES]; /* (n)(SAMPLES_MARKS) */
    size_t n;
    bool is_log;
    double low, width; /* of the first bin; logarithmic: log10 of it, and of the ratio */
    size_t n_bins;
    char label[64];
};

/* ---- Histograms and cumulative shares ---- */

static double nice_width(double rough)
{
    double power = pow(10, floor(log10(rough))), times = rough / power;
    return power * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

/* Bins that all share. False: there is no sample. */
static bool choose_bins(struct quantity *q, bool *failed)
{
    struct series all = {0};
    for (size_t i = 0; i < q->n; i++)
        series_add_all(&all, &q->v[i]);
    double median = series_percentile(&all, 50), min = series_percentile(&all, 0);
    double max = series_percentile(&all, 100);
    *failed |= all.failed;
    series_fini(&all);
    if (isnan(max) || max < 0)
        return false;
    q->is_log = median > 0 && max > LONG_TAIL * median;
    if (q->is_log) {
        q->width = 1.0 / BINS_PER_DECADE;
        q->low = floor(log10(fmax(min, median * SHORTEST)) / q->width) * q->width;
        q->n_bins = (size_t)((log10(max) - q->low) / q->width) + 1;
    } else {
        double from = min > 0.5 * max ? min : 0;
        q->width = nice_width(fmax(max - from, fmax(max, 1e-9) * 1e-6) / BINS_WANTED);
        q->low = floor(from / q->width) * q->width;
        q->n_bins = (size_t)((max - q->low) / q->width) + 1;
    }
    q->n_bins = q->n_bins < BINS_MOST ? q->n_bins : BINS_MOST;
    return true;
}

static double edge(const struct quantity *q, size_t bin)
{
    double at = q->low + (double)bin * q->width;
    return q->is_log ? pow(10, at) : at;
}

static size_t bin_of(const struct quantity *q, double v)
{
    double at = q->is_log ? log10(fmax(v, pow(10, q->low))) : v;
    double bin = (at - q->low) / q->width;
    return bin <= 0 ? 0 : bin >= (double)q->n_bins ? q->n_bins - 1 : (size_t)bin;
}

/* As the tiles have it: the file's metric, else the median of the runs'. */
static double mark_at(const struct quantity *q, size_t source, size_t mark)
{
    const struct figures_source *s = &q->sources[source];
    struct series of_runs = q->marks[source][mark];
    char name[96];
    snprintf(name, sizeof name, "%s%s_p%g", s->prefix, q->id, samples_marks[mark]);
    double metric = samples_number(json_object_get(json_object_get(s->metrics, name), "median"));
    return isnan(metric) ? series_percentile(&of_runs, 50) : metric;
}

static void add_percentile_marks(struct svg_chart *c, const struct quantity *q, size_t source)
{
    for (size_t i = 0; i < SAMPLES_MARKS; i++) {
        char number[SVG_NUMBER], label[64];
        double at = mark_at(q, source, i);
        snprintf(label, sizeof label, "p%g %s %s", samples_marks[i], svg_number(number, at),
                 q->unit);
        svg_add_mark(c, at, label);
    }
}

static void note_samples(struct figure *f, const struct series *v, const char *counted,
                         size_t n_runs)
{
    buf_printf(&f->note, "%zu %s", v->n, counted);
    if (n_runs > 1)
        buf_printf(
            &f->note,
            " of %zu repeats together. The marks are the medians of the repeats' percentiles",
            n_runs);
    buf_puts(&f->note, ".");
}

/* The first bar of a logarithmic axis holds what is too short for it. */
static void note_short(struct figure *f, const struct quantity *q, size_t file)
{
    char number[SVG_NUMBER];
    double from = edge(q, 0);
    size_t n = 0;
    for (size_t i = 0; q->is_log && i < q->v[file].n; i++)
        n += q->v[file].v[i] < from * (1 - 1e-9);
    if (n)
        buf_printf(&f->note, " The first bar holds %zu that are shorter than %s %s.", n,
                   svg_number(number, from), q->unit);
}

static void add_histogram(struct figures *f, struct quantity *q, size_t source)
{
    const struct figures_source *s = &q->sources[source];
    char id[48], name[64], title[128], a[SVG_NUMBER], b[SVG_NUMBER];
    snprintf(id, sizeof id, "%s-histogram", q->id);
    struct figure *figure = figures_add(f, q->section, id, s);
    size_t *counts = mem_array(q->n_bins, sizeof *counts);
    if (!figure || !counts) {
        f->failed = true;
        mem_free(counts);
        return;
    }
    snprintf(name, sizeof name, "%s, histogram", q->name);
    svg_init(&figure->chart, figures_title(title, name, s), q->label,
             q->is_log ? SVG_LOG : SVG_LINEAR, q->counted, SVG_LINEAR);
    figure->chart.y.whole = true;
    size_t line = svg_add_line(&figure->chart, "", SVG_BOXES, s->colour);
    for (size_t i = 0; i < q->v[source].n; i++)
        counts[bin_of(q, q->v[source].v[i])]++;
    for (size_t i = 0; i < q->n_bins; i++) {
        if (counts[i] == 0)
            continue;
        snprintf(name, sizeof name, "%.15s to %.15s %s: %zu", svg_number(a, edge(q, i)),
                 svg_number(b, edge(q, i + 1)), q->unit, counts[i]);
        svg_add_box(&figure->chart, line,
                    (struct svg_box){edge(q, i), edge(q, i + 1), 0, (double)counts[i], NULL}, name);
    }
    figure->chart.mark_rows = q->n > 1 ? 3 : 0;
    add_percentile_marks(&figure->chart, q, source);
    note_samples(figure, &q->v[source], q->counted, s->samples.n_runs);
    note_short(figure, q, source);
    mem_free(counts);
}

/* Steps at evenly spaced ranks, the first and the last among them. */
static void add_cumulative_line(struct svg_chart *c, const struct quantity *q, size_t source)
{
    struct series v = q->v[source];
    double floor_at = q->is_log ? pow(10, q->low) : -INFINITY;
    size_t line = svg_add_line(c, q->sources[source].label, SVG_STEPS, q->sources[source].colour);
    series_sort(&v);
    size_t steps = v.n < CUMULATIVE_STEPS ? v.n : CUMULATIVE_STEPS;
    for (size_t i = 0; i <= steps && steps; i++) {
        size_t rank = i * v.n / steps; /* samples up to here */
        svg_add_point(c, line,
                      (struct svg_point){fmax(v.v[rank ? rank - 1 : 0], floor_at),
                                         100.0 * (double)rank / (double)v.n, NAN, NAN});
    }
}

static void add_cumulative(struct figures *f, const struct quantity *q)
{
    char id[48], title[128];
    snprintf(id, sizeof id, "%s-cumulative", q->id);
    snprintf(title, sizeof title, "%s, cumulative", q->name);
    struct figure *figure = figures_add(f, q->section, id, NULL);
    if (!figure)
        return;
    struct svg_chart *c = &figure->chart;
    char y_label[64];
    snprintf(y_label, sizeof y_label, "%% of %s", q->counted);
    svg_init(c, title, q->label, q->is_log ? SVG_LOG : SVG_LINEAR, y_label, SVG_LINEAR);
    for (size_t i = 0; i < q->n; i++)
        if (q->v[i].n)
            add_cumulative_line(c, q, i);
    c->x.min = edge(q, 0);
    c->x.max = edge(q, q->n_bins);
    c->y.min = 0;
    c->y.max = 100;
    buf_printf(&figure->note, "The share of %s that took at most so long.", q->counted);
}

static void add_distribution(struct figures *f, struct quantity *q)
{
    size_t from = f->n;
    if (!choose_bins(q, &f->failed))
        return;
    snprintf(q->label, sizeof q->label, "%s, %s", q->name, q->unit);
    for (size_t i = 0; i < q->n; i++)
        if (q->v[i].n)
            add_histogram(f, q, i);
    figures_same_scales(f, from);
    add_cumulative(f, q);
}

/* ---- The parts of TTFT ---- */

/* All colours apart from their neighbours'. */
static const unsigned part_colours[SAMPLES_PARTS] = {7, 5, 6, 1, 3, 0, SVG_PALE, 2, 4};
static const double split_at[] = {50, 90, 95, 99};
#define N_SPLIT (sizeof split_at / sizeof split_at[0])

static void figures_requests_add_part(struct svg_chart *c, int part,
                                      double parts[N_SPLIT][SAMPLES_PARTS], double base[N_SPLIT])
{
    size_t line = svg_add_line(c, samples_part_names[part], SVG_BOXES, part_colours[part]);
    for (size_t i = 0; i < N_SPLIT; i++) {
        char title[96], number[SVG_NUMBER];
        double ms = parts[i][part];
        snprintf(title, sizeof title, "%s at p%g: %s ms", samples_part_names[part], split_at[i],
                 svg_number(number, ms));
        svg_add_box(
            c, line,
            (struct svg_box){(double)i - 0.36, (double)i + 0.36, base[i], base[i] + ms, NULL},
            title);
        base[i] += ms;
    }
}

/* Streamed answers have none: they need no place in the legend for it. */
static bool has_decode(double parts[N_SPLIT][SAMPLES_PARTS])
{
    for (size_t i = 0; i < N_SPLIT; i++)
        if (parts[i][SAMPLES_DECODE] > 0)
            return true;
    return false;
}

static void note_parts(struct figure *f, const struct samples *s)
{
    size_t window = samples_window(s);
    buf_puts(&f->note, "Each bar: the ");
    if (window > 1)
        buf_printf(&f->note, "mean parts of the %zu requests", window);
    else
        buf_puts(&f->note, "parts of the request");
    buf_puts(&f->note, " nearest to that percentile");
    if (s->n_runs > 1)
        buf_printf(&f->note,
                   " of %zu repeats together. They add up to the TTFT there, which is not the "
                   "median of the repeats' percentiles.",
                   s->n_runs);
    else
        buf_puts(&f->note, ". They add up to the TTFT there, which is near the percentile.");
}

static void figures_requests_add_split(struct figures *f, const struct figures_source *source)
{
    const struct samples *s = &source->samples;
    double parts[N_SPLIT][SAMPLES_PARTS], base[N_SPLIT] = {0};
    char title[128], name[16];
    struct figure *figure = figures_add(f, FIGURES_TTFT, "ttft-parts", source);
    if (!figure)
        return;
    struct svg_chart *c = &figure->chart;
    svg_init(c, figures_title(title, "Parts of TTFT", source), "percentile of TTFT", SVG_CATEGORIES,
             "ms", SVG_LINEAR);
    for (size_t i = 0; i < N_SPLIT; i++) {
        snprintf(name, sizeof name, "p%g", split_at[i]);
        svg_add_category(c, &c->x, name);
        samples_parts_at(s, split_at[i], parts[i]);
    }
    for (int part = 0; part < SAMPLES_PARTS; part++)
        if (part != SAMPLES_DECODE || has_decode(parts))
            figures_requests_add_part(c, part, parts, base);
    note_parts(figure, s);
    if (s->n_split < s->ttft.n)
        buf_printf(&figure->note, " %zu of %zu requests have no parts.", s->ttft.n - s->n_split,
                   s->ttft.n);
}

static void add_splits(struct figures *f, const struct figures_source *s, size_t n)
{
    size_t from = f->n;
    for (size_t i = 0; i < n; i++)
        if (s[i].samples.n_split)
            figures_requests_add_split(f, &s[i]);
    figures_same_scales(f, from);
}

/* ---- The timeline ---- */

enum phase { PHASE_HELD, PHASE_BEFORE, PHASE_QUEUE, PHASE_PREFILL, PHASE_DECODE, PHASE_FAILED };
#define PHASES 6

static const struct {
    const char *name;
    unsigned colour;
} phases[PHASES] = {
    {"not yet sent", 7},           {"before the queue", 5}, {"queue", 1},
    {"prefill to first token", 0}, {"decode", 2},           {"failed", 4},
};

struct rows {
    struct svg_chart *chart;
    size_t lines[PHASES];
    size_t stride; /* every stride-th request of the run is drawn */
    double unit;   /* milliseconds in one of the axis */
};

static void add_phase(struct rows *r, size_t row, enum phase phase, double from, double to)
{
    char title[96], number[SVG_NUMBER];
    if (!(to > from))
        return;
    snprintf(title, sizeof title, "request %zu, %s: %s ms", row, phases[phase].name,
             svg_number(number, to - from));
    svg_add_box(r->chart, r->lines[phase],
                (struct svg_box){from / r->unit, to / r->unit, (double)row,
                                 (double)(row + r->stride), NULL},
                title);
}

/* The server's parts lie where the client's clock leaves room for them: from the moment of sending,
 * the last of them until the first token came. */
static void figures_requests_add_row(struct rows *r, size_t row, const struct sample *s)
{
    add_phase(r, row, PHASE_HELD, s->due, s->sent);
    if (s->failed) {
        add_phase(r, row, PHASE_FAILED, s->sent, s->end);
        return;
    }
    double prefill = s->sent;
    if (s->split) {
        double queue = s->sent + s->parts[SAMPLES_RECEIVE] + s->parts[SAMPLES_TOKENIZE] +
                       s->parts[SAMPLES_SUBMIT];
        prefill = queue + s->parts[SAMPLES_QUEUE];
        add_phase(r, row, PHASE_BEFORE, s->sent, fmin(queue, s->first));
        add_phase(r, row, PHASE_QUEUE, queue, fmin(prefill, s->first));
    }
    add_phase(r, row, PHASE_PREFILL, prefill, s->first);
    add_phase(r, row, PHASE_DECODE, s->first, s->end);
}

/* Requests of the first run. */
static size_t figures_requests_first_run(const struct samples *s)
{
    size_t n = 0;
    while (n < s->n && s->v[n].run == s->v[0].run)
        n++;
    return n;
}

static void note_timeline(struct figure *f, const struct samples *s, size_t n, size_t stride)
{
    buf_puts(&f->note, "Each row is a request, in the order they were due.");
    if (stride > 1)
        buf_printf(&f->note, " One in %zu of %zu is drawn.", stride, n);
    if (s->n_runs > 1)
        buf_printf(&f->note, " Repeat %zu of %zu.", s->v[0].run + 1, s->n_runs);
    if (s->n_split == 0 && s->ttft.n)
        buf_puts(&f->note, " The server did not tell queue and prefill apart.");
}

/* Milliseconds in the axis's unit: runs of many seconds are shown in seconds. */
static double timeline_unit(const struct figures_source *s, size_t n)
{
    double longest = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < s[i].samples.n; k++)
            longest = fmax(longest, s[i].samples.v[k].end);
    return longest > 5000 ? 1000 : 1;
}

static void add_timeline(struct figures *f, const struct figures_source *source, double unit)
{
    const struct samples *s = &source->samples;
    char title[128];
    size_t n = figures_requests_first_run(s),
           stride = (n + LIMIT_REPORT_ROWS - 1) / LIMIT_REPORT_ROWS;
    struct figure *figure = figures_add(f, FIGURES_TIMELINE, "timeline", source);
    if (!figure)
        return;
    svg_init(&figure->chart, figures_title(title, "The run, request by request", source),
             unit > 1 ? "seconds since the run began" : "ms since the run began", SVG_LINEAR,
             "request", SVG_ROWS);
    struct rows rows = {.chart = &figure->chart, .stride = stride, .unit = unit};
    for (int i = 0; i < PHASES; i++)
        rows.lines[i] = svg_add_line(&figure->chart, phases[i].name, SVG_BOXES, phases[i].colour);
    for (size_t i = 0; i < n; i += stride)
        figures_requests_add_row(&rows, i, &s->v[i]);
    note_timeline(figure, s, n, stride);
}

static void add_timelines(struct figures *f, const struct figures_source *s, size_t n)
{
    size_t from = f->n, most = 0;
    double unit = timeline_unit(s, n);
    for (size_t i = 0; i < n; i++) {
        if (s[i].samples.n == 0)
            continue;
        size_t rows = figures_requests_first_run(&s[i].samples);
        most = rows > most ? rows : most;
        add_timeline(f, &s[i], unit);
    }
    figures_same_scales(f, from);
    double rows = (double)(most < LIMIT_REPORT_ROWS ? most : LIMIT_REPORT_ROWS);
    for (size_t i = from; i < f->n; i++)
        f->list[i]->chart.plot_height = fmin(fmax(rows * 2.4, fmin(rows * 12, 160)), 560);
}

void figures_add_requests(struct figures *f, const struct figures_source *s, size_t n)
{
    struct quantity ttft = {FIGURES_TTFT, "ttft", "TTFT", "ms", "requests", s, .n = n};
    struct quantity itl = {FIGURES_ITL, "itl", "ITL", "ms", "gaps", s, .n = n};
    for (size_t i = 0; i < n; i++) {
        ttft.v[i] = s[i].samples.ttft;
        ttft.marks[i] = s[i].samples.ttft_marks;
        itl.v[i] = s[i].samples.itl;
        itl.marks[i] = s[i].samples.itl_marks;
    }
    add_distribution(f, &ttft);
    add_splits(f, s, n);
    add_distribution(f, &itl);
    add_timelines(f, s, n);
}
