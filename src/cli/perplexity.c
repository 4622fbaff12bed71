/* `firstlight perplexity --model M --file TEXT`: how well a model predicts a text, by the protocol
 * of llama.cpp's tool, so that figures compare. */
#include "cli/commands.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "cli/report.h"
#include "cli/score.h"
#include "engine/evaluator.h"
#include "kernels/kv_layout.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "perplexity"
#define CHUNK   128 /* tokens of one step: all their logits are kept */

struct args {
    struct options options;
    const char *file;
    uint32_t ctx;
    uint32_t chunks;
    bool compare;
    bool json;
};

// clang-format off
static const struct flag own_flags[] = {
    {"--file", "TEXT", "text to predict (required)", FLAG_TEXT, FLAG_FIELD(args, file)},
    {"--ctx", "N", "window in tokens, its second half scored (default 512);\n"
                   "0 takes the whole text as one context, every token but the first scored",
     FLAG_U32, FLAG_FIELD(args, ctx), .min = 0, .max = LIMIT_CONTEXT},
    {"--chunks", "N", "windows to take at most (default: all)",
     FLAG_U32, FLAG_FIELD(args, chunks), .min = 1, .max = UINT32_MAX},
    {"--compare-f32", NULL, "also run the exact path (f32 activations and cache) and print the\n"
                            "Kullback-Leibler divergence from it",
     FLAG_BOOL, FLAG_FIELD(args, compare)},
    {"--json", NULL, "print JSON", FLAG_BOOL, FLAG_FIELD(args, json)},
};
// clang-format on

struct job {
    const struct args *args;
    struct loader loader;
    struct tokens tokens;
    int32_t bos; /* starts every window; -1: none */
    uint32_t window;
    uint32_t n_windows;
    uint32_t first_scored; /* position in a window whose prediction is the first scored */
    uint32_t start;        /* token where the window under way begins */

    struct kernels kernels;
    struct evaluator *evaluator;
    struct evaluator *exact; /* with --compare-f32 */
    float *exact_logits;     /* (CHUNK, n_vocab), by position modulo CHUNK */
    struct score score;
    struct score exact_score;
    double seconds; /* of the evaluator alone */
};

static enum status read_text(struct buf *text, const char *path, struct err *err)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return err_param(err, STATUS_NOT_FOUND, "--file", "cannot read %s: %s", path,
                         strerror(errno));
    int fault = buf_read(text, f) ? 0 : text->failed ? ENOMEM : errno;
    fclose(f);
    if (fault)
        return err_param(err, STATUS_IO, "--file", "cannot read %s: %s", path, strerror(fault));
    return STATUS_OK;
}

/* As llama.cpp: special tokens are not parsed; where the model asks for bos, the text gets one, and
 * each window's first token is replaced by one. */
static enum status perplexity_tokenize(struct job *job, struct err *err)
{
    const struct tokenizer *t = job->loader.tokenizer;
    struct buf text = {0};
    struct tokens added = {0};
    enum status st = read_text(&text, job->args->file, err);
    if (!st)
        st = tokenizer_encode(t, "", 0, NULL, TOKENIZE_ADD, &added, err);
    if (!st)
        st = tokenizer_encode(t, buf_str(&text), text.len, NULL, TOKENIZE_ADD, &job->tokens, err);
    bool has_bos = added.count > 0 && added.ids[0] == tokenizer_bos(t);
    job->bos = has_bos ? added.ids[0] : -1;
    tokens_fini(&added);
    buf_fini(&text);
    return st;
}

/* Windows of ctx tokens; predictions of their second halves are scored. */
static enum status divide(struct job *job, struct err *err)
{
    const struct args *a = job->args;
    size_t n = job->tokens.count;
    uint32_t trained = job->loader.model->config.n_ctx_train;
    size_t window = a->ctx ? a->ctx : n;
    size_t least = a->ctx ? 3 : 2; /* one token to score, half a window and a token before it */
    if (n < least)
        return err_param(err, STATUS_INVALID, "--file",
                         "--file: %zu tokens in the text, %zu at least are needed", n, least);
    if (window < least || window > n)
        return err_param(
            err, STATUS_INVALID, "--ctx",
            "--ctx: a window of %zu tokens; it needs %zu at least, and the text has %zu: "
            "give a longer --file or a smaller --ctx",
            window, least, n);
    if (window > trained || window > LIMIT_CONTEXT)
        return err_param(err, STATUS_INVALID, "--ctx",
                         "--ctx: the model was trained for windows of %u tokens, found %zu",
                         trained, window);
    job->window = (uint32_t)window;
    job->first_scored = a->ctx ? job->window / 2 : 0;
    job->n_windows = (uint32_t)(n / window);
    if (a->chunks && a->chunks < job->n_windows)
        job->n_windows = a->chunks;
    return STATUS_OK;
}

static void keep_exact(void *arg, uint32_t position, const float *logits)
{
    struct job *job = arg;
    size_t n_vocab = job->loader.model->config.n_vocab;
    memcpy(job->exact_logits + position % CHUNK * n_vocab, logits, n_vocab * sizeof *logits);
}

/* The last position of a window predicts nothing that is in it. */
static void perplexity_take(void *arg, uint32_t position, const float *logits)
{
    struct job *job = arg;
    if (position + 1 >= job->window)
        return;
    int32_t next = job->tokens.ids[job->start + position + 1];
    score_token(&job->score, logits, next);
    if (job->exact) {
        size_t n_vocab = job->loader.model->config.n_vocab;
        const float *exact = job->exact_logits + position % CHUNK * n_vocab;
        score_token(&job->exact_score, exact, next);
        score_divergence(&job->score, exact, logits);
    }
}

/* Both paths go through a window chunk by chunk, so that few logits are kept. */
static void run_window(struct job *job, int32_t *ids)
{
    evaluator_cut(job->evaluator, 0);
    if (job->exact)
        evaluator_cut(job->exact, 0);
    for (uint32_t at = 0; at < job->window; at += CHUNK) {
        uint32_t n = job->window - at < CHUNK ? job->window - at : CHUNK;
        if (job->exact)
            evaluator_feed(job->exact, ids + at, n, job->first_scored, keep_exact, job);
        int64_t before = clock_now_ns();
        evaluator_feed(job->evaluator, ids + at, n, job->first_scored, perplexity_take, job);
        job->seconds += (double)(clock_now_ns() - before) / 1e9;
    }
}

static enum status run_windows(struct job *job, struct err *err)
{
    enum status st = STATUS_OK;
    for (uint32_t w = 0; w < job->n_windows && !st; w++) {
        job->start = w * job->window;
        int32_t *ids = job->tokens.ids + job->start;
        int32_t first = ids[0];
        if (job->bos >= 0)
            ids[0] = job->bos;
        run_window(job, ids);
        ids[0] = first;
        st = loader_check(&job->loader, err);
    }
    return st;
}

static enum status open_evaluator(struct job *job, struct evaluator **out, bool exact,
                                  struct err *err)
{
    struct backend_options o = options_backend(&job->args->options);
    if (exact) {
        o.activations = ACTIVATIONS_F32;
        o.kv_type = KV_F32;
    }
    o.n_ctx = job->window;
    o.max_rows = o.max_outputs = CHUNK;
    return evaluator_open(out, &cpu_backend, job->loader.model, &o, err);
}

static enum status perplexity_prepare(struct job *job, struct err *err)
{
    size_t n_vocab = job->loader.model->config.n_vocab;
    size_t n_scored = (size_t)job->n_windows * (job->window - job->first_scored - 1);
    bool compare = job->args->compare;
    kernels_fill(&job->kernels, job->args->options.engine.cpu_levels);
    enum status st = score_init(&job->score, &job->kernels, n_vocab, compare ? n_scored : 0, err);
    if (!st)
        st = score_init(&job->exact_score, &job->kernels, n_vocab, 0, err);
    if (!st)
        st = open_evaluator(job, &job->evaluator, false, err);
    if (st || !compare)
        return st;
    job->exact_logits = mem_array(CHUNK * n_vocab, sizeof *job->exact_logits);
    if (!job->exact_logits)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the logits of %d positions", CHUNK);
    return open_evaluator(job, &job->exact, true, err);
}

static double tokens_per_s(const struct job *job)
{
    return (double)job->n_windows * job->window / job->seconds;
}

static void print_text(struct job *job)
{
    struct score_result r = score_perplexity(&job->score);
    printf("perplexity %.4f +/- %.4f, %zu tokens scored in %u windows of %u, %.1f tokens/s\n",
           r.perplexity, r.standard_error, job->score.n, job->n_windows, job->window,
           tokens_per_s(job));
    if (!job->exact)
        return;
    struct score_kl_result kl = score_kl(&job->score);
    r = score_perplexity(&job->exact_score);
    printf("f32 path   %.4f +/- %.4f\n", r.perplexity, r.standard_error);
    printf("KL divergence from the f32 path: mean %.6f, 99th percentile %.6f, max %.6f\n", kl.mean,
           kl.p99, kl.max);
}

static void perplexity_print_json(struct job *job)
{
    const struct options *o = &job->args->options;
    struct score_result r = score_perplexity(&job->score);
    json_t *root = json_pack(
        "{s:f, s:f, s:I, s:i, s:i, s:f, s:s, s:s, s:o}", "perplexity", r.perplexity,
        "standard_error", r.standard_error, "scored_tokens", (json_int_t)job->score.n, "windows",
        (int)job->n_windows, "ctx", (int)job->window, "tokens_per_s", tokens_per_s(job),
        "activations", o->engine.activations == ACTIVATIONS_F32 ? "f32" : "int8", "kv_type",
        kv_layout_names[o->engine.kv_type], "model", report_text(o->model, strlen(o->model)));
    if (job->exact) {
        struct score_kl_result kl = score_kl(&job->score);
        r = score_perplexity(&job->exact_score);
        json_object_set_new(root, "f32",
                            json_pack("{s:f, s:f}", "perplexity", r.perplexity, "standard_error",
                                      r.standard_error));
        json_object_set_new(
            root, "kl",
            json_pack("{s:f, s:f, s:f}", "mean", kl.mean, "p99", kl.p99, "max", kl.max));
    }
    json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(root);
}

static enum status perplexity_run(struct job *job, struct err *err)
{
    enum status st = options_load(&job->args->options, &job->loader, err);
    if (!st)
        st = perplexity_tokenize(job, err);
    if (!st)
        st = divide(job, err);
    if (!st)
        st = perplexity_prepare(job, err);
    if (st)
        return st;
    st = run_windows(job, err);
    if (st)
        return st;
    if (!isfinite(job->score.nll) || !isfinite(job->exact_score.nll))
        return err_set(err, STATUS_INTERNAL, "the model computed logits that are not finite");
    if (job->args->json)
        perplexity_print_json(job);
    else
        print_text(job);
    return STATUS_OK;
}

static void perplexity_close_job(struct job *job)
{
    evaluator_close(job->evaluator);
    evaluator_close(job->exact);
    mem_free(job->exact_logits);
    score_fini(&job->score);
    score_fini(&job->exact_score);
    tokens_fini(&job->tokens);
    loader_close(&job->loader);
}

int perplexity_main(int argc, char **argv)
{
    struct args args = {.options = options_default, .ctx = 512};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--model PATH --file TEXT [flags]",
        .about = "Measures how well a model predicts a text, by the protocol of llama.cpp's tool:\n"
                 "windows of --ctx tokens, the predictions of each one's second half scored.",
        .groups = {FLAG_GROUP(own_flags, &args), options_model_flags(&args.options)},
    };
    int exit_code;
    struct err err = {0};
    struct job job = {.args = &args};
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    enum status st = options_check(&args.options, &err);
    if (!st && !args.file)
        st = err_param(&err, STATUS_INVALID, "--file", "--file TEXT is required");
    if (!st)
        st = perplexity_run(&job, &err);
    perplexity_close_job(&job);
    return st ? flags_fail(COMMAND, &err) : EXIT_SUCCESS;
}
