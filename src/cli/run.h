/* firstlight run: one prompt, its answer on the terminal. */
#ifndef FIRSTLIGHT_CLI_RUN_H
#define FIRSTLIGHT_CLI_RUN_H

int run_main(int argc, char **argv);

#endif
