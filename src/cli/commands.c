#include "cli/commands.h"

#include "cli/flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE   2
#define MAX_COMMANDS 32

static void print_commands(FILE *out, const char *program, const struct command *commands, size_t n)
{
    fprintf(out, "usage: %s COMMAND [flags]\n\n", program);
    for (size_t i = 0; i < n; i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].about);
    fprintf(out, "\n%s COMMAND --help says more.\n", program);
}

static int unknown_command(const char *program, const struct command *commands, size_t n,
                           const char *name)
{
    const char *names[MAX_COMMANDS];
    size_t n_names = 0;
    while (n_names < n && n_names < MAX_COMMANDS) {
        names[n_names] = commands[n_names].name;
        n_names++;
    }
    const char *close = flags_closest(name, names, n_names);
    if (close)
        fprintf(stderr, "%s: unknown command \"%s\"; did you mean %s?\n", program, name, close);
    else
        fprintf(stderr, "%s: unknown command \"%s\"; see %s --help\n", program, name, program);
    return EXIT_USAGE;
}

static bool asks_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

int commands_run(const char *program, const struct command *commands, size_t n, int argc,
                 char **argv)
{
    if (argc < 2) {
        print_commands(stderr, program, commands, n);
        return EXIT_USAGE;
    }
    if (asks_help(argv[1])) {
        print_commands(stdout, program, commands, n);
        return EXIT_SUCCESS;
    }
    for (size_t i = 0; i < n; i++)
        if (strcmp(commands[i].name, argv[1]) == 0)
            return commands[i].run(argc - 1, argv + 1);
    return unknown_command(program, commands, n, argv[1]);
}
