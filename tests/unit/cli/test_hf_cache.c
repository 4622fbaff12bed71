/* Models by name from a cache laid out as the Hub's client leaves it. */
#include "base/mem.h"
#include "cli/hf_cache.h"
#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES 512

struct tree {
    char root[64];
    char made[32][PATH_BYTES]; /* in the order they were made */
    int n_made;
};

static const char *note(struct tree *t, const char *path)
{
    assert_true(t->n_made < 32);
    snprintf(t->made[t->n_made], PATH_BYTES, "%s", path);
    return t->made[t->n_made++];
}

static const char *join(struct tree *t, const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%.400s", t->root, name);
    return note(t, path);
}

static void folder(struct tree *t, const char *name)
{
    assert_int_equal(mkdir(join(t, name), 0700), 0);
}

static const char *file(struct tree *t, const char *name, const char *content)
{
    const char *path = join(t, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(content, f);
    fclose(f);
    return path;
}

static int make_tree(void **state)
{
    struct tree *t = mem_zalloc(sizeof *t);
    assert_non_null(t);
    strcpy(t->root, "/tmp/firstlight-hf-XXXXXX");
    assert_non_null(mkdtemp(t->root));
    setenv("HF_HUB_CACHE", t->root, 1);
    *state = t;
    return 0;
}

static int remove_tree(void **state)
{
    struct tree *t = *state;
    while (t->n_made-- > 0)
        remove(t->made[t->n_made]);
    int failed = rmdir(t->root);
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_HOME");
    mem_free(t);
    return failed;
}

/* A model of the cache with refs/main and one snapshot, without files. */
static void add_model(struct tree *t, const char *name, const char *revision)
{
    char path[PATH_BYTES];
    static const char *const parts[] = {"", "/refs", "/snapshots", "/snapshots/abc123"};
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "models--%s%s", name, parts[i]);
        folder(t, path);
    }
    snprintf(path, sizeof path, "models--%s/refs/main", name);
    file(t, path, revision);
}

static void expect_found(const char *id, const char *path)
{
    char *found = NULL;
    struct err err = {0};
    if (hf_cache_find(&found, id, &err) != STATUS_OK)
        fail_msg("%s: %s", id, err.text);
    assert_string_equal(found, path);
    mem_free(found);
}

static void expect_error(const char *id, enum status status, const char *says)
{
    char *found = NULL;
    struct err err = {0};
    assert_int_equal(hf_cache_find(&found, id, &err), status);
    assert_null(found);
    assert_string_equal(err.param, "--hf-model-id");
    if (!strstr(err.text, says))
        fail_msg("%s: \"%s\" does not say \"%s\"", id, err.text, says);
}

static void a_name_is_looked_up(void **state)
{
    struct tree *t = *state;
    add_model(t, "org--tiny.v1", "abc123\n");
    const char *path = file(t, "models--org--tiny.v1/snapshots/abc123/x.gguf", "");
    expect_found("org/tiny.v1", path);
    expect_error("org/other", STATUS_NOT_FOUND, "models--org--other");
}

static void the_cache_is_found_by_its_variables(void **state)
{
    struct tree *t = *state;
    unsetenv("HF_HUB_CACHE");
    setenv("HF_HOME", t->root, 1);
    folder(t, "hub");
    folder(t, "hub/models--gpt2");
    folder(t, "hub/models--gpt2/refs");
    file(t, "hub/models--gpt2/refs/main", "r1");
    folder(t, "hub/models--gpt2/snapshots");
    folder(t, "hub/models--gpt2/snapshots/r1");
    expect_found("gpt2", file(t, "hub/models--gpt2/snapshots/r1/m.gguf", ""));
}

static void a_folder_or_a_file_is_taken_as_it_is(void **state)
{
    struct tree *t = *state;
    const char *path = file(t, "m.gguf", "");
    expect_found(t->root, path);
    expect_found(path, path);
}

static void exactly_one_gguf_is_expected(void **state)
{
    struct tree *t = *state;
    expect_error(t->root, STATUS_INVALID, "has 0 GGUF files");
    file(t, "model.safetensors", "");
    expect_found(t->root, t->root); /* a model in the Hub's format */
    file(t, "m-00002-of-00003.gguf", "");
    file(t, "m-00003-of-00003.gguf", "");
    expect_found(t->root, file(t, "m-00001-of-00003.gguf", ""));
    file(t, "a.gguf", "");
    file(t, "b.gguf", "");
    expect_error(t->root, STATUS_INVALID, "has 3 GGUF files");
}

static void no_name_leads_out_of_the_cache(void **state)
{
    struct tree *t = *state;
    static const char *const names[] = {"../up", "a/b/c", "", "org/../x", "/nowhere", "a b", ".x"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        expect_error(names[i], STATUS_INVALID, "neither a folder nor a name");
    add_model(t, "bad", "../../up");
    expect_error("bad", STATUS_INVALID, "names no revision");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_name_is_looked_up, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(the_cache_is_found_by_its_variables, make_tree,
                                        remove_tree),
        cmocka_unit_test_setup_teardown(a_folder_or_a_file_is_taken_as_it_is, make_tree,
                                        remove_tree),
        cmocka_unit_test_setup_teardown(exactly_one_gguf_is_expected, make_tree, remove_tree),
        cmocka_unit_test_setup_teardown(no_name_leads_out_of_the_cache, make_tree, remove_tree),
    };
    return cmocka_run_group_tests_name("hf_cache", tests, NULL, NULL);
}
