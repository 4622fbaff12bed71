/* Command-line flags as data: a subcommand lists its flags in one table, from which come parsing,
 * range errors that name the flag, and --help.
 *
 *     struct args { struct options options; uint32_t chunk; bool json; };
 *     static const struct flag flags[] = {
 *         {"--chunk", "N", "rows of one step", FLAG_U32, FLAG_FIELD(args, chunk), .min = 1,
 *          .max = 512},
 *         {"--json", NULL, "print JSON", FLAG_BOOL, FLAG_FIELD(args, json)},
 *     };
 *     struct flag_set set = {
 *         .command = "logits", .usage = "--npy OUT [flags]", .about = "...",
 *         .groups = {FLAG_GROUP(flags, &args), options_model_flags(&args.options)},
 *     };
 *     int exit_code;
 *     if (!flags_read(&set, argc, argv, &exit_code))
 *         return exit_code;
 *
 * "--name value" and "--name=value" are the same; "--" ends the flags. A flag given twice takes the
 * last value. Whole numbers are decimal digits. A field keeps its value when the flag is absent.
 */
#ifndef FIRSTLIGHT_CLI_FLAGS_H
#define FIRSTLIGHT_CLI_FLAGS_H

#include "base/buf.h"
#include "base/err.h"
#include "base/name_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum flag_kind {
    FLAG_BOOL,   /* bool: takes no value */
    FLAG_U32,    /* uint32_t */
    FLAG_U64,    /* uint64_t; min and max only matter below 2^53 */
    FLAG_F32,    /* float, finite */
    FLAG_F64,    /* double, finite */
    FLAG_SIZE,   /* size_t bytes: "512M", "2G" */
    FLAG_TEXT,   /* const char *, borrowed from argv */
    FLAG_CHOICE, /* int or an enum: index into choices */
    FLAG_NAME,   /* const char *, borrowed from argv: one of names */
    FLAG_CUSTOM, /* parse() says */
};

struct flag {
    const char *name;  /* "--threads", "-p" */
    const char *value; /* "N" in the help; NULL for FLAG_BOOL */
    const char *help;  /* lines */
    enum flag_kind kind;
    size_t offset;              /* of the field in the group's base */
    double min, max;            /* numbers */
    uint32_t none;              /* FLAG_U32: what the field gets for a 0 */
    const char *const *choices; /* FLAG_CHOICE: NULL-terminated */
    name_table_at *names;       /* FLAG_NAME; of any kind: the help ends with a line for each */
    enum status (*parse)(void *field, const char *text, struct err *err); /* FLAG_CUSTOM */
    /* FLAG_U32: the help ends with the value that the field has before parsing, with this text
     * where that is 0. With names: which of them is the default. NULL: the help says itself. */
    const char *zero;
    /* FLAG_U32: ends the help, by the value that the field has before parsing; may be NULL. */
    void (*more)(const struct flag *f, uint32_t before, struct buf *help);
    /* Other flags, "--a --b": without one of them, or beside one of them, this flag is an error.
     * Those that a command does not have do not count. */
    const char *needs, *excludes; /* excludes is NULL: as the group has it; "": none */
    const char *beside; /* why other flags exclude this one: ends the error, may be NULL */
};

/* The initialiser of `offset`. */
#define FLAG_FIELD(type, field) .offset = offsetof(struct type, field)

/* A table of flags and the struct whose fields they set. */
struct flag_group {
    const struct flag *flags;
    size_t n_flags;
    void *base;
    const char *excludes; /* of its flags that say nothing themselves; NULL: none */
};
#define FLAG_GROUP(array, base) FLAG_GROUP_BESIDE(array, base, NULL)
#define FLAG_GROUP_BESIDE(array, base, excludes)                                                   \
    {                                                                                              \
        (array), sizeof(array) / sizeof((array)[0]), (base), (excludes)                            \
    }
#define FLAG_GROUPS 8

struct flag_set {
    const char *command;
    const char *usage; /* what follows the command's name in the usage line */
    const char *about; /* a sentence or a paragraph */
    struct flag_group groups[FLAG_GROUPS];
    const char **positional; /* receives what is not a flag, in order, borrowed from argv */
    size_t max_positional;   /* more than these is an error */
    size_t *n_positional;    /* how many came; may be NULL */
};

/* argv[0] is the subcommand. False when the command ends here: --help was printed (*exit_code 0) or
 * an error (*exit_code 2). */
bool flags_read(const struct flag_set *set, int argc, char **argv, int *exit_code);

/* The same without printing: STATUS_INVALID names the flag; *help says that --help was given. */
enum status flags_parse(const struct flag_set *set, int argc, char **argv, bool *help,
                        struct err *err);

/* The one of `names` closest to `word`, if it is close enough to be meant; else NULL. */
const char *flags_closest(const char *word, const char *const *names, size_t n_names);

/* Prints "firstlight COMMAND: text" to stderr; returns the exit code 1. */
#define FLAGS_INTERRUPTED 130 /* exit code: what a shell reports for SIGINT */
int flags_fail(const char *command, const struct err *err);

#endif
