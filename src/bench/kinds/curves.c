#include "bench/kinds/curves.h"

#include "base/limits.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FAR_BEHIND     0.8 /* of the offered rate: no higher rate is tried, */
#define FAR_ABOVE      10  /* nor past so many unloaded TTFTs */
#define MAX_DOUBLINGS  16
#define MAX_BISECTIONS 3
#define NEAR_ENOUGH    1.1 /* ratio of two rates between which the knee need not be told */

const char *const curves_names[CURVES_KINDS + 1] = {"prompt", "batch", "context", "rate", NULL};

const struct curves_options curves_default = {
    .which = {true, true, true, true},
    .max_prompt_tokens = 4096,
    .max_context = 4096,
    .max_batch = 64,
    .prompt_tokens = 128,
    .max_new_tokens = 32,
    .samples = 5,
    .num_requests = 64,
    .max_rate = 1e4,
    .knee_factor = 2,
};

struct job {
    const struct curves_options *o;
    const struct curves_source *source;
    struct curves *out;
};

uint32_t curves_at_once(const struct curves_options *o)
{
    uint32_t n = 1;
    if (o->which[CURVES_BATCH])
        n = o->max_batch;
    if (o->which[CURVES_RATE] && o->num_requests > n)
        n = o->num_requests;
    return n;
}

enum status curves_check(const struct curves_options *o, struct err *err)
{
    uint64_t need = (uint64_t)o->prompt_tokens + o->max_new_tokens;
    bool loaded = o->which[CURVES_BATCH] || o->which[CURVES_RATE];
    if (o->n_ctx && loaded && need > o->n_ctx)
        return err_param(err, STATUS_INVALID, "--prompt-tokens",
                         "--prompt-tokens %u and --max-new-tokens %u do not fit the context of %u "
                         "tokens",
                         o->prompt_tokens, o->max_new_tokens, o->n_ctx);
    if (!(o->knee_factor > 1))
        return err_param(err, STATUS_INVALID, "--knee-factor",
                         "--knee-factor: expected more than 1, got %g", o->knee_factor);
    if (o->start_rate > o->max_rate)
        return err_param(err, STATUS_INVALID, "--start-rate",
                         "--start-rate %g is above --max-rate %g", o->start_rate, o->max_rate);
    return STATUS_OK;
}

/* --- one point ------------------------------------------------------------------------------ */

static double curves_median(struct series *s)
{
    return series_percentile(s, 50);
}

static void clear_point(struct curves_point *p)
{
    series_fini(&p->ttft_ms);
    series_fini(&p->tpot_ms);
    series_fini(&p->latency_ms);
    series_fini(&p->tokens_per_s);
    series_fini(&p->requests_per_s);
    series_fini(&p->kept_up);
}

static void fail_point(struct curves_point *p, const char *why)
{
    clear_point(p);
    p->failed = true;
    snprintf(p->why, sizeof p->why, "%s", why);
}

/* Milliseconds from the run's start to its last arrival. */
static double last_due_ms(const struct load_result *run)
{
    int64_t last = run->start_us;
    for (uint32_t i = 0; i < run->n; i++)
        if (run->records[i].due_us > last)
            last = run->records[i].due_us;
    return (double)(last - run->start_us) / 1e3;
}

/* False: no memory. unloaded_ms: NAN but in the rate curve. */
static bool curves_add_repeat(struct curves_point *p, const struct load_result *run,
                              double unloaded_ms)
{
    struct summary s;
    bool ok = summary_make(&s, run, 1, NULL);
    double kept_up = (last_due_ms(run) + unloaded_ms) / (1e3 * s.duration_s);
    series_add(&p->ttft_ms, curves_median(&s.ttft));
    series_add(&p->tpot_ms, curves_median(&s.tpot));
    series_add(&p->latency_ms, curves_median(&s.latency));
    series_add(&p->tokens_per_s, s.output_throughput);
    series_add(&p->requests_per_s, s.request_throughput);
    series_add(&p->kept_up, kept_up > 1 ? 1 : kept_up);
    p->bottleneck |= run->generator.bottleneck;
    summary_fini(&s);
    return ok && !p->ttft_ms.failed && !p->kept_up.failed;
}

/* What was interrupted is no repeat. */
static bool take_repeats(struct job *job, struct curves_point *p, const struct measurement *m,
                         double unloaded_ms)
{
    struct err err;
    bool ok = true;
    for (uint32_t i = 0; i < m->n_runs; i++) {
        job->out->interrupted |= m->runs[i].interrupted;
        if (!m->runs[i].interrupted)
            ok &= curves_add_repeat(p, &m->runs[i], unloaded_ms);
    }
    if (measure_failed(m, &err))
        fail_point(p, err.text);
    else if (!job->out->interrupted && p->ttft_ms.n == 0)
        fail_point(p, "no request had a chunk with content");
    return ok;
}

/* Measures into *p, which is empty and named by its x. A point under a rate lasts as long as the
 * rate says, and what could be cold was warmed by the unloaded one before: it has no warm-up. */
static enum status measure_point(struct job *job, const char *what, struct curves_point *p,
                                 const struct workload_options *w, double unloaded_ms,
                                 struct err *err)
{
    struct workload_options own = *w;
    struct measurement m = {0};
    struct err why = {0};
    bool warm_up = !(w->request_rate > 0);
    own.seed = job->o->seed;
    own.salt = job->o->salt;
    own.ignore_eos = true;
    enum status st = job->source->measure(job->source->arg, what, &own, warm_up, &m, &why);
    if (st == STATUS_CANCELLED)
        job->out->interrupted = true;
    else if (st)
        fail_point(p, why.text);
    bool ok = st || take_repeats(job, p, &m, unloaded_ms);
    measure_fini(&m);
    return ok ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for the samples of a point");
}

/* The same as a further point of a curve; *added is NULL when there is none, because of an
 * interruption. */
static enum status add_point(struct job *job, enum curves_kind kind, double x,
                             const struct workload_options *w, double unloaded_ms,
                             struct curves_point **added, struct err *err)
{
    struct curve *curve = &job->out->of[kind];
    struct curves_point *p = &curve->points[curve->n];
    REQUIRE(curve->n < CURVES_MAX_POINTS);
    *p = (struct curves_point){.x = x};
    char what[64];
    snprintf(what, sizeof what, kind == CURVES_RATE ? "%s %.4g/s" : "%s %.0f", curves_names[kind],
             x);
    enum status st = measure_point(job, what, p, w, unloaded_ms, err);
    *added = p->failed || p->ttft_ms.n > 0 ? p : NULL;
    curve->n += *added != NULL;
    return st;
}

/* --- curves over lengths and sizes ---------------------------------------------------------- */

static struct workload_options one_at_a_time(const struct curves_options *o, uint32_t prompt_tokens,
                                             uint32_t max_new_tokens)
{
    struct workload_options w = workload_default;
    w.prompt_tokens = prompt_tokens;
    w.max_new_tokens = max_new_tokens;
    w.num_requests = o->samples;
    w.max_concurrency = 1;
    return w;
}

static enum status measure_lengths(struct job *job, enum curves_kind kind, uint32_t first,
                                   uint32_t last, uint32_t max_new_tokens, struct err *err)
{
    struct curve *curve = &job->out->of[kind];
    enum status st = STATUS_OK;
    for (uint64_t n = first; n <= last && !st && !job->out->interrupted; n *= 2) {
        struct curves_point *added;
        struct workload_options w = one_at_a_time(job->o, (uint32_t)n, max_new_tokens);
        if (job->o->n_ctx && n + max_new_tokens > job->o->n_ctx) {
            curve->skipped_from = (uint32_t)n;
            break;
        }
        st = add_point(job, kind, (double)n, &w, NAN, &added, err);
    }
    return st;
}

static enum status measure_batches(struct job *job, struct err *err)
{
    enum status st = STATUS_OK;
    for (uint64_t n = 1; n <= job->o->max_batch && !st && !job->out->interrupted; n *= 2) {
        struct curves_point *added;
        struct workload_options w = workload_default;
        w.prompt_tokens = job->o->prompt_tokens;
        w.max_new_tokens = job->o->max_new_tokens;
        w.num_requests = w.max_concurrency = (uint32_t)n;
        st = add_point(job, CURVES_BATCH, (double)n, &w, NAN, &added, err);
    }
    return st;
}

static void fit_prompts(struct curves *c)
{
    struct curve *curve = &c->of[CURVES_PROMPT];
    double x[CURVES_MAX_POINTS], y[CURVES_MAX_POINTS];
    size_t n = 0;
    for (uint32_t i = 0; i < curve->n; i++) {
        if (curve->points[i].failed)
            continue;
        x[n] = curve->points[i].x;
        y[n++] = curves_median(&curve->points[i].ttft_ms);
    }
    c->has_fit = fit_quadratic(&c->fit, x, y, y, n);
}

/* --- the curve over rates ------------------------------------------------------------------- */

struct search {
    struct job *job;
    double unloaded_ttft_ms, unloaded_latency_ms;
    double good, bad; /* rates; 0: none yet */
    bool far;         /* from holding: no need to go on doubling */
};

static bool holds(const struct search *s, struct curves_point *p)
{
    return !p->failed && curves_median(&p->kept_up) >= CURVES_KEPT_UP &&
           curves_median(&p->ttft_ms) <= s->job->o->knee_factor * s->unloaded_ttft_ms;
}

static enum status try_rate(struct search *s, double rate, struct err *err)
{
    const struct curves_options *o = s->job->o;
    struct workload_options w = workload_default;
    struct curves_point *p;
    w.prompt_tokens = o->prompt_tokens;
    w.max_new_tokens = o->max_new_tokens;
    w.num_requests = o->num_requests;
    w.request_rate = rate;
    enum status st = add_point(s->job, CURVES_RATE, rate, &w, s->unloaded_latency_ms, &p, err);
    if (st || !p)
        return st;
    p->holds = holds(s, p);
    s->far |= p->failed || curves_median(&p->kept_up) < FAR_BEHIND ||
              curves_median(&p->ttft_ms) > FAR_ABOVE * s->unloaded_ttft_ms;
    /* Above a rate that does not hold another may by luck: it does not count. */
    if (p->holds && (!s->bad || rate < s->bad))
        s->good = rate;
    else if (!p->holds && (!s->bad || rate < s->bad))
        s->bad = rate;
    return STATUS_OK;
}

static enum status search_knee(struct search *s, double rate, struct err *err)
{
    const struct curves *c = s->job->out;
    enum status st = STATUS_OK;
    for (int i = 0; i < MAX_DOUBLINGS && rate <= s->job->o->max_rate && !s->far; i++, rate *= 2)
        if ((st = try_rate(s, rate, err)) || c->interrupted)
            return st;
    for (int i = 0; i < MAX_BISECTIONS && s->bad > 0; i++) {
        if (s->good > 0 && s->bad <= NEAR_ENOUGH * s->good)
            break;
        if ((st = try_rate(s, s->good > 0 ? sqrt(s->good * s->bad) : s->bad / 2, err)) ||
            c->interrupted)
            return st;
    }
    return st;
}

static int compare_points(const void *a, const void *b)
{
    double x = ((const struct curves_point *)a)->x, y = ((const struct curves_point *)b)->x;
    return (x > y) - (x < y);
}

static enum status measure_rates(struct job *job, struct err *err)
{
    struct curves *c = job->out;
    struct curve *curve = &c->of[CURVES_RATE];
    struct workload_options w =
        one_at_a_time(job->o, job->o->prompt_tokens, job->o->max_new_tokens);
    c->unloaded.x = 1;
    enum status st = measure_point(job, "rate, unloaded", &c->unloaded, &w, NAN, err);
    if (st || c->unloaded.failed || c->unloaded.latency_ms.n == 0)
        return st;
    struct search s = {.job = job,
                       .unloaded_ttft_ms = curves_median(&c->unloaded.ttft_ms),
                       .unloaded_latency_ms = curves_median(&c->unloaded.latency_ms)};
    double start = job->o->start_rate > 0 ? job->o->start_rate : 1e3 / s.unloaded_latency_ms;
    st = search_knee(&s, start < job->o->max_rate ? start : job->o->max_rate, err);
    qsort(curve->points, curve->n, sizeof *curve->points, compare_points);
    c->knee = s.good > 0 ? s.good : NAN;
    c->knee_reached = s.bad > 0;
    return st;
}

/* --- all of them ---------------------------------------------------------------------------- */

static enum status measure_curve(struct job *job, enum curves_kind kind, struct err *err)
{
    const struct curves_options *o = job->o;
    struct curve *curve = &job->out->of[kind];
    curve->asked = true;
    curve->points = mem_array(CURVES_MAX_POINTS, sizeof *curve->points);
    if (!curve->points)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a curve");
    switch (kind) {
    case CURVES_PROMPT:
        return measure_lengths(job, kind, CURVES_FIRST_PROMPT, o->max_prompt_tokens,
                               CURVES_PROMPT_NEW, err);
    case CURVES_BATCH:
        return measure_batches(job, err);
    case CURVES_CONTEXT:
        return measure_lengths(job, kind, CURVES_FIRST_CONTEXT, o->max_context, o->max_new_tokens,
                               err);
    default:
        return measure_rates(job, err);
    }
}

enum status curves_run(const struct curves_options *o, const struct curves_source *source,
                       struct curves *out, struct err *err)
{
    struct job job = {.o = o, .source = source, .out = out};
    *out = (struct curves){.knee = NAN};
    enum status st = curves_check(o, err);
    for (int kind = 0; kind < CURVES_KINDS && !st && !out->interrupted; kind++)
        if (o->which[kind])
            st = measure_curve(&job, (enum curves_kind)kind, err);
    fit_prompts(out);
    return st;
}

void curves_fini(struct curves *c)
{
    for (int kind = 0; kind < CURVES_KINDS; kind++) {
        for (uint32_t i = 0; i < c->of[kind].n; i++)
            clear_point(&c->of[kind].points[i]);
        mem_free(c->of[kind].points);
    }
    clear_point(&c->unloaded);
    *c = (struct curves){0};
}

bool curves_failed(const struct curves *c, struct err *err)
{
    uint32_t failed = c->unloaded.failed, n = c->of[CURVES_RATE].asked;
    const char *name = "unloaded", *why = c->unloaded.why;
    double x = 1;
    for (int kind = 0; kind < CURVES_KINDS; kind++) {
        n += c->of[kind].n;
        for (uint32_t i = 0; i < c->of[kind].n; i++) {
            const struct curves_point *p = &c->of[kind].points[i];
            if (!p->failed || failed++ > 0)
                continue;
            name = curves_names[kind];
            x = p->x;
            why = p->why;
        }
    }
    if (failed > 0)
        err_set(err, STATUS_UNAVAILABLE, "%u of %u points failed; the first, %s %g: %s", failed, n,
                name, x, why);
    return failed > 0;
}

static struct curves_point *best(struct curve *curve, bool input)
{
    struct curves_point *found = NULL;
    double most = 0;
    for (uint32_t i = 0; i < curve->n; i++) {
        struct curves_point *p = &curve->points[i];
        double rate = input ? p->x / curves_median(&p->ttft_ms) : curves_median(&p->tokens_per_s);
        if (!p->failed && rate > most) {
            most = rate;
            found = p;
        }
    }
    return found;
}

void curves_cost(struct curves *c, const struct curves_options *o, enum curves_cost which,
                 struct series *out)
{
    bool input = which == CURVES_COST_INPUT;
    struct curves_point *p = best(&c->of[input ? CURVES_PROMPT : CURVES_BATCH], input);
    *out = (struct series){0};
    if (!p || !(o->cost_per_hour > 0))
        return;
    const struct series *s = input ? &p->ttft_ms : &p->tokens_per_s;
    for (size_t i = 0; i < s->n; i++) {
        double tokens_per_s = input ? 1e3 * p->x / s->v[i] : s->v[i];
        series_add(out, 1e6 * o->cost_per_hour / (3600 * tokens_per_s));
    }
}
