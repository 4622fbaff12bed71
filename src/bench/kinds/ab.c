#include "bench/kinds/ab.h"

#include "base/clock.h"
#include "base/mem.h"
#include "bench/result/machine.h"
#include "bench/result/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const ab_metric_names[AB_METRICS + 1] = {
    "ttft_p50", "ttft_p95", "ttft_p99", "itl_p99", "tpot_p50", "tokens_per_s", "processor_s", NULL};

#define CONFIDENCE 0.95
/* To end when the interval is narrow is to end rather when it is too narrow by chance: of simulated
 * comparisons 93 percent held the truth where 95 should have. With so much of the error that is
 * allowed at a fixed number of blocks, 95 to 96 do. */
#define OF_ERROR 0.8

struct job {
    struct ab *ab;
    const struct ab_options *o;
    struct random random;
    uint32_t run;      /* numbers of workload_make's that are used up */
    uint32_t failures; /* blocks in a row */
    uint32_t looked;   /* blocks there were at the last look */
    int64_t start_us;
};

/* A block that is being measured. */
struct sums {
    struct measurement runs[AB_SIDES];
    double processor_s[AB_SIDES];
    uint32_t n_pairs, n_b_first;
};

static bool ab_stopped(const struct job *job)
{
    const atomic_bool *stop = job->o->measure->stop;
    return stop && atomic_load(stop);
}

static bool is_late(struct job *job)
{
    job->ab->seconds = (double)(clock_now_us() - job->start_us) / 1e6;
    return job->ab->seconds >= job->o->time_limit_s;
}

/* --- a pair --------------------------------------------------------------------------------- */

static enum status run_side(struct job *job, int which, struct sums *sums, struct err *err)
{
    const struct ab_side *side = &job->ab->sides[which];
    uint32_t run = job->run + (job->o->one_cache ? (uint32_t)which : 0);
    double before_s = machine_process_s(side->pid);
    enum status st =
        measure_one(side->target, job->o->workload, job->o->measure, run, &sums->runs[which], err);
    sums->processor_s[which] += machine_process_s(side->pid) - before_s;
    return st;
}

static enum status run_pair(struct job *job, struct sums *sums, struct err *err)
{
    bool b_first = random_below(&job->random, 2);
    enum status st = run_side(job, b_first ? AB_B : AB_A, sums, err);
    if (!st && !ab_stopped(job))
        st = run_side(job, b_first ? AB_A : AB_B, sums, err);
    job->run += job->o->one_cache ? AB_SIDES : 1;
    sums->n_pairs++;
    sums->n_b_first += b_first;
    return st;
}

/* --- a block -------------------------------------------------------------------------------- */

static enum status start_side(struct job *job, int side, struct err *err)
{
    struct ab_side *s = &job->ab->sides[side];
    enum status st = job->o->start(job->o->arg, side, &s->target, &s->pid, err);
    if (!st)
        snprintf(s->model, sizeof s->model, "%s", s->target->model);
    return st ? err_context(err, side == AB_A ? "A" : "B") : st;
}

static enum status ab_warm_up(struct job *job, int side, struct err *err)
{
    enum status st = STATUS_OK;
    for (uint32_t i = 0; i < job->o->measure->warmup_runs && !st; i++)
        st = measure_one(job->ab->sides[side].target, job->o->workload, job->o->measure, job->run++,
                         NULL, err);
    return st;
}

/* In random order too: the side that is started last may get the better memory. */
static enum status start_both(struct job *job, struct err *err)
{
    bool b_first = random_below(&job->random, 2);
    enum status st = start_side(job, b_first ? AB_B : AB_A, err);
    if (!st)
        st = start_side(job, b_first ? AB_A : AB_B, err);
    for (int side = 0; side < AB_SIDES && !st; side++)
        st = ab_warm_up(job, side, err);
    job->ab->n_starts += !st;
    return st;
}

static void count_requests(struct ab_side *side, const struct measurement *m)
{
    struct err err = {0};
    side->n_requests += m->pooled.n;
    side->n_failed += m->pooled.failed;
    side->prompt_tokens += m->pooled.prompt_tokens;
    side->cached_tokens += m->pooled.cached_tokens;
    if (!side->first_error[0] && measure_failed(m, &err))
        snprintf(side->first_error, sizeof side->first_error, "%.255s", err.text);
}

static void take_figures(struct ab_runs *out, struct measurement *m, double processor_s)
{
    struct summary *s = &m->pooled;
    struct series stolen = {0};
    for (uint32_t i = 0; i < m->n_runs; i++)
        series_add(&stolen, m->runs[i].machine.stolen_percent);
    *out = (struct ab_runs){.stolen_percent = series_mean(&stolen)};
    out->figures[AB_TTFT_P50] = series_percentile(&s->ttft, 50);
    out->figures[AB_TTFT_P95] = series_percentile(&s->ttft, 95);
    out->figures[AB_TTFT_P99] = series_percentile(&s->ttft, 99);
    out->figures[AB_ITL_P99] = series_percentile(&s->itl, 99);
    out->figures[AB_TPOT_P50] = series_percentile(&s->tpot, 50);
    out->figures[AB_TOKENS_PER_S] = s->output_throughput;
    out->figures[AB_PROCESSOR] = processor_s;
    series_fini(&stolen);
}

static enum status ab_add_block(struct ab *ab, const struct ab_block *block, struct err *err)
{
    struct ab_block *blocks = mem_resize(ab->blocks, (ab->n_blocks + 1) * sizeof *blocks);
    if (!blocks)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u blocks", ab->n_blocks + 1);
    blocks[ab->n_blocks++] = *block;
    ab->blocks = blocks;
    return STATUS_OK;
}

static enum status ab_fail(struct job *job, struct err *err)
{
    const struct ab_side *a = &job->ab->sides[AB_A], *b = &job->ab->sides[AB_B];
    job->ab->end = AB_FAILED;
    return err_set(err, STATUS_UNAVAILABLE, "%d blocks in a row had requests that failed: %s",
                   AB_MOST_FAILURES, a->n_failed ? a->first_error : b->first_error);
}

/* A block of which a request failed says nothing and is left out; so is one that was interrupted.
 */
static enum status end_block(struct job *job, struct sums *sums, struct err *err)
{
    struct ab_block block = {.n_pairs = sums->n_pairs, .n_b_first = sums->n_b_first};
    bool whole = true;
    for (int side = 0; side < AB_SIDES; side++) {
        struct measurement *m = &sums->runs[side];
        if (!measure_pool(m, NULL))
            return err_set(err, STATUS_NO_MEMORY, "no memory for the figures of a block");
        struct err failure;
        whole = whole && m->pooled.completed == m->pooled.n && !measure_failed(m, &failure);
        count_requests(&job->ab->sides[side], m);
        take_figures(&block.runs[side], m, sums->processor_s[side]);
    }
    if (ab_stopped(job))
        return STATUS_OK;
    job->failures = whole ? 0 : job->failures + 1;
    if (whole)
        return ab_add_block(job->ab, &block, err);
    return job->failures < AB_MOST_FAILURES ? STATUS_OK : ab_fail(job, err);
}

static enum status run_block(struct job *job, struct err *err)
{
    struct sums sums = {0};
    enum status st = STATUS_OK;
    if (job->o->anew[AB_A] || job->o->anew[AB_B] || job->ab->n_starts == 0)
        st = start_both(job, err);
    for (uint32_t i = 0; i < job->o->pairs && !st && !ab_stopped(job); i++)
        if (i == 0 || !is_late(job))
            st = run_pair(job, &sums, err);
    if (!st)
        st = end_block(job, &sums, err);
    for (int side = 0; side < AB_SIDES; side++)
        measure_fini(&sums.runs[side]);
    return st;
}

/* --- the whole ------------------------------------------------------------------------------ */

/* Logarithm of B / A; NAN where a side lacks it. */
static double difference_of(const struct ab_block *b, enum ab_metric metric)
{
    double d = log(b->runs[AB_B].figures[metric] / b->runs[AB_A].figures[metric]);
    return isfinite(d) ? d : NAN;
}

static double percent_of(double log_ratio)
{
    return 100 * expm1(log_ratio);
}

static double side_median(const struct ab *ab, int side, enum ab_metric metric)
{
    struct series all = {0};
    for (uint32_t i = 0; i < ab->n_blocks; i++)
        series_add(&all, ab->blocks[i].runs[side].figures[metric]);
    double median = series_percentile(&all, 50);
    series_fini(&all);
    return median;
}

bool ab_difference(const struct ab *ab, const struct ab_options *o, enum ab_metric metric,
                   struct ab_difference *out)
{
    struct series blocks = {0};
    double others = 1 - (1 - CONFIDENCE) / (AB_METRICS - 1);
    *out = (struct ab_difference){.confidence = metric == o->metric ? CONFIDENCE : others};
    for (uint32_t i = 0; i < ab->n_blocks; i++)
        series_add(&blocks, difference_of(&ab->blocks[i], metric));
    for (int side = 0; side < AB_SIDES; side++)
        out->medians[side] = side_median(ab, side, metric);
    struct signed_rank r;
    bool ok = !blocks.failed;
    if (ok && blocks.n > 0) {
        ok = signed_rank(blocks.v, blocks.n, 1 - OF_ERROR * (1 - out->confidence), &r);
        out->n = ok ? (uint32_t)blocks.n : 0;
        out->percent =
            (struct signed_rank){percent_of(r.estimate), percent_of(r.low), percent_of(r.high)};
    }
    series_fini(&blocks);
    return ok;
}

/* An interval of n blocks costs n squared: of many it is looked at now and then. */
static enum status ab_look(struct job *job, bool *narrow, struct err *err)
{
    const struct ab_options *o = job->o;
    struct ab_difference d;
    if (job->ab->n_blocks < job->looked + job->looked / 20)
        return STATUS_OK;
    job->looked = job->ab->n_blocks;
    if (!ab_difference(job->ab, o, o->metric, &d))
        return err_set(err, STATUS_NO_MEMORY, "no memory for an interval");
    if (o->progress && d.n > 0)
        o->progress(o->arg, job->ab->n_blocks, &d.percent, job->ab->seconds);
    *narrow = d.n >= AB_LEAST_BLOCKS && d.percent.high - d.percent.low <= o->width_percent;
    return STATUS_OK;
}

enum status ab_run(struct ab *out, const struct ab_options *o, struct err *err)
{
    struct job job = {.ab = out, .o = o, .start_us = clock_now_us()};
    bool narrow = false;
    enum status st = STATUS_OK;
    *out = (struct ab){.end = AB_NARROW};
    random_init(&job.random, o->seed, 0);
    while (!st && !narrow && out->end == AB_NARROW) {
        st = run_block(&job, err);
        if (!st)
            st = ab_look(&job, &narrow, err);
        if (!narrow && ab_stopped(&job))
            out->end = AB_INTERRUPTED;
        else if (is_late(&job) && !narrow && out->end == AB_NARROW)
            out->end = AB_TIME;
    }
    if (st && out->end == AB_NARROW)
        out->end = AB_FAILED;
    return st == STATUS_CANCELLED && out->n_blocks > 0 ? STATUS_OK : st;
}

void ab_fini(struct ab *ab)
{
    mem_free(ab->blocks);
    *ab = (struct ab){0};
}
