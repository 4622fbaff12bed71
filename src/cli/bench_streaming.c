/* `firstlight bench streaming`: what a stream of requests sees, and where their time goes. */
#include "cli/commands.h"

#include "base/limits.h"
#include "base/mem.h"
#include "bench/kinds/streaming_table.h"
#include "cli/bench_aliases.h"
#include "cli/bench_blocking.h"
#include "cli/bench_common.h"
#include "cli/bench_workload.h"

#include <stdlib.h>
#include <string.h>

#define COMMAND "bench streaming"
/* The reference tool's batch. */
#define DEFAULT_BATCH         64
#define DEFAULT_PREFILL_BATCH 16

struct args {
    struct bench_common common;
    struct bench_target_options target;
    struct bench_workload asked;
    struct goodput goodput; /* none given: all 0 */
    struct bench_aliases aliases;
    bool compare_blocking;
};

/* --- flags ---------------------------------------------------------------------------------- */

#define FIELD(name) FLAG_FIELD(args, name)

// clang-format off
static const struct flag own_flags[] = {
    {"--goodput", "LIST", "objectives in ms, such as ttft:500,tpot:50,e2el:5000",
     FLAG_CUSTOM, FIELD(goodput), .parse = bench_common_parse_goodput},
    {"--compare-blocking", NULL, "the same requests in turns: without streaming (blocking),\n"
                                 "through the engine cpu-sync (sync), and streamed; unless --url\n"
                                 "is given it starts three servers, which are in memory at once",
     FLAG_BOOL, FIELD(compare_blocking)},
};
// clang-format on

/* --- checks before anything is opened ------------------------------------------------------- */

/* An endless decode on an engine that serves one request at a time leaves none for the others. */
static enum status check_background(const struct bench_target_options *o, struct err *err)
{
    const struct engine_kind *kind = o->url ? NULL : engine_kind_find(o->options.engine_name, NULL);
    if (kind && kind->mode == ENGINE_SYNC)
        return err_param(err, STATUS_INVALID, "--background",
                         "--background does not go with --engine %s, which serves one request at "
                         "a time",
                         kind->name);
    return STATUS_OK;
}

static enum status bench_streaming_check(struct args *args, char **path, struct err *err)
{
    struct options *o = &args->target.options;
    bench_workload_settle(&args->asked, &args->common, bench_common_salt(&args->target));
    enum status status = bench_aliases_check(&args->aliases, err);
    if (status == STATUS_OK)
        status = bench_common_check(&args->common, err);
    if (status == STATUS_OK)
        status = bench_aliases_model(&args->aliases, &o->model, path, err);
    if (status == STATUS_OK && args->asked.options.background > 0)
        status = check_background(&args->target, err);
    if (!args->target.url && o->engine.max_batch_seqs == 0)
        o->engine.max_batch_seqs = DEFAULT_BATCH;
    return status;
}

/* --- the run -------------------------------------------------------------------------------- */

static enum status bench_streaming_measure(const struct args *args, struct bench_target *target,
                                           const atomic_bool *stop, struct measurement *m,
                                           struct err *err)
{
    struct measure_options options = bench_common_measure(&args->common, target->tokenizer, stop);
    options.goodput = bench_common_goodput(&args->goodput);
    bench_common_start_each(&options, target);
    enum status status = measure_run(target->target, &args->asked.options, &options, m, err);
    bench_common_progress_clear();
    return status;
}

static enum status bench_streaming_show(const struct args *args, struct bench_target *target,
                                        struct measurement *m, struct err *err)
{
    const struct bench_requests requests = {&args->common, &args->target, target, m,
                                            bench_common_goodput(&args->goodput)};
    struct buf table = {0};
    return bench_common_requests(&requests, "streaming", workload_json(&args->asked.options),
                                 &table, err);
}

/* The table and the file come also when requests failed (then STATUS_UNAVAILABLE), and of the
 * repeats before one that could not be run. */
static enum status bench_streaming_run(struct args *args, const atomic_bool *stop, struct err *err)
{
    struct bench_target target;
    struct measurement m = {0};
    struct err later = {0};
    enum status status = bench_common_open(&target, &args->target,
                                           bench_workload_at_once(&args->asked.options), err);
    if (status == STATUS_OK)
        status = bench_streaming_measure(args, &target, stop, &m, err);
    enum status shown = m.n_runs > 0 ? bench_streaming_show(args, &target, &m, &later) : STATUS_OK;
    if (status == STATUS_OK && (shown != STATUS_OK || measure_failed(&m, &later))) {
        *err = later;
        status = later.code;
    }
    measure_fini(&m);
    bench_common_close(&target);
    return status;
}

static enum status run_either(struct args *args, const atomic_bool *stop, struct err *err)
{
    const struct bench_blocking blocking = {
        .common = &args->common,
        .target = &args->target,
        .workload = &args->asked.options,
        .goodput = bench_common_goodput(&args->goodput),
        .at_once = bench_workload_at_once(&args->asked.options),
        .stop = stop,
    };
    return args->compare_blocking ? bench_blocking_run(&blocking, err)
                                  : bench_streaming_run(args, stop, err);
}

int bench_streaming_main(int argc, char **argv)
{
    struct args args = {
        .common = bench_common_default,
        .target = bench_common_target,
        .asked.options = workload_default,
    };
    args.target.options = options_default;
    args.target.options.engine.max_step_prompts = DEFAULT_PREFILL_BATCH;
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--model PATH [flags]",
        .about =
            "Sends requests to an engine in this process, or with --url to any server that "
            "speaks\nthe OpenAI API, or a gRPC port (grpc://HOST:PORT), and says where their time "
            "went.",
        .groups = {bench_workload_flags(&args.asked), FLAG_GROUP(own_flags, &args),
                   bench_common_flags(&args.common), bench_common_target_flags(&args.target),
                   options_engine_flags(&args.target.options),
                   options_model_flags(&args.target.options),
                   bench_aliases_streaming(&args.aliases)},
    };
    struct err err = {0};
    int exit_code;
    char *path = NULL;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    const atomic_bool *stop = bench_common_catch_interrupt();
    enum status status = bench_streaming_check(&args, &path, &err);
    if (status == STATUS_OK)
        status = run_either(&args, stop, &err);
    exit_code = bench_common_exit(COMMAND, status, &err);
    mem_free(path);
    return exit_code;
}
