/* Context and pool: chosen from memory, or refused with both numbers. */
#include "engine/memory_plan.h"
#include "support/cmocka_all.h"

#include <string.h>

#define MIB ((size_t)1 << 20)

/* 1 MiB a block of 32 positions, a model of 8192 positions, plenty of memory. */
static const struct memory_plan_wish plenty = {
    .n_ctx_train = 8192,
    .n_seqs = 4,
    .block_bytes = MIB,
    .available = 4096 * MIB,
};

static void gives_every_sequence_its_share(void **state)
{
    (void)state;
    struct memory_plan_wish w = plenty;
    struct memory_plan s;
    w.n_seqs = 16;
    assert_int_equal(memory_plan_choose(&s, &w, NULL), STATUS_OK);
    assert_int_equal(s.n_ctx, 8192);
    assert_int_equal(s.n_blocks, 16 * 1024 / 32);
}

static void holds_one_full_context(void **state)
{
    (void)state;
    struct memory_plan s;
    assert_int_equal(memory_plan_choose(&s, &plenty, NULL), STATUS_OK);
    assert_int_equal(s.n_blocks, 8192 / 32);
}

static void an_unasked_context_shrinks(void **state)
{
    (void)state;
    struct memory_plan_wish w = plenty;
    struct memory_plan s;
    w.available = 400 * MIB;
    assert_int_equal(memory_plan_choose(&s, &w, NULL), STATUS_OK);
    assert_int_equal(s.n_blocks, 100);
    assert_int_equal(s.n_ctx, 3200);
    w.kv_memory = 10 * MIB + 5;
    assert_int_equal(memory_plan_choose(&s, &w, NULL), STATUS_OK);
    assert_int_equal(s.n_blocks, 10);
    assert_int_equal(s.n_ctx, 320);
}

static void an_asked_context_takes_more_than_a_quarter(void **state)
{
    (void)state;
    struct memory_plan_wish w = plenty;
    struct memory_plan s;
    w.available = 400 * MIB;
    w.n_ctx = 8190;
    assert_int_equal(memory_plan_choose(&s, &w, NULL), STATUS_OK);
    assert_int_equal(s.n_blocks, 256);
    assert_int_equal(s.n_ctx, 8190);
}

static void refuses_with_both_numbers(void **state)
{
    (void)state;
    struct memory_plan_wish w = plenty;
    struct memory_plan s;
    struct err err = {0};
    w.available = 200 * MIB;
    w.n_ctx = 8192;
    assert_int_equal(memory_plan_choose(&s, &w, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "256.0 MiB"));
    assert_non_null(strstr(err.text, "200.0 MiB"));
    w.kv_memory = 100 * MIB;
    assert_int_equal(memory_plan_choose(&s, &w, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "256.0 MiB"));
    assert_non_null(strstr(err.text, "100.0 MiB"));
    w.kv_memory = 201 * MIB;
    assert_int_equal(memory_plan_choose(&s, &w, &err), STATUS_NO_MEMORY);
    assert_string_equal(err.param, "kv-memory");
    w.kv_memory = 1024;
    w.n_ctx = 0;
    assert_int_equal(memory_plan_choose(&s, &w, &err), STATUS_NO_MEMORY);
    assert_string_equal(err.param, "kv-memory");
    assert_non_null(strstr(err.text, "the pool has 1.0 KiB"));
}

static void refuses_more_than_the_model_has(void **state)
{
    (void)state;
    struct memory_plan_wish w = plenty;
    struct memory_plan s;
    struct err err = {0};
    w.n_ctx = 8193;
    assert_int_equal(memory_plan_choose(&s, &w, &err), STATUS_INVALID);
    assert_string_equal(err.param, "ctx");
}

static void a_tiny_model_is_fine(void **state)
{
    (void)state;
    struct memory_plan_wish w = plenty;
    struct memory_plan s;
    w.n_ctx_train = 16;
    w.kv_memory = MIB;
    assert_int_equal(memory_plan_choose(&s, &w, NULL), STATUS_OK);
    assert_int_equal(s.n_ctx, 16);
    assert_int_equal(s.n_blocks, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_every_sequence_its_share),
        cmocka_unit_test(holds_one_full_context),
        cmocka_unit_test(an_unasked_context_shrinks),
        cmocka_unit_test(an_asked_context_takes_more_than_a_quarter),
        cmocka_unit_test(refuses_with_both_numbers),
        cmocka_unit_test(refuses_more_than_the_model_has),
        cmocka_unit_test(a_tiny_model_is_fine),
    };
    return cmocka_run_group_tests_name("sizing", tests, NULL, NULL);
}
