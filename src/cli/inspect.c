#include "cli/inspect.h"

#include "cli/inspect_report.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const char usage[] = "usage: firstlight inspect MODEL [--json]";

static const char help[] =
    "Prints what is in a GGUF file: metadata, tensors and totals.\n"
    "\n"
    "  --json      one JSON object: path, version, file_size, metadata, tensors, totals; arrays "
    "of\n"
    "              more than 64 elements become {\"type\", \"count\", \"first\"}\n"
    "  -h, --help  this text\n"
    "\n"
    "Exit status: 0, 1 when the file cannot be read or is broken, 2 for wrong usage.\n";

struct options {
    const char *path;
    bool json;
    bool help;
};

static int usage_error(const char *what, const char *name)
{
    fprintf(stderr, "firstlight inspect: %s%s; %s\n", what, name, usage);
    return 2;
}

/* Long options have values above any character's, so that optopt tells the two kinds apart. */
enum { OPTION_JSON = 256, OPTION_HELP };

static int bad_option(char **argv)
{
    char letter[3] = {'-', (char)optopt, '\0'};
    bool is_short = optopt > 0 && optopt < OPTION_JSON;
    return usage_error("unknown option, or one that takes no value: ",
                       is_short ? letter : argv[optind - 1]);
}

/* Returns 0, or the exit status of a usage error. */
static int parse_options(int argc, char **argv, struct options *o)
{
    static const struct option longs[] = {
        {"json", no_argument, NULL, OPTION_JSON},
        {"help", no_argument, NULL, OPTION_HELP},
        {NULL, 0, NULL, 0},
    };
    opterr = 0;
    optind = 0; /* start over, with any argv */
    for (int c; (c = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
        if (c == OPTION_JSON)
            o->json = true;
        else if (c == OPTION_HELP || c == 'h')
            o->help = true;
        else
            return bad_option(argv);
    }
    if (o->help)
        return 0;
    if (optind == argc)
        return usage_error("expected a model file", "");
    if (argc - optind > 1)
        return usage_error("expected one model file, found also ", argv[optind + 1]);
    o->path = argv[optind];
    return 0;
}

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

int inspect_main(int argc, char **argv)
{
    struct options o = {0};
    struct gguf *g = NULL;
    struct err err;
    int rc = parse_options(argc, argv, &o);
    if (rc != 0)
        return rc;
    if (o.help) {
        printf("%s\n\n%s", usage, help);
        return 0;
    }
    enum status s = gguf_open(&g, o.path, &err);
    if (s == STATUS_OK)
        s = print_report(g, o.json, &err);
    gguf_close(g);
    if (s == STATUS_OK)
        return 0;
    fprintf(stderr, "firstlight inspect: %s\n", err.text);
    return 1;
}
