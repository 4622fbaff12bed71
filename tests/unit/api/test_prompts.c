/* Prompts that are ids: how much text they may spell. */
#include "api/prompts.h"

#include "base/limits.h"
#include "base/mem.h"
#include "model/load/loader.h"
#include "support/cmocka_all.h"

#include <string.h>

#define MODEL "tests/golden/tiny/base.gguf"

/* The id of the longest piece, or of one of so many bytes. */
static int32_t find_piece(const struct tokenizer *t, size_t wanted, size_t *len)
{
    int32_t found = -1;
    *len = 0;
    for (uint32_t id = 0; id < tokenizer_vocab_size(t); id++) {
        size_t n;
        tokenizer_piece(t, (int32_t)id, &n);
        if (wanted > 0 ? n == wanted : n > *len) {
            found = (int32_t)id;
            *len = n;
        }
    }
    assert_true(found >= 0);
    return found;
}

/* Ids that spell so many bytes. */
static enum status echo(const struct tokenizer *t, size_t bytes, struct prompts *p, struct err *err)
{
    size_t longest, one;
    int32_t most = find_piece(t, 0, &longest), least = find_piece(t, 1, &one);
    assert_int_equal(prompts_make(p, 1, err), STATUS_OK);
    struct tokens *ids = &p->all[0].ids;
    ids->count = bytes / longest + bytes % longest;
    ids->ids = mem_array(ids->count, sizeof *ids->ids);
    assert_non_null(ids->ids);
    for (size_t i = 0; i < ids->count; i++)
        ids->ids[i] = i < bytes / longest ? most : least;
    return prompts_tokenize(p, t, true, err);
}

static void an_echo_is_as_long_as_the_limit(void **state)
{
    (void)state;
    struct loader loader;
    struct prompts p = {0};
    struct err err = {0};
    size_t len;
    assert_int_equal(loader_open(&loader, MODEL, NULL, NULL, &err), STATUS_OK);
    assert_int_equal(echo(loader.tokenizer, LIMIT_ECHO_BYTES, &p, &err), STATUS_OK);
    prompts_text(&p, 0, &len);
    assert_int_equal(len, LIMIT_ECHO_BYTES);
    prompts_fini(&p);
    assert_int_equal(echo(loader.tokenizer, LIMIT_ECHO_BYTES + 1, &p, &err), STATUS_TOO_LARGE);
    assert_string_equal(err.param, "echo");
    prompts_fini(&p);
    loader_close(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_echo_is_as_long_as_the_limit),
    };
    return cmocka_run_group_tests_name("prompts", tests, NULL, NULL);
}
