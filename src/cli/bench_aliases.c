#include "cli/bench_aliases.h"

#include "base/limits.h"
#include "cli/hf_cache.h"

#include <string.h>

static const char streaming[] = "bench streaming", token_speed[] = "bench token-speed";
static const char *const devices[] = {"cpu", "cuda", NULL}; /* the first is what this build has */

#define FIELD(name) FLAG_FIELD(bench_aliases, name)

// clang-format off
static const struct bench_alias aliases[] = {
    {streaming, "the model's name on the Hugging Face hub",
     {"--hf-model-id", "ID", "instead of --model: a folder with a GGUF file, or a name in the\n"
                             "local Hugging Face cache",
      FLAG_TEXT, FIELD(hf_model_id), .excludes = "--url"}, NULL},
    {streaming, "what computes",
     {"--device", "cpu|cuda", "cpu is what this build has",
      FLAG_CHOICE, FIELD(device), .choices = devices, .excludes = "--url"},
     "this build has no backend cuda"},
    {streaming, "keys and values in pages",
     {"--paged-attn", NULL, "always on", FLAG_BOOL, FIELD(paged_attn), .excludes = "--url"}, NULL},
    {streaming, "decode steps replayed as CUDA graphs",
     {"--cuda-graph", NULL, "an error without CUDA",
      FLAG_BOOL, FIELD(cuda_graph), .excludes = "--url"},
     "engines on the processor have no CUDA graphs"},
    {streaming, "ranges for NVIDIA's profiler",
     {"--nvtx", NULL, "an error without CUDA", FLAG_BOOL, FIELD(nvtx), .excludes = "--url"},
     "engines on the processor have no NVTX ranges"},
    {token_speed, "runs of each prompt",
     {"--runs", "N", "each prompt so many times; the same as --repeat-runs",
      FLAG_U32, FLAG_FIELD(bench_common, repeat_runs), .min = 1, .max = LIMIT_BENCH_RUNS}, NULL},
};
// clang-format on
#define N_ALIASES (sizeof aliases / sizeof aliases[0])

const struct bench_alias *bench_aliases_at(size_t i)
{
    return i < N_ALIASES ? &aliases[i] : NULL;
}

/* A process runs one command, so one array is enough. */
static struct flag_group flags_of(const char *command, void *base)
{
    static struct flag flags[N_ALIASES];
    struct flag_group group = {.flags = flags, .base = base};
    for (size_t i = 0; i < N_ALIASES; i++)
        if (aliases[i].command == command)
            flags[group.n_flags++] = aliases[i].flag;
    return group;
}

struct flag_group bench_aliases_streaming(struct bench_aliases *a)
{
    return flags_of(streaming, a);
}

struct flag_group bench_aliases_token_speed(struct bench_common *c)
{
    return flags_of(token_speed, c);
}

static bool bench_aliases_is_refused(const struct bench_alias *alias, const struct bench_aliases *a)
{
    const void *field = (const char *)a + alias->flag.offset;
    if (alias->command != streaming || !alias->refusal)
        return false;
    return alias->flag.kind == FLAG_CHOICE ? *(const int *)field > 0 : *(const bool *)field;
}

enum status bench_aliases_check(const struct bench_aliases *a, struct err *err)
{
    for (size_t i = 0; i < N_ALIASES; i++)
        if (bench_aliases_is_refused(&aliases[i], a))
            return err_param(err, STATUS_UNSUPPORTED, aliases[i].flag.name, "%s: %s",
                             aliases[i].flag.name, aliases[i].refusal);
    return STATUS_OK;
}

enum status bench_aliases_model(const struct bench_aliases *a, const char **model, char **path,
                                struct err *err)
{
    if (!a->hf_model_id)
        return STATUS_OK;
    if (*model)
        return err_param(err, STATUS_INVALID, "--hf-model-id",
                         "give --model or --hf-model-id, not both");
    enum status status = hf_cache_find(path, a->hf_model_id, err);
    *model = *path;
    return status;
}
