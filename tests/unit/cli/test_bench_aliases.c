/* The flags of the reference's tool: docs/benchmarks.md shows the table that the code has. */
#include "base/buf.h"
#include "cli/bench_aliases.h"
#include "support/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#define HEAD "| flag | of | the reference means | here |\n| --- | --- | --- | --- |\n"

/* On one line, and without a column's end inside. */
static void put_cell(struct buf *out, const char *text)
{
    for (const char *c = text; *c; c++)
        buf_printf(out, *c == '|' ? "\\%c" : "%c", *c == '\n' ? ' ' : *c);
}

static void put_row(struct buf *out, const struct bench_alias *a)
{
    buf_printf(out, "| `%s%s", a->flag.name, a->flag.value ? " " : "");
    put_cell(out, a->flag.value ? a->flag.value : "");
    buf_printf(out, "` | `%s` | %s | ", a->command, a->reference);
    put_cell(out, a->flag.help);
    buf_puts(out, " |\n");
}

/* The whole table, so that a row that is no flag any more is found too. */
static void test_docs(void **state)
{
    struct buf expected = {0}, page = {0};
    (void)state;
    FILE *f = fopen("docs/benchmarks.md", "r");
    assert_non_null(f);
    assert_true(buf_read(&page, f));
    fclose(f);
    buf_puts(&expected, HEAD);
    for (size_t i = 0; bench_aliases_at(i); i++)
        put_row(&expected, bench_aliases_at(i));
    buf_puts(&expected, "\n");
    if (!strstr(buf_str(&page), buf_str(&expected)))
        fail_msg("docs/benchmarks.md, \"Flags of the reference's tool\", should have\n%s",
                 buf_str(&expected));
    buf_fini(&expected);
    buf_fini(&page);
}

static enum status check(struct bench_aliases a, struct err *err)
{
    *err = (struct err){0};
    return bench_aliases_check(&a, err);
}

static void test_refused(void **state)
{
    struct err err;
    (void)state;
    assert_int_equal(check((struct bench_aliases){0}, &err), STATUS_OK);
    assert_int_equal(check((struct bench_aliases){.paged_attn = true}, &err), STATUS_OK);
    assert_int_equal(check((struct bench_aliases){.device = 1}, &err), STATUS_UNSUPPORTED);
    assert_string_equal(err.param, "--device");
    assert_int_equal(check((struct bench_aliases){.cuda_graph = true}, &err), STATUS_UNSUPPORTED);
    assert_string_equal(err.param, "--cuda-graph");
    assert_int_equal(check((struct bench_aliases){.nvtx = true}, &err), STATUS_UNSUPPORTED);
    assert_string_equal(err.param, "--nvtx");
}

/* Each command gets its own flags, with the struct whose fields they set. */
static void test_of_a_command(void **state)
{
    struct bench_aliases a;
    struct bench_common c;
    (void)state;
    struct flag_group streaming = bench_aliases_streaming(&a);
    assert_int_equal(streaming.n_flags, 5);
    assert_string_equal(streaming.flags[0].name, "--hf-model-id");
    assert_ptr_equal(streaming.base, &a);
    struct flag_group token_speed = bench_aliases_token_speed(&c);
    assert_int_equal(token_speed.n_flags, 1);
    assert_string_equal(token_speed.flags[0].name, "--runs");
    assert_ptr_equal(token_speed.base, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_docs),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_of_a_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
