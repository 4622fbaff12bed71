/* `firstlight tokenize`: text on standard input to token ids on standard output. */
#include "cli/commands.h"

#include "base/buf.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "model/load/model_file.h"
#include "text/tokenizer/tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define COMMAND "tokenize"

struct args {
    const char *model;
    bool json;
    bool no_special;
    bool add_special;
};

static const struct flag flag_table[] = {
    {"--model", "FILE",
     "GGUF file, or tokenizer.json, whose\ntokenizer to use (default " OPTIONS_DEFAULT_MODEL ")",
     FLAG_TEXT, FLAG_FIELD(args, model)},
    {"--json", NULL, "read a JSON array of strings, print an array of arrays of ids", FLAG_BOOL,
     FLAG_FIELD(args, json)},
    {"--no-special", NULL, "text that spells a special token stays text", FLAG_BOOL,
     FLAG_FIELD(args, no_special)},
    {"--add-special", NULL, "add bos and eos where the model asks for it", FLAG_BOOL,
     FLAG_FIELD(args, add_special)},
};

/* One run of the command. */
struct job {
    const struct args *args;
    struct model_file file; /* of a GGUF file */
    struct tokenizer *tokenizer;
    struct buf in, out;
};

/* --- the tokenizer -------------------------------------------------------------------------- */

static bool is_json(const char *path)
{
    size_t len = strlen(path);
    return len > 5 && strcmp(path + len - 5, ".json") == 0;
}

/* *found: NULL: a file that is not there is an error. */
static enum status read_whole(struct buf *out, const char *path, bool *found, struct err *err)
{
    FILE *f = fopen(path, "rb");
    if (found)
        *found = f;
    if (!f && found)
        return STATUS_OK;
    enum status st = f && buf_read(out, f)
                         ? STATUS_OK
                         : err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    if (f)
        fclose(f);
    return st;
}

static enum status open_texts(struct job *job, const struct buf *text, const struct buf *config,
                              struct err *err)
{
    const struct tokenizer_json files = {.text = buf_str(text),
                                         .len = text->len,
                                         .config = config ? buf_str(config) : NULL,
                                         .config_len = config ? config->len : 0};
    enum status st = tokenizer_open_json(&job->tokenizer, &files, err);
    return st ? err_context(err, "%s", job->args->model) : st;
}

/* A tokenizer.json, with the tokenizer_config.json beside it if there is one. */
static enum status tokenize_open_json(struct job *job, struct err *err)
{
    const char *path = job->args->model, *slash = strrchr(path, '/');
    struct buf text = {0}, config = {0}, beside = {0};
    bool has_config;
    buf_printf(&beside, "%.*stokenizer_config.json", slash ? (int)(slash + 1 - path) : 0, path);
    enum status st = read_whole(&text, path, NULL, err);
    if (st == STATUS_OK)
        st = read_whole(&config, buf_str(&beside), &has_config, err);
    if (st == STATUS_OK)
        st = open_texts(job, &text, has_config ? &config : NULL, err);
    buf_fini(&text);
    buf_fini(&config);
    buf_fini(&beside);
    return st;
}

static enum status tokenize_open(struct job *job, struct err *err)
{
    if (is_json(job->args->model))
        return tokenize_open_json(job, err);
    enum status st = model_file_open(&job->file, job->args->model, err);
    return st ? st : model_file_tokenizer(&job->tokenizer, &job->file, err);
}

/* --- texts to ids --------------------------------------------------------------------------- */

static enum status encode(const struct job *job, const char *text, size_t len, struct tokens *out,
                          struct err *err)
{
    const struct args *a = job->args;
    unsigned flags = (a->no_special ? 0u : TOKENIZE_SPECIAL) | (a->add_special ? TOKENIZE_ADD : 0u);
    return tokenizer_encode(job->tokenizer, text, len, NULL, flags, out, err);
}

static void put_ids(struct buf *out, const struct tokens *ids, const char *separator)
{
    for (size_t i = 0; i < ids->count; i++)
        buf_printf(out, "%s%" PRId32, i > 0 ? separator : "", ids->ids[i]);
}

static enum status tokenize_text(struct job *job, struct err *err)
{
    struct tokens ids = {0};
    enum status st = encode(job, buf_str(&job->in), job->in.len, &ids, err);
    put_ids(&job->out, &ids, " ");
    buf_putc(&job->out, '\n');
    tokens_fini(&ids);
    return st;
}

static enum status tokenize_strings(struct job *job, const json_t *texts, struct err *err)
{
    struct tokens ids = {0};
    enum status st = STATUS_OK;
    buf_putc(&job->out, '[');
    for (size_t i = 0; st == STATUS_OK && i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        ids.count = 0;
        st = json_is_string(text)
                 ? encode(job, json_string_value(text), json_string_length(text), &ids, err)
                 : err_set(err, STATUS_INVALID,
                           "standard input: expected an array of strings, element %zu is none", i);
        buf_puts(&job->out, i > 0 ? ",\n[" : "[");
        put_ids(&job->out, &ids, ",");
        buf_putc(&job->out, ']');
    }
    buf_puts(&job->out, "]\n");
    tokens_fini(&ids);
    return st;
}

static enum status tokenize_json(struct job *job, struct err *err)
{
    json_error_t where;
    json_t *texts =
        json_loadb(buf_str(&job->in), job->in.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &where);
    if (!texts)
        return err_set(err, STATUS_INVALID, "standard input: line %d: %s", where.line, where.text);
    enum status st =
        json_is_array(texts)
            ? tokenize_strings(job, texts, err)
            : err_set(err, STATUS_INVALID, "standard input: expected a JSON array of strings");
    json_decref(texts);
    return st;
}

/* --- the command ---------------------------------------------------------------------------- */

static enum status read_input(struct buf *in, struct err *err)
{
    if (buf_read(in, stdin))
        return STATUS_OK;
    if (in->failed)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the input");
    return err_set(err, STATUS_IO, "standard input: %s", strerror(errno));
}

static enum status write_output(const struct buf *out, struct err *err)
{
    if (out->failed)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the output");
    if (fwrite(out->data, 1, out->len, stdout) != out->len || fflush(stdout) != 0)
        return err_set(err, STATUS_IO, "standard output: %s", strerror(errno));
    return STATUS_OK;
}

static enum status tokenize_run(struct job *job, struct err *err)
{
    enum status st = tokenize_open(job, err);
    if (st == STATUS_OK)
        st = read_input(&job->in, err);
    if (st == STATUS_OK)
        st = job->args->json ? tokenize_json(job, err) : tokenize_text(job, err);
    return st ? st : write_output(&job->out, err);
}

static void tokenize_close(struct job *job)
{
    tokenizer_close(job->tokenizer);
    model_file_close(&job->file);
    buf_fini(&job->in);
    buf_fini(&job->out);
}

int tokenize_main(int argc, char **argv)
{
    struct args args = {.model = OPTIONS_DEFAULT_MODEL};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "[flags] < TEXT",
        .about = "Reads text on standard input and prints its token ids on one line.",
        .groups = {FLAG_GROUP(flag_table, &args)},
    };
    struct job job = {.args = &args};
    struct err err = {0};
    int code = 0;
    if (!flags_read(&set, argc, argv, &code))
        return code;
    if (tokenize_run(&job, &err) != STATUS_OK)
        code = flags_fail(COMMAND, &err);
    tokenize_close(&job);
    return code;
}
