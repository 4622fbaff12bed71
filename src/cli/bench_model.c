/* `firstlight bench model`: tokens per second of the model alone, in prefill and in decode. */
#include "cli/commands.h"

#include "base/cpu.h"
#include "base/limits.h"
#include "bench/kinds/roofline_model.h"
#include "bench/result/environment.h"
#include "bench/result/table.h"
#include "cli/bench_common.h"
#include "cli/flags.h"
#include "cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMAND "bench model"

struct args {
    struct options options;
    struct bench_common common;
    struct model_speed_options speed;
    bool no_roofline;
};

struct figures {
    struct model_speed speed;
    struct roofline_model roofline;
};

// clang-format off
static const struct flag own_flags[] = {
    {"-p", "N", "tokens of the prompt (default 512)",
     FLAG_U32, FLAG_FIELD(args, speed.n_prompt), .min = 1, .max = LIMIT_CONTEXT},
    {"--prompts", "N", "so many prompts in one step, beside one as long as all of them",
     FLAG_U32, FLAG_FIELD(args, speed.n_prompts), .min = 1, .max = LIMIT_BATCH_SEQS},
    {"-n", "N", "tokens to decode, one at a time (default 64)",
     FLAG_U32, FLAG_FIELD(args, speed.n_generate), .min = 1, .max = LIMIT_CONTEXT},
    {"--batch", "N", "sequences that decode together, -n tokens each (default 1)",
     FLAG_U32, FLAG_FIELD(args, speed.batch), .min = 1, .max = LIMIT_BATCH_SEQS},
    {"--depth", "N", "tokens in the cache before any of it starts (default 0)",
     FLAG_U32, FLAG_FIELD(args, speed.depth), .min = 0, .max = LIMIT_CONTEXT},
    {"--no-roofline", NULL, "do not measure what the machine can do at most (half a second)",
     FLAG_BOOL, FLAG_FIELD(args, no_roofline)},
};
// clang-format on

static void bench_model_show_progress(uint32_t run, uint32_t n_runs)
{
    fprintf(stderr, "\r\033[Krun %u of %u", run + 1, n_runs);
    fflush(stderr);
}

/* Percentiles sort, and the result keeps the repeats in order: a copy is sorted. */
static void put_series(struct buf *out, const char *name, uint32_t n_seqs, uint32_t n_tokens,
                       const struct series *s)
{
    struct series sorted = {0};
    series_add_all(&sorted, s);
    buf_printf(out, "%-8s %4u %8u", name, n_seqs, n_tokens);
    table_number(out, 12, 1, series_percentile(&sorted, 50));
    table_number(out, 12, 1, series_percentile(&sorted, 0));
    table_number(out, 12, 1, series_percentile(&sorted, 100));
    buf_putc(out, '\n');
    out->failed |= sorted.failed;
    series_fini(&sorted);
}

static enum status bench_model_print_table(const struct args *a, const struct figures *f,
                                           struct err *err)
{
    const struct model_speed_options *s = &a->speed;
    struct buf table = {0};
    buf_printf(&table, "%s, %u threads, depth %u, ", cpu_model_name(), a->options.engine.n_threads,
               s->depth);
    table_count(&table, a->common.repeat_runs, "run");
    buf_printf(&table, "\n%-8s %4s %8s %12s %12s %12s\n", "", "seqs", "tokens", "tokens/s", "min",
               "max");
    put_series(&table, "prefill", 1, s->n_prompts * s->n_prompt, &f->speed.prefill);
    if (s->n_prompts > 1)
        put_series(&table, "prompts", s->n_prompts, s->n_prompt, &f->speed.prompts);
    put_series(&table, "decode", s->batch, s->n_generate, &f->speed.decode);
    if (!a->no_roofline)
        roofline_model_table(&table, &f->roofline, s, &f->speed);
    enum status st = bench_common_print(&a->common, &table, err);
    buf_fini(&table);
    return st;
}

static enum status bench_model_write_result(const struct args *a, const struct loader *loader,
                                            const struct figures *f, struct err *err)
{
    const struct options *o = &a->options;
    const struct environment e = {
        .target = "in-process",
        .model = loader->name,
        .model_path = o->dummy ? o->dummy : o->model,
        .threads = o->engine.n_threads,
        .cpu_levels = o->engine.cpu_levels,
        .activations = o->engine.activations,
        .kv_type = o->engine.kv_type,
        .has_engine_options = true,
    };
    struct result result;
    json_t *environment;
    enum status st = environment_json(&environment, &e, err);
    if (st)
        return st;
    result_init(&result, "model", a->common.note, model_speed_workload(&a->speed), environment);
    model_speed_result(&f->speed, &result);
    if (!a->no_roofline)
        roofline_model_result(&f->roofline, &a->speed, &f->speed, &result);
    st = bench_common_write(&a->common, &result, err);
    result_fini(&result);
    return st;
}

static enum status bench_model_measure(struct args *a, const struct loader *loader, struct err *err)
{
    struct figures f = {0};
    a->speed.backend = options_backend(&a->options);
    a->speed.warmup_runs = a->common.warmup_runs;
    a->speed.repeat_runs = a->common.repeat_runs;
    a->speed.seed = a->common.seed;
    a->speed.progress = isatty(STDERR_FILENO) ? bench_model_show_progress : NULL;
    enum status st = STATUS_OK;
    if (!a->no_roofline) {
        roofline_model_init(&f.roofline, loader->model, &a->speed.backend);
        st = roofline_model_measure(&f.roofline, err);
    }
    if (!st)
        st = model_speed_run(&f.speed, loader->model, &a->speed, err);
    if (!st && !a->no_roofline)
        st = roofline_model_measure(&f.roofline, err);
    bench_common_progress_clear();
    if (!st)
        st = loader_check(loader, err);
    if (!st)
        st = bench_model_print_table(a, &f, err);
    if (!st && a->common.output)
        st = bench_model_write_result(a, loader, &f, err);
    roofline_model_fini(&f.roofline);
    model_speed_fini(&f.speed);
    return st;
}

static enum status bench_model_run(struct args *a, struct err *err)
{
    struct loader loader = {0};
    enum status st = bench_common_check(&a->common, err);
    if (!st)
        st = options_check(&a->options, err);
    if (!st)
        st = options_load(&a->options, &loader, err);
    if (!st)
        st = bench_model_measure(a, &loader, err);
    loader_close(&loader);
    return st;
}

int bench_model_main(int argc, char **argv)
{
    struct args args = {
        .options = options_default,
        .common = bench_common_default,
        .speed = {.n_prompt = 512, .n_prompts = 1, .n_generate = 64, .batch = 1},
    };
    struct flag_set set = {
        .command = COMMAND,
        .usage = "[flags]",
        .about =
            "Measures tokens per second of the model alone: a prompt fed at once, several prompts\n"
            "in one step, tokens decoded one at a time, of one sequence or several together; and\n"
            "what that is in percent of the machine's peaks, measured in the same run. The "
            "default\n"
            "model is " OPTIONS_DEFAULT_MODEL ".",
        .groups = {FLAG_GROUP(own_flags, &args), bench_common_flags(&args.common),
                   options_model_flags(&args.options)},
    };
    int exit_code;
    struct err err = {0};
    args.options.model = OPTIONS_DEFAULT_MODEL;
    args.common.repeat_runs = 5;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    return bench_model_run(&args, &err) ? flags_fail(COMMAND, &err) : EXIT_SUCCESS;
}
