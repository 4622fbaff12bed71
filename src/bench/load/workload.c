#include "bench/load/workload.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "bench/load/workload_text.h"
#include "bench/result/random.h"
#include "bench/result/result.h"

#include <math.h>
#include <string.h>

const struct workload_options workload_default = {
    .prompt = "Hello",
    .num_requests = 256,
    .max_new_tokens = 64,
    .burstiness = 1,
    .stream = true,
};

/* What is drawn from one seed; workload_text.c has the number 1. */
enum stream { STREAM_ARRIVALS = 2, STREAM_PREFIX, STREAM_PROMPT, STREAM_BACKGROUND };

/* Not a request's and not a run's: a shared prefix and a background prompt are spelled with them.
 */
#define INDEX_PREFIX   0xffffffu
#define RUN_BACKGROUND 0xffffu
_Static_assert(LIMIT_BENCH_REQUESTS <= INDEX_PREFIX, "an index has three bytes of a code");

/* Longest run the clock of a workload counts exactly, in microseconds (three years). */
#define MAX_DUE_US 1e14

static uint64_t workload_stream_of(enum stream kind, uint32_t run, uint32_t index)
{
    return (uint64_t)kind << 56 | (uint64_t)(run & 0xffffff) << 32 | index;
}

/* The index's low byte comes first, so that 256 requests in a row begin with different words; the
 * run turns it, so that so do runs of one request. */
static uint64_t workload_code_of(uint32_t run, uint32_t index)
{
    uint32_t first = (index + 101 * run) & 0xff;
    return first | (index & 0xff00) | (uint64_t)(run & 0xff) << 16 |
           (uint64_t)(index >> 16 & 0xff) << 24 | (uint64_t)(run >> 8 & 0xff) << 32;
}

/* Of all words; arrivals are drawn from the seed alone. */
static uint64_t words_seed(const struct workload_options *o)
{
    return random_salted(o->seed, o->salt);
}

/* --- options -------------------------------------------------------------------------------- */

static enum status check_range(const char *flag, double x, double min, double max, struct err *err)
{
    if (x >= min && x <= max) /* not of a NAN */
        return STATUS_OK;
    return err_param(err, STATUS_INVALID, flag, "%s: expected a number from %g to %g, got %g", flag,
                     min, max, x);
}

static enum status workload_check_prompt(const struct workload_options *o, struct err *err)
{
    size_t len = strlen(o->prompt);
    if (o->prompt_tokens > 0)
        return STATUS_OK;
    if (len == 0)
        return err_param(err, STATUS_INVALID, "--prompt", "--prompt: expected a text, got none");
    if (utf8_valid_prefix(o->prompt, len) != len)
        return err_param(err, STATUS_INVALID, "--prompt",
                         "--prompt: expected UTF-8, byte %zu is not",
                         utf8_valid_prefix(o->prompt, len));
    return STATUS_OK;
}

static enum status workload_check(const struct workload_options *o, struct err *err)
{
    const struct {
        const char *flag;
        double value, min, max;
    } ranges[] = {
        {"--num-requests", o->num_requests, 1, LIMIT_BENCH_REQUESTS},
        {"--max-new-tokens", o->max_new_tokens, 1, LIMIT_CONTEXT},
        {"--prompt-tokens", o->prompt_tokens, 0, LIMIT_CONTEXT},
        {"--shared-prefix-tokens", o->shared_prefix_tokens, 0,
         LIMIT_CONTEXT - (double)o->prompt_tokens},
        {"--submit-interval-ms", o->submit_interval_ms, 0, 1e9},
        {"--request-rate", o->request_rate, 0, 1e6},
        {"--burstiness", o->burstiness, 1e-3, 1e6},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (check_range(ranges[i].flag, ranges[i].value, ranges[i].min, ranges[i].max, err))
            return err->code;
    return workload_check_prompt(o, err);
}

/* --- due times ------------------------------------------------------------------------------ */

/* Gaps of a gamma distribution with mean 1 / rate, then stretched so that their sum is what the
 * rate says: so does `vllm bench serve`, and the offered rate is the one asked for in each run. */
static double draw_arrivals(struct workload *w, const struct workload_options *o, uint32_t run)
{
    struct random r;
    double sum = 0, scale = 1e6 / (o->request_rate * o->burstiness);
    double whole = 1e6 * (w->n - 1) / o->request_rate;
    random_init(&r, o->seed, workload_stream_of(STREAM_ARRIVALS, run, 0));
    for (uint32_t i = 1; i < w->n; i++)
        sum += random_gamma(&r, o->burstiness, scale);
    double stretch = sum > 0 ? whole / sum : 0;
    random_init(&r, o->seed, workload_stream_of(STREAM_ARRIVALS, run, 0));
    sum = 0;
    for (uint32_t i = 1; i < w->n && whole <= MAX_DUE_US; i++) {
        sum += random_gamma(&r, o->burstiness, scale);
        w->items[i].due_us = (int64_t)(sum * stretch);
    }
    return whole;
}

static enum status set_due(struct workload *w, const struct workload_options *o, uint32_t run,
                           struct err *err)
{
    double last = o->submit_interval_ms * 1e3 * (w->n - 1);
    if (o->request_rate > 0)
        last = draw_arrivals(w, o, run);
    else
        for (uint32_t i = 0; i < w->n && last <= MAX_DUE_US; i++)
            w->items[i].due_us = (int64_t)(o->submit_interval_ms * 1e3 * i);
    const char *flag = o->request_rate > 0 ? "--request-rate" : "--submit-interval-ms";
    if (last > MAX_DUE_US)
        return err_param(err, STATUS_INVALID, flag,
                         "%s: %u requests would take %g seconds (at most %g)", flag, w->n,
                         last / 1e6, MAX_DUE_US / 1e6);
    return STATUS_OK;
}

/* --- prompts -------------------------------------------------------------------------------- */

static enum status append_tokens(struct buf *out, const struct workload_options *o,
                                 const struct tokenizer *tokenizer, const char *flag,
                                 uint32_t n_tokens, uint64_t stream, uint64_t code, struct err *err)
{
    struct random r;
    bool exact;
    random_init(&r, words_seed(o), stream);
    enum status st =
        workload_text_append(out, &r, words_seed(o), code, n_tokens, tokenizer, &exact, err);
    if (st)
        return err_context(err, "%s", flag);
    if (!exact)
        return err_param(err, STATUS_INVALID, flag,
                         "%s: this model's tokenizer makes no text of exactly %u tokens", flag,
                         n_tokens);
    return STATUS_OK;
}

/* The prompt and where it comes from, to be closed by the caller. The salt, of which each
 * invocation has another, stands before what they have in common. */
static void put_prompt_of(struct buf *out, const struct workload_options *o)
{
    buf_printf(out, "%s (", o->prompt);
    if (o->salt != 0)
        buf_printf(out, "%020llu.", (unsigned long long)o->salt);
    buf_printf(out, "%llu", (unsigned long long)o->seed);
}

static enum status make_prompt(struct buf *out, const struct workload_options *o,
                               const struct tokenizer *tokenizer, uint32_t run, uint32_t index,
                               struct err *err)
{
    if (o->prompt_tokens > 0) {
        /* Without a tokenizer the words of the prefix are not counted again. */
        uint32_t total = o->prompt_tokens + (tokenizer ? o->shared_prefix_tokens : 0);
        return append_tokens(out, o, tokenizer, "--prompt-tokens", total,
                             workload_stream_of(STREAM_PROMPT, run, index),
                             workload_code_of(run, index), err);
    }
    if (out->len > 0)
        buf_putc(out, ' ');
    if (o->unique_prompts) {
        put_prompt_of(out, o);
        buf_printf(out, ".%u.%u)", run, index);
    } else {
        buf_puts(out, o->prompt);
    }
    return out->failed ? err_set(err, STATUS_NO_MEMORY, "no memory for a prompt") : STATUS_OK;
}

static enum status workload_make_item(struct work_item *item, const struct workload_options *o,
                                      const struct tokenizer *tokenizer, const struct buf *prefix,
                                      uint32_t run, uint32_t index, struct err *err)
{
    struct buf text = {0};
    buf_append(&text, buf_str(prefix), prefix->len);
    enum status st = make_prompt(&text, o, tokenizer, run, index, err);
    if (!st)
        item->prompt = buf_take(&text);
    buf_fini(&text);
    if (!st && !item->prompt)
        st = err_set(err, STATUS_NO_MEMORY, "no memory for a prompt");
    item->max_tokens = o->max_new_tokens;
    item->ignore_eos = o->ignore_eos;
    item->chat = o->chat;
    item->stream = o->stream;
    return st;
}

static enum status workload_make_items(struct workload *w, const struct workload_options *o,
                                       const struct tokenizer *tokenizer, uint32_t run,
                                       struct err *err)
{
    struct buf prefix = {0};
    enum status st = STATUS_OK;
    if (o->shared_prefix_tokens > 0)
        st = append_tokens(&prefix, o, tokenizer, "--shared-prefix-tokens", o->shared_prefix_tokens,
                           workload_stream_of(STREAM_PREFIX, run, 0),
                           workload_code_of(run, INDEX_PREFIX), err);
    for (uint32_t i = 0; i < w->n && !st; i++)
        st = workload_make_item(&w->items[i], o, tokenizer, &prefix, run, i, err);
    buf_fini(&prefix);
    return st;
}

enum status workload_make(struct workload *out, const struct workload_options *o,
                          const struct tokenizer *tokenizer, uint32_t run, struct err *err)
{
    *out = (struct workload){0};
    enum status st = workload_check(o, err);
    if (st)
        return st;
    out->items = mem_array(o->num_requests, sizeof *out->items);
    if (!out->items)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u requests", o->num_requests);
    out->n = o->num_requests;
    st = set_due(out, o, run, err);
    if (!st)
        st = workload_make_items(out, o, tokenizer, run, err);
    if (st)
        workload_fini(out);
    return st;
}

void workload_fini(struct workload *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        mem_free(w->items[i].prompt);
    mem_free(w->items);
    *w = (struct workload){0};
}

char *workload_background_prompt(const struct workload_options *o, uint32_t index)
{
    struct buf text = {0};
    struct random r;
    struct err err;
    bool exact;
    random_init(&r, words_seed(o), workload_stream_of(STREAM_BACKGROUND, 0, index));
    if (o->prompt_tokens > 0) {
        workload_text_append(&text, &r, words_seed(o), workload_code_of(RUN_BACKGROUND, index),
                             o->prompt_tokens, NULL, &exact, &err);
    } else {
        put_prompt_of(&text, o);
        buf_printf(&text, ".background.%u)", index);
    }
    char *prompt = text.failed ? NULL : buf_take(&text);
    buf_fini(&text);
    return prompt;
}

/* --- the result's `workload` ---------------------------------------------------------------- */

/* A seed above what JSON readers count to is a string. */
static json_t *seed_json(uint64_t seed)
{
    char text[24];
    if (seed <= INT64_MAX)
        return json_integer((json_int_t)seed);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    return json_string(text);
}

json_t *workload_json(const struct workload_options *o)
{
    json_t *prompt = result_text(o->prompt_tokens ? NULL : o->prompt);
    return json_pack("{s:o, s:b, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, s:I, s:b, s:b, s:b, s:o}",
                     "prompt", prompt, "unique_prompts", o->unique_prompts || o->prompt_tokens,
                     "prompt_tokens", (json_int_t)o->prompt_tokens, "shared_prefix_tokens",
                     (json_int_t)o->shared_prefix_tokens, "num_requests",
                     (json_int_t)o->num_requests, "max_new_tokens", (json_int_t)o->max_new_tokens,
                     "submit_interval_ms", o->submit_interval_ms, "request_rate", o->request_rate,
                     "burstiness", o->burstiness, "max_concurrency", (json_int_t)o->max_concurrency,
                     "background", (json_int_t)o->background, "ignore_eos", o->ignore_eos, "chat",
                     o->chat, "stream", o->stream, "seed", seed_json(o->seed));
}
