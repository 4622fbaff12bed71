/* A file of warm prompts: how many it may have. */
#include "api/warm_prompts.h"

#include "base/limits.h"
#include "support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL "tests/golden/tiny/base.gguf"

static enum status read_lines(const struct loader *loader, uint32_t n, struct warm_prompts *w,
                              struct err *err)
{
    char path[] = "/tmp/firstlight-warm-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_non_null(f);
    for (uint32_t i = 0; i < n; i++)
        fputs("{\"prompt\": [1]}\n\n", f);
    fclose(f);
    *w = (struct warm_prompts){0};
    enum status status = warm_prompts_read(w, path, loader, 64, false, err);
    unlink(path);
    return status;
}

static void a_file_has_as_many_prompts_as_the_limit(void **state)
{
    (void)state;
    struct loader loader;
    struct warm_prompts w;
    struct err err = {0};
    assert_int_equal(loader_open(&loader, MODEL, NULL, NULL, &err), STATUS_OK);
    assert_int_equal(read_lines(&loader, LIMIT_WARM_PROMPTS, &w, &err), STATUS_OK);
    assert_int_equal(w.n, LIMIT_WARM_PROMPTS);
    assert_int_equal(w.n_public, LIMIT_WARM_PROMPTS);
    warm_prompts_fini(&w);
    assert_int_equal(read_lines(&loader, LIMIT_WARM_PROMPTS + 1, &w, &err), STATUS_TOO_LARGE);
    assert_non_null(strstr(err.text, ":2049: more than 1024 prompts")); /* every other is empty */
    warm_prompts_fini(&w);
    loader_close(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_has_as_many_prompts_as_the_limit),
    };
    return cmocka_run_group_tests_name("warm_prompts", tests, NULL, NULL);
}
