/* `firstlight bench scheduler`: the engine without HTTP, online and offline. */
#include "cli/commands.h"

#include "base/limits.h"
#include "bench/kinds/scheduler_bench.h"
#include "cli/bench_common.h"

#include <stdio.h>
#include <stdlib.h>

#define COMMAND          "bench scheduler"
#define DEFAULT_REQUESTS 64
#define DEFAULT_PROMPT   128
#define DEFAULT_TOKENS   64
#define DEFAULT_RATE     4

struct args {
    struct bench_common common;
    struct bench_target_options target; /* never a URL */
    int mode;                           /* enum scheduler_bench; -1: not given */
    uint32_t num_requests;
    uint32_t prompt_tokens;
    uint32_t max_new_tokens;
    double request_rate; /* 0: not given */
    double burstiness;   /* 0: not given */
};

static const char *const mode_names[] = {
    [SCHEDULER_BENCH_ONLINE] = "online", [SCHEDULER_BENCH_OFFLINE] = "offline", NULL};

// clang-format off
static const struct flag own_flags[] = {
    {"--mode", "online|offline", "how the engine is used; needed",
     FLAG_CHOICE, FLAG_FIELD(args, mode), .choices = mode_names},
    {"--num-requests", "N", "requests of one run (default 64)",
     FLAG_U32, FLAG_FIELD(args, num_requests), .min = 1, .max = LIMIT_BENCH_IN_ENGINE},
    {"--prompt-tokens", "N", "tokens of each prompt, all prompts distinct (default 128)",
     FLAG_U32, FLAG_FIELD(args, prompt_tokens), .min = 1, .max = LIMIT_CONTEXT},
    {"--max-new-tokens", "N", "tokens of each answer, past any end of text (default 64)",
     FLAG_U32, FLAG_FIELD(args, max_new_tokens), .min = 2, .max = LIMIT_CONTEXT},
    {"--request-rate", "R", "online: requests a second (default 4)",
     FLAG_F64, FLAG_FIELD(args, request_rate), .min = 1e-3, .max = 1e6},
    {"--burstiness", "B", "online: 1 is a Poisson process, below 1 comes in bursts, above 1\n"
                          "is more even (default 1)",
     FLAG_F64, FLAG_FIELD(args, burstiness), .min = 1e-3, .max = 1e3},
};
// clang-format on

static const char about[] =
    "Measures the engine alone, without HTTP.\n"
    "online: requests arrive one by one and stream; shows TTFT, TPOT and latency.\n"
    "offline: all requests at once, and only their end counts, so there is no TTFT; shows the\n"
    "time and throughput of prefill and of decode. Prompts and decodes share the engine's\n"
    "steps, so each run is two passes over different prompts of the same lengths: one that\n"
    "makes a single token a request takes P seconds, one that makes all of them W seconds.\n"
    "  prefill  P      prompt tokens / P\n"
    "  decode   W - P  new tokens but each request's first / (W - P)";

/* One run of the command. */
struct job {
    const struct args *args;
    enum scheduler_bench mode;
    struct workload_options workload;
    struct bench_target target;
    struct measurement measurement;
    const atomic_bool *stop;
};

static enum status bench_scheduler_check(struct job *job, struct err *err)
{
    const struct args *a = job->args;
    if (a->mode < 0)
        return err_param(err, STATUS_INVALID, "--mode", "--mode online|offline is required");
    job->mode = (enum scheduler_bench)a->mode;
    if (job->mode == SCHEDULER_BENCH_OFFLINE && (a->request_rate > 0 || a->burstiness > 0))
        return err_param(err, STATUS_INVALID, "--request-rate",
                         "%s goes with --mode online; offline, all requests are there at once",
                         a->request_rate > 0 ? "--request-rate" : "--burstiness");
    job->workload = workload_default;
    job->workload.num_requests = a->num_requests;
    job->workload.prompt_tokens = a->prompt_tokens;
    job->workload.max_new_tokens = a->max_new_tokens;
    job->workload.ignore_eos = true;
    job->workload.stream = job->mode == SCHEDULER_BENCH_ONLINE;
    job->workload.seed = a->common.seed;
    if (job->mode == SCHEDULER_BENCH_ONLINE) {
        job->workload.request_rate = a->request_rate > 0 ? a->request_rate : DEFAULT_RATE;
        job->workload.burstiness = a->burstiness > 0 ? a->burstiness : 1;
    }
    return bench_common_check(&a->common, err);
}

static enum status bench_scheduler_measure(struct job *job, struct err *err)
{
    struct target *t = job->target.target;
    struct measure_options options =
        bench_common_measure(&job->args->common, job->target.tokenizer, job->stop);
    if (job->mode == SCHEDULER_BENCH_ONLINE)
        bench_common_start_each(&options, &job->target);
    enum status st =
        job->mode == SCHEDULER_BENCH_ONLINE
            ? measure_run(t, &job->workload, &options, &job->measurement, err)
            : scheduler_bench_measure_offline(t, &job->workload, &options, &job->measurement, err);
    bench_common_progress_clear();
    return st;
}

static enum status bench_scheduler_report(struct job *job, struct err *err)
{
    const struct bench_common *common = &job->args->common;
    struct buf table = {0};
    struct result result;
    scheduler_bench_table(&table, job->mode, &job->measurement, &job->workload, job->target.target);
    result_init(&result, "scheduler", common->note,
                scheduler_bench_workload_json(job->mode, &job->workload), job->target.environment);
    job->target.environment = NULL;
    scheduler_bench_result(job->mode, &job->measurement, &result);
    return bench_common_finish(common, &table, &result, &job->measurement, err);
}

static enum status bench_scheduler_run(struct job *job, struct args *args, struct err *err)
{
    enum status st = bench_scheduler_check(job, err);
    if (!st)
        st = bench_common_open(&job->target, &args->target, args->num_requests, err);
    if (!st)
        st = bench_scheduler_measure(job, err);
    return st ? st : bench_scheduler_report(job, err);
}

int bench_scheduler_main(int argc, char **argv)
{
    struct args args = {
        .common = bench_common_default,
        .target = bench_common_target,
        .mode = -1,
        .num_requests = DEFAULT_REQUESTS,
        .prompt_tokens = DEFAULT_PROMPT,
        .max_new_tokens = DEFAULT_TOKENS,
    };
    args.target.options = options_default;
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--mode online|offline --model PATH [flags]",
        .about = about,
        .groups = {FLAG_GROUP(own_flags, &args), bench_common_flags(&args.common),
                   options_model_flags(&args.target.options),
                   options_engine_flags(&args.target.options)},
    };
    int exit_code;
    struct err err = {0};
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    struct job job = {.args = &args, .stop = bench_common_catch_interrupt()};
    enum status st = bench_scheduler_run(&job, &args, &err);
    measure_fini(&job.measurement);
    bench_common_close(&job.target);
    return bench_common_exit(COMMAND, st, &err);
}
