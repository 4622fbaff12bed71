/* firstlight engines: the engines there are, and whether each is available here. */
#include "cli/commands.h"

#include "cli/flags.h"
#include "engine/engine.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define COMMAND "engines"

struct args {
    bool json;
};

static const struct flag own_flags[] = {
    {"--json", NULL, "print JSON", FLAG_BOOL, FLAG_FIELD(args, json)},
};

static void print_lines(void)
{
    const struct engine_kind *k;
    for (size_t i = 0; (k = engine_kind_at(i)) != NULL; i++) {
        char why[256] = "";
        bool available = engine_kind_available(k, why, sizeof why);
        printf("%-10s %-14s %s%s%s%s\n", k->name, available ? "available" : "not available",
               k->about, available ? "" : " (", why, available ? "" : ")");
    }
}

static json_t *engines_describe(const struct engine_kind *k)
{
    char why[256] = "";
    bool available = engine_kind_available(k, why, sizeof why);
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:s*}", "name", k->name, "mode",
                     k->mode == ENGINE_SYNC ? "sync" : "continuous", "backend", k->backend, "about",
                     k->about, "available", available, "why", available ? NULL : why);
}

static int engines_print_json(void)
{
    const struct engine_kind *k;
    json_t *all = json_array();
    int bad = all == NULL;
    for (size_t i = 0; (k = engine_kind_at(i)) != NULL && !bad; i++)
        bad = json_array_append_new(all, engines_describe(k));
    bad = bad || json_dumpf(all, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
    json_decref(all);
    return bad;
}

int engines_main(int argc, char **argv)
{
    struct args args = {false};
    struct flag_set set = {
        .command = COMMAND,
        .usage = "[--json]",
        .about = "Lists the engines: whether each is available on this machine and, if not, why.\n"
                 "`serve` and `run` take one with --engine NAME.",
        .groups = {FLAG_GROUP(own_flags, &args)},
    };
    int exit_code;
    if (!flags_read(&set, argc, argv, &exit_code))
        return exit_code;
    if (!args.json) {
        print_lines();
        return EXIT_SUCCESS;
    }
    struct err err;
    if (engines_print_json() == 0)
        return EXIT_SUCCESS;
    err_set(&err, STATUS_IO, "cannot write to standard output");
    return flags_fail(COMMAND, &err);
}
