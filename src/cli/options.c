#include "cli/options.h"

#include "base/cpu.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/name_table.h"
#include "engine/policy.h"
#include "engine/profile.h"
#include "kernels/kv_layout.h"
#include "model/requantize.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct options options_default = {
    .dtype = -1,
    .engine_name = "auto",
    .engine = {.activations = ACTIVATIONS_INT8,
               .kv_type = KV_TYPES,
               .cpu_levels = CPU_ALL,
               .max_queue_ms = ENGINE_NONE},
};

static const char *const activation_names[] = {
    [ACTIVATIONS_INT8] = "int8", [ACTIVATIONS_F32] = "f32", NULL};

static const char *const sampling_sources[] = {
    [SAMPLING_OF_MODEL] = "model", [SAMPLING_OF_NOBODY] = "none", NULL};

static enum status options_parse_cpu_mask(void *field, const char *text, struct err *err)
{
    return cpu_parse_mask(text, field, err);
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

/* What each profile has for the number that a flag of struct options sets, where the command leaves
 * it to them. */
static void by_profile(const struct flag *f, uint32_t before, struct buf *help)
{
    const char *name, *about;
    if (before == ENGINE_NONE) {
        buf_puts(help, " (default 0)");
        return;
    }
    for (size_t i = 0; engine_profile_at(i, &name, &about); i++) {
        struct options o = {.engine.profile = name};
        REQUIRE(profile_fill(&o.engine, NULL) == STATUS_OK);
        uint32_t value = *(const uint32_t *)((const char *)&o + f->offset);
        buf_printf(help, "%s%s %u", i == 0 ? "\n(" : ", ", name, value == f->none ? 0 : value);
    }
    buf_putc(help, ')');
}

#define FIELD(name)     FLAG_FIELD(options, name)
#define NOT_OF_A_SERVER "--url" /* of benchmarks, which have it beside these flags */

// clang-format off
static const struct flag model_flags[] = {
    {"--model", "PATH", "GGUF file, or Hugging Face folder",
     FLAG_TEXT, FIELD(model), .excludes = ""}, /* with --url it is a name */
    {"--dummy-weights", "CONFIG.json", "random weights of the shape that a config.json has, for\n"
                                       "measuring speed: all text is noise (--dtype, default q4_0)",
     FLAG_TEXT, FIELD(dummy)},
    {"--dtype", "NAME", "quantise the weights while loading: q8_0, q4_0, f16, bf16, f32\n"
                        "(default: as the files have them)",
     FLAG_CUSTOM, FIELD(dtype), .parse = options_parse_dtype},
    {"--threads", "N", "threads that compute (default: all usable processors)",
     FLAG_U32, FIELD(engine.n_threads), .min = 1, .max = LIMIT_THREADS},
    {"--activations", "int8|f32", "f32 is the exact path (default int8)",
     FLAG_CHOICE, FIELD(engine.activations), .choices = activation_names},
    {"--kv-type", "f32|f16|bf16|q8_0", "cached keys and values (default bf16;\n"
                                          "f32 with --activations f32)",
     FLAG_CHOICE, FIELD(engine.kv_type), .choices = kv_layout_names},
    {"--cpu-mask", "MASK", "kernel levels: -avx512 leaves one out, avx2 keeps only that,\n"
                           "c is plain C (default: all this machine has)",
     FLAG_CUSTOM, FIELD(engine.cpu_levels), .parse = options_parse_cpu_mask},
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
     FLAG_TEXT, FIELD(engine_name)},
    {"--ctx", "N", "positions of one request (default: the model's, if memory allows)",
     FLAG_U32, FIELD(engine.n_ctx), .min = 1, .max = LIMIT_CONTEXT},
    {"--kv-memory", "SIZE", "memory for cached keys and values, e.g. 512M\n"
                            "(default: chosen from what is available)",
     FLAG_SIZE, FIELD(engine.kv_memory)},
    {"--max-batch-size", "N", "requests that share a step at most (default 64)",
     FLAG_U32, FIELD(engine.max_batch_seqs), .min = 1, .max = LIMIT_BATCH_TOKENS},
    {"--prefill-max-batch-size", "N", "prompts that one step computes at most",
     FLAG_U32, FIELD(engine.max_step_prompts), .min = 1, .max = LIMIT_BATCH_TOKENS,
     .zero = "no bound"},
    {"--prefill-max-tokens", "N", "tokens of prompts in one step at most (default: no bound)",
     FLAG_U32, FIELD(engine.max_step_prompt_tokens), .min = 1, .max = LIMIT_BATCH_TOKENS},
    {"--profile", "NAME", "presets of --max-decode-gap-ms, --max-active-requests and\n"
                          "--max-queue-ms:",
     FLAG_NAME, FIELD(engine.profile), .names = engine_profile_at, .zero = PROFILE_DEFAULT},
    {"--max-decode-gap-ms", "MS", "pause that running streams are promised at most; 0: none is",
     FLAG_U32, FIELD(engine.decode_gap_ms), .max = 600000, .none = ENGINE_NONE,
     .more = by_profile},
    {"--max-active-requests", "N", "requests that run at once, in turns when a step does not hold\n"
                                   "all (default: as many as can be without a longer gap)",
     FLAG_U32, FIELD(engine.max_active), .min = 1, .max = LIMIT_SLOTS_MOST},
    {"--max-queued-requests", "N", "requests that wait at most; more are refused\n"
                                   "(default: as many as are known at once)",
     FLAG_U32, FIELD(engine.max_queued_requests), .min = 1, .max = LIMIT_SLOTS_MOST},
    {"--max-queued-tokens", "N", "tokens of prompts that are still to be computed at most;\n"
                                 "more are refused",
     FLAG_U32, FIELD(engine.max_queued_tokens), .min = 1, .max = UINT32_MAX,
     .zero = "no bound"},
    {"--max-queue-ms", "MS", "time that the prompts which wait take to compute at most; more are\n"
                             "refused; 0: no bound",
     FLAG_U32, FIELD(engine.max_queue_ms), .max = 3600000, .none = ENGINE_NONE,
     .more = by_profile},
    {"--policy", "NAME", "who is prefilled next:",
     FLAG_NAME, FIELD(engine.policy), .names = engine_policy_at, .zero = POLICY_DEFAULT},
    {"--no-prefix-cache", NULL, "compute every prompt whole",
     FLAG_BOOL, FIELD(engine.no_prefix_cache)},
};
// clang-format on

struct flag_group options_model_flags(struct options *o)
{
    return (struct flag_group)FLAG_GROUP_BESIDE(model_flags, o, NOT_OF_A_SERVER);
}

struct flag_group options_text_flags(struct options *o)
{
    return (struct flag_group)FLAG_GROUP(text_flags, o);
}

struct flag_group options_engine_flags(struct options *o)
{
    return (struct flag_group)FLAG_GROUP_BESIDE(engine_flags, o, NOT_OF_A_SERVER);
}

enum status options_check(struct options *o, struct err *err)
{
    struct engine_options *e = &o->engine;
    uint32_t machine = cpu_detect();
    if (!o->model && !o->dummy)
        return err_param(err, STATUS_INVALID, "--model",
                         "--model PATH is required; `make model` fetches " OPTIONS_DEFAULT_MODEL);
    if (e->cpu_levels != 0 && !(machine & CPU_AVX2))
        return err_set(err, STATUS_UNSUPPORTED,
                       "this processor (%s) has no AVX2, FMA and F16C, which firstlight needs; "
                       "--cpu-mask c runs it in plain C, slowly",
                       cpu_model_name());
    e->cpu_levels &= machine;
    if (e->n_threads == ENGINE_UNSET)
        e->n_threads = (uint32_t)cpu_usable_count();
    if (e->n_threads > LIMIT_THREADS)
        e->n_threads = LIMIT_THREADS;
    if (e->kv_type == KV_TYPES)
        e->kv_type = e->activations == ACTIVATIONS_F32 ? KV_F32 : KV_BF16;
    return STATUS_OK;
}

struct backend_options options_backend(const struct options *o)
{
    return (struct backend_options){
        .n_threads = (int)o->engine.n_threads,
        .cpu_levels = o->engine.cpu_levels,
        .activations = o->engine.activations,
        .kv_type = o->engine.kv_type,
    };
}

enum status options_engine(const struct options *o, struct engine_options *out, struct err *err)
{
    *out = o->engine;
    out->kind = engine_kind_find(o->engine_name, err);
    return out->kind ? STATUS_OK : err->code;
}

static void options_show_progress(void *arg, const char *what, double fraction)
{
    (void)arg;
    fprintf(stderr, "\r\033[K%s %3.0f %%", what, 100 * fraction);
    if (fraction >= 1)
        fprintf(stderr, "\r\033[K");
}

static enum status options_own_load(const struct options *o, bool model_only, struct loader *out,
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
        .n_threads = (int)o->engine.n_threads,
        .progress = terminal ? options_show_progress : NULL,
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
    return options_own_load(o, false, out, err);
}

enum status options_load_model(const struct options *o, struct loader *out, struct err *err)
{
    return options_own_load(o, true, out, err);
}

void options_tell_sampling(const struct loader *l)
{
    struct buf line = {0};
    generation_describe(&l->generation, l->file.source, &line);
    if (line.len > 0 && !line.failed)
        log_plain(
            buf_str(&line)); /* on a server's loader thread, which must not wait for readers */
    buf_fini(&line);
}
