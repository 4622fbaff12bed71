/* firstlight bench replay: a trace played against an engine or a server. */
#include "cli/commands.h"

#include "base/limits.h"
#include "bench/load/replay.h"
#include "cli/bench_common.h"

#include <stdlib.h>

#define COMMAND   "bench replay"
#define LABEL     "%-26s" /* as in the table below it */
#define MIN_SPEED 1e-3
#define MAX_SPEED 1e6

struct args {
    struct bench_common common;
    struct bench_target_options target;
    struct replay_options replay;
    uint32_t max_concurrency;
    struct goodput goodput;
    const char *path;
};

// clang-format off
static const struct flag own_flags[] = {
    {"--speed", "FACTOR", "2: in half the time (default 1: as it was)",
     FLAG_F64, FLAG_FIELD(args, replay.speed), .min = MIN_SPEED, .max = MAX_SPEED},
    {"--num-requests", "N", "only the first N (default: all)",
     FLAG_U32, FLAG_FIELD(args, replay.num_requests), .max = LIMIT_BENCH_REQUESTS},
    {"--max-length", "N", "leave out what has more tokens, prompt and answer together",
     FLAG_U32, FLAG_FIELD(args, replay.max_length), .max = 2 * LIMIT_CONTEXT},
    {"--max-concurrency", "N", "requests in flight at most; others wait (default: no bound)",
     FLAG_U32, FLAG_FIELD(args, max_concurrency), .max = LIMIT_BENCH_REQUESTS},
    {"--goodput", "LIST", "objectives in ms, such as ttft:500,tpot:50,e2el:5000",
     FLAG_CUSTOM, FLAG_FIELD(args, goodput), .parse = bench_common_parse_goodput},
};
// clang-format on

/* What goes into a run: its items are made when its turn comes. */
struct job {
    const struct args *args;
    const atomic_bool *stop;
    struct replay replay;
    struct bench_target target;
    struct measurement m;
    uint32_t inexact; /* prompts of the last run */
};

static enum status bench_replay_make_items(void *arg, uint32_t run, struct workload *out,
                                           struct err *err)
{
    struct job *job = arg;
    return replay_make(out, &job->replay, &job->args->replay, job->target.tokenizer, run,
                       &job->inexact, err);
}

static uint32_t at_once(const struct job *job)
{
    uint32_t n = job->replay.n, most = job->args->max_concurrency;
    return most > 0 && most < n ? most : n;
}

static enum status bench_replay_measure(struct job *job, struct err *err)
{
    const struct args *args = job->args;
    struct measure_options options =
        bench_common_measure(&args->common, job->target.tokenizer, job->stop);
    options.goodput = bench_common_goodput(&args->goodput);
    bench_common_start_each(&options, &job->target);
    enum status st = measure_made(job->target.target, bench_replay_make_items, job,
                                  args->max_concurrency, &options, &job->m, err);
    bench_common_progress_clear();
    return st;
}

/* What the table does not know of: which trace it was and what of it was not played. */
static void put_trace(struct buf *out, const struct job *job)
{
    const struct replay *r = &job->replay;
    double seconds = (r->requests[r->n - 1].at_ms - r->requests[0].at_ms) / 1e3;
    buf_printf(out, LABEL "%s (sha256 %.12s)\n", "trace", job->args->path, r->sha256);
    buf_printf(out, LABEL "%u requests in %.3f s, at %g times the speed\n", "played", r->n, seconds,
               job->args->replay.speed);
    if (r->empty > 0)
        buf_printf(out, LABEL "%u without a prompt or an output\n", "left out", r->empty);
    if (r->too_long > 0)
        buf_printf(out, LABEL "%u of more than %u tokens\n", "left out", r->too_long,
                   job->args->replay.max_length);
    if (r->dropped > 0)
        buf_printf(out, LABEL "%llu that the trace's recorder dropped\n", "missing",
                   (unsigned long long)r->dropped);
    if (!job->target.tokenizer)
        buf_printf(out, LABEL "a word is taken for a token; --tokenizer makes them exact\n",
                   "prompt lengths");
    if (job->inexact > 0)
        buf_printf(out, LABEL "%u are not exactly those recorded\n", "prompt lengths",
                   job->inexact);
}

static enum status bench_replay_show(struct job *job, struct err *err)
{
    const struct args *args = job->args;
    const struct bench_requests requests = {&args->common, &args->target, &job->target, &job->m,
                                            bench_common_goodput(&args->goodput)};
    struct buf table = {0};
    put_trace(&table, job);
    return bench_common_requests(&requests, "replay",
                                 replay_json(&job->replay, &args->replay, args->max_concurrency),
                                 &table, err);
}

/* The table and the file come also when requests failed: then STATUS_UNAVAILABLE. */
static enum status bench_replay_run(struct job *job, struct args *args, struct err *err)
{
    enum status st = bench_common_check(&args->common, err);
    if (st == STATUS_OK)
        st = replay_read(&job->replay, args->path, &args->replay, err);
    if (st == STATUS_OK)
        st = bench_common_open(&job->target, &args->target, at_once(job), err);
    if (st == STATUS_OK)
        st = bench_replay_measure(job, err);
    if (st == STATUS_OK)
        st = bench_replay_show(job, err);
    if (st == STATUS_OK && measure_failed(&job->m, err))
        st = err->code;
    measure_fini(&job->m);
    bench_common_close(&job->target);
    replay_fini(&job->replay);
    return st;
}

/* A run of a trace takes as long as the trace: there is no other before it unless asked for. */
int bench_replay_main(int argc, char **argv)
{
    struct args args = {
        .common = bench_common_default,
        .target = bench_common_target,
        .replay.speed = 1,
    };
    struct flag_set set = {
        .command = COMMAND,
        .usage = "FILE [flags]",
        .about = "Plays a trace (of serve --record, or a Mooncake trace) against an engine in this "
                 "process,\nor with --url against a server: prompts of the same lengths that share "
                 "the same blocks,\nat the same moments. No warm-up run unless --warmup-runs asks "
                 "for one.",
        .groups = {FLAG_GROUP(own_flags, &args), bench_common_flags(&args.common),
                   bench_common_target_flags(&args.target),
                   options_engine_flags(&args.target.options),
                   options_model_flags(&args.target.options)},
        .positional = &args.path,
        .max_positional = 1,
    };
    struct err err = {0};
    int exit_code;
    args.common.warmup_runs = 0;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    const atomic_bool *stop = bench_common_catch_interrupt();
    struct job job = {.args = &args, .stop = stop};
    args.replay.seed = args.common.seed;
    args.replay.salt = bench_common_salt(&args.target);
    enum status st =
        args.path ? bench_replay_run(&job, &args, &err)
                  : err_set(&err, STATUS_INVALID, "expected a trace: firstlight " COMMAND " FILE");
    return bench_common_exit(COMMAND, st, &err);
}
