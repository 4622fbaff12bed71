/* What `bench ab` prints and keeps. */
#include "bench/kinds/ab.h"

#include "bench/result/compare.h"
#include "bench/result/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LABEL 22 /* columns */

static const struct {
    const char *unit;
    enum result_better better;
} kinds[AB_METRICS] = {
    [AB_TTFT_P50] = {"ms", RESULT_LOWER}, [AB_TTFT_P95] = {"ms", RESULT_LOWER},
    [AB_TTFT_P99] = {"ms", RESULT_LOWER}, [AB_ITL_P99] = {"ms", RESULT_LOWER},
    [AB_TPOT_P50] = {"ms", RESULT_LOWER}, [AB_TOKENS_PER_S] = {"tokens/s", RESULT_HIGHER},
    [AB_PROCESSOR] = {"s", RESULT_LOWER},
};

static const char *const end_names[] = {[AB_NARROW] = "narrow",
                                        [AB_TIME] = "time",
                                        [AB_INTERRUPTED] = "interrupted",
                                        [AB_FAILED] = "failed"};

/* --- verdicts ------------------------------------------------------------------------------- */

static double ab_report_cached_percent(const struct ab_side *s)
{
    return s->prompt_tokens ? 100 * (double)s->cached_tokens / (double)s->prompt_tokens : 0;
}

/* One side was spared work by its prefix cache. */
static bool cached_alike(const struct ab *ab)
{
    return fabs(ab_report_cached_percent(&ab->sides[AB_A]) -
                ab_report_cached_percent(&ab->sides[AB_B])) <= COMPARE_CACHED_PERCENT;
}

static const char *verdict(const struct ab *ab, const struct ab_difference *d,
                           enum ab_metric metric)
{
    const struct signed_rank *r = &d->percent;
    if (d->n < AB_LEAST_BLOCKS || !isfinite(r->high) || !cached_alike(ab))
        return compare_verdict_name(COMPARE_NONE);
    if (r->low <= 0 && r->high >= 0)
        return compare_verdict_name(COMPARE_NOISE);
    bool better = (r->high < 0) == (kinds[metric].better == RESULT_LOWER);
    return compare_verdict_name(better ? COMPARE_BETTER : COMPARE_WORSE);
}

/* --- the table ------------------------------------------------------------------------------ */

static bool ab_report_row(struct buf *out, const struct ab *ab, const struct ab_options *o,
                          enum ab_metric metric)
{
    struct ab_difference d;
    char label[64], interval[64] = "n/a";
    if (!ab_difference(ab, o, metric, &d))
        return false;
    if (d.n == 0)
        return true; /* no such figure: one token an answer, or a process that is not known */
    snprintf(label, sizeof label, "%s, %s", ab_metric_names[metric], kinds[metric].unit);
    if (isfinite(d.percent.high))
        snprintf(interval, sizeof interval, "%+.1f to %+.1f %%", d.percent.low, d.percent.high);
    buf_printf(out, "%-*s %10s %10s %+9.1f %%  %-20s %.1f %%  %s\n", LABEL, label,
               table_cell(d.medians[AB_A]).text, table_cell(d.medians[AB_B]).text,
               d.percent.estimate, interval, 100 * d.confidence, verdict(ab, &d, metric));
    return true;
}

static void side_row(struct buf *out, const char *label, double a, double b)
{
    buf_printf(out, "%-*s %10s %10s\n", LABEL, label, table_cell(a).text, table_cell(b).text);
}

static void ab_report_count_row(struct buf *out, const char *label, uint32_t a, uint32_t b)
{
    buf_printf(out, "%-*s %10u %10u\n", LABEL, label, a, b);
}

static double sum_of(const struct ab *ab, int side, enum ab_metric metric)
{
    double sum = 0;
    for (uint32_t i = 0; i < ab->n_blocks; i++)
        sum += ab->blocks[i].runs[side].figures[metric];
    return sum;
}

/* Over the blocks that say; a run may be shorter than a tick of the kernel. */
static double mean_stolen(const struct ab *ab, int side)
{
    struct series all = {0};
    for (uint32_t i = 0; i < ab->n_blocks; i++)
        series_add(&all, ab->blocks[i].runs[side].stolen_percent);
    double mean = series_mean(&all);
    series_fini(&all);
    return mean;
}

static void sides(struct buf *out, const struct ab *ab)
{
    const struct ab_side *a = &ab->sides[AB_A], *b = &ab->sides[AB_B];
    buf_putc(out, '\n');
    side_row(out, "processor time, s", sum_of(ab, AB_A, AB_PROCESSOR),
             sum_of(ab, AB_B, AB_PROCESSOR));
    side_row(out, "stolen time, %", mean_stolen(ab, AB_A), mean_stolen(ab, AB_B));
    ab_report_count_row(out, "requests", a->n_requests, b->n_requests);
    ab_report_count_row(out, "failed", a->n_failed, b->n_failed);
    side_row(out, "prompt tokens cached, %", ab_report_cached_percent(a),
             ab_report_cached_percent(b));
}

static void heading(struct buf *out, const struct ab *ab, const struct ab_options *o)
{
    static const char *const why[] = {
        [AB_NARROW] = "the interval is as narrow as asked for",
        [AB_TIME] = "the time limit ended it",
        [AB_INTERRUPTED] = "interrupted",
        [AB_FAILED] = "an error ended it",
    };
    buf_printf(out, "A       %s\nB       %s\nblocks  ", o->names[AB_A], o->names[AB_B]);
    table_count(out, ab->n_blocks, "block");
    buf_printf(out, " of %u pairs of runs, ", o->pairs);
    table_count(out, o->workload->num_requests, "request");
    buf_puts(out, " each; ");
    table_count(out, ab->n_starts, "start");
    buf_printf(out, "; %.0f s: %s\n\n", ab->seconds, why[ab->end]);
}

static void caveats(struct buf *out, const struct ab *ab, const struct ab_options *o)
{
    buf_printf(out,
               "\nThe interval of %s decides. Those of the other rows are wider, so that all of\n"
               "them together hold with 95 %%.\n",
               ab_metric_names[o->metric]);
    for (int side = 0; side < AB_SIDES; side++)
        if (!o->anew[side])
            buf_printf(out,
                       "%s was not started anew: how lucky its one start was is in the "
                       "difference.\n",
                       side == AB_A ? "A" : "B");
    if (ab->n_blocks < AB_LEAST_BLOCKS)
        buf_printf(out, "no verdict: %u blocks are too few, %d are needed.\n", ab->n_blocks,
                   AB_LEAST_BLOCKS);
    if (!cached_alike(ab))
        buf_puts(out, "no verdict: one side had more of its prompts in a prefix cache.\n");
}

bool ab_table(struct buf *out, const struct ab *ab, const struct ab_options *o)
{
    bool ok = true;
    heading(out, ab, o);
    buf_printf(out, "%-*s %10s %10s %11s  %-20s\n", LABEL, "medians of blocks", "A", "B",
               "B against A", "interval");
    ok = ab_report_row(out, ab, o, o->metric);
    for (int i = 0; i < AB_METRICS; i++)
        if ((enum ab_metric)i != o->metric)
            ok = ab_report_row(out, ab, o, (enum ab_metric)i) && ok;
    sides(out, ab);
    caveats(out, ab, o);
    return ok && !out->failed;
}

/* --- the result ----------------------------------------------------------------------------- */

static json_t *runs_json(const struct ab_runs *r)
{
    json_t *json = json_object();
    int bad = 0;
    for (int i = 0; i < AB_METRICS; i++)
        bad |= json_object_set_new(json, ab_metric_names[i], result_number(r->figures[i]));
    bad |= json_object_set_new(json, "stolen_percent", result_number(r->stolen_percent));
    return result_whole(json, bad);
}

static json_t *block_json(const struct ab_block *b, uint32_t start)
{
    return json_pack("{s:I, s:I, s:I, s:o, s:o}", "start", (json_int_t)start, "pairs",
                     (json_int_t)b->n_pairs, "b_first", (json_int_t)b->n_b_first, "a",
                     runs_json(&b->runs[AB_A]), "b", runs_json(&b->runs[AB_B]));
}

static json_t *ab_report_side_json(const struct ab *ab, const struct ab_options *o, int which)
{
    const struct ab_side *s = &ab->sides[which];
    return json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o}", "server",
                     result_text(o->names[which]), "model", result_text(s->model), "requests",
                     (json_int_t)s->n_requests, "failed", (json_int_t)s->n_failed, "prompt_tokens",
                     (json_int_t)s->prompt_tokens, "cached_tokens", (json_int_t)s->cached_tokens,
                     "processor_s", result_number(sum_of(ab, which, AB_PROCESSOR)),
                     "stolen_percent", result_number(mean_stolen(ab, which)));
}

static json_t *difference_json(const struct ab *ab, const struct ab_difference *d,
                               enum ab_metric metric)
{
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:f, s:s}", "unit", kinds[metric].unit, "a",
                     result_number(d->medians[AB_A]), "b", result_number(d->medians[AB_B]),
                     "percent", result_number(d->percent.estimate), "low",
                     result_number(d->percent.low), "high", result_number(d->percent.high),
                     "confidence", d->confidence, "verdict", verdict(ab, d, metric));
}

static json_t *differences_json(const struct ab *ab, const struct ab_options *o)
{
    json_t *json = json_object();
    int bad = 0;
    for (int i = 0; i < AB_METRICS; i++) {
        struct ab_difference d;
        bad |= !ab_difference(ab, o, (enum ab_metric)i, &d);
        if (!bad && d.n > 0)
            bad |= json_object_set_new(json, ab_metric_names[i],
                                       difference_json(ab, &d, (enum ab_metric)i));
    }
    return result_whole(json, bad);
}

/* By how much B is higher, a value a block. */
static void add_changes(const struct ab_block *b, struct result *out)
{
    for (int i = 0; i < AB_METRICS; i++) {
        char name[64];
        double ratio = b->runs[AB_B].figures[i] / b->runs[AB_A].figures[i];
        snprintf(name, sizeof name, "change_%s", ab_metric_names[i]);
        result_metric(out, name, "%", RESULT_NEITHER, 100 * (ratio - 1));
    }
}

void ab_result(const struct ab *ab, const struct ab_options *o, struct result *out)
{
    bool anew = o->anew[AB_A] && o->anew[AB_B];
    for (uint32_t i = 0; i < ab->n_blocks; i++) {
        add_changes(&ab->blocks[i], out);
        result_add_run(out, block_json(&ab->blocks[i], anew ? i : 0));
    }
    result_set(out, "ab",
               json_pack("{s:o, s:o, s:s, s:s, s:f, s:f, s:f, s:I, s:I, s:I, s:o}", "a",
                         ab_report_side_json(ab, o, AB_A), "b", ab_report_side_json(ab, o, AB_B),
                         "metric", ab_metric_names[o->metric], "end", end_names[ab->end],
                         "width_percent", o->width_percent, "time_limit_s", o->time_limit_s,
                         "seconds", ab->seconds, "pairs", (json_int_t)o->pairs, "starts",
                         (json_int_t)ab->n_starts, "blocks", (json_int_t)ab->n_blocks,
                         "differences", differences_json(ab, o)));
}
