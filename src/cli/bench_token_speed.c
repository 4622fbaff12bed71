/* `firstlight bench token-speed`: the standard prompts through an engine by name or a server. */
#include "cli/commands.h"

#include "base/limits.h"
#include "bench/kinds/token_speed.h"
#include "cli/bench_aliases.h"
#include "cli/bench_common.h"

#include <stdio.h>
#include <stdlib.h>

#define COMMAND      "bench token-speed"
#define DEFAULT_RUNS 3

struct args {
    struct bench_common common;
    struct bench_target_options target;
    const char *prompts; /* NULL: the standard ones */
    uint32_t concurrency;
    uint32_t max_new_tokens;
    bool unique_prompts;
    bool stop_on_eos;
    bool raw;
};

// clang-format off
static const struct flag own_flags[] = {
    {"--concurrency", "N", "requests at once, which take the prompts in turn\n"
                           "(default 1: one prompt after the other)",
     FLAG_U32, FLAG_FIELD(args, concurrency), .min = 1, .max = LIMIT_BENCH_IN_ENGINE},
    {"--max-new-tokens", "N", "tokens of each answer (default 128)",
     FLAG_U32, FLAG_FIELD(args, max_new_tokens), .min = 1, .max = LIMIT_CONTEXT},
    {"--stop-on-eos", NULL, "end an answer where the model does; then the runs make different\n"
                            "numbers of tokens",
     FLAG_BOOL, FLAG_FIELD(args, stop_on_eos)},
    {"--raw", NULL, "no chat template: each prompt is continued as it stands",
     FLAG_BOOL, FLAG_FIELD(args, raw)},
    {"--prompts", "FILE", "these instead of the standard prompts, as JSON:\n"
                          "{\"token_speed\": [{\"id\": \"code\", \"text\": \"...\"}, ...]}",
     FLAG_TEXT, FLAG_FIELD(args, prompts)},
    {"--unique-prompts", NULL, "a distinct line before each prompt, for a server whose prefix\n"
                               "cache would know a prompt that was asked before",
     FLAG_BOOL, FLAG_FIELD(args, unique_prompts)},
};
// clang-format on

static const char about[] =
    "Measures tokens per second and the time to the first token (TTFT) of three standard\n"
    "prompts: a long text in Chinese, code, and mathematics, each as one user message in the\n"
    "model's chat template, without randomness.\n"
    "  tokens/s  new tokens over the time from sending to the end: what a reader gets\n"
    "  decode/s  new tokens but the first over the time from the first to the end\n"
    "The prompts are asked as they stand, again in each run. A server with a prefix cache\n"
    "answers a repeated prompt sooner: cached tokens are counted where the server tells, and\n"
    "--unique-prompts avoids it.";

/* One run of the command. */
struct job {
    const struct args *args;
    struct token_speed_options options;
    struct prompt_set prompts;
    struct bench_target target;
    struct measurement measurement;
    const atomic_bool *stop;
};

static enum status bench_token_speed_report(struct job *job, struct err *err)
{
    const struct bench_common *common = &job->args->common;
    struct buf table = {0};
    struct result result;
    token_speed_table(&table, &job->measurement, &job->prompts, &job->options, job->target.target);
    result_init(&result, "token-speed", common->note,
                bench_common_workload(&job->args->target,
                                      token_speed_workload_json(&job->prompts, &job->options)),
                job->target.environment);
    job->target.environment = NULL;
    token_speed_result(&job->measurement, &job->prompts, &result);
    return bench_common_finish(common, &table, &result, &job->measurement, err);
}

static enum status bench_token_speed_measure(struct job *job, struct err *err)
{
    struct measure_options options =
        bench_common_measure(&job->args->common, job->target.tokenizer, job->stop);
    bench_common_start_each(&options, &job->target);
    enum status st = token_speed_measure(job->target.target, &job->prompts, &job->options, &options,
                                         &job->measurement, err);
    bench_common_progress_clear();
    return st;
}

static enum status bench_token_speed_run(struct job *job, struct args *args, struct err *err)
{
    enum status st = bench_common_check(&args->common, err);
    if (!st)
        st = args->prompts ? prompt_set_read(&job->prompts, args->prompts, err)
                           : prompt_set_standard(&job->prompts, err);
    if (!st)
        st = bench_common_open(&job->target, &args->target, args->concurrency, err);
    if (!st)
        st = bench_token_speed_measure(job, err);
    return st ? st : bench_token_speed_report(job, err);
}

int bench_token_speed_main(int argc, char **argv)
{
    struct args args = {
        .common = bench_common_default,
        .target = bench_common_target,
        .concurrency = token_speed_default.concurrency,
        .max_new_tokens = token_speed_default.max_new_tokens,
    };
    args.common.repeat_runs = DEFAULT_RUNS;
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--model PATH [--engine NAME] [--runs N] [--concurrency N] [flags]",
        .about = about,
        .groups = {bench_aliases_token_speed(&args.common), FLAG_GROUP(own_flags, &args),
                   bench_common_flags(&args.common), bench_common_target_flags(&args.target),
                   options_model_flags(&args.target.options),
                   options_engine_flags(&args.target.options)},
    };
    int exit_code;
    struct err err = {0};
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    struct job job = {.args = &args, .stop = bench_common_catch_interrupt()};
    job.options = (struct token_speed_options){
        .concurrency = args.concurrency,
        .max_new_tokens = args.max_new_tokens,
        .ignore_eos = !args.stop_on_eos,
        .chat = !args.raw,
        .unique_prompts = args.unique_prompts,
        .seed = args.common.seed,
        .salt = bench_common_salt(&args.target),
    };
    enum status st = bench_token_speed_run(&job, &args, &err);
    measure_fini(&job.measurement);
    bench_common_close(&job.target);
    prompt_set_fini(&job.prompts);
    return bench_common_exit(COMMAND, st, &err);
}
