/* `firstlight version`: what this binary is and what it runs on. */
#ifndef FIRSTLIGHT_CLI_VERSION_COMMAND_H
#define FIRSTLIGHT_CLI_VERSION_COMMAND_H

int version_command_main(int argc, char **argv);

#endif
