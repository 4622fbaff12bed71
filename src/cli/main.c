/* firstlight: one binary, one subcommand per file. */
#include "cli/flags.h"
#include "cli/inspect.h"
#include "cli/logits.h"
#include "cli/tokenize.h"
#include "cli/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2

struct command {
    const char *name;
    int (*main)(int argc, char **argv); /* argv[0] is the name; returns the exit code */
    const char *about;
};

static const struct command commands[] = {
    {"inspect", inspect_main, "what is in a model file"},
    {"tokenize", tokenize_main, "text to token ids"},
    {"logits", logits_main, "token ids to the logits of every position"},
    {"version", version_main, "what this binary is and runs on"},
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_commands(FILE *out)
{
    fprintf(out, "usage: firstlight COMMAND [flags]\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].about);
    fprintf(out, "\nfirstlight COMMAND --help says more.\n");
}

static const struct command *find_command(const char *name)
{
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    const char *close = flags_closest(name, names, COMMAND_COUNT);
    if (close)
        fprintf(stderr, "firstlight: unknown command \"%s\"; did you mean %s?\n", name, close);
    else
        fprintf(stderr, "firstlight: unknown command \"%s\"; see firstlight --help\n", name);
    return EXIT_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_commands(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_commands(stdout);
        return EXIT_SUCCESS;
    }
    const struct command *c = find_command(argv[1]);
    return c ? c->main(argc - 1, argv + 1) : unknown_command(argv[1]);
}
