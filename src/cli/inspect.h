/* `firstlight inspect MODEL [--json]`: what is in a model file, without loading it. */
#ifndef FIRSTLIGHT_CLI_INSPECT_H
#define FIRSTLIGHT_CLI_INSPECT_H

/* argv[0] is the subcommand's name, "inspect". Prints on stdout; an error is one line on stderr
 * that starts with "firstlight inspect:". Returns the exit status: 0, 1 for an error, 2 for bad
 * usage. */
int inspect_main(int argc, char **argv);

#endif
