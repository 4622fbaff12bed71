/* Flags as data: values, ranges, choices, positionals, suggestions; what an error names. */
#include "support/cmocka_all.h"

#include "cli/flags.h"

#include <string.h>

struct args {
    uint32_t threads;
    uint32_t pause;
    const char *pet;
    uint64_t seed;
    float top_p;
    double rate;
    size_t memory;
    const char *name;
    int type;
    bool json;
};

static const char *const types[] = {"f32", "f16", NULL};

static bool pet_at(size_t i, const char **name, const char **about)
{
    static const char *const pets[][2] = {{"cat", "purrs"}, {"dog", "barks"}};
    if (i >= 2)
        return false;
    *name = pets[i][0];
    *about = pets[i][1];
    return true;
}

// clang-format off
static const struct flag flags[] = {
    {"--threads", "N", "threads", FLAG_U32, FLAG_FIELD(args, threads), .min = 1, .max = 256},
    {"--seed", "N", "seed", FLAG_U64, FLAG_FIELD(args, seed), .min = 0, .max = 0x1p64},
    {"--top-p", "P", "share", FLAG_F32, FLAG_FIELD(args, top_p), .min = 0, .max = 1},
    {"--rate", "R", "a second", FLAG_F64, FLAG_FIELD(args, rate), .min = 0, .max = 1e6},
    {"--memory", "SIZE", "bytes", FLAG_SIZE, FLAG_FIELD(args, memory)},
    {"--name", "NAME", "a name", FLAG_TEXT, FLAG_FIELD(args, name)},
    {"--type", "T", "a type", FLAG_CHOICE, FLAG_FIELD(args, type), .choices = types},
    {"--json", NULL, "a switch", FLAG_BOOL, FLAG_FIELD(args, json)},
    {"-n", "N", "a short one", FLAG_U32, FLAG_FIELD(args, threads), .min = 1, .max = 256},
    {"--jitter", "J", "of a rate", FLAG_F64, FLAG_FIELD(args, rate), .max = 1,
     .needs = "--rate --none --name"},
    {"--even", NULL, "no rate", FLAG_BOOL, FLAG_FIELD(args, json), .excludes = "--none --rate"},
    {"--alone", NULL, "no type", FLAG_BOOL, FLAG_FIELD(args, json), .excludes = "--type",
     .beside = "it is all there is"},
    {"--odd", NULL, "of others", FLAG_BOOL, FLAG_FIELD(args, json), .needs = "--none",
     .excludes = "--alone"},
    {"--pause", "MS", "a pause", FLAG_U32, FLAG_FIELD(args, pause), .max = 9, .none = UINT32_MAX},
    {"--pet", "NAME", "a pet", FLAG_NAME, FLAG_FIELD(args, pet), .names = pet_at},
};
// clang-format on

struct outcome {
    struct args args;
    const char *positional[2];
    size_t n_positional;
    bool help;
    struct err err;
};

/* Words after the command's name, ended by NULL. */
static enum status parse(struct outcome *o, const char *const *words)
{
    char *argv[16] = {(char *)"test"};
    int argc = 1;
    *o = (struct outcome){.args = {.threads = 2}};
    struct flag_set set = {
        .command = "test",
        .usage = "",
        .about = "",
        .groups = {FLAG_GROUP(flags, &o->args)},
        .positional = o->positional,
        .max_positional = 2,
        .n_positional = &o->n_positional,
    };
    while (words[argc - 1]) {
        argv[argc] = (char *)words[argc - 1];
        argc++;
    }
    return flags_parse(&set, argc, argv, &o->help, &o->err);
}
#define PARSE(o, ...) parse(o, (const char *const[]){__VA_ARGS__, NULL})

static void takes_values_of_every_kind(void **state)
{
    (void)state;
    struct outcome o;
    assert_int_equal(PARSE(&o, "--threads", "8", "--seed=18446744073709551615", "--top-p", "0.5",
                           "--rate", "0.1", "--memory", "2M", "--name=a=b", "--type", "f16",
                           "--json"),
                     STATUS_OK);
    assert_int_equal(o.args.threads, 8);
    assert_true(o.args.seed == UINT64_MAX);
    assert_true(o.args.top_p == 0.5f);
    assert_true(o.args.rate == 0.1); /* as a double has it */
    assert_int_equal(o.args.memory, 2 << 20);
    assert_string_equal(o.args.name, "a=b");
    assert_int_equal(o.args.type, 1);
    assert_true(o.args.json);
    assert_false(o.help);
}

static void takes_zeros_and_names_that_mean_something(void **state)
{
    (void)state;
    struct outcome o;
    assert_int_equal(PARSE(&o, "--pause", "0", "--pet", "dog"), STATUS_OK);
    assert_true(o.args.pause == UINT32_MAX);
    assert_string_equal(o.args.pet, "dog");
    assert_int_equal(PARSE(&o, "--pause", "9"), STATUS_OK);
    assert_int_equal(o.args.pause, 9);
    assert_null(o.args.pet);
}

static void keeps_defaults_and_takes_the_last(void **state)
{
    (void)state;
    struct outcome o;
    assert_int_equal(PARSE(&o, "--json"), STATUS_OK);
    assert_int_equal(o.args.threads, 2);
    assert_int_equal(PARSE(&o, "--threads", "3", "-n", "4"), STATUS_OK);
    assert_int_equal(o.args.threads, 4);
    assert_int_equal(PARSE(&o, "--help"), STATUS_OK);
    assert_true(o.help);
}

static void positionals_are_what_is_no_flag(void **state)
{
    (void)state;
    struct outcome o;
    assert_int_equal(PARSE(&o, "one", "--json", "--", "--json"), STATUS_OK);
    assert_int_equal(o.n_positional, 2);
    assert_string_equal(o.positional[0], "one");
    assert_string_equal(o.positional[1], "--json");
    assert_int_equal(PARSE(&o, "-"), STATUS_OK);
    assert_string_equal(o.positional[0], "-");
    assert_int_equal(PARSE(&o, "one", "two", "three"), STATUS_INVALID);
    assert_non_null(strstr(o.err.text, "three"));
}

static void flags_in_the_company_they_need(void **state)
{
    (void)state;
    struct outcome o;
    assert_int_equal(PARSE(&o, "--jitter", "0.5", "--name", "x"), STATUS_OK);
    assert_int_equal(PARSE(&o, "--rate=1", "--jitter=0.5"), STATUS_OK);
    assert_int_equal(PARSE(&o, "--even", "--type", "f16"), STATUS_OK);
    assert_int_equal(PARSE(&o, "--odd"), STATUS_OK); /* what it needs is no flag of this command */
    assert_int_equal(PARSE(&o, "--jitter", "1", "--help"), STATUS_OK);
}

/* All flags of a group exclude another, but for those that say something else. */
static void a_group_excludes_for_all_its_flags(void **state)
{
    (void)state;
    // clang-format off
    static const struct flag others[] = {
        {"--shy", NULL, "", FLAG_BOOL, FLAG_FIELD(args, json)},
        {"--bold", NULL, "", FLAG_BOOL, FLAG_FIELD(args, json), .excludes = ""},
        {"--own", NULL, "", FLAG_BOOL, FLAG_FIELD(args, json), .excludes = "--type"},
    };
    // clang-format on
    static const struct {
        const char *words[4];
        const char *param; /* NULL: fine */
    } cases[] = {
        {{"test", "--shy", "--rate=1"}, "--shy"}, {{"test", "--rate=1", "--shy"}, "--shy"},
        {{"test", "--shy", "--type=f16"}, NULL},  {{"test", "--bold", "--rate=1"}, NULL},
        {{"test", "--own", "--rate=1"}, NULL},    {{"test", "--own", "--type=f16"}, "--own"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct args args = {0};
        struct err err = {0};
        bool help;
        struct flag_set set = {
            .groups = {FLAG_GROUP(flags, &args), FLAG_GROUP_BESIDE(others, &args, "--rate")},
        };
        enum status status = flags_parse(&set, 3, (char **)cases[i].words, &help, &err);
        assert_int_equal(status, cases[i].param ? STATUS_INVALID : STATUS_OK);
        if (cases[i].param)
            assert_string_equal(err.param, cases[i].param);
    }
}

static void errors_name_the_flag(void **state)
{
    (void)state;
    static const struct {
        const char *words[5];
        const char *param, *text;
    } cases[] = {
        {{"--threads", "0"}, "--threads", "between 1 and 256"},
        {{"--threads", "257"}, "--threads", "found 257"},
        {{"--threads", "-1"}, "--threads", "whole number"},
        {{"--threads", "1.5"}, "--threads", "whole number"},
        {{"--threads", " 1"}, "--threads", "whole number"},
        {{"--threads", ""}, "--threads", "whole number"},
        {{"--threads", "99999999999999999999"}, "--threads", "whole number"},
        {{"--threads"}, "--threads", "needs a value"},
        {{"--top-p", "nan"}, "--top-p", "a number"},
        {{"--top-p", "1.01"}, "--top-p", "between 0 and 1"},
        {{"--top-p", "0.5x"}, "--top-p", "a number"},
        {{"--memory", "12Q"}, "--memory", "a size"},
        {{"--rate", "1e7"}, "--rate", "between 0 and 1000000"},
        {{"--rate", "nan"}, "--rate", "a number"},
        {{"--type", "f8"}, "--type", "one of f32, f16"},
        {{"--pause", "10"}, "--pause", "between 0 and 9, found 10"},
        {{"--pet", "cow"}, "--pet", "--pet: unknown \"cow\"; there are cat, dog"},
        {{"--json=1"}, "--json", "no value"},
        {{"--thread", "1"}, "--thread", "did you mean --threads?"},
        {{"--absolutely-not"}, "--absolutely-not", "--help"},
        {{"-x"}, "-x", "unknown flag"},
        {{"--jitter", "1"}, "--jitter", "--jitter goes with --rate or --name"},
        {{"--even", "--rate", "1"}, "--even", "--even does not go with --rate"},
        {{"--rate", "1", "--even"}, "--even", "--even does not go with --rate"},
        {{"--odd", "--alone"}, "--odd", "with --alone: it is all there is"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct outcome o;
        assert_int_equal(parse(&o, cases[i].words), STATUS_INVALID);
        assert_string_equal(o.err.param, cases[i].param);
        if (!strstr(o.err.text, cases[i].text))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].text, o.err.text);
    }
}

static void suggests_only_what_is_close(void **state)
{
    (void)state;
    const char *const names[] = {"serve", "run", "perplexity"};
    assert_string_equal(flags_closest("sevre", names, 3), "serve");
    assert_string_equal(flags_closest("perplexty", names, 3), "perplexity");
    assert_null(flags_closest("sing", names, 3));
    assert_null(flags_closest("a-word-that-is-much-longer-than-any-flag-here", names, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_values_of_every_kind),
        cmocka_unit_test(takes_zeros_and_names_that_mean_something),
        cmocka_unit_test(keeps_defaults_and_takes_the_last),
        cmocka_unit_test(positionals_are_what_is_no_flag),
        cmocka_unit_test(flags_in_the_company_they_need),
        cmocka_unit_test(a_group_excludes_for_all_its_flags),
        cmocka_unit_test(errors_name_the_flag),
        cmocka_unit_test(suggests_only_what_is_close),
    };
    return cmocka_run_group_tests_name("flags", tests, NULL, NULL);
}
