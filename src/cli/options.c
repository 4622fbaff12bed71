#include "cli/options.h"

#include "base/cpu.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/name_table.h"
#include "model/write/requantize.h"
#include "kernels/kv_layout.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct options options_default = {
    .dtype = -1,
    .engine = "auto",
    .kv_type = -1,
    .activations = ACTIVATIONS_INT8,
    .cpu_mask = CPU_ALL,
    .decode_gap_ms = OPTIONS_OF_PROFILE,
    .max_queue_ms = OPTIONS_OF_PROFILE,
};

static const char *const activation_names[] = {
    [ACTIVATIONS_INT8] = "int8", [ACTIVATIONS_F32] = "f32", NULL};

static const char *const sampling_sources[] = {
    [SAMPLING_OF_MODEL] = "model", [SAMPLING_OF_NOBODY] = "none", NULL};

static enum status parse_cpu_mask(void *field, const char *text, struct err *err)
{
    return cpu_parse_mask(text, field, err);
}

/* One of the names that `at` lists. */
static enum status parse_name(const char **field, const char *text, const char *flag,
                              name_table_at *at, struct err *err)
{
    char known[256];
    if (name_table_find(at, text, known, sizeof known) == NAME_TABLE_NONE)
        return err_param(err, STATUS_INVALID, flag, "%s: unknown \"%.40s\"; there are %s", flag,
                         text, known);
    *field = text;
    return STATUS_OK;
}

enum status options_parse_dtype(void *field, const char *text, struct err *err)
{
    char known[64];
    size_t i = name_table_find(requantize_type_at, text, known, sizeof known);
    if (i == NAME_TABLE_NONE)
        return err_set(err, STATUS_INVALID, "unknown type \"%.40s\"; there are %s", text, known);
    *(int *)field = (int)requantize_type_of(i);
    return STATUS_OK;
}

static enum status parse_policy(void *field, const char *text, struct err *err)
{
    return parse_name(field, text, "--policy", engine_policy_at, err);
}

static enum status parse_profile(void *field, const char *text, struct err *err)
{
    return parse_name(field, text, "--profile", engine_profile_at, err);
}

#define FIELD(name) FLAG_FIELD(options, name)
/* Benchmarks have --url beside these flags. */
#define NOT_OF_A_SERVER "--url"

// clang-format off
static const struct flag model_flags[] = {
    {"--model", "PATH", "GGUF file, or Hugging Face folder",
     FLAG_TEXT, FIELD(model)},
    {"--dummy-weights", "CONFIG.json", "random weights of the shape that a config.json has, for\n"
                                       "measuring speed: all text is noise (--dtype, default q4_0)",
     FLAG_TEXT, FIELD(dummy), .excludes = NOT_OF_A_SERVER},
    {"--dtype", "NAME", "quantise the weights while loading: q8_0, q4_0, f16, bf16, f32\n"
                        "(default: as the files have them)",
     FLAG_CUSTOM, FIELD(dtype), .parse = options_parse_dtype, .excludes = NOT_OF_A_SERVER},
    {"--threads", "N", "threads that compute (default: all usable processors)",
     FLAG_U32, FIELD(n_threads), .min = 1, .max = LIMIT_THREADS,
     .excludes = NOT_OF_A_SERVER},
    {"--activations", "int8|f32", "f32 is the exact path (default int8)",
     FLAG_CHOICE, FIELD(activations), .choices = activation_names,
     .excludes = NOT_OF_A_SERVER},
    {"--kv-type", "f32|f16|bf16|q8_0", "cached keys and values (default bf16;\n"
                                          "f32 with --activations f32)",
     FLAG_CHOICE, FIELD(kv_type), .choices = kv_layout_names,
     .excludes = NOT_OF_A_SERVER},
    {"--cpu-mask", "MASK", "kernel levels: -avx512 leaves one out, avx2 keeps only that,\n"
                           "c is plain C (default: all this machine has)",
     FLAG_CUSTOM, FIELD(cpu_mask), .parse = parse_cpu_mask,
     .excludes = NOT_OF_A_SERVER},
};

static const struct flag text_flags[] = {
    {"--chat-template", "FILE", "Jinja template for chats (default: the model's own)",
     FLAG_TEXT, FIELD(chat_template)},
    {"--sampling-defaults", "model|none", "where sampling parameters come from when nothing is\n"
                                          "said: model: generation_config.json, or the GGUF\n"
                                          "file's metadata (default); none: this program's own",
     FLAG_CHOICE, FIELD(sampling_defaults), .choices = sampling_sources},
};

static const struct flag engine_flags[] = {
    {"--engine", "NAME", "engine, see firstlight engines (default auto)",
     FLAG_TEXT, FIELD(engine), .excludes = NOT_OF_A_SERVER},
    {"--ctx", "N", "positions of one request (default: the model's, if memory allows)",
     FLAG_U32, FIELD(n_ctx), .min = 1, .max = LIMIT_CONTEXT,
     .excludes = NOT_OF_A_SERVER},
    {"--kv-memory", "SIZE", "memory for cached keys and values, e.g. 512M\n"
                            "(default: chosen from what is available)",
     FLAG_SIZE, FIELD(kv_memory), .excludes = NOT_OF_A_SERVER},
    {"--max-batch-size", "N", "requests that share a step at most (default 64)",
     FLAG_U32, FIELD(max_batch_seqs), .min = 1, .max = LIMIT_BATCH_TOKENS,
     .excludes = NOT_OF_A_SERVER},
    {"--prefill-max-batch-size", "N", "prompts that one step computes at most",
     FLAG_U32, FIELD(max_step_prompts), .min = 1, .max = LIMIT_BATCH_TOKENS, .zero = "no bound",
     .excludes = NOT_OF_A_SERVER},
    {"--prefill-max-tokens", "N", "tokens of prompts in one step at most (default: no bound)",
     FLAG_U32, FIELD(max_step_prompt_tokens), .min = 1, .max = LIMIT_BATCH_TOKENS,
     .excludes = NOT_OF_A_SERVER},
    {"--profile", "NAME", "interactive: the smallest TTFT for few users; online (default): TTFT\n"
                          "under load; batch: throughput first. Presets of --max-decode-gap-ms,\n"
                          "--max-active-requests and --max-queue-ms",
     FLAG_CUSTOM, FIELD(profile), .parse = parse_profile,
     .excludes = NOT_OF_A_SERVER},
    {"--max-decode-gap-ms", "MS", "pause that running streams are promised at most; 0: none is\n"
                                  "(interactive 50, online 100, batch 0)",
     FLAG_U32, FIELD(decode_gap_ms), .max = 600000,
     .excludes = NOT_OF_A_SERVER},
    {"--max-active-requests", "N", "requests that run at once, in turns when a step does not hold\n"
                                   "all (default: as many as can be without a longer gap)",
     FLAG_U32, FIELD(max_active), .min = 1, .max = LIMIT_SLOTS_MOST,
     .excludes = NOT_OF_A_SERVER},
    {"--max-queued-requests", "N", "requests that wait at most; more are refused\n"
                                   "(default: as many as are known at once)",
     FLAG_U32, FIELD(max_queued_requests), .min = 1, .max = LIMIT_SLOTS_MOST,
     .excludes = NOT_OF_A_SERVER},
    {"--max-queued-tokens", "N", "tokens of prompts that are still to be computed at most;\n"
                                 "more are refused (default: serve 262144, others no bound)",
     FLAG_U32, FIELD(max_queued_tokens), .min = 1, .max = UINT32_MAX,
     .excludes = NOT_OF_A_SERVER},
    {"--max-queue-ms", "MS", "time that the prompts which wait take to compute at most; more are\n"
                             "refused; 0: no bound (serve: interactive 10000, online 30000,\n"
                             "batch 0; others 0)",
     FLAG_U32, FIELD(max_queue_ms), .max = 3600000,
     .excludes = NOT_OF_A_SERVER},
    {"--policy", "NAME", "who is prefilled next: srpf (shortest remaining first, the default),\n"
                         "fifo, pack, lookahead, priority",
     FLAG_CUSTOM, FIELD(policy), .parse = parse_policy,
     .excludes = NOT_OF_A_SERVER},
    {"--no-prefix-cache", NULL, "compute every prompt whole", FLAG_BOOL, FIELD(no_prefix_cache),
     .excludes = NOT_OF_A_SERVER},
};
// clang-format on

struct flag_group options_model_flags(struct options *o)
{
    return (struct flag_group)FLAG_GROUP(model_flags, o);
}

struct flag_group options_text_flags(struct options *o)
{
    return (struct flag_group)FLAG_GROUP(text_flags, o);
}

struct flag_group options_engine_flags(struct options *o)
{
    return (struct flag_group)FLAG_GROUP(engine_flags, o);
}

enum status options_check(struct options *o, struct err *err)
{
    uint32_t machine = cpu_detect();
    if (!o->model && !o->dummy)
        return err_param(err, STATUS_INVALID, "--model",
                         "--model PATH is required; `make model` fetches " OPTIONS_DEFAULT_MODEL);
    if (o->cpu_mask != 0 && !(machine & CPU_AVX2))
        return err_set(err, STATUS_UNSUPPORTED,
                       "this processor (%s) has no AVX2, FMA and F16C, which firstlight needs; "
                       "--cpu-mask c runs it in plain C, slowly",
                       cpu_model_name());
    o->cpu_levels = machine & o->cpu_mask;
    if (o->n_threads == 0)
        o->n_threads = (uint32_t)cpu_usable_count();
    if (o->n_threads > LIMIT_THREADS)
        o->n_threads = LIMIT_THREADS;
    if (o->kv_type < 0)
        o->kv_type = o->activations == ACTIVATIONS_F32 ? KV_F32 : KV_BF16;
    return STATUS_OK;
}

struct backend_options options_backend(const struct options *o)
{
    return (struct backend_options){
        .n_threads = (int)o->n_threads,
        .cpu_levels = o->cpu_levels,
        .activations = (enum activations)o->activations,
        .kv_type = (enum kv_type)o->kv_type,
    };
}

/* As the engine's options have it: 0 leaves it to the profile. */
static int32_t of_profile(uint32_t ms)
{
    if (ms == OPTIONS_OF_PROFILE)
        return 0;
    return ms > 0 ? (int32_t)ms : -1;
}

enum status options_engine(const struct options *o, struct engine_options *out, struct err *err)
{
    *out = (struct engine_options){
        .kind = engine_kind_find(o->engine, err),
        .n_threads = (int)o->n_threads,
        .cpu_levels = o->cpu_levels,
        .activations = (enum activations)o->activations,
        .kv_type = (enum kv_type)o->kv_type,
        .n_ctx = o->n_ctx,
        .kv_memory = o->kv_memory,
        .max_batch_seqs = o->max_batch_seqs,
        .max_step_prompts = o->max_step_prompts,
        .max_step_prompt_tokens = o->max_step_prompt_tokens,
        .profile = o->profile,
        .policy = o->policy,
        .max_active = o->max_active,
        .decode_gap_ms = of_profile(o->decode_gap_ms),
        .no_prefix_cache = o->no_prefix_cache,
        .max_queued_requests = o->max_queued_requests,
        .max_queued_tokens = o->max_queued_tokens,
        .max_queue_ms = o->max_queue_ms == OPTIONS_OF_PROFILE ? -1 : of_profile(o->max_queue_ms),
    };
    return out->kind ? STATUS_OK : err->code;
}

static void show_progress(void *arg, const char *what, double fraction)
{
    (void)arg;
    fprintf(stderr, "\r\033[K%s %3.0f %%", what, 100 * fraction);
    if (fraction >= 1)
        fprintf(stderr, "\r\033[K");
}

static enum status load(const struct options *o, bool model_only, struct loader *out,
                        struct err *err)
{
    bool terminal = isatty(STDERR_FILENO);
    const struct loader_options loader = {
        .path = o->dummy ? o->dummy : o->model,
        .model_only = model_only,
        .chat_template = o->chat_template,
        .ignore_generation = o->sampling_defaults == SAMPLING_OF_NOBODY,
        .dummy = o->dummy != NULL,
        .recast = o->dtype >= 0,
        .dtype = o->dtype >= 0 ? (enum tensor_type)o->dtype : TENSOR_Q4_0,
        .n_threads = (int)o->n_threads,
        .progress = terminal ? show_progress : NULL,
    };
    enum status st = loader_open_with(out, &loader, err);
    if (st && terminal)
        fputs("\r\033[K", stderr); /* the error's line begins at its left */
    if (!st && o->dummy)
        fprintf(stderr, "RANDOM WEIGHTS of the shape in %s: every answer is noise\n", o->dummy);
    return st;
}

enum status options_load(const struct options *o, struct loader *out, struct err *err)
{
    return load(o, false, out, err);
}

enum status options_load_model(const struct options *o, struct loader *out, struct err *err)
{
    return load(o, true, out, err);
}

void options_tell_sampling(const struct loader *l)
{
    struct buf line = {0};
    generation_describe(&l->generation, l->gguf, &line);
    if (line.len > 0 && !line.failed)
        log_plain(
            buf_str(&line)); /* on a server's loader thread, which must not wait for readers */
    buf_fini(&line);
}
