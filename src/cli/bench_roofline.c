/* `firstlight bench roofline`: what this machine can do at most, in reading and in arithmetic. */
#include "cli/commands.h"

#include "base/cpu.h"
#include "base/limits.h"
#include "bench/kinds/roofline.h"
#include "bench/result/environment.h"
#include "bench/result/table.h"
#include "cli/bench_common.h"
#include "cli/flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COMMAND "bench roofline"

struct args {
    struct bench_common common;
    struct roofline_options roofline;
    uint32_t cpu_mask;
};

static enum status bench_roofline_parse_cpu_mask(void *field, const char *text, struct err *err)
{
    return cpu_parse_mask(text, field, err);
}

// clang-format off
static const struct flag own_flags[] = {
    {"--threads", "N", "threads at most; 1, 2, 4 .. are measured too (default: all usable\n"
                       "processors)",
     FLAG_U32, FLAG_FIELD(args, roofline.n_threads), .min = 1, .max = LIMIT_THREADS},
    {"--cpu-mask", "MASK", "levels: -avx512 leaves one out, avx2 keeps only that, c is plain C\n"
                           "(default: all this machine has)",
     FLAG_CUSTOM, FLAG_FIELD(args, cpu_mask), .parse = bench_roofline_parse_cpu_mask},
    {"--footprint", "SIZE", "of a model whose weights are read again and again (default: 98 MB,\n"
                            "the default model's)",
     FLAG_SIZE, FLAG_FIELD(args, roofline.footprint)},
    {"--run-ms", "MS", "of one run (default 20)",
     FLAG_U32, FLAG_FIELD(args, roofline.run_ms), .min = 1, .max = 10000},
};
// clang-format on

static void bench_roofline_show_progress(uint32_t point, uint32_t n)
{
    fprintf(stderr, "\r\033[Kpoint %u of %u", point + 1, n);
    fflush(stderr);
}

static enum status bench_roofline_print_table(const struct args *a, const struct roofline *r,
                                              struct err *err)
{
    char levels[128];
    struct buf table = {0};
    buf_printf(&table, "%s, %s, ", cpu_model_name(),
               cpu_levels_text(a->roofline.cpu_levels, levels, sizeof levels));
    table_count(&table, a->common.repeat_runs, "run");
    buf_printf(&table, " of %u ms\n", a->roofline.run_ms);
    roofline_table(&table, r);
    enum status st = bench_common_print(&a->common, &table, err);
    buf_fini(&table);
    return st;
}

static enum status bench_roofline_write_result(const struct args *a, const struct roofline *r,
                                               struct err *err)
{
    const struct environment e = {
        .target = "in-process",
        .threads = a->roofline.n_threads,
        .cpu_levels = a->roofline.cpu_levels,
        .has_levels = true,
    };
    struct result result;
    json_t *environment;
    enum status st = environment_json(&environment, &e, err);
    if (st)
        return st;
    result_init(&result, "roofline", a->common.note, roofline_workload(&a->roofline), environment);
    roofline_result(r, &result);
    st = bench_common_write(&a->common, &result, err);
    result_fini(&result);
    return st;
}

static enum status bench_roofline_run(struct args *a, struct err *err)
{
    struct roofline r;
    enum status st = bench_common_check(&a->common, err);
    if (st)
        return st;
    a->roofline.warmup_runs = a->common.warmup_runs;
    a->roofline.repeat_runs = a->common.repeat_runs;
    a->roofline.cpu_levels = cpu_detect() & a->cpu_mask;
    a->roofline.progress = isatty(STDERR_FILENO) ? bench_roofline_show_progress : NULL;
    st = roofline_run(&r, &a->roofline, err);
    bench_common_progress_clear();
    if (!st)
        st = bench_roofline_print_table(a, &r, err);
    if (!st && a->common.output)
        st = bench_roofline_write_result(a, &r, err);
    roofline_fini(&r);
    return st;
}

int bench_roofline_main(int argc, char **argv)
{
    struct args args = {
        .common = bench_common_default,
        .roofline = {.n_threads = (uint32_t)cpu_usable_count(),
                     .footprint = ROOFLINE_FOOTPRINT,
                     .dram = ROOFLINE_DRAM,
                     .run_ms = 20},
        .cpu_mask = CPU_ALL,
    };
    struct flag_set set = {
        .command = COMMAND,
        .usage = "[flags]",
        .about = "Measures what this machine can do at most, on 1, 2, 4 .. threads: the rate of\n"
                 "reading from its caches and its memory, and multiply-adds (two operations each)\n"
                 "of each instruction set in int8, f32 and bf16. Needs no model.",
        .groups = {FLAG_GROUP(own_flags, &args), bench_common_flags(&args.common)},
    };
    int exit_code;
    struct err err = {0};
    args.common.repeat_runs = 5;
    if (args.roofline.n_threads > LIMIT_THREADS)
        args.roofline.n_threads = LIMIT_THREADS;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    return bench_roofline_run(&args, &err) ? flags_fail(COMMAND, &err) : EXIT_SUCCESS;
}
