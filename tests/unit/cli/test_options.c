/* What the flags of an engine write into struct engine_options, and what their help says. */
#include "base/cpu.h"
#include "base/limits.h"
#include "cli/options.h"
#include "engine/profile.h"
#include "support/cmocka_all.h"

#include <string.h>

/* Words after the command's name, ended by NULL, and then what options_engine makes of them. */
static struct engine_options parse(const char *const *words)
{
    struct options o = options_default;
    struct flag_set set = {
        .command = "test",
        .usage = "",
        .about = "",
        .groups = {options_engine_flags(&o), options_model_flags(&o)},
    };
    char *argv[16] = {(char *)"test", (char *)"--model", (char *)"x"};
    int argc = 3;
    bool help;
    struct err err = {0};
    struct engine_options engine = {0};
    while (words[argc - 3]) {
        argv[argc] = (char *)words[argc - 3];
        argc++;
    }
    if (flags_parse(&set, argc, argv, &help, &err) || options_check(&o, &err) ||
        options_engine(&o, &engine, &err))
        fail_msg("%s", err.text);
    return engine;
}
#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void no_flag_leaves_the_numbers_unset(void **state)
{
    (void)state;
    struct engine_options e = parse((const char *const[]){NULL});
    assert_string_equal(e.kind->name, "cpu");
    assert_null(e.profile);
    assert_null(e.policy);
    assert_int_equal(e.decode_gap_ms, ENGINE_UNSET);
    assert_int_equal(e.max_queue_ms, ENGINE_NONE); /* serve alone bounds it */
    assert_int_equal(e.max_queued_tokens, ENGINE_UNSET);
    assert_int_equal(e.max_active, ENGINE_UNSET);
    assert_int_equal(e.n_ctx, ENGINE_UNSET);
    assert_int_equal(e.cpu_levels, cpu_detect());
    assert_int_equal(e.kv_type, KV_BF16);
    assert_in_range(e.n_threads, 1, LIMIT_THREADS);
    assert_false(e.no_prefix_cache);
}

static void flags_are_the_options_of_the_engine(void **state)
{
    (void)state;
    struct engine_options e = PARSE(
        "--profile=batch", "--policy=fifo", "--max-decode-gap-ms=600000", "--max-queue-ms=3600000",
        "--max-queued-tokens=4294967295", "--threads=3", "--activations=f32", "--cpu-mask=c",
        "--engine=cpu-sync", "--no-prefix-cache", "--kv-memory=1M");
    assert_string_equal(e.kind->name, "cpu-sync");
    assert_string_equal(e.profile, "batch");
    assert_string_equal(e.policy, "fifo");
    assert_int_equal(e.decode_gap_ms, 600000);
    assert_int_equal(e.max_queue_ms, 3600000);
    assert_true(e.max_queued_tokens == ENGINE_NONE);
    assert_int_equal(e.n_threads, 3);
    assert_int_equal(e.activations, ACTIVATIONS_F32);
    assert_int_equal(e.kv_type, KV_F32); /* as these activations want it */
    assert_int_equal(e.cpu_levels, 0);
    assert_int_equal(e.kv_memory, 1 << 20);
    assert_true(e.no_prefix_cache);
}

static void a_zero_says_that_there_is_none(void **state)
{
    (void)state;
    struct engine_options e = PARSE("--max-decode-gap-ms", "0", "--max-queue-ms", "0");
    assert_true(e.decode_gap_ms == ENGINE_NONE);
    assert_true(e.max_queue_ms == ENGINE_NONE);
}

/* "(interactive 50, online 100, batch 0)" */
static void the_help_has_the_numbers_of_every_profile(void **state)
{
    (void)state;
    struct options o = options_default;
    const struct flag_group group = options_engine_flags(&o);
    uint32_t found = 0;
    for (size_t i = 0; i < group.n_flags; i++) {
        const struct flag *f = &group.flags[i];
        bool gap = strcmp(f->name, "--max-decode-gap-ms") == 0;
        const struct profile *p;
        struct buf help = {0};
        if (!gap && strcmp(f->name, "--max-queue-ms") != 0)
            continue;
        f->more(f, ENGINE_NONE, &help);
        assert_string_equal(buf_str(&help), " (default 0)");
        buf_clear(&help);
        f->more(f, ENGINE_UNSET, &help);
        for (size_t j = 0; (p = profile_at(j)); j++, found++) {
            uint32_t value = gap ? p->decode_gap_ms : p->max_queue_ms;
            char row[64];
            snprintf(row, sizeof row, "%s %u%s", p->name, value == ENGINE_NONE ? 0 : value,
                     profile_at(j + 1) ? ", " : ")");
            if (!strstr(buf_str(&help), row))
                fail_msg("\"%s\" is not in \"%s\"", row, buf_str(&help));
        }
        buf_fini(&help);
    }
    assert_true(found >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_flag_leaves_the_numbers_unset),
        cmocka_unit_test(flags_are_the_options_of_the_engine),
        cmocka_unit_test(a_zero_says_that_there_is_none),
        cmocka_unit_test(the_help_has_the_numbers_of_every_profile),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
