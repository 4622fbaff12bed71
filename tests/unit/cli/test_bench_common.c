/* What the bench subcommands share: where results go, and what goes with --url. */
#include "base/limits.h"
#include "base/mem.h"
#include "cli/bench_common.h"
#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder with one file, whose path is the --output. */
struct place {
    char folder[64];
    char path[96];
    struct bench_common common;
};

static int make_place(void **state)
{
    struct place *p = mem_zalloc(sizeof *p);
    assert_non_null(p);
    strcpy(p->folder, "/tmp/firstlight-bench-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->path, sizeof p->path, "%s/r.json", p->folder);
    p->common = bench_common_default;
    p->common.output = p->path;
    *state = p;
    return 0;
}

static int remove_place(void **state)
{
    struct place *p = *state;
    unlink(p->path);
    int failed = rmdir(p->folder); /* fails when something else was left in it */
    mem_free(p);
    return failed;
}

static void put(const struct place *p, const char *text)
{
    FILE *f = fopen(p->path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void expect_content(const struct place *p, const char *start)
{
    char text[64] = "";
    FILE *f = fopen(p->path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) >= strlen(start));
    fclose(f);
    assert_memory_equal(text, start, strlen(start));
}

static struct result some_result(void)
{
    struct result r;
    result_init(&r, "streaming", NULL, json_object(), json_object());
    return r;
}

static void checking_changes_nothing(void **state)
{
    struct place *p = *state;
    struct err err = {0};
    assert_int_equal(bench_common_check(&p->common, &err), STATUS_OK);
    assert_int_not_equal(access(p->path, F_OK), 0);
    put(p, "old");
    assert_int_equal(bench_common_check(&p->common, &err), STATUS_OK);
    expect_content(p, "old");
    p->common.output = p->folder;
    assert_int_equal(bench_common_check(&p->common, &err), STATUS_IO);
    assert_string_equal(err.param, "--output");
    p->common = (struct bench_common){.note = "\xff"};
    assert_int_equal(bench_common_check(&p->common, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--note");
}

static void a_result_replaces_the_old_one(void **state)
{
    struct place *p = *state;
    struct result r = some_result();
    struct err err = {0};
    put(p, "old");
    assert_int_equal(bench_common_write(&p->common, &r, &err), STATUS_OK);
    expect_content(p, "{");
    result_fini(&r);
}

static void a_result_that_cannot_be_written_leaves_the_old_one(void **state)
{
    struct place *p = *state;
    struct result r = some_result();
    struct err err = {0};
    put(p, "old");
    result_set(&r, "x", NULL); /* "no memory" */
    assert_int_not_equal(bench_common_write(&p->common, &r, &err), STATUS_OK);
    expect_content(p, "old"); /* remove_place: nor is there a half-written file */
    result_fini(&r);
}

/* What a write says on standard error, up to 255 bytes. */
static void write_and_listen(const struct place *p, const struct result *r, char said[256])
{
    struct err err = {0};
    FILE *heard = tmpfile();
    assert_non_null(heard);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && dup2(fileno(heard), STDERR_FILENO) >= 0);
    enum status status = bench_common_write(&p->common, r, &err);
    fflush(stderr);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(heard);
    said[fread(said, 1, 255, heard)] = '\0';
    fclose(heard);
    assert_int_equal(status, STATUS_OK);
}

static void a_result_too_large_to_be_read_says_so(void **state)
{
    struct place *p = *state;
    char said[256];
    struct result r = some_result();
    write_and_listen(p, &r, said);
    assert_string_equal(said, "");
    char *filler = mem_alloc(LIMIT_RESULT_BYTES);
    assert_non_null(filler);
    memset(filler, 'x', LIMIT_RESULT_BYTES);
    result_set(&r, "filler", json_stringn(filler, LIMIT_RESULT_BYTES));
    mem_free(filler);
    write_and_listen(p, &r, said);
    assert_non_null(strstr(said, p->path));
    assert_non_null(strstr(said, "64 MiB"));
    result_fini(&r);
}

static void every_flag_of_an_engine_excludes_a_url(void **state)
{
    (void)state;
    struct options o = options_default;
    const struct flag_group groups[] = {options_engine_flags(&o), options_model_flags(&o)};
    for (size_t g = 0; g < 2; g++) {
        assert_string_equal(groups[g].excludes, "--url");
        for (size_t i = 0; i < groups[g].n_flags; i++) {
            const struct flag *f = &groups[g].flags[i];
            if (!f->excludes == (strcmp(f->name, "--model") == 0))
                fail_msg("%s", f->name);
        }
    }
}

static void too_many_requests_at_once_name_their_flag(void **state)
{
    (void)state;
    struct bench_target_options o = bench_common_target;
    struct bench_target t;
    struct err err = {0};
    bench_common_target_flags(&o);
    o.options.model = "tests/golden/tiny/base.gguf";
    o.options.engine.n_threads = 1;
    assert_int_equal(bench_common_open(&t, &o, LIMIT_BENCH_IN_ENGINE + 1, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--max-concurrency");
    bench_common_close(&t);
    if (bench_common_open(&t, &o, LIMIT_BENCH_IN_ENGINE, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    bench_common_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(checking_changes_nothing, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_result_replaces_the_old_one, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_result_that_cannot_be_written_leaves_the_old_one,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_result_too_large_to_be_read_says_so, make_place,
                                        remove_place),
        cmocka_unit_test(every_flag_of_an_engine_excludes_a_url),
        cmocka_unit_test(too_many_requests_at_once_name_their_flag),
    };
    return cmocka_run_group_tests_name("bench_common", tests, NULL, NULL);
}
