/* firstlight engines: the engines there are, and whether each is available here. */
#ifndef FIRSTLIGHT_CLI_ENGINES_H
#define FIRSTLIGHT_CLI_ENGINES_H

int engines_main(int argc, char **argv);

#endif
