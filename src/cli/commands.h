/* Subcommands: a table of names and their functions, for `firstlight` and `firstlight bench`. */
#ifndef FIRSTLIGHT_CLI_COMMANDS_H
#define FIRSTLIGHT_CLI_COMMANDS_H

#include <stddef.h>

struct command {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit code */
    const char *about;
};

/* Runs the command that argv[1] names. `program` is what stands before it ("firstlight bench").
 * Returns the exit code: 2 for a name that is missing or unknown, which gets a suggestion. */
int commands_run(const char *program, const struct command *commands, size_t n, int argc,
                 char **argv);

#endif
