#include "cli/flags.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE  2
#define HELP_COLUMN 26
#define WORD_MAX    32
#define MAX_FLAGS   128 /* of a command */

static enum status bad_value(const struct flag *f, const char *text, const char *expected,
                             struct err *err)
{
    return err_param(err, STATUS_INVALID, f->name, "%s: expected %s, found \"%s\"", f->name,
                     expected, text);
}

static enum status flags_out_of_range(const struct flag *f, const char *text, struct err *err)
{
    return err_param(err, STATUS_INVALID, f->name, "%s: must be between %.15g and %.15g, found %s",
                     f->name, f->min, f->max, text);
}

/* Digits only: strtoull alone would take "-1", " 5" and "+5". */
static bool flags_read_whole(const char *text, uint64_t *out)
{
    if (*text == '\0' || text[strspn(text, "0123456789")] != '\0')
        return false;
    errno = 0;
    *out = strtoull(text, NULL, 10);
    return errno == 0;
}

static enum status flags_take_whole(const struct flag *f, void *field, const char *text,
                                    struct err *err)
{
    uint64_t v;
    if (!flags_read_whole(text, &v))
        return bad_value(f, text, "a whole number", err);
    double max = f->kind == FLAG_U32 && f->max > UINT32_MAX ? UINT32_MAX : f->max;
    if ((double)v < f->min || (double)v > max)
        return flags_out_of_range(f, text, err);
    if (f->kind == FLAG_U32)
        *(uint32_t *)field = v > 0 ? (uint32_t)v : f->none;
    else
        *(uint64_t *)field = v;
    return STATUS_OK;
}

static enum status take_float(const struct flag *f, void *field, const char *text, struct err *err)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(v))
        return bad_value(f, text, "a number", err);
    if (v < f->min || v > f->max)
        return flags_out_of_range(f, text, err);
    if (f->kind == FLAG_F64)
        *(double *)field = v;
    else
        *(float *)field = (float)v;
    return STATUS_OK;
}

static enum status flags_take_choice(const struct flag *f, void *field, const char *text,
                                     struct err *err)
{
    char known[200];
    size_t n = 0;
    for (int i = 0; f->choices[i]; i++) {
        if (strcmp(f->choices[i], text) == 0) {
            *(int *)field = i;
            return STATUS_OK;
        }
        if (n < sizeof known)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "one of ",
                                  f->choices[i]);
    }
    return bad_value(f, text, known, err);
}

static enum status take_name(const struct flag *f, void *field, const char *text, struct err *err)
{
    char known[256];
    if (name_table_find(f->names, text, known, sizeof known) == NAME_TABLE_NONE)
        return err_param(err, STATUS_INVALID, f->name, "%s: unknown \"%.40s\"; there are %s",
                         f->name, text, known);
    *(const char **)field = text;
    return STATUS_OK;
}

static enum status take_value(const struct flag *f, void *field, const char *text, struct err *err)
{
    switch (f->kind) {
    case FLAG_BOOL:
        *(bool *)field = true;
        return STATUS_OK;
    case FLAG_U32:
    case FLAG_U64:
        return flags_take_whole(f, field, text, err);
    case FLAG_F32:
    case FLAG_F64:
        return take_float(f, field, text, err);
    case FLAG_SIZE:
        if (!mem_parse_size(text, field))
            return bad_value(f, text, "a size such as 512M or 2G", err);
        return STATUS_OK;
    case FLAG_TEXT:
        *(const char **)field = text;
        return STATUS_OK;
    case FLAG_CHOICE:
        return flags_take_choice(f, field, text, err);
    case FLAG_NAME:
        return take_name(f, field, text, err);
    case FLAG_CUSTOM:
        return f->parse(field, text, err);
    }
    return STATUS_OK;
}

/* Levenshtein's distance of short words, one row at a time. */
static size_t word_distance(const char *a, const char *b)
{
    size_t la = strlen(a), lb = strlen(b);
    size_t row[WORD_MAX + 1];
    if (la > WORD_MAX || lb > WORD_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= lb; j++)
        row[j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[lb];
}

const char *flags_closest(const char *word, const char *const *names, size_t n_names)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 2; /* further than that is another word */
    for (size_t i = 0; i < n_names; i++) {
        size_t d = word_distance(word, names[i]);
        if (d < best_distance) {
            best_distance = d;
            best = names[i];
        }
    }
    return best;
}

static enum status unknown_flag(const struct flag_set *set, const char *word, struct err *err)
{
    const char *names[MAX_FLAGS];
    size_t n = 0;
    for (size_t g = 0; g < FLAG_GROUPS; g++)
        for (size_t i = 0; i < set->groups[g].n_flags && n < MAX_FLAGS; i++)
            names[n++] = set->groups[g].flags[i].name;
    const char *close = flags_closest(word, names, n);
    if (close)
        return err_param(err, STATUS_INVALID, word, "unknown flag %s; did you mean %s?", word,
                         close);
    return err_param(err, STATUS_INVALID, word, "unknown flag %s; see firstlight %s --help", word,
                     set->command);
}

/* A flag of a set, with what is known of it while the words are read. */
struct entry {
    const struct flag *flag;
    const char *excludes; /* its own, or its group's */
    void *field;
    uint32_t before; /* FLAG_U32: the field's value before parsing */
    bool given;
};

struct entries {
    struct entry list[MAX_FLAGS];
    size_t n;
};

static void list_flags(struct entries *out, const struct flag_set *set)
{
    out->n = 0;
    for (size_t g = 0; g < FLAG_GROUPS; g++) {
        for (size_t i = 0; i < set->groups[g].n_flags; i++) {
            const struct flag_group *group = &set->groups[g];
            const struct flag *f = &group->flags[i];
            struct entry *e = &out->list[out->n++];
            REQUIRE(out->n <= MAX_FLAGS);
            *e = (struct entry){.flag = f,
                                .excludes = f->excludes ? f->excludes : group->excludes,
                                .field = (char *)group->base + f->offset};
            if (f->kind == FLAG_U32)
                e->before = *(uint32_t *)e->field;
        }
    }
}

static struct entry *find_flag(struct entries *all, const char *word, size_t len)
{
    for (size_t i = 0; i < all->n; i++) {
        struct entry *e = &all->list[i];
        if (strlen(e->flag->name) == len && memcmp(e->flag->name, word, len) == 0)
            return e;
    }
    return NULL;
}

static enum status take_positional(const struct flag_set *set, const char *word, size_t *n,
                                   struct err *err)
{
    if (*n == set->max_positional)
        return err_param(err, STATUS_INVALID, word, "unexpected argument \"%s\"", word);
    set->positional[(*n)++] = word;
    return STATUS_OK;
}

/* argv[*i] is a flag; takes its value too and leaves *i on the last word used. */
static enum status take_flag(const struct flag_set *set, struct entries *all, int argc, char **argv,
                             int *i, struct err *err)
{
    const char *word = argv[*i];
    size_t len = strncmp(word, "--", 2) == 0 ? strcspn(word, "=") : strlen(word);
    struct entry *e = find_flag(all, word, len);
    if (!e)
        return unknown_flag(set, word, err);
    const struct flag *f = e->flag;
    e->given = true;
    const char *value = word[len] == '=' ? word + len + 1 : NULL;
    if (f->kind == FLAG_BOOL && value)
        return err_param(err, STATUS_INVALID, f->name, "%s takes no value", f->name);
    if (f->kind != FLAG_BOOL && !value) {
        if (*i + 1 == argc)
            return err_param(err, STATUS_INVALID, f->name, "%s needs a value: %s", f->name,
                             f->value);
        value = argv[++*i];
    }
    return take_value(f, e->field, value, err);
}

/* The first of the flags in `names` that was given, NULL if none was; `known` gets those that the
 * command has, as words. */
static const struct flag *given_of(struct entries *all, const char *names, char *known, size_t size)
{
    const struct flag *given = NULL;
    size_t used = 0;
    known[0] = '\0';
    for (size_t len; *names; names += len + (names[len] == ' ')) {
        len = strcspn(names, " ");
        const struct entry *e = find_flag(all, names, len);
        if (e && used < size)
            used += (size_t)snprintf(known + used, size - used, "%s%s", used ? " or " : "",
                                     e->flag->name);
        if (e && e->given && !given)
            given = e->flag;
    }
    return given;
}

static enum status check_company(struct entries *all, struct err *err)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct flag *f = all->list[i].flag;
        char known[200];
        if (!all->list[i].given)
            continue;
        if (f->needs && !given_of(all, f->needs, known, sizeof known) && known[0] != '\0')
            return err_param(err, STATUS_INVALID, f->name, "%s goes with %s", f->name, known);
        const char *excludes = all->list[i].excludes;
        const struct flag *other = excludes ? given_of(all, excludes, known, sizeof known) : NULL;
        if (other)
            return err_param(err, STATUS_INVALID, f->name, "%s does not go with %s%s%s", f->name,
                             other->name, other->beside ? ": " : "",
                             other->beside ? other->beside : "");
    }
    return STATUS_OK;
}

static enum status flags_own_parse(const struct flag_set *set, struct entries *all, int argc,
                                   char **argv, bool *help, struct err *err)
{
    size_t n_positional = 0;
    bool only_positional = false;
    *help = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        enum status st = STATUS_OK;
        if (only_positional || word[0] != '-' || word[1] == '\0')
            st = take_positional(set, word, &n_positional, err);
        else if (strcmp(word, "--") == 0)
            only_positional = true;
        else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
            *help = true;
        else
            st = take_flag(set, all, argc, argv, &i, err);
        if (st)
            return st;
    }
    if (set->n_positional)
        *set->n_positional = n_positional;
    return *help ? STATUS_OK : check_company(all, err);
}

enum status flags_parse(const struct flag_set *set, int argc, char **argv, bool *help,
                        struct err *err)
{
    struct entries all;
    list_flags(&all, set);
    return flags_own_parse(set, &all, argc, argv, help, err);
}

static void add_names(const struct flag *f, struct buf *help)
{
    const char *name, *about;
    for (size_t i = 0; f->names(i, &name, &about); i++)
        buf_printf(help, "\n%s%s: %s", name,
                   f->zero && strcmp(name, f->zero) == 0 ? " (default)" : "", about);
}

/* All that the help says of a flag, in lines. */
static void put_help(const struct flag *f, uint32_t before, struct buf *help)
{
    buf_puts(help, f->help);
    if (f->names)
        add_names(f, help);
    else if (f->zero && before > 0)
        buf_printf(help, " (default %u)", before);
    else if (f->zero)
        buf_printf(help, " (default: %s)", f->zero);
    if (f->more)
        f->more(f, before, help);
}

static void print_flag(const struct flag *f, uint32_t before)
{
    char left[64];
    struct buf help = {0};
    put_help(f, before, &help);
    int n = snprintf(left, sizeof left, "  %s%s%s", f->name, f->value ? " " : "",
                     f->value ? f->value : "");
    if (n < HELP_COLUMN - 1)
        printf("%-*s", HELP_COLUMN, left);
    else
        printf("%s\n%*s", left, HELP_COLUMN, "");
    for (const char *p = buf_str(&help); *p; p++) { /* line breaks keep the column */
        putchar(*p);
        if (*p == '\n')
            printf("%*s", HELP_COLUMN, "");
    }
    putchar('\n');
    buf_fini(&help);
}

static void print_help(const struct flag_set *set, const struct entries *all)
{
    printf("usage: firstlight %s%s%s\n\n%s\n\n", set->command, *set->usage ? " " : "", set->usage,
           set->about);
    for (size_t i = 0; i < all->n; i++)
        print_flag(all->list[i].flag, all->list[i].before);
    print_flag(&(struct flag){.name = "--help", .help = "print this"}, 0);
}

int flags_fail(const char *command, const struct err *err)
{
    struct err shown = *err;
    utf8_make_plain(shown.text, true); /* a server's or a file's words may be in it */
    fflush(stdout);                    /* into one file, what was printed before comes before */
    fprintf(stderr, "firstlight %s: %s\n", command, shown.text);
    return EXIT_FAILURE;
}

bool flags_read(const struct flag_set *set, int argc, char **argv, int *exit_code)
{
    struct err err = {0};
    struct entries all;
    bool help;
    list_flags(&all, set);
    if (flags_own_parse(set, &all, argc, argv, &help, &err)) {
        flags_fail(set->command, &err);
        *exit_code = EXIT_USAGE;
        return false;
    }
    if (help) {
        print_help(set, &all);
        *exit_code = EXIT_SUCCESS;
        return false;
    }
    return true;
}
