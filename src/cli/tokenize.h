/* `firstlight tokenize`: text on standard input to token ids on standard output. */
#ifndef FIRSTLIGHT_CLI_TOKENIZE_H
#define FIRSTLIGHT_CLI_TOKENIZE_H

/* argv[0] is "tokenize". Returns the exit status: 0, 1 on failure, 2 on wrong usage. */
int tokenize_main(int argc, char **argv);

#endif
