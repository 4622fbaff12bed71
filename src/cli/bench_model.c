#include "cli/bench_model.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/version.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/report.h"
#include "engine/evaluator.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define COMMAND  "bench model"
#define MAX_RUNS 1000

struct args {
    struct options options;
    uint32_t n_prompt;
    uint32_t n_generate;
    uint32_t depth;
    uint32_t runs;
    const char *output;
};

// clang-format off
static const struct flag own_flags[] = {
    {"-p", "N", "tokens of the prompt (default 512)",
     FLAG_U32, FLAG_FIELD(args, n_prompt), .min = 1, .max = LIMIT_CONTEXT},
    {"-n", "N", "tokens to decode, one at a time (default 64)",
     FLAG_U32, FLAG_FIELD(args, n_generate), .min = 1, .max = LIMIT_CONTEXT},
    {"--depth", "N", "tokens in the cache before either starts (default 0)",
     FLAG_U32, FLAG_FIELD(args, depth), .min = 0, .max = LIMIT_CONTEXT},
    {"--repeat-runs", "N", "runs of each, after one to warm up (default 5)",
     FLAG_U32, FLAG_FIELD(args, runs), .min = 1, .max = MAX_RUNS},
    {"--output", "FILE", "where to write the JSON; - is standard output",
     FLAG_TEXT, FLAG_FIELD(args, output)},
};
// clang-format on

/* Tokens per second of each run, then sorted. */
struct series {
    const char *name;
    uint32_t n_tokens;
    double rate[MAX_RUNS];
    uint32_t n;
};

struct job {
    const struct args *args;
    struct gguf *gguf;
    struct model *model;
    struct evaluator *evaluator;
    int32_t *tokens; /* depth + the longer of prompt and generation */
    struct series prefill;
    struct series decode;
};

/* Ids without meaning: the arithmetic does not depend on them. Knuth's multiplier. */
static void fill_tokens(struct job *job, size_t n)
{
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        job->tokens[i] = (int32_t)((x >> 8) % job->model->config.n_vocab);
    }
}

static void ignore_logits(void *arg, uint32_t position, const float *logits)
{
    (void)arg;
    (void)position;
    (void)logits;
}

/* Feeds n tokens after `depth` in steps of `step` and asks for each step's last logits. */
static double run_rate(struct job *job, uint32_t n, uint32_t step)
{
    uint32_t depth = job->args->depth;
    evaluator_cut(job->evaluator, depth);
    int64_t start = clock_now_ns();
    for (uint32_t done = 0; done < n; done += step) {
        uint32_t part = n - done < step ? n - done : step;
        evaluator_feed(job->evaluator, job->tokens + depth + done, part, depth + done + part - 1,
                       ignore_logits, NULL);
    }
    return 1e9 * n / (double)(clock_now_ns() - start);
}

static int compare_rates(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct job *job, struct series *s, uint32_t step)
{
    run_rate(job, s->n_tokens, step); /* warm */
    for (s->n = 0; s->n < job->args->runs; s->n++)
        s->rate[s->n] = run_rate(job, s->n_tokens, step);
    qsort(s->rate, s->n, sizeof s->rate[0], compare_rates);
}

static double median(const struct series *s)
{
    return (s->rate[(s->n - 1) / 2] + s->rate[s->n / 2]) / 2;
}

static json_t *series_json(const struct series *s)
{
    return json_pack("{s:i, s:{s:f, s:f, s:f}}", "tokens", (int)s->n_tokens, "tokens_per_s",
                     "median", median(s), "min", s->rate[0], "max", s->rate[s->n - 1]);
}

static json_t *environment_json(const struct job *job)
{
    const struct options *o = &job->args->options;
    char levels[128];
    struct utsname os;
    uname(&os);
    return json_pack("{s:s, s:s, s:i, s:s+++, s:s, s:s, s:s, s:o, s:s, s:s, s:i, s:i}", "cpu",
                     cpu_model_name(), "levels",
                     cpu_levels_text(o->cpu_levels, levels, sizeof levels), "threads",
                     (int)o->n_threads, "kernel", os.sysname, " ", os.release, "", "compiler",
                     version_compiler(), "version", version_number(), "commit", version_commit(),
                     "model", report_text(o->model, strlen(o->model)), "activations",
                     o->activations == ACTIVATIONS_F32 ? "f32" : "int8", "kv_type",
                     o->kv_type == KV_F32 ? "f32" : "f16", "depth", (int)job->args->depth,
                     "repeat_runs", (int)job->args->runs);
}

/* Before anything is measured: a wrong path costs no minutes. Appending keeps what is there. */
static enum status check_output(const char *path, struct err *err)
{
    if (!path || strcmp(path, "-") == 0)
        return STATUS_OK;
    FILE *f = fopen(path, "a");
    if (!f)
        return err_param(err, STATUS_IO, "--output", "cannot write %s: %s", path, strerror(errno));
    fclose(f);
    return STATUS_OK;
}

static enum status write_json(const struct job *job, struct err *err)
{
    const char *path = job->args->output;
    json_t *root = json_pack("{s:o, s:o, s:o}", "prefill", series_json(&job->prefill), "decode",
                             series_json(&job->decode), "environment", environment_json(job));
    FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!root || !f) {
        json_decref(root);
        return err_param(err, STATUS_IO, "--output", "cannot write %s: %s", path, strerror(errno));
    }
    int failed = json_dumpf(root, f, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    failed |= fputc('\n', f) == EOF;
    json_decref(root);
    if (f != stdout)
        failed |= fclose(f) != 0;
    return failed ? err_param(err, STATUS_IO, "--output", "cannot write %s", path) : STATUS_OK;
}

static void print_series(FILE *out, const struct series *s)
{
    fprintf(out, "%-8s %6u %12.1f %12.1f %12.1f\n", s->name, s->n_tokens, median(s), s->rate[0],
            s->rate[s->n - 1]);
}

/* For people: on standard output unless the JSON goes there. */
static void print_table(const struct job *job)
{
    const char *output = job->args->output;
    FILE *out = output && strcmp(output, "-") == 0 ? stderr : stdout;
    fprintf(out, "%s, %u threads, depth %u, %u runs\n", cpu_model_name(),
            job->args->options.n_threads, job->args->depth, job->args->runs);
    fprintf(out, "%-8s %6s %12s %12s %12s\n", "", "tokens", "tokens/s", "min", "max");
    print_series(out, &job->prefill);
    print_series(out, &job->decode);
}

static enum status prepare(struct job *job, struct err *err)
{
    const struct args *a = job->args;
    struct backend_options o = options_backend(&a->options);
    uint32_t longest = a->n_prompt > a->n_generate ? a->n_prompt : a->n_generate;
    if (longest > LIMIT_CONTEXT - a->depth)
        return err_set(err, STATUS_INVALID, "--depth and the tokens after it exceed %u positions",
                       LIMIT_CONTEXT);
    job->tokens = mem_array(a->depth + longest, sizeof *job->tokens);
    if (!job->tokens)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u tokens", a->depth + longest);
    fill_tokens(job, a->depth + longest);
    o.n_ctx = a->depth + longest;
    o.max_rows = LIMIT_BATCH_TOKENS;
    o.max_outputs = 1;
    return evaluator_open(&job->evaluator, &cpu_backend, job->model, &o, err);
}

static enum status run(struct job *job, struct err *err)
{
    const struct args *a = job->args;
    enum status st = check_output(a->output, err);
    if (!st)
        st = gguf_open(&job->gguf, a->options.model, err);
    if (!st)
        st = model_bind(&job->model, job->gguf, err);
    if (!st)
        st = prepare(job, err);
    if (st)
        return st;
    job->prefill = (struct series){.name = "prefill", .n_tokens = a->n_prompt};
    job->decode = (struct series){.name = "decode", .n_tokens = a->n_generate};
    evaluator_feed(job->evaluator, job->tokens, a->depth, UINT32_MAX, NULL, NULL);
    measure(job, &job->prefill, LIMIT_BATCH_TOKENS);
    measure(job, &job->decode, 1);
    print_table(job);
    return a->output ? write_json(job, err) : STATUS_OK;
}

int bench_model_main(int argc, char **argv)
{
    struct args args = {.options = options_default, .n_prompt = 512, .n_generate = 64, .runs = 5};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "[flags]",
        .about = "Measures tokens per second of the model alone: a prompt fed at once, and tokens\n"
                 "decoded one at a time. The default model is " OPTIONS_DEFAULT_MODEL ".",
        .groups = {FLAG_GROUP(own_flags, &args), options_model_flags(&args.options)},
    };
    int exit_code;
    struct err err = {0};
    args.options.model = OPTIONS_DEFAULT_MODEL;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    struct job *job = mem_zalloc(sizeof *job);
    if (!job)
        return EXIT_FAILURE;
    job->args = &args;
    enum status st = options_check(&args.options, &err);
    if (!st)
        st = run(job, &err);
    evaluator_close(job->evaluator);
    mem_free(job->tokens);
    model_free(job->model);
    gguf_close(job->gguf);
    mem_free(job);
    return st ? flags_fail(COMMAND, &err) : EXIT_SUCCESS;
}
