/* firstlight: one binary, one subcommand per file. */
#include "cli/commands.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command commands[] = {
    {"serve", serve_main, "a model over HTTP with the OpenAI API"},
    {"run", run_main, "one prompt, its answer on the terminal"},
    {"engines", engines_main, "the engines there are, and which work here"},
    {"convert", convert_command_main, "a model to a GGUF file, in another type"},
    {"inspect", inspect_main, "what is in a model file"},
    {"tokenize", tokenize_main, "text to token ids"},
    {"logits", logits_main, "token ids to the logits of every position"},
    {"perplexity", perplexity_main, "how well a model predicts a text"},
    {"bench", bench_main, "measurements"},
    {"version", version_command_main, "what this binary is and runs on"},
};

/* A standard descriptor that came closed would be the next thing that is opened: a socket or a
 * model file, into which the log would then be written. */
static bool open_standard(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) /* the lowest free one */
            return false;
    return true;
}

int main(int argc, char **argv)
{
    static char version[] = "version";
    if (!open_standard())
        return EXIT_FAILURE;  /* nobody to tell */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of write(2) then */
    if (argc > 1 && strcmp(argv[1], "--version") == 0)
        argv[1] = version;
    return commands_run("firstlight", commands, sizeof commands / sizeof commands[0], argc, argv);
}
