/* KV blocks: what is taken comes back, shared blocks live as long as somebody uses them, kept ones
 * wait in the order they were left, and kv_check sees every kind of damage. */
#include "engine/kv.h"
#include "support/cmocka_all.h"
#include "support/random.h"

#include <string.h>

static void grows_and_releases(void **state)
{
    (void)state;
    struct kv kv;
    assert_int_equal(kv_init(&kv, 10, 3, 200, NULL), STATUS_OK);
    assert_int_equal(kv.table_size, 7);
    assert_true(kv_grow(&kv, 0, 5));
    assert_true(kv_grow(&kv, 0, 7));
    assert_true(kv_grow(&kv, 0, 2)); /* never shorter */
    assert_int_equal(kv.lens[0], 7);
    assert_false(kv_grow(&kv, 1, 4)); /* 3 left: nothing changes */
    assert_int_equal(kv.n_free, 3);
    assert_true(kv_grow(&kv, 1, 3));
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

static void a_shared_block_lives_until_its_last_user_leaves(void **state)
{
    (void)state;
    struct kv kv;
    assert_int_equal(kv_init(&kv, 4, 3, 128, NULL), STATUS_OK);
    assert_true(kv_grow(&kv, 0, 2));
    uint32_t shared = kv_table(&kv, 0)[0];
    kv_share(&kv, 1, shared);
    kv_release(&kv, 0);
    assert_int_equal(kv.n_free, 3);
    assert_true(kv_check(&kv));
    kv_pin(&kv, shared);
    kv_release(&kv, 1);
    assert_int_equal(kv.n_free, 3);
    kv_unpin(&kv, shared);
    assert_int_equal(kv.n_free, 4);
    assert_true(kv_check(&kv));
    kv_fini(&kv);
}

static void kept_blocks_wait_the_longest_unused_first(void **state)
{
    (void)state;
    struct kv kv;
    assert_int_equal(kv_init(&kv, 4, 3, 128, NULL), STATUS_OK);
    assert_true(kv_grow(&kv, 0, 3));
    uint32_t ids[3];
    memcpy(ids, kv_table(&kv, 0), sizeof ids);
    for (int i = 0; i < 3; i++)
        kv_keep(&kv, ids[i]);
    kv_release(&kv, 0);
    assert_int_equal(kv.n_idle, 3);
    assert_int_equal(kv.n_free, 1);
    assert_int_equal(kv.idle_first, ids[2]); /* the end of the sequence goes first */
    assert_int_equal(kv.idle_last, ids[0]);
    kv_share(&kv, 1, ids[2]); /* in use again, and left last */
    assert_true(kv_check(&kv));
    kv_release(&kv, 1);
    assert_int_equal(kv.idle_first, ids[1]);
    assert_int_equal(kv.idle_last, ids[2]);
    kv_drop_idle(&kv, ids[0]); /* from the middle */
    assert_int_equal(kv.n_free, 2);
    assert_int_equal(kv.n_idle, 2);
    assert_true(kv_check(&kv));
    kv_fini(&kv);
}

static void lasting_blocks_stand_behind_all_others(void **state)
{
    (void)state;
    struct kv kv;
    assert_int_equal(kv_init(&kv, 6, 6, 64, NULL), STATUS_OK);
    uint32_t ids[6];
    for (uint32_t slot = 0; slot < 6; slot++) {
        assert_true(kv_grow(&kv, slot, 1));
        ids[slot] = kv_table(&kv, slot)[0];
        (slot < 2 ? kv_keep_lasting : kv_keep)(&kv, ids[slot]);
    }
    for (uint32_t slot = 0; slot < 6; slot++) {
        kv_release(&kv, slot);
        assert_true(kv_check(&kv));
    }
    const uint32_t order[] = {ids[2], ids[3], ids[4], ids[5], ids[0], ids[1]};
    kv_drop_idle(&kv, ids[3]); /* from the middle */
    kv_share(&kv, 0, ids[0]);  /* the first of the lasting ones */
    assert_true(kv_check(&kv));
    kv_release(&kv, 0);
    assert_int_equal(kv.idle_last, ids[0]);
    for (int i = 0; i < 6; i++)
        if (order[i] != ids[3] && order[i] != ids[0]) {
            assert_int_equal(kv.idle_first, order[i]);
            kv_drop_idle(&kv, order[i]);
            assert_true(kv_check(&kv));
        }
    assert_int_equal(kv.idle_first, ids[0]);
    kv_drop_idle(&kv, ids[0]);
    assert_int_equal(kv.n_free, 6);
    assert_true(kv_check(&kv));
    kv_fini(&kv);
}

static void swaps_a_block_for_another_with_the_same_content(void **state)
{
    (void)state;
    struct kv kv;
    assert_int_equal(kv_init(&kv, 4, 3, 128, NULL), STATUS_OK);
    assert_true(kv_grow(&kv, 0, 1));
    assert_true(kv_grow(&kv, 1, 1));
    uint32_t first = kv_table(&kv, 0)[0];
    kv_swap(&kv, 1, 0, first);
    kv_swap(&kv, 1, 0, first); /* by itself */
    assert_int_equal(kv_table(&kv, 1)[0], first);
    assert_int_equal(kv.n_free, 3);
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
    assert_true(kv_grow(&kv, 0, 2));
    uint32_t used = kv_table(&kv, 0)[0];
    kv.blocks[used].refs++; /* a leaked reference */
    assert_false(kv_check(&kv));
    kv.blocks[used].refs--;
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
    kv_keep(&kv, used);
    kv_release(&kv, 0);
    assert_true(kv_check(&kv));
    kv.idle_first = KV_NONE; /* idle and in no list */
    assert_false(kv_check(&kv));
    kv.idle_first = used;
    assert_true(kv_check(&kv));
    kv.blocks[used].lasting = true; /* among those that are not */
    assert_false(kv_check(&kv));
    kv.blocks[used].lasting = false;
    kv_fini(&kv);
}

static void use_at_random(struct kv *kv, struct random *random)
{
    uint32_t slot = random_below(random, 16);
    if (kv->lens[slot] > 0 && random_below(random, 2) == 0) {
        uint32_t id = kv_table(kv, slot)[kv->lens[slot] - 1], how = random_below(random, 4);
        if (how < 2 && !kv->blocks[id].kept)
            (how == 0 ? kv_keep : kv_keep_lasting)(kv, id);
        kv_release(kv, slot);
    } else if (kv->n_idle > 0 && random_below(random, 3) == 0) {
        kv_drop_idle(kv, kv->idle_first);
    } else if (kv->n_idle > 0 && kv->lens[slot] < kv->table_size && random_below(random, 2) == 0) {
        kv_share(kv, slot, kv->idle_last);
    } else {
        kv_grow(kv, slot, random_below(random, 11));
    }
}

static void survives_random_use(void **state)
{
    (void)state;
    struct random random = {7};
    struct kv kv;
    assert_int_equal(kv_init(&kv, 64, 16, 320, NULL), STATUS_OK);
    for (int i = 0; i < 20000; i++) {
        use_at_random(&kv, &random);
        assert_true(kv_check(&kv));
    }
    for (uint32_t slot = 0; slot < 16; slot++)
        kv_release(&kv, slot);
    assert_int_equal(kv.n_free + kv.n_idle, 64);
    kv_fini(&kv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_and_releases),
        cmocka_unit_test(a_shared_block_lives_until_its_last_user_leaves),
        cmocka_unit_test(kept_blocks_wait_the_longest_unused_first),
        cmocka_unit_test(lasting_blocks_stand_behind_all_others),
        cmocka_unit_test(swaps_a_block_for_another_with_the_same_content),
        cmocka_unit_test(counts_positions_in_blocks),
        cmocka_unit_test(check_finds_damage),
        cmocka_unit_test(survives_random_use),
    };
    return cmocka_run_group_tests_name("kv", tests, NULL, NULL);
}
