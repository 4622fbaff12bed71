#include "cli/bench_workload.h"

#include "base/limits.h"

static const char *const endpoints[] = {"completions", "chat", NULL};

#define FIELD(name) FLAG_FIELD(bench_workload, name)

// clang-format off
static const struct flag workload_flags[] = {
    {"--num-requests", "N", "requests of a run",
     FLAG_U32, FIELD(options.num_requests), .min = 1, .max = LIMIT_BENCH_REQUESTS, .zero = "none"},
    {"--max-new-tokens", "N", "tokens of an answer at most",
     FLAG_U32, FIELD(options.max_new_tokens), .min = 1, .max = LIMIT_CONTEXT, .zero = "none"},
    {"--prompt", "TEXT", "what is asked (default Hello)",
     FLAG_TEXT, FIELD(options.prompt), .excludes = "--prompt-tokens"},
    {"--unique-prompts", NULL, "a suffix makes each prompt distinct in all runs",
     FLAG_BOOL, FIELD(options.unique_prompts)},
    {"--prompt-tokens", "N", "prompts of so many tokens instead, all distinct",
     FLAG_U32, FIELD(options.prompt_tokens), .min = 1, .max = LIMIT_CONTEXT,
     .zero = "--prompt decides"},
    {"--shared-prefix-tokens", "N", "so many tokens before each prompt, the same for all of a run",
     FLAG_U32, FIELD(options.shared_prefix_tokens), .max = LIMIT_CONTEXT},
    {"--endpoint", "NAME", "completions, or chat: each prompt is a user's message in the chat\n"
                           "template (default completions)",
     FLAG_CHOICE, FIELD(endpoint), .choices = endpoints},
    {"--submit-interval-ms", "MS", "between two requests (default 0: all at once)",
     FLAG_F64, FIELD(options.submit_interval_ms), .min = 0, .max = 1e9,
     .excludes = "--request-rate"},
    {"--request-rate", "R", "requests a second, at random, instead of an interval",
     FLAG_F64, FIELD(options.request_rate), .min = 1e-3, .max = 1e6},
    {"--burstiness", "B", "of a request rate: 1 is Poisson (default), below 1 burstier",
     FLAG_F64, FIELD(options.burstiness), .min = 1e-3, .max = 1e6, .needs = "--request-rate"},
    {"--max-concurrency", "N", "requests in flight at most",
     FLAG_U32, FIELD(options.max_concurrency), .max = LIMIT_BENCH_REQUESTS, .zero = "no bound"},
    {"--background", "N", "long decodes that run meanwhile, their gaps reported apart",
     FLAG_U32, FIELD(options.background), .max = LIMIT_BENCH_BACKGROUND,
     .excludes = "--compare-blocking"},
    {"--no-stop-on-eos", NULL, "go on past the model's end of text",
     FLAG_BOOL, FIELD(options.ignore_eos)},
};
// clang-format on

struct flag_group bench_workload_flags(struct bench_workload *w)
{
    return (struct flag_group)FLAG_GROUP(workload_flags, w);
}

void bench_workload_settle(struct bench_workload *w, const struct bench_common *c, uint64_t salt)
{
    w->options.seed = c->seed;
    w->options.salt = salt;
    w->options.chat = w->endpoint == 1;
}

uint32_t bench_workload_at_once(const struct workload_options *w)
{
    uint32_t n = w->num_requests;
    if (w->max_concurrency > 0 && w->max_concurrency < n)
        n = w->max_concurrency;
    return n + w->background;
}
