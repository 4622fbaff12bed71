/* firstlight convert: a model written as a GGUF file. */
#include "cli/commands.h"

#include "base/cpu.h"
#include "base/limits.h"
#include "base/name_table.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "model/requantize.h"
#include "model/write/convert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "convert"

struct args {
    const char *paths[2];
    size_t n_paths;
    int type; /* enum tensor_type; -1: none given */
    uint32_t n_threads;
};

// clang-format off
static const struct flag own_flags[] = {
    {"--type", "NAME", "of the matrices: f32, f16, bf16, q8_0, q4_0 (required). Beside q4_0 the\n"
                       "output head is q8_0; norms and biases stay f32",
     FLAG_CUSTOM, FLAG_FIELD(args, type), .parse = options_parse_dtype},
    {"--threads", "N", "threads that convert (default: all usable processors)",
     FLAG_U32, FLAG_FIELD(args, n_threads), .min = 1, .max = LIMIT_THREADS},
};
// clang-format on

static void convert_command_show_progress(void *arg, const char *what, double fraction)
{
    (void)arg;
    fprintf(stderr, "\r\033[K%s %3.0f %%", what, 100 * fraction);
}

static enum status convert_command_check(struct args *a, struct err *err)
{
    if (a->n_paths != 2)
        return err_set(
            err, STATUS_INVALID,
            "expected a model and a file: firstlight convert MODEL OUT.gguf --type q8_0");
    if (a->type < 0)
        return err_param(err, STATUS_INVALID, "--type", "--type NAME is required");
    if (a->n_threads == 0)
        a->n_threads = (uint32_t)cpu_usable_count();
    if (a->n_threads > LIMIT_THREADS)
        a->n_threads = LIMIT_THREADS;
    return STATUS_OK;
}

static enum status convert_command_run(struct args *a, struct err *err)
{
    struct loader loader = {0};
    struct convert_result result;
    enum status st = convert_command_check(a, err);
    if (st)
        return st;
    bool terminal = isatty(STDERR_FILENO);
    const struct loader_options open = {.path = a->paths[0], .model_only = true, .lazy = true};
    const struct requantize_options recast = {
        .type = (enum tensor_type)a->type,
        .n_threads = (int)a->n_threads,
        .progress = terminal ? convert_command_show_progress : NULL,
    };
    st = loader_open_with(&loader, &open, err);
    if (!st)
        st = convert_write(&loader, a->paths[1], &recast, &result, err);
    loader_close(&loader);
    if (terminal)
        fputs("\r\033[K", stderr);
    if (!st)
        printf("%s: %zu tensors, %.1f MiB\n", a->paths[1], result.n_tensors,
               (double)result.bytes / 0x1p20);
    return st;
}

int convert_command_main(int argc, char **argv)
{
    struct args args = {.type = -1};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "MODEL OUT.gguf --type NAME",
        .about = "Writes a Hugging Face folder or a GGUF file as a GGUF file, its matrices in\n"
                 "another type.",
        .groups = {FLAG_GROUP(own_flags, &args)},
        .positional = args.paths,
        .max_positional = 2,
        .n_positional = &args.n_paths,
    };
    int exit_code;
    struct err err = {0};
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    return convert_command_run(&args, &err) ? flags_fail(COMMAND, &err) : EXIT_SUCCESS;
}
