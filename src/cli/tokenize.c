/* `firstlight tokenize`: text on standard input to token ids on standard output. */
#include "cli/commands.h"

#include "base/buf.h"
#include "cli/flags.h"
#include "cli/options.h"
#include "model/load/model_file.h"
#include "text/tokenizer/tokenizer.h"
#include "weights/gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

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

static enum status read_input(struct buf *in, struct err *err)
{
    if (buf_read(in, stdin))
        return STATUS_OK;
    if (in->failed)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the input");
    return err_set(err, STATUS_IO, "standard input: %s", strerror(errno));
}

static void put_ids(struct buf *out, const struct tokens *ids, const char *separator)
{
    for (size_t i = 0; i < ids->count; i++)
        buf_printf(out, "%s%" PRId32, i ? separator : "", ids->ids[i]);
}

static enum status tokenize_text(const struct tokenizer *t, unsigned flags, const struct buf *in,
                                 struct buf *out, struct err *err)
{
    struct tokens ids = {0};
    enum status status = tokenizer_encode(t, buf_str(in), in->len, NULL, flags, &ids, err);

    put_ids(out, &ids, " ");
    buf_putc(out, '\n');
    tokens_fini(&ids);
    return status;
}

static enum status tokenize_strings(const struct tokenizer *t, unsigned flags, const json_t *texts,
                                    struct buf *out, struct err *err)
{
    struct tokens ids = {0};
    enum status status = STATUS_OK;

    buf_putc(out, '[');
    for (size_t i = 0; status == STATUS_OK && i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        if (!json_is_string(text)) {
            status =
                err_set(err, STATUS_INVALID,
                        "standard input: expected an array of strings, element %zu is none", i);
            break;
        }
        ids.count = 0;
        status = tokenizer_encode(t, json_string_value(text), json_string_length(text), NULL, flags,
                                  &ids, err);
        buf_puts(out, i ? ",\n[" : "[");
        put_ids(out, &ids, ",");
        buf_putc(out, ']');
    }
    buf_puts(out, "]\n");
    tokens_fini(&ids);
    return status;
}

static enum status tokenize_json(const struct tokenizer *t, unsigned flags, const struct buf *in,
                                 struct buf *out, struct err *err)
{
    json_error_t error;
    json_t *texts = json_loadb(buf_str(in), in->len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    enum status status;

    if (texts == NULL)
        return err_set(err, STATUS_INVALID, "standard input: line %d: %s", error.line, error.text);
    if (json_is_array(texts))
        status = tokenize_strings(t, flags, texts, out, err);
    else
        status = err_set(err, STATUS_INVALID, "standard input: expected a JSON array of strings");
    json_decref(texts);
    return status;
}

/* A tokenizer.json, with the tokenizer_config.json beside it if there is one. */
static enum status tokenize_open_json(struct tokenizer **out, const char *path, struct err *err)
{
    struct buf text = {0}, config = {0}, other = {0};
    const char *slash = strrchr(path, '/');
    FILE *f = fopen(path, "rb"), *g = NULL;
    enum status status = STATUS_OK;

    buf_printf(&other, "%.*stokenizer_config.json", slash ? (int)(slash + 1 - path) : 0, path);
    if (f == NULL || !buf_read(&text, f))
        status = err_set(err, STATUS_IO, "%s: %s", path, strerror(errno));
    g = status == STATUS_OK ? fopen(buf_str(&other), "rb") : NULL;
    if (g != NULL && !buf_read(&config, g))
        status = err_set(err, STATUS_IO, "%s: %s", buf_str(&other), strerror(errno));
    if (status == STATUS_OK) {
        struct tokenizer_json files = {buf_str(&text), text.len, g ? buf_str(&config) : NULL,
                                       config.len,     NULL,     0};
        status = tokenizer_open_json(out, &files, err);
        if (status != STATUS_OK)
            err_context(err, "%s", path);
    }
    if (f != NULL)
        fclose(f);
    if (g != NULL)
        fclose(g);
    buf_fini(&text);
    buf_fini(&config);
    buf_fini(&other);
    return status;
}

static bool is_json(const char *path)
{
    size_t len = strlen(path);

    return len > 5 && strcmp(path + len - 5, ".json") == 0;
}

static enum status tokenize_open_model(struct model_file *f, struct tokenizer **t, const char *path,
                                       struct err *err)
{
    enum status status = model_file_open(f, path, err);

    return status == STATUS_OK ? model_file_tokenizer(t, f, err) : status;
}

static enum status tokenize_run(const struct args *a, struct buf *in, struct buf *out,
                                struct err *err)
{
    unsigned flag_bits =
        (a->no_special ? 0u : TOKENIZE_SPECIAL) | (a->add_special ? TOKENIZE_ADD : 0u);
    struct model_file f = {0};
    struct tokenizer *t = NULL;
    enum status status = is_json(a->model) ? tokenize_open_json(&t, a->model, err)
                                           : tokenize_open_model(&f, &t, a->model, err);

    if (status == STATUS_OK)
        status = read_input(in, err);
    if (status == STATUS_OK)
        status = (a->json ? tokenize_json : tokenize_text)(t, flag_bits, in, out, err);
    if (status == STATUS_OK && out->failed)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for the output");
    if (status == STATUS_OK &&
        (fwrite(out->data, 1, out->len, stdout) != out->len || fflush(stdout) != 0))
        status = err_set(err, STATUS_IO, "standard output: %s", strerror(errno));
    tokenizer_close(t);
    model_file_close(&f);
    return status;
}

int tokenize_main(int argc, char **argv)
{
    struct args args = {.model = OPTIONS_DEFAULT_MODEL};
    struct flag_set set = {
        .command = "tokenize",
        .usage = "[flags] < TEXT",
        .about = "Reads text on standard input and prints its token ids on one line.",
        .groups = {FLAG_GROUP(flag_table, &args)},
    };
    struct buf in = {0}, out = {0};
    struct err err = {0};
    int code = 0;

    if (!flags_read(&set, argc, argv, &code))
        return code;
    if (tokenize_run(&args, &in, &out, &err) != STATUS_OK)
        code = flags_fail("tokenize", &err);
    buf_fini(&in);
    buf_fini(&out);
    return code;
}
