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

/* The subcommands, one file each. argv[0] is the name. They print, and return the exit code: 0, 1
 * for an error, which is one line on stderr, 2 for bad usage. */
int convert_command_main(int argc, char **argv);
int engines_main(int argc, char **argv);
int inspect_main(int argc, char **argv);
int logits_main(int argc, char **argv);
int perplexity_main(int argc, char **argv);
int run_main(int argc, char **argv);
int serve_main(int argc, char **argv);
int tokenize_main(int argc, char **argv);
int version_command_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int bench_ab_main(int argc, char **argv);
int bench_compare_main(int argc, char **argv);
int bench_curves_main(int argc, char **argv);
int bench_history_main(int argc, char **argv);
int bench_model_main(int argc, char **argv);
int bench_replay_main(int argc, char **argv);
int bench_report_main(int argc, char **argv);
int bench_roofline_main(int argc, char **argv);
int bench_scheduler_main(int argc, char **argv);
int bench_simulate_main(int argc, char **argv);
int bench_streaming_main(int argc, char **argv);
int bench_token_speed_main(int argc, char **argv);

#endif
