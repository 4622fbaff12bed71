/* KV blocks: what is reserved comes back, and kv_check sees every kind of damage. */
#include "engine/kv.h"
#include "support/cmocka_all.h"
#include "support/random.h"

static void reserves_and_releases(void **state)
{
    (void)state;
    struct kv kv;
    assert_int_equal(kv_init(&kv, 10, 3, 200, NULL), STATUS_OK);
    assert_int_equal(kv.table_size, 7);
    assert_true(kv_reserve(&kv, 0, 7));
    assert_false(kv_reserve(&kv, 1, 4)); /* 3 left: nothing changes */
    assert_int_equal(kv.n_free, 3);
    assert_true(kv_reserve(&kv, 1, 3));
    assert_true(kv_check(&kv));
    for (uint32_t i = 0; i < 7; i++)
        for (uint32_t k = 0; k < 3; k++)
            assert_int_not_equal(kv_table(&kv, 0)[i], kv_table(&kv, 1)[k]);
    kv_release(&kv, 0);
    kv_release(&kv, 0); /* holds none: harmless */
    assert_int_equal(kv.n_free, 7);
    kv_release(&kv, 1);
    assert_int_equal(kv.n_free, 10);
    assert_true(kv_check(&kv));
    kv_fini(&kv);
}

static void counts_positions_in_blocks(void **state)
{
    (void)state;
    assert_int_equal(kv_blocks_for(0), 0);
    assert_int_equal(kv_blocks_for(1), 1);
    assert_int_equal(kv_blocks_for(32), 1);
    assert_int_equal(kv_blocks_for(33), 2);
    assert_int_equal(kv_blocks_for(UINT32_MAX), 1u << 27);
}

static void check_finds_damage(void **state)
{
    (void)state;
    struct kv kv;
    assert_int_equal(kv_init(&kv, 4, 2, 64, NULL), STATUS_OK);
    assert_true(kv_reserve(&kv, 0, 2));
    uint32_t used = kv_table(&kv, 0)[0];
    kv.refs[used]++; /* a leaked reference */
    assert_false(kv_check(&kv));
    kv.refs[used]--;
    kv.free[kv.n_free++] = used; /* free and used */
    assert_false(kv_check(&kv));
    kv.n_free--;
    uint32_t first = kv.free[0];
    kv.free[0] = kv.free[1]; /* free twice */
    assert_false(kv_check(&kv));
    kv.free[0] = first;
    kv.n_free--; /* lost */
    assert_false(kv_check(&kv));
    kv.n_free++;
    assert_true(kv_check(&kv));
    kv_fini(&kv);
}

static void survives_random_use(void **state)
{
    (void)state;
    struct random random = {7};
    struct kv kv;
    assert_int_equal(kv_init(&kv, 64, 16, 320, NULL), STATUS_OK);
    for (int i = 0; i < 20000; i++) {
        uint32_t slot = random_below(&random, 16);
        if (kv.lens[slot] > 0)
            kv_release(&kv, slot);
        else
            kv_reserve(&kv, slot, random_below(&random, 11));
        assert_true(kv_check(&kv));
    }
    kv_fini(&kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reserves_and_releases),
        cmocka_unit_test(counts_positions_in_blocks),
        cmocka_unit_test(check_finds_damage),
        cmocka_unit_test(survives_random_use),
    };
    return cmocka_run_group_tests_name("kv", tests, NULL, NULL);
}
