/* `firstlight bench simulate`: scheduling policies over the same arrivals, in virtual time. */
#include "cli/commands.h"

#include "base/limits.h"
#include "bench/kinds/simulation.h"
#include "bench/result/environment.h"
#include "cli/bench_common.h"
#include "engine/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND      "bench simulate"
#define MAX_POLICIES 16

struct args {
    struct bench_common common;
    struct simulation_options simulation;
    int arrivals;
    const char *trace;
    const char *policies[MAX_POLICIES]; /* of engine_policy_at */
    uint32_t n_policies;
};

static enum status add_policy(struct args *a, const char *text, size_t len, struct err *err)
{
    const char *name, *about;
    for (size_t i = 0; engine_policy_at(i, &name, &about); i++)
        if (strlen(name) == len && memcmp(name, text, len) == 0 && a->n_policies < MAX_POLICIES) {
            a->policies[a->n_policies++] = name;
            return STATUS_OK;
        }
    return err_param(err, STATUS_INVALID, "--policies", "--policies: unknown policy \"%.*s\"",
                     len < 40 ? (int)len : 40, text);
}

static enum status parse_policies(void *field, const char *text, struct err *err)
{
    struct args *a = (struct args *)((char *)field - offsetof(struct args, policies));
    for (a->n_policies = 0;;) {
        size_t len = strcspn(text, ",");
        if (add_policy(a, text, len, err) != STATUS_OK)
            return STATUS_INVALID;
        if (text[len] == '\0')
            return STATUS_OK;
        text += len + 1;
    }
}

static enum status parse_machine(void *field, const char *text, struct err *err)
{
    struct simulate_machine *m = field;
    double *parts[] = {&m->step_us, &m->token_us, &m->pair_us, &m->decode_us, &m->read_us};
    size_t i = 0;
    for (char *end; i < 5; i++, text = end + (i < 5 && *end == ',')) {
        *parts[i] = strtod(text, &end);
        if (end == text || !(*parts[i] >= 0 && *parts[i] <= 1e9))
            break;
    }
    if (i == 5 && *text == '\0' && m->step_us > 0 && m->token_us > 0 && m->decode_us > 0)
        return STATUS_OK;
    return err_param(err, STATUS_INVALID, "--machine",
                     "--machine: expected STEP,TOKEN,PAIR,DECODE,READ in microseconds, the first, "
                     "second and fourth above 0");
}

// clang-format off
static const struct flag own_flags[] = {
    {"--arrivals", "NAME", "bursts|long-among-short|shared-prefix|trace (default bursts)",
     FLAG_CHOICE, FLAG_FIELD(args, arrivals), .choices = simulation_arrivals_names},
    {"--trace", "FILE", "of --arrivals trace: as serve --record writes it",
     FLAG_TEXT, FLAG_FIELD(args, trace)},
    {"--num-requests", "N", "of a run (default 2000)",
     FLAG_U32, FLAG_FIELD(args, simulation.num_requests), .min = 1, .max = LIMIT_BENCH_REQUESTS},
    {"--request-rate", "R", "a second, 10 to 10000 (default 100)",
     FLAG_F64, FLAG_FIELD(args, simulation.request_rate), .min = 10, .max = 10000},
    {"--max-new-tokens", "N", "of an answer (default 32)",
     FLAG_U32, FLAG_FIELD(args, simulation.max_new_tokens), .min = 1, .max = LIMIT_CONTEXT},
    {"--load", "L", "arrivals, of what the machine can do: decides its speed (default 0.7)",
     FLAG_F64, FLAG_FIELD(args, simulation.load), .min = 0.01, .max = 100},
    {"--speed", "F", "of the machine instead: so many times as fast",
     FLAG_F64, FLAG_FIELD(args, simulation.speed), .min = 1e-6, .max = 1e6},
    {"--machine", "LIST", "STEP,TOKEN,PAIR,DECODE,READ: microseconds of a step, of a prompt token\n"
                          "and each position before it, of a decode and each position before it",
     FLAG_CUSTOM, FLAG_FIELD(args, simulation.engine.machine), .parse = parse_machine},
    {"--policies", "LIST", "which (default: all)",
     FLAG_CUSTOM, FLAG_FIELD(args, policies), .parse = parse_policies},
    {"--profile", "NAME", "presets:",
     FLAG_TEXT, FLAG_FIELD(args, simulation.engine.engine.profile),
     .names = engine_profile_at, .zero = PROFILE_DEFAULT},
    {"--max-decode-gap-ms", "N", "promised between two tokens of a stream (default: the profile's)",
     FLAG_U32, FLAG_FIELD(args, simulation.engine.engine.decode_gap_ms), .min = 1, .max = 100000},
    {"--max-batch-size", "N", "sequences of a step (default 64)",
     FLAG_U32, FLAG_FIELD(args, simulation.engine.engine.max_batch_seqs),
     .min = 1, .max = LIMIT_BENCH_IN_ENGINE},
    {"--max-requests", "N", "that wait or run; more are refused (default 2000)",
     FLAG_U32, FLAG_FIELD(args, simulation.engine.engine.n_slots),
     .min = 1, .max = LIMIT_BENCH_IN_ENGINE},
    {"--kv-blocks", "N", "blocks of 32 positions (default 4096)",
     FLAG_U32, FLAG_FIELD(args, simulation.engine.kv_blocks), .min = 1, .max = 1 << 20},
    {"--no-prefix-cache", NULL, "every prompt is computed whole",
     FLAG_BOOL, FLAG_FIELD(args, simulation.engine.engine.no_prefix_cache)},
    {"--ttft-ms", "MS", "goodput: the first token within (default 500)",
     FLAG_F64, FLAG_FIELD(args, simulation.ttft_ms), .min = 0, .max = 1e9},
    {"--gap-ms", "MS", "goodput: no longer gap between two tokens (default 200)",
     FLAG_F64, FLAG_FIELD(args, simulation.gap_ms), .min = 0, .max = 1e9},
};
// clang-format on

static enum status bench_simulate_check(struct args *a, struct replay *replay, struct err *err)
{
    struct simulation_options *o = &a->simulation;
    o->arrivals = (enum simulation_arrivals)a->arrivals;
    o->seed = a->common.seed;
    if ((o->arrivals == SIMULATION_TRACE) != (a->trace != NULL))
        return err_param(err, STATUS_INVALID, "--trace",
                         a->trace ? "--trace goes with --arrivals trace"
                                  : "--arrivals trace needs --trace FILE");
    const char *name, *about;
    for (size_t i = 0; a->n_policies == 0 && i < MAX_POLICIES; i++)
        if (engine_policy_at(i, &name, &about))
            a->policies[i] = name;
    while (a->n_policies < MAX_POLICIES && a->policies[a->n_policies])
        a->n_policies++;
    enum status status = bench_common_check(&a->common, err);
    if (status == STATUS_OK && a->trace)
        status = replay_read(replay, a->trace, &o->replay_options, err);
    o->replay = replay;
    return status;
}

/* All policies, on one run's arrivals. */
static enum status run_policies(const struct args *a, uint32_t run, struct buf *table,
                                struct result *result, const atomic_bool *stop, struct err *err)
{
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < a->n_policies && status == STATUS_OK && !atomic_load(stop); i++) {
        struct simulation_run r;
        status = simulation_run(&a->simulation, a->policies[i], run, &r, err);
        if (status == STATUS_OK && run >= a->common.warmup_runs) {
            simulation_table_row(table, &r);
            simulation_result(&r, run - a->common.warmup_runs, result);
        }
        simulation_run_fini(&r);
    }
    return status;
}

static enum status make_result(const struct args *a, struct result *result, struct err *err)
{
    const struct environment who = {.target = "simulated", .model = "simulated machine"};
    json_t *environment;
    enum status status = environment_json(&environment, &who, err);
    if (status == STATUS_OK)
        result_init(result, "simulate", a->common.note, simulation_workload_json(&a->simulation),
                    environment);
    return status;
}

static enum status bench_simulate_run(struct args *a, struct replay *replay,
                                      const atomic_bool *stop, struct err *err)
{
    struct result result;
    struct buf table = {0};
    enum status status = bench_simulate_check(a, replay, err);
    if (status == STATUS_OK)
        status = make_result(a, &result, err);
    if (status != STATUS_OK)
        return status;
    simulation_table_head(&table, &a->simulation);
    uint32_t n_runs = a->common.warmup_runs + a->common.repeat_runs;
    for (uint32_t i = 0; i < n_runs && status == STATUS_OK && !atomic_load(stop); i++)
        status = run_policies(a, i, &table, &result, stop, err);
    if (status == STATUS_OK)
        return bench_common_publish(&a->common, &table, &result, err);
    buf_fini(&table);
    result_fini(&result);
    return status;
}

int bench_simulate_main(int argc, char **argv)
{
    struct args args = {.common = bench_common_default, .simulation = simulation_default};
    struct replay replay = {0};
    struct err err = {0};
    int exit_code;
    args.common.warmup_runs = 0;
    args.simulation.engine.machine = simulate_machine_default;
    args.simulation.engine.engine.profile = PROFILE_DEFAULT;
    args.simulation.engine.engine.max_batch_seqs = LIMIT_BATCH_SEQS;
    args.simulation.engine.engine.n_slots = 2000;
    struct flag_set set = {
        .command = COMMAND,
        .usage = "[flags]",
        .about =
            "Compares scheduling policies over the same arrivals in virtual time: the engine's\n"
            "scheduler, KV blocks and prefix cache as they are, on a machine that computes\n"
            "nothing. Needs no model.",
        .groups = {FLAG_GROUP(own_flags, &args), bench_common_flags(&args.common)},
    };
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    const atomic_bool *stop = bench_common_catch_interrupt();
    enum status status = bench_simulate_run(&args, &replay, stop, &err);
    replay_fini(&replay);
    return bench_common_exit(COMMAND, status, &err);
}
