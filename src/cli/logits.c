/* `firstlight logits --model M --npy OUT`: token ids on standard input, logits of every position
 * out, for whoever checks this port against another. */
#include "cli/commands.h"

#include "base/limits.h"
#include "base/mem.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "engine/evaluator.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND       "logits"
#define DEFAULT_CHUNK 128

struct args {
    struct options options;
    const char *npy;
    uint32_t chunk;
};

// clang-format off
static const struct flag own_flags[] = {
    {"--npy", "OUT", "file to write (required)", FLAG_TEXT, FLAG_FIELD(args, npy)},
    {"--chunk", "N", "tokens of one step; changes no bit of the result (default 128)",
     FLAG_U32, FLAG_FIELD(args, chunk), .min = 1, .max = LIMIT_BATCH_TOKENS},
};
// clang-format on

/* One run of the command. */
struct job {
    const struct args *args;
    struct loader loader;
    const struct model *model; /* the loader's */
    struct evaluator *evaluator;
    int32_t *tokens;
    uint32_t n_tokens;
    FILE *file;
    bool write_failed;
};

static enum status take_ids(struct job *job, json_t *array, struct err *err)
{
    size_t n = json_array_size(array);
    if (!json_is_array(array) || n < 1 || n > LIMIT_CONTEXT)
        return err_set(err, STATUS_INVALID,
                       "standard input: expected a JSON array of 1 to %u token ids", LIMIT_CONTEXT);
    job->tokens = mem_array(n, sizeof *job->tokens);
    if (!job->tokens)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %zu token ids", n);
    for (size_t i = 0; i < n; i++) {
        json_t *id = json_array_get(array, i);
        json_int_t v = json_integer_value(id);
        if (!json_is_integer(id) || v < 0 || v > INT32_MAX)
            return err_set(err, STATUS_INVALID, "standard input: element %zu is no token id", i);
        job->tokens[i] = (int32_t)v;
    }
    job->n_tokens = (uint32_t)n;
    return evaluator_check(job->model, job->tokens, n, err);
}

static enum status logits_read_ids(struct job *job, struct err *err)
{
    json_error_t where;
    json_t *root = json_loadf(stdin, JSON_REJECT_DUPLICATES, &where);
    if (!root)
        return err_set(err, STATUS_INVALID, "standard input: line %d: %s", where.line, where.text);
    enum status st = take_ids(job, root, err);
    json_decref(root);
    return st;
}

/* https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, version 1.0: magic,
 * length of the rest of the header, a Python dictionary padded so that the data is aligned to 64.
 */
static void write_header(struct job *job)
{
    char text[128];
    unsigned char prefix[10] = "\x93NUMPY\x01\x00";
    int used =
        snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (%u, %u), }",
                 job->n_tokens, job->model->config.n_vocab);
    size_t len = sizeof text - sizeof prefix;
    memset(text + used, ' ', sizeof text - (size_t)used);
    text[len - 1] = '\n';
    prefix[8] = (unsigned char)len;
    prefix[9] = (unsigned char)(len >> 8);
    fwrite(prefix, 1, sizeof prefix, job->file);
    fwrite(text, 1, len, job->file);
}

static void write_row(void *arg, uint32_t position, const float *logits)
{
    (void)position;
    struct job *job = arg;
    size_t n = job->model->config.n_vocab;
    if (fwrite(logits, sizeof *logits, n, job->file) != n)
        job->write_failed = true;
}

static enum status write_npy(struct job *job, struct err *err)
{
    const char *path = job->args->npy;
    job->file = fopen(path, "wb");
    if (!job->file)
        return err_param(err, STATUS_IO, "--npy", "cannot write %s: %s", path, strerror(errno));
    write_header(job);
    evaluator_feed(job->evaluator, job->tokens, job->n_tokens, 0, write_row, job);
    enum status st = loader_check(&job->loader, err);
    if (fclose(job->file) != 0 || job->write_failed)
        st = err_param(err, STATUS_IO, "--npy", "cannot write %s: %s", path, strerror(errno));
    if (st)
        unlink(path);
    return st;
}

/* A model under test need not have a tokenizer. */
static enum status logits_run(struct job *job, struct err *err)
{
    struct backend_options o = options_backend(&job->args->options);
    enum status st = options_load_model(&job->args->options, &job->loader, err);
    job->model = job->loader.model;
    if (!st)
        st = logits_read_ids(job, err);
    if (st)
        return st;
    o.n_ctx = job->n_tokens;
    o.max_rows = o.max_outputs = job->args->chunk;
    st = evaluator_open(&job->evaluator, &cpu_backend, job->model, &o, err);
    return st ? st : write_npy(job, err);
}

int logits_main(int argc, char **argv)
{
    struct args args = {.options = options_default, .chunk = DEFAULT_CHUNK};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "--model PATH --npy OUT [flags] < IDS",
        .about =
            "Reads a JSON array of token ids on standard input and writes the logits of every\n"
            "position to a NumPy file: positions x vocabulary, float32.",
        .groups = {FLAG_GROUP(own_flags, &args), options_model_flags(&args.options)},
    };
    int exit_code;
    struct err err = {0};
    struct job job = {.args = &args};
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    enum status st = options_check(&args.options, &err);
    if (!st && !args.npy)
        st = err_param(&err, STATUS_INVALID, "--npy", "--npy OUT is required");
    if (!st)
        st = logits_run(&job, &err);
    evaluator_close(job.evaluator);
    mem_free(job.tokens);
    loader_close(&job.loader);
    return st ? flags_fail(COMMAND, &err) : EXIT_SUCCESS;
}
