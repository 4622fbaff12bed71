/* firstlight convert: a model written as a GGUF file. */
#ifndef FIRSTLIGHT_CLI_CONVERT_COMMAND_H
#define FIRSTLIGHT_CLI_CONVERT_COMMAND_H

int convert_command_main(int argc, char **argv);

#endif
