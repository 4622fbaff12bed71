/* What an engine makes of numbers that its options leave unset. */
#include "engine/internal.h"
#include "unit/engine/by_hand.h"

#include <string.h>

#define MODEL "tests/golden/tiny/base.gguf"

/* So many requests are known at once, and then no more. */
static void requests_fill_the_slots(void **state)
{
    (void)state;
    struct fake_world world;
    struct fake_clock clock = {.now_us = 1000000};
    struct request **all = mem_array(LIMIT_SLOTS, sizeof *all), *r;
    struct err err = {0};
    fake_world_open(&world);
    const struct engine_options o = {
        .n_threads = 1,
        .kv_type = KV_F32,
        .kv_memory = 60 * model_kv_block_bytes(&world.model.config, KV_F32),
        .max_batch_seqs = FAKE_SEQS,
        .max_queue_ms = ENGINE_NONE,
    };
    struct engine *e = fake_open_by_hand(&world, &o, &clock);
    for (uint32_t i = 0; i < LIMIT_SLOTS; i++) {
        struct request_params p = fake_params(6, 2, 1);
        all[i] = fake_submit(e, &p);
    }
    struct request_params p = fake_params(6, 2, 1);
    assert_int_equal(engine_submit(e, &p, &r, &err), STATUS_OVERLOADED);
    assert_string_equal(engine_limit(e), "slots");
    request_params_fini(&p);
    for (uint32_t i = 0; i < LIMIT_SLOTS; i++)
        engine_discard(e, all[i]);
    fake_close_by_hand(e);
    fake_world_close(&world);
    mem_free(all);
}

static void a_step_holds_as_many_sequences_as_the_limit(void **state)
{
    (void)state;
    struct loader loader;
    struct engine *e;
    struct err err = {0};
    assert_int_equal(loader_open(&loader, MODEL, NULL, NULL, &err), STATUS_OK);
    for (uint32_t n_slots = LIMIT_BATCH_SEQS - 1; n_slots <= LIMIT_BATCH_SEQS + 1; n_slots++) {
        const struct engine_options o = {.n_threads = 1, .n_ctx = 64, .n_slots = n_slots};
        if (engine_open(&e, &loader, &o, &err) != STATUS_OK)
            fail_msg("%s", err.text);
        assert_int_equal(e->limits.max_seqs,
                         n_slots < LIMIT_BATCH_SEQS ? n_slots : LIMIT_BATCH_SEQS);
        engine_close(e);
    }
    loader_close(&loader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_fill_the_slots),
        cmocka_unit_test(a_step_holds_as_many_sequences_as_the_limit),
    };
    return cmocka_run_group_tests_name("engine_open", tests, NULL, NULL);
}
