/* `firstlight bench ab`: two servers in turns. */
#include "bench/client/target_open.h"
#include "cli/commands.h"

#include "base/limits.h"
#include "bench/client/server_process.h"
#include "bench/kinds/ab.h"
#include "bench/result/environment.h"
#include "bench/result/machine.h"
#include "cli/bench_common.h"
#include "cli/bench_workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND         "bench ab"
#define DEFAULT_WIDTH   3
#define DEFAULT_LIMIT_S 600
#define DEFAULT_PAIRS   24
#define DEFAULT_WARMUPS 4
#define DEFAULT_PROMPT  128 /* tokens */
#define START_SECONDS   300

struct args {
    struct bench_common common; /* its output, note, seed and warm-ups */
    struct bench_workload asked;
    const char *sides[AB_SIDES]; /* a URL or a command */
    const char *model, *api_key_file, *tokenizer;
    int metric;
    uint32_t timeout_seconds, pairs, start_seconds;
    double width_percent, time_limit_s;
};

/* One run of the command. */
struct job {
    struct args *args;
    struct server_process processes[AB_SIDES];
    struct target *targets[AB_SIDES];
    struct loader loader; /* of --tokenizer */
    const atomic_bool *stop;
};

// clang-format off
static const struct flag own_flags[] = {
    {"--a", "SERVER", "the server to compare with: a URL, or a command that starts one",
     FLAG_TEXT, FLAG_FIELD(args, sides[AB_A])},
    {"--b", "SERVER", "the server that is judged",
     FLAG_TEXT, FLAG_FIELD(args, sides[AB_B])},
    {"--metric", "NAME", "whose interval ends it: ttft_p50 (default), ttft_p95, ttft_p99,\n"
                         "itl_p99, tpot_p50, tokens_per_s, processor_s",
     FLAG_CHOICE, FLAG_FIELD(args, metric), .choices = ab_metric_names},
    {"--width", "PERCENT", "end when the 95 % interval of the difference is as narrow as that\n"
                           "(default 3)",
     FLAG_F64, FLAG_FIELD(args, width_percent), .min = 0.01, .max = 1000},
    {"--time-limit", "SECONDS", "or when so much time has passed (default 600)",
     FLAG_F64, FLAG_FIELD(args, time_limit_s), .min = 1, .max = LIMIT_BENCH_SECONDS},
    {"--pairs", "N", "pairs of runs of a block; before each block servers that are commands are\n"
                     "started anew",
     FLAG_U32, FLAG_FIELD(args, pairs), .min = 1, .max = LIMIT_BENCH_RUNS,
     .zero = "none"},
    {"--start-timeout", "SECONDS", "for a command until its server answers",
     FLAG_U32, FLAG_FIELD(args, start_seconds), .min = 1, .max = LIMIT_BENCH_SECONDS,
     .zero = "none"},
    {"--model", "NAME", "as the servers call it (default: the first that each lists)",
     FLAG_TEXT, FLAG_FIELD(args, model)},
    {"--api-key-file", "PATH", "its first key is sent",
     FLAG_TEXT, FLAG_FIELD(args, api_key_file)},
    {"--tokenizer", "PATH", "a GGUF file whose tokenizer counts prompt tokens",
     FLAG_TEXT, FLAG_FIELD(args, tokenizer)},
    {"--timeout", "SECONDS", "for one request as a whole",
     FLAG_U32, FLAG_FIELD(args, timeout_seconds), .min = 1, .max = LIMIT_BENCH_SECONDS,
     .zero = "none"},
};

static const struct flag run_flags[] = {
    {"--output", "FILE", "where to write the JSON; - is standard output",
     FLAG_TEXT, FLAG_FIELD(bench_common, output)},
    {"--note", "TEXT", "kept in the JSON",
     FLAG_TEXT, FLAG_FIELD(bench_common, note)},
    {"--seed", "N", "of lengths, arrivals and the order of runs (default 0)",
     FLAG_U64, FLAG_FIELD(bench_common, seed), .max = BENCH_COMMON_MAX_SEED},
    {"--warmup-runs", "N", "runs of each side after each start, whose figures are thrown away",
     FLAG_U32, FLAG_FIELD(bench_common, warmup_runs), .max = LIMIT_BENCH_RUNS, .zero = "none"},
};
// clang-format on

static bool is_url(const char *side)
{
    return strncmp(side, "http://", 7) == 0 || strncmp(side, "https://", 8) == 0 ||
           strncmp(side, "grpc://", 7) == 0;
}

static enum status bench_ab_check(const struct args *a, struct err *err)
{
    static const char *const flags[] = {"--a", "--b"};
    for (int i = 0; i < AB_SIDES; i++)
        if (!a->sides[i] || !*a->sides[i])
            return err_param(err, STATUS_INVALID, flags[i],
                             "%s is needed: a URL, or a command that starts a server", flags[i]);
    return bench_common_check(&a->common, err);
}

/* --- the sides ------------------------------------------------------------------------------ */

static void close_side(struct job *job, int side)
{
    if (job->targets[side])
        job->targets[side]->ops->close(job->targets[side]);
    job->targets[side] = NULL;
    server_process_stop(&job->processes[side]);
}

/* The port of a URL of this machine; 0: of another one, or none is named. */
static uint16_t local_port(const char *url)
{
    const char *host = strstr(url, "://") + 3, *colon = strrchr(host, ':');
    static const char *const names[] = {"127.", "localhost:", "[::1]:"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strncmp(host, names[i], strlen(names[i])) == 0 && colon)
            return (uint16_t)strtoul(colon + 1, NULL, 10);
    return 0;
}

static enum status connect_to(struct job *job, int side, const char *url, struct err *err)
{
    const struct args *a = job->args;
    return target_open_url(&job->targets[side],
                           &(struct http_options){
                               .url = url,
                               .api_key_file = a->api_key_file,
                               .model = a->model,
                               .timeout_seconds = a->timeout_seconds,
                               .max_connections = bench_workload_at_once(&a->asked.options),
                           },
                           err);
}

static enum status start_command(struct job *job, int side, struct err *err)
{
    const struct args *a = job->args;
    struct server_process *p = &job->processes[side];
    close_side(job, side);
    enum status st = server_process_start(p, a->sides[side], a->start_seconds, job->stop, err);
    if (!st)
        st = connect_to(job, side, p->url, err);
    return st;
}

/* ab_options' start. A URL is connected to once and stays as it is. */
static enum status bench_ab_start(void *arg, int side, struct target **t, pid_t *pid,
                                  struct err *err)
{
    struct job *job = arg;
    const char *text = job->args->sides[side];
    enum status st = STATUS_OK;
    if (!is_url(text))
        st = start_command(job, side, err);
    else if (!job->targets[side])
        st = connect_to(job, side, text, err);
    *t = job->targets[side];
    *pid = job->processes[side].pid;
    if (!st && is_url(text) && local_port(text))
        *pid = machine_listener(local_port(text));
    return st;
}

/* --- the whole ------------------------------------------------------------------------------ */

static void bench_ab_show_progress(void *arg, uint32_t n_blocks, const struct signed_rank *d,
                                   double seconds)
{
    (void)arg;
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r\033[K%u blocks, %.0f s: %+.1f %% (%+.1f to %+.1f)", n_blocks, seconds,
            d->estimate, d->low, d->high);
    fflush(stderr);
}

static enum status bench_ab_report(struct job *job, const struct ab *ab, const struct ab_options *o,
                                   struct err *err)
{
    const struct bench_common *common = &job->args->common;
    const struct environment e = {.target = "two servers", .model = ab->sides[AB_A].model};
    struct buf table = {0};
    struct result result = {0};
    json_t *environment;
    bench_common_progress_clear();
    table.failed |= !ab_table(&table, ab, o);
    enum status st = bench_common_print(common, &table, err);
    buf_fini(&table);
    if (!st)
        st = environment_json(&environment, &e, err);
    if (st)
        return st;
    result_init(&result, "ab", common->note, workload_json(o->workload), environment);
    ab_result(ab, o, &result);
    st = bench_common_write(common, &result, err);
    result_fini(&result);
    return st;
}

static enum status bench_ab_run(struct job *job, struct err *err)
{
    struct args *a = job->args;
    struct measure_options measure =
        bench_common_measure(&a->common, job->loader.tokenizer, job->stop);
    measure.progress = NULL;
    const struct ab_options options = {
        .names = {a->sides[AB_A], a->sides[AB_B]},
        .workload = &a->asked.options,
        .measure = &measure,
        .pairs = a->pairs,
        .metric = (enum ab_metric)a->metric,
        .width_percent = a->width_percent,
        .time_limit_s = a->time_limit_s,
        .seed = a->common.seed,
        .start = bench_ab_start,
        .anew = {!is_url(a->sides[AB_A]), !is_url(a->sides[AB_B])},
        .one_cache = is_url(a->sides[AB_A]) && strcmp(a->sides[AB_A], a->sides[AB_B]) == 0,
        .progress = bench_ab_show_progress,
        .arg = job,
    };
    struct ab ab = {0};
    struct err later = {0};
    enum status st = ab_run(&ab, &options, err);
    if (ab.n_blocks > 0 && bench_ab_report(job, &ab, &options, &later) && !st) {
        *err = later;
        st = later.code;
    }
    for (int i = 0; i < AB_SIDES && !st; i++)
        if (ab.sides[i].n_failed > 0)
            st = err_set(err, STATUS_UNAVAILABLE, "%u of %u requests to %s failed; the first: %s",
                         ab.sides[i].n_failed, ab.sides[i].n_requests, i == AB_A ? "A" : "B",
                         ab.sides[i].first_error);
    ab_fini(&ab);
    return st;
}

static enum status bench_ab_run_all(struct job *job, struct err *err)
{
    struct args *a = job->args;
    enum status st = bench_ab_check(a, err);
    if (!st && a->tokenizer && loader_open(&job->loader, a->tokenizer, NULL, NULL, err))
        st = err_context(err, "--tokenizer");
    bench_workload_settle(&a->asked, &a->common, bench_common_salt(&bench_common_target));
    if (!st)
        st = bench_ab_run(job, err);
    for (int side = 0; side < AB_SIDES; side++)
        close_side(job, side);
    loader_close(&job->loader);
    return st;
}

/* Without --prompt and --prompt-tokens: of a length, so that there is something to prefill. */
static void choose_prompts(struct workload_options *w)
{
    if (!w->prompt && w->prompt_tokens == 0)
        w->prompt_tokens = DEFAULT_PROMPT;
    if (!w->prompt)
        w->prompt = workload_default.prompt;
}

int bench_ab_main(int argc, char **argv)
{
    struct args args = {
        .common = bench_common_default,
        .asked.options = workload_default,
        .timeout_seconds = BENCH_COMMON_TIMEOUT_SECONDS,
        .pairs = DEFAULT_PAIRS,
        .start_seconds = START_SECONDS,
        .width_percent = DEFAULT_WIDTH,
        .time_limit_s = DEFAULT_LIMIT_S,
    };
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--a SERVER --b SERVER [flags]",
        .about =
            "Finds by how much two servers differ on a machine that is noisy: both are up, their\n"
            "runs alternate in random order, and it goes on until the 95 % interval of the\n"
            "difference is narrow enough. SERVER is a URL, or a command that starts a server:\n\n"
            "  firstlight bench ab --a 'old/firstlight serve --model M' \\\n"
            "                      --b 'build/firstlight serve --model M'\n\n"
            "A command is one program with its flags, behind VARIABLE=value if need be; {port} in\n"
            "it becomes a free port, and without that --host 127.0.0.1 --port N is appended.\n"
            "Commands are started anew for every block of pairs of runs, since starts\n"
            "of one program differ, too. Both servers are in memory at once. A run is a single\n"
            "request unless --num-requests says otherwise: the finer the turns, the more of the\n"
            "machine's noise both sides share; for load, ask for many at once, and for fewer\n"
            "pairs. Prompts have 128 tokens unless --prompt or --prompt-tokens is given.",
        .groups = {FLAG_GROUP(own_flags, &args), bench_workload_flags(&args.asked),
                   FLAG_GROUP(run_flags, &args.common)},
    };
    struct err err = {0};
    int exit_code;
    args.common.warmup_runs = DEFAULT_WARMUPS;
    args.asked.options.num_requests = 1;
    args.asked.options.max_new_tokens = 16;
    args.asked.options.prompt = NULL;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    choose_prompts(&args.asked.options);
    struct job job = {.args = &args, .stop = bench_common_catch_interrupt()};
    enum status st = bench_ab_run_all(&job, &err);
    return bench_common_exit(COMMAND, st, &err);
}
