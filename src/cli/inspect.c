/* `firstlight inspect MODEL [--json]`: what is in a model file, without loading it. */
#include "cli/commands.h"

#include "cli/flags.h"
#include "cli/inspect_report.h"
#include "model/load/model_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND "inspect"

struct args {
    const char *path;
    bool json;
};

static const struct flag own_flags[] = {
    {"--json", NULL,
     "one JSON object: path, version, file_size, metadata, tensors, totals;\n"
     "arrays of more than 64 elements become {\"type\", \"count\", \"first\"}",
     FLAG_BOOL, FLAG_FIELD(args, json)},
};

uint64_t inspect_parameters(const struct tensor *t)
{
    return t->dims[0] * t->dims[1] * t->dims[2] * t->dims[3];
}

static struct inspect_totals count_totals(const struct gguf *g)
{
    struct inspect_totals totals = {.tensors = gguf_tensor_count(g)};
    for (size_t i = 0; i < totals.tensors; i++) {
        const struct tensor *t = gguf_tensor_at(g, i);
        totals.parameters += inspect_parameters(t);
        totals.bytes += t->size;
        totals.type_tensors[t->type]++;
        totals.type_bytes[t->type] += t->size;
    }
    return totals;
}

static enum status print_report(const struct gguf *g, bool json, struct err *err)
{
    struct inspect_totals totals = count_totals(g);
    enum status s = STATUS_OK;
    if (json)
        s = inspect_json_print(g, &totals, stdout, err);
    else
        inspect_text_print(g, &totals, stdout);
    if (s == STATUS_OK && (fflush(stdout) != 0 || ferror(stdout)))
        s = err_set(err, STATUS_IO, "cannot write to standard output: %s", strerror(errno));
    return s;
}

static enum status inspect(const struct args *a, struct err *err)
{
    struct model_file f;
    if (!a->path)
        return err_set(err, STATUS_INVALID, "expected a model file: firstlight inspect MODEL");
    enum status s = model_file_open(&f, a->path, err);
    if (s == STATUS_OK)
        s = print_report(f.gguf, a->json, err);
    model_file_close(&f);
    return s;
}

int inspect_main(int argc, char **argv)
{
    struct args args = {0};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "MODEL [--json]",
        .about = "Prints what is in a GGUF file or a Hugging Face folder (as the GGUF file it "
                 "would be):\n"
                 "metadata, tensors and totals.",
        .groups = {FLAG_GROUP(own_flags, &args)},
        .positional = &args.path,
        .max_positional = 1,
    };
    int exit_code;
    struct err err = {0};
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    return inspect(&args, &err) ? flags_fail(COMMAND, &err) : EXIT_SUCCESS;
}
