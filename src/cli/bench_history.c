#include "cli/bench_history.h"

#include "base/limits.h"
#include "bench/history.h"
#include "bench/result.h"
#include "cli/flags.h"

#include <stdio.h>
#include <stdlib.h>

#define COMMAND "bench history"

/* Reads what can be read into results and says on stderr why the others cannot. Returns how many
 * there are. */
static size_t read_all(const char *const *files, size_t n, struct result *results)
{
    size_t n_read = 0;
    for (size_t i = 0; i < n; i++) {
        struct err err = {0};
        if (result_read(&results[n_read], files[i], &err))
            flags_fail(COMMAND, &err);
        else
            n_read++;
    }
    return n_read;
}

int bench_history_main(int argc, char **argv)
{
    const char *files[LIMIT_RESULT_FILES];
    static struct result results[LIMIT_RESULT_FILES];
    size_t n = 0;
    struct flag_set set = {
        .command = COMMAND,
        .usage = "FILE...",
        .about = "The record table: one row a result file, by date. Figures are medians of the\n"
                 "file's repeats; - where a benchmark measures no such thing. The note is what\n"
                 "--note said. A file that cannot be read is reported, the others are shown, and\n"
                 "the exit status is 1.",
        .positional = files,
        .max_positional = LIMIT_RESULT_FILES,
        .n_positional = &n,
    };
    struct err err = {0};
    struct buf text = {0};
    int exit_code;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    if (n == 0) {
        err_set(&err, STATUS_INVALID, "FILE... is needed: results of --output");
        return flags_fail(COMMAND, &err);
    }
    size_t n_read = read_all(files, n, results);
    if (n_read)
        history_text(results, n_read, &text);
    fputs(buf_str(&text), stdout);
    for (size_t i = 0; i < n_read; i++)
        result_fini(&results[i]);
    bool ok = n_read == n && !text.failed;
    buf_fini(&text);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
