/* `firstlight bench curves`: how TTFT and throughput change with length, batch and rate. */
#include "bench/client/target_open.h"
#include "cli/commands.h"

#include "base/limits.h"
#include "bench/kinds/curves.h"
#include "cli/bench_common.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND "bench curves"

struct args {
    struct bench_common common;
    struct bench_target_options target;
    struct curves_options curves;
};

/* One of curves_names; -1 for another. */
static int find_curve(const char *name, size_t len)
{
    for (int i = 0; curves_names[i]; i++)
        if (strlen(curves_names[i]) == len && memcmp(curves_names[i], name, len) == 0)
            return i;
    return -1;
}

static enum status parse_only(void *field, const char *text, struct err *err)
{
    bool *which = field;
    memset(which, 0, CURVES_KINDS * sizeof *which);
    for (;;) {
        size_t len = strcspn(text, ",");
        int i = find_curve(text, len);
        if (i < 0)
            return err_param(err, STATUS_INVALID, "--only",
                             "--only: expected some of prompt,batch,context,rate, got \"%.*s\"",
                             len < 40 ? (int)len : 40, text);
        which[i] = true;
        if (text[len] == '\0')
            return STATUS_OK;
        text += len + 1;
    }
}

// clang-format off
static const struct flag own_flags[] = {
    {"--only", "LIST", "some of prompt,batch,context,rate (default: all)",
     FLAG_CUSTOM, FLAG_FIELD(args, curves.which), .parse = parse_only},
    {"--max-prompt-tokens", "N", "the prompt curve goes 32, 64, ... to N (default 4096)",
     FLAG_U32, FLAG_FIELD(args, curves.max_prompt_tokens),
     .min = CURVES_FIRST_PROMPT, .max = LIMIT_CONTEXT},
    {"--max-context", "N", "the context curve goes 128, 256, ... to N (default 4096)",
     FLAG_U32, FLAG_FIELD(args, curves.max_context),
     .min = CURVES_FIRST_CONTEXT, .max = LIMIT_CONTEXT},
    {"--max-batch", "N", "the batch curve goes 1, 2, 4, ... to N requests (default 64)",
     FLAG_U32, FLAG_FIELD(args, curves.max_batch), .min = 1, .max = LIMIT_BENCH_IN_ENGINE},
    {"--prompt-tokens", "N", "of a request in the batch and rate curves (default 128)",
     FLAG_U32, FLAG_FIELD(args, curves.prompt_tokens), .min = 1, .max = LIMIT_CONTEXT},
    {"--max-new-tokens", "N", "of a request but in the prompt curve, which has 4 (default 32)",
     FLAG_U32, FLAG_FIELD(args, curves.max_new_tokens), .min = 2, .max = LIMIT_CONTEXT},
    {"--samples", "N", "requests of a point of the prompt and context curves (default 5)",
     FLAG_U32, FLAG_FIELD(args, curves.samples), .min = 1, .max = LIMIT_BENCH_REQUESTS},
    {"--num-requests", "N", "requests of a point of the rate curve (default 64)",
     FLAG_U32, FLAG_FIELD(args, curves.num_requests), .min = 1, .max = LIMIT_BENCH_IN_ENGINE},
    {"--start-rate", "R", "requests per second to begin with\n"
                          "(default: what one request at a time makes)",
     FLAG_F64, FLAG_FIELD(args, curves.start_rate), .min = 1e-3, .max = 1e6},
    {"--max-rate", "R", "no doubling past it (default 10000)",
     FLAG_F64, FLAG_FIELD(args, curves.max_rate), .min = 1e-3, .max = 1e6},
    {"--knee-factor", "F", "a rate holds while TTFT p50 is at most so many times that of one\n"
                           "request at a time (default 2)",
     FLAG_F64, FLAG_FIELD(args, curves.knee_factor), .min = 1, .max = 1e3},
    {"--machine-cost-per-hour", "C", "in any currency: says what a million tokens cost",
     FLAG_F64, FLAG_FIELD(args, curves.cost_per_hour), .min = 0, .max = 1e9},
};
// clang-format on

/* --- the run -------------------------------------------------------------------------------- */

struct job {
    const struct args *args;
    struct bench_target target;
    const atomic_bool *stop;
    uint32_t n_runs; /* so far: each point has prompts of its own */
};

static enum status bench_curves_measure(void *arg, const char *what,
                                        const struct workload_options *w, bool warm_up,
                                        struct measurement *out, struct err *err)
{
    struct job *job = arg;
    struct measure_options options =
        bench_common_measure(&job->args->common, job->target.tokenizer, job->stop);
    options.first_run = job->n_runs;
    if (!warm_up)
        options.warmup_runs = 0;
    options.arg = (void *)what;
    job->n_runs += options.warmup_runs + options.repeat_runs;
    enum status status = measure_run(job->target.target, w, &options, out, err);
    bench_common_progress_clear();
    return status;
}

static enum status bench_curves_report(struct job *job, struct curves *c,
                                       const struct curves_options *o, struct err *err)
{
    const struct bench_common *common = &job->args->common;
    const struct target *target = job->target.target;
    struct buf table = {0};
    struct result result;
    buf_printf(&table, "%s; %s; repeats: %u\n", target->model, target->engine, common->repeat_runs);
    table.failed |= !curves_table(&table, c, o);
    result_init(&result, "curves", common->note,
                bench_common_workload(&job->args->target, curves_workload_json(o)),
                job->target.environment);
    job->target.environment = NULL;
    curves_result(c, o, &result);
    return bench_common_publish(common, &table, &result, err);
}

/* The tables and the file come also when points failed: then STATUS_UNAVAILABLE. */
static enum status run_curves(struct job *job, struct curves_options *o, struct err *err)
{
    const struct curves_source source = {.measure = bench_curves_measure, .arg = job};
    const struct engine *engine = target_engine(job->target.target);
    struct curves c = {0};
    struct engine_info info;
    if (engine) {
        engine_info(engine, &info);
        o->n_ctx = info.n_ctx;
    }
    enum status status = curves_run(o, &source, &c, err);
    if (status == STATUS_OK)
        status = bench_curves_report(job, &c, o, err);
    if (status == STATUS_OK && curves_failed(&c, err))
        status = err->code;
    curves_fini(&c);
    return status;
}

static enum status bench_curves_run(struct args *args, const atomic_bool *stop, struct err *err)
{
    struct job job = {.args = args, .stop = stop};
    struct curves_options o = args->curves;
    o.seed = args->common.seed;
    o.salt = bench_common_salt(&args->target);
    enum status status = curves_check(&o, err);
    if (status == STATUS_OK)
        status = bench_common_check(&args->common, err);
    if (status != STATUS_OK)
        return status;
    status = bench_common_open(&job.target, &args->target, curves_at_once(&o), err);
    if (status == STATUS_OK)
        status = run_curves(&job, &o, err);
    bench_common_close(&job.target);
    return status;
}

int bench_curves_main(int argc, char **argv)
{
    struct args args = {
        .common = bench_common_default,
        .target = bench_common_target,
        .curves = curves_default,
    };
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--model PATH [flags]",
        .about =
            "Measures how TTFT and throughput change with prompt length, requests at once,\n"
            "context length and request rate, of an engine in this process or with --url of\n"
            "any server that speaks the OpenAI API.\n\n"
            "A rate holds while TTFT p50 is at most --knee-factor times that of one request at a\n"
            "time, and the run takes little longer than an unloaded target would need: its last\n"
            "arrival and one unloaded latency are at least 95 % of it. The knee is the highest\n"
            "rate that holds.\n\n"
            "With all defaults a target that computes 1,700 prompt tokens a second and decodes\n"
            "200 (one request) to 800 (64 requests) takes 4 to 7 minutes. --only, --max-context\n"
            "and --samples make it shorter; --repeat-runs makes it so many times longer.",
        .groups = {FLAG_GROUP(own_flags, &args), bench_common_flags(&args.common),
                   bench_common_target_flags(&args.target),
                   options_engine_flags(&args.target.options),
                   options_model_flags(&args.target.options)},
    };
    struct err err = {0};
    int exit_code;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    const atomic_bool *stop = bench_common_catch_interrupt();
    enum status status = bench_curves_run(&args, stop, &err);
    return bench_common_exit(COMMAND, status, &err);
}
