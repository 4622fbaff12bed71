/* Which differences are more than noise, and why a comparison proves nothing. */
#include "bench/result/compare_internal.h"

#include "base/mem.h"
#include "bench/result/permutation.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The metrics that a person looks at first. */
static const char *const headlines[] = {"ttft_p50", "ttft_p95",     "ttft_p99",
                                        "itl_p99",  "tokens_per_s", "failures"};
#define N_HEADLINES (sizeof headlines / sizeof headlines[0])

/* The machine's own figures of a run. */
static const struct {
    const char *key, *name, *unit;
} machine_figures[] = {
    {"arithmetic", "arithmetic of one thread", "GFLOP/s"},
    {"reading", "reading of one thread", "GB/s"},
    {"stolen_percent", "stolen processor time", "%"},
};
#define N_MACHINE (sizeof machine_figures / sizeof machine_figures[0])
#define STOLEN    2

/* --- independent measurements --------------------------------------------------------------- */

/* The repeats of a side, of all its files one after the other, and the starts they belong to. */
struct starts {
    const json_t **run; /* (n_repeats) NULL: the kind keeps no run for each repeat */
    size_t *file, *of;  /* (n_repeats) the file; the start, counted over all files */
    size_t n_repeats, n;
};

static void starts_fini(struct starts *s)
{
    mem_free(s->run);
    mem_free(s->file);
    mem_free(s->of);
}

static size_t count_repeats(const struct result *r)
{
    const char *name;
    json_t *metric;
    size_t most = 0;
    json_object_foreach(json_object_get(r->root, "metrics"), name, metric)
    {
        size_t n = json_array_size(json_object_get(metric, "repeats"));
        most = n > most ? n : most;
    }
    return most;
}

/* The run that repeat `index` of a file was; where runs have modes, the one of the first mode. NULL
 * where the kind has other runs than one a repeat. */
static const json_t *run_of(const struct result *r, size_t index, size_t n_repeats)
{
    const json_t *runs = json_object_get(r->root, "runs"), *found = NULL;
    const json_t *mode = json_object_get(json_array_get(runs, 0), "mode");
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        if (mode && !json_equal((json_t *)mode, json_object_get(run, "mode")))
            continue;
        bool told = json_object_get(run, "requests") || json_object_get(run, "start");
        found = n == index && told ? run : found;
        n++;
    }
    return n == n_repeats ? found : NULL;
}

static json_int_t start_of(const json_t *run)
{
    return json_integer_value(json_object_get(run, "start"));
}

/* The start that the last repeat belongs to: one that an earlier repeat of the file had, or another
 * one. Files from before starts were counted hold one. */
static size_t find_start(const struct starts *s, size_t first_repeat)
{
    size_t last = s->n_repeats - 1;
    for (size_t i = first_repeat; i < last && s->run[last]; i++)
        if (s->run[i] && start_of(s->run[i]) == start_of(s->run[last]))
            return s->of[i];
    return s->n;
}

static void add_repeats(struct starts *s, const struct result *r, size_t file)
{
    size_t n = count_repeats(r), first = s->n_repeats;
    for (size_t i = 0; i < n; i++) {
        s->run[s->n_repeats] = run_of(r, i, n);
        s->file[s->n_repeats++] = file;
        size_t start = find_start(s, first);
        s->of[s->n_repeats - 1] = start;
        s->n += start == s->n;
    }
}

static bool starts_find(struct starts *s, struct compare_side side)
{
    size_t n = 0;
    for (size_t i = 0; i < side.n; i++)
        n += count_repeats(&side.results[i]);
    *s = (struct starts){.run = mem_array(n ? n : 1, sizeof(json_t *)),
                         .file = mem_array(n ? n : 1, sizeof(size_t)),
                         .of = mem_array(n ? n : 1, sizeof(size_t))};
    if (!s->run || !s->file || !s->of)
        return false;
    for (size_t i = 0; i < side.n; i++)
        add_repeats(s, &side.results[i], i);
    return true;
}

/* Where the values of a test come from: value `repeat` of side `side`, NAN where it has none. */
struct source {
    const struct compare *c;
    const struct starts *starts; /* (2) */
    double (*value)(const struct source *s, size_t side, size_t repeat);
    const char *key; /* of a metric, or of a figure of the machine */
};

static double metric_value(const struct source *s, size_t side, size_t repeat)
{
    const struct starts *starts = &s->starts[side];
    struct compare_side files = side == 0 ? s->c->before : s->c->after;
    size_t file = starts->file[repeat], first = repeat;
    while (first > 0 && starts->file[first - 1] == file)
        first--;
    const json_t *repeats = json_object_get(compare_metric(files, file, s->key), "repeats");
    if (json_array_size(repeats) != count_repeats(&files.results[file]))
        return NAN; /* which of them has no value is not known */
    return json_number_value(json_array_get(repeats, repeat - first));
}

static double machine_value(const struct source *s, size_t side, size_t repeat)
{
    const json_t *run = s->starts[side].run[repeat];
    const json_t *value = json_object_get(json_object_get(run, "machine"), s->key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The medians of the starts of one side, into out. False: a repeat has no value. */
static bool add_starts(const struct source *s, size_t side, double *out)
{
    const struct starts *starts = &s->starts[side];
    bool whole = true;
    for (size_t start = 0; start < starts->n; start++) {
        struct series v = {0};
        for (size_t i = 0; i < starts->n_repeats; i++) {
            double value = starts->of[i] == start ? s->value(s, side, i) : 0;
            whole = whole && isfinite(value);
            if (starts->of[i] == start)
                series_add(&v, value);
        }
        out[start] = series_percentile(&v, 50);
        whole = whole && isfinite(out[start]);
        series_fini(&v);
    }
    return whole;
}

/* Both sides' medians, as logarithms where all are above 0: ratios are what compares. False: a
 * repeat has no value. */
static bool find_values(const struct source *s, double *out)
{
    size_t n_before = s->starts[0].n, n = n_before + s->starts[1].n;
    bool whole = add_starts(s, 0, out) && add_starts(s, 1, out + n_before), positive = true;
    for (size_t i = 0; i < n; i++)
        positive = positive && out[i] > 0;
    for (size_t i = 0; i < n && positive; i++)
        out[i] = log(out[i]);
    return whole;
}

/* --- verdicts ------------------------------------------------------------------------------- */

static enum compare_verdict compare_judge_verdict_of(const struct compare_row *row,
                                                     double difference)
{
    if (row->p > COMPARE_ALPHA)
        return COMPARE_NOISE;
    if (strcmp(row->better, "neither") == 0)
        return COMPARE_CHANGED;
    return (difference < 0) == (strcmp(row->better, "lower") == 0) ? COMPARE_BETTER : COMPARE_WORSE;
}

/* How much higher "after" is, on the average of its starts. */
static double mean_difference(const double *values, size_t n_before, size_t n_after)
{
    double d = 0;
    for (size_t i = 0; i < n_before + n_after; i++)
        d += i < n_before ? -values[i] / (double)n_before : values[i] / (double)n_after;
    return d;
}

/* Tests the rows of one family together. */
static bool judge_family(struct compare *c, const struct starts *starts, bool headline)
{
    size_t n_before = starts[0].n, n = n_before + starts[1].n, n_rows = c->n_rows ? c->n_rows : 1;
    double *values = mem_array(n_rows * n, sizeof *values);
    double *p = mem_array(n_rows, sizeof *p);
    struct compare_row **tested = mem_array(n_rows, sizeof(struct compare_row *));
    struct permutation d = {.n_before = n_before, .n_after = starts[1].n, .values = values};
    bool ok = values && p && tested;
    for (size_t i = 0; i < c->n_rows && ok; i++) {
        const struct source s = {c, starts, metric_value, c->rows[i].name};
        if (c->rows[i].headline == headline && find_values(&s, values + d.n_metrics * n))
            tested[d.n_metrics++] = &c->rows[i];
    }
    ok = ok && permutation_test(&d, p);
    for (size_t i = 0; i < d.n_metrics && ok; i++) {
        tested[i]->p = p[i];
        tested[i]->verdict = compare_judge_verdict_of(
            tested[i], mean_difference(values + i * n, n_before, starts[1].n));
    }
    mem_free(values);
    mem_free(p);
    mem_free(tested);
    return ok;
}

static bool is_headline(const char *name)
{
    for (size_t i = 0; i < N_HEADLINES; i++)
        if (strcmp(name, headlines[i]) == 0)
            return true;
    return false;
}

/* A kind without any of the headline metrics has only such. */
static void choose_headlines(struct compare *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_rows; i++) {
        c->rows[i].headline = is_headline(c->rows[i].name);
        n += c->rows[i].headline;
    }
    for (size_t i = 0; i < c->n_rows && n == 0; i++)
        c->rows[i].headline = true;
}

/* --- doubts --------------------------------------------------------------------------------- */

/* "A.json", "A.json and 4 more"; returns out. */
static const char *side_name(struct compare_side side, char out[200])
{
    if (side.n > 1)
        snprintf(out, 200, "%.150s and %zu more", side.names[0], side.n - 1);
    else
        snprintf(out, 200, "%.199s", side.names[0]);
    return out;
}

/* A sentence; names in it may be of any bytes. */
__attribute__((format(printf, 2, 3))) static bool add_text(json_t *list, const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return json_array_append_new(list, result_text(text)) == 0;
}

static bool doubt_starts(struct compare *c, struct compare_side side, const struct starts *s)
{
    char name[200];
    if (s->n >= COMPARE_STARTS)
        return true;
    side_name(side, name);
    if (s->n_repeats <= 1)
        return add_text(c->doubts,
                        "%s is a single run, which proves nothing: give "
                        "at least %d repeats (--repeat-runs %d)",
                        name, COMPARE_STARTS, COMPARE_STARTS);
    if (s->n == s->n_repeats)
        return add_text(c->doubts,
                        "%s has %zu repeats, which are too few: give at "
                        "least %d (--repeat-runs %d)",
                        name, s->n, COMPARE_STARTS, COMPARE_STARTS);
    return add_text(c->doubts,
                    "%s has %zu repeats of %zu start%s of the server, and starts of "
                    "one program differ by more than repeats do: give files of at "
                    "least %d starts, or use bench ab",
                    name, s->n_repeats, s->n, s->n == 1 ? "" : "s", COMPARE_STARTS);
}

static void count_cached(struct compare *c)
{
    for (size_t side = 0; side < 2; side++) {
        struct compare_side files = side == 0 ? c->before : c->after;
        for (size_t i = 0; i < files.n; i++) {
            size_t k;
            json_t *run;
            json_array_foreach(json_object_get(files.results[i].root, "runs"), k, run)
            {
                const json_t *cached = json_object_get(run, "cached_tokens");
                const json_t *prompt = json_object_get(run, "prompt_tokens");
                if (!json_object_get(run, "requests"))
                    continue; /* a simulation's, which are results */
                c->cached_tokens[side] += (uint64_t)json_integer_value(cached);
                c->prompt_tokens[side] += (uint64_t)json_integer_value(prompt);
            }
        }
    }
}

static double compare_judge_cached_percent(const struct compare *c, size_t side)
{
    uint64_t n = c->prompt_tokens[side];
    return n ? 100 * (double)c->cached_tokens[side] / (double)n : 0;
}

static bool doubt_cached(struct compare *c)
{
    count_cached(c);
    double before = compare_judge_cached_percent(c, 0), after = compare_judge_cached_percent(c, 1);
    if (fabs(before - after) <= COMPARE_CACHED_PERCENT)
        return true;
    return add_text(c->doubts,
                    "the prefix cache had %.1f %% of the prompt tokens "
                    "before and %.1f %% after: the sides did not compute "
                    "the same",
                    before, after);
}

/* --- the machine ---------------------------------------------------------------------------- */

static const char *cpu_of(struct compare_side side)
{
    const json_t *environment = json_object_get(side.results->root, "environment");
    const char *cpu = json_string_value(json_object_get(environment, "cpu"));
    return cpu ? cpu : "";
}

static double compare_judge_median(const double *v, size_t n)
{
    const struct series s = {.v = (double *)v, .n = n};
    return series_median(&s);
}

/* Of percent of a machine's speed, or points of a percentage that was stolen. */
static bool moved(size_t figure, double before, double after)
{
    double by = figure == STOLEN ? after - before : 100 * (after - before) / fabs(before);
    return fabs(by) > COMPARE_DRIFT_PERCENT;
}

static bool add_drift(struct compare *c, size_t figure, double before, double after)
{
    return add_text(c->doubts,
                    "the machine drifted, which proves nothing of the program: %s was "
                    "%.1f %s before and %.1f after; repeat both in turns, or use "
                    "bench ab",
                    machine_figures[figure].name, before, machine_figures[figure].unit, after);
}

/* Medians of each start, (N_MACHINE, n). False: a run does not say. */
static bool find_machine(const struct compare *c, const struct starts *starts, double *values)
{
    size_t n_before = starts[0].n, n = n_before + starts[1].n;
    bool whole = true;
    for (size_t i = 0; i < N_MACHINE; i++) {
        const struct source s = {c, starts, machine_value, machine_figures[i].key};
        whole = whole && add_starts(&s, 0, values + i * n) &&
                add_starts(&s, 1, values + i * n + n_before);
    }
    return whole;
}

/* Two machines differ, which is no drift. */
static bool doubt_machine(struct compare *c, const struct starts *starts)
{
    size_t n_before = starts[0].n, n_after = starts[1].n, n = n_before + n_after;
    double p[N_MACHINE], *values = mem_array(N_MACHINE * n, sizeof *values);
    const struct permutation d = {n_before, n_after, N_MACHINE, values};
    bool of_requests = starts[0].run[0] && starts[1].run[0], ok = values != NULL;
    bool one_machine = strcmp(cpu_of(c->before), cpu_of(c->after)) == 0;
    if (ok && of_requests && one_machine && !find_machine(c, starts, values)) {
        ok = add_text(c->notes, "a file does not say how fast the machine was during its runs: "
                                "whether it drifted is not known");
    } else if (ok && of_requests && one_machine) {
        ok = permutation_test(&d, p);
        for (size_t i = 0; i < N_MACHINE && ok; i++) {
            double before = compare_judge_median(values + i * n, n_before);
            double after = compare_judge_median(values + i * n + n_before, n_after);
            if (p[i] <= COMPARE_DRIFT_ALPHA && moved(i, before, after))
                ok = add_drift(c, i, before, after);
        }
    }
    mem_free(values);
    return ok;
}

/* --- all of it ------------------------------------------------------------------------------ */

static bool judge_all(struct compare *c, const struct starts *starts)
{
    choose_headlines(c);
    if (starts[0].n == 0 || starts[1].n == 0)
        return true; /* no metric at all */
    return judge_family(c, starts, true) && judge_family(c, starts, false) &&
           doubt_starts(c, c->before, &starts[0]) && doubt_starts(c, c->after, &starts[1]) &&
           doubt_machine(c, starts) && doubt_cached(c);
}

enum status compare_judge(struct compare *c, struct err *err)
{
    struct starts starts[2] = {0};
    c->doubts = json_array();
    c->notes = json_array();
    for (size_t i = 0; i < c->n_rows; i++) {
        c->rows[i].p = NAN;
        c->rows[i].verdict = COMPARE_NONE;
    }
    bool ok = c->doubts && c->notes && starts_find(&starts[0], c->before) &&
              starts_find(&starts[1], c->after);
    size_t n = starts[0].n_repeats + starts[1].n_repeats;
    if (ok && n > PERMUTATION_REPEATS) {
        err_set(err, STATUS_INVALID, "%zu repeats: at most %d can be compared", n,
                PERMUTATION_REPEATS);
    } else if (!ok || !judge_all(c, starts)) {
        ok = false;
        err_set(err, STATUS_NO_MEMORY, "no memory for the comparison");
    }
    for (size_t i = 0; i < c->n_rows && json_array_size(c->doubts); i++)
        c->rows[i].verdict = COMPARE_NONE;
    starts_fini(&starts[0]);
    starts_fini(&starts[1]);
    if (!ok)
        return STATUS_NO_MEMORY;
    return n > PERMUTATION_REPEATS ? STATUS_INVALID : STATUS_OK;
}
