/* `firstlight bench history`: the record table of result files. */
#include "cli/commands.h"

#include "base/limits.h"
#include "bench/result/history.h"
#include "bench/result/result.h"
#include "cli/bench_common.h"
#include "cli/flags.h"

#include <stdio.h>
#include <stdlib.h>

#define COMMAND "bench history"
#define SCHEMA  "firstlight-history/1"

struct args {
    const char *files[LIMIT_RESULT_FILES];
    size_t n_files;
    struct bench_common common; /* its output alone */
};

static const struct flag own_flags[] = {
    {"--output", "FILE", "where to write the JSON; - is standard output", FLAG_TEXT,
     FLAG_FIELD(args, common.output)},
};

/* Reads what can be read into entries and says on stderr why the others cannot. Returns how many
 * there are. */
static size_t bench_history_read_all(const struct args *args, struct history_entry *entries)
{
    size_t n = 0;
    for (size_t i = 0; i < args->n_files; i++) {
        struct err err = {0};
        entries[n].file = args->files[i];
        if (result_read(&entries[n].result, args->files[i], &err))
            flags_fail(COMMAND, &err);
        else
            n++;
    }
    return n;
}

static enum status bench_history_show(const struct args *args, const struct history_entry *entries,
                                      size_t n, struct err *err)
{
    struct buf text = {0};
    history_text(entries, n, &text);
    enum status st = bench_common_print(&args->common, &text, err);
    buf_fini(&text);
    if (st)
        return st;
    struct result json = {
        .root = json_pack("{s:s, s:o}", "schema", SCHEMA, "results", history_json(entries, n))};
    st = bench_common_write(&args->common, &json, err);
    result_fini(&json);
    return st;
}

static enum status bench_history_run(const struct args *args, bool *all_read, struct err *err)
{
    static struct history_entry entries[LIMIT_RESULT_FILES];
    if (args->n_files == 0)
        return err_set(err, STATUS_INVALID, "FILE... is needed: what --output wrote");
    enum status st = bench_common_check(&args->common, err);
    if (st)
        return st;
    size_t n = bench_history_read_all(args, entries);
    *all_read = n == args->n_files;
    history_sort(entries, n);
    if (n)
        st = bench_history_show(args, entries, n, err);
    for (size_t i = 0; i < n; i++)
        result_fini(&entries[i].result);
    return st;
}

int bench_history_main(int argc, char **argv)
{
    struct args args = {.common = bench_common_default};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "FILE... [--output FILE]",
        .about = "The record table: one row a result file, by date. Figures are medians of the\n"
                 "file's repeats; - where a benchmark measures no such thing. The note is what\n"
                 "--note said. A file that cannot be read is reported, the others are shown, and\n"
                 "the exit status is 1.",
        .groups = {FLAG_GROUP(own_flags, &args)},
        .positional = args.files,
        .max_positional = LIMIT_RESULT_FILES,
        .n_positional = &args.n_files,
    };
    struct err err = {0};
    bool all_read = false;
    int exit_code;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    if (bench_history_run(&args, &all_read, &err))
        return flags_fail(COMMAND, &err);
    return all_read ? EXIT_SUCCESS : EXIT_FAILURE;
}
