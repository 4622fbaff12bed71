/* The prefix cache at work in the engine: what is computed once, who waits for whom. */
#include "unit/engine/by_hand.h"

static void a_shared_prefix_is_computed_once(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    for (int i = 0; i < 8; i++) /* all at once: none is in the cache yet */
        by_hand_submit(&h, by_hand_prompt(96, 100, i, 3));
    by_hand_finish(&h);
    assert_int_equal(by_hand_computed(&h), 100 + 7 * 4);
    for (uint32_t i = 1; i < h.n; i++)
        assert_int_equal(request_cached_tokens(h.all[i]), 96);
    by_hand_close(&h);
}

static void of_a_partly_filled_block_only_the_rest_is_computed(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    by_hand_submit(&h, by_hand_prompt(77, 77, 0, 2));
    by_hand_finish(&h);
    struct request *r = by_hand_submit(&h, by_hand_prompt(77, 90, 1, 2)); /* 64 shared, 13 copied */
    by_hand_finish(&h);
    assert_int_equal(request_cached_tokens(r), 77);
    r = by_hand_submit(&h, by_hand_prompt(77, 77, 0, 2)); /* all of it: the last one is computed */
    by_hand_finish(&h);
    assert_int_equal(request_cached_tokens(r), 76);
    assert_int_equal(by_hand_computed(&h), 77 + 13 + 1);
    by_hand_close(&h);
}

static void of_a_partly_shared_block_followers_wait_for_the_whole(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    by_hand_submit(&h, by_hand_prompt(80, 200, 0, 2));
    struct request *r = by_hand_submit(&h, by_hand_prompt(80, 100, 1, 2));
    by_hand_finish(&h);
    assert_int_equal(request_cached_tokens(r), 80);
    assert_int_equal(by_hand_computed(&h), 200 + 20);
    by_hand_close(&h);
}

static void without_the_cache_everybody_computes(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){.no_prefix_cache = true});
    for (int i = 0; i < 3; i++)
        by_hand_submit(&h, by_hand_prompt(96, 100, i, 3));
    by_hand_finish(&h);
    by_hand_submit(&h, by_hand_prompt(96, 100, 0, 3));
    by_hand_finish(&h);
    assert_int_equal(by_hand_computed(&h), 400);
    assert_int_equal(by_hand_stats(&h).kv_blocks_cached, 0);
    by_hand_close(&h);
}

static void a_salt_keeps_tenants_apart(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    for (int i = 0; i < 4; i++) {
        struct request_params p = by_hand_prompt(96, 100, i, 3);
        p.salt.word[0] = i % 2 + 1;
        by_hand_submit(&h, p);
    }
    by_hand_finish(&h);
    assert_int_equal(by_hand_computed(&h), 2 * (100 + 4));
    by_hand_close(&h);
}

/* What was computed at the start for everybody is found under every salt; behind it each salt has
 * its own, and only its own requests follow each other. */
static void the_public_part_is_everybodys(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    struct request_params p = by_hand_prompt(80, 80, 0, 1);
    p.salt = prefix_salt_public;
    by_hand_submit(&h, p);
    by_hand_finish(&h);
    for (uint64_t i = 0; i < 4; i++) { /* all with the same 160 tokens */
        p = by_hand_prompt(80, 160, 1, 3);
        p.salt.word[0] = i / 2;
        by_hand_submit(&h, p);
    }
    by_hand_finish(&h);
    for (uint32_t i = 1; i < h.n; i++)
        assert_int_equal(request_cached_tokens(h.all[i]), i % 2 ? 80 : 159);
    assert_int_equal(by_hand_computed(&h), 80 + 2 * (80 + 1));
    by_hand_close(&h);
}

/* --- leaders -------------------------------------------------------------------------------- */

static void cancel_the_first(struct by_hand *h)
{
    engine_cancel(h->engine, h->all[0]);
}

static void when_the_leader_is_cancelled_one_who_waits_takes_over(void **state)
{
    (void)state;
    for (int running = 0; running < 2; running++) {
        struct by_hand h;
        by_hand_open(&h, 60, &(struct engine_options){0});
        for (int i = 0; i < 5; i++)
            by_hand_submit(&h, by_hand_prompt(96, 100, i, 3));
        if (running) {
            h.meanwhile = cancel_the_first;
            by_hand_turn(&h); /* its first step */
            h.meanwhile = NULL;
        } else {
            engine_cancel(h.engine, h.all[0]);
        }
        by_hand_finish(&h);
        assert_int_equal(h.all[0]->finish, FINISH_CANCELLED);
        assert_int_equal(by_hand_computed(&h), 100 + 3 * 4);
        by_hand_close(&h);
    }
}

/* Short prompts that would all go before a long one. */
static void crowd(struct by_hand *h, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct request_params p = fake_params(7, 20, 1);
        p.prompt[1] = (int32_t)i;
        by_hand_submit(h, p);
    }
}

static void a_leader_is_as_urgent_as_who_waits_for_it(void **state)
{
    (void)state;
    struct by_hand h;
    for (int follows = 0; follows < 2; follows++) {
        by_hand_open(
            &h, 60,
            &(struct engine_options){.policy = "priority", .max_batch_seqs = 1, .max_active = 16});
        struct request_params p = by_hand_prompt(96, 200, 0, 1);
        p.priority = 5;
        struct request *leader = by_hand_submit(&h, p);
        crowd(&h, 5);
        p = by_hand_prompt(96, 98, 1, 1);
        p.priority = -1;
        if (follows)
            by_hand_submit(&h, p);
        else
            request_params_fini(&p);
        by_hand_turn(&h);
        assert_int_equal(by_hand_stage(leader, TIMELINE_ADMITTED) != 0, follows);
        if (follows)
            assert_int_equal(leader->n_past, 96); /* as far as it is urgent */
        by_hand_finish(&h);
        if (follows) /* before the crowd, and the leader's rest after it */
            assert_true(by_hand_stage(h.all[6], TIMELINE_FIRST_TOKEN) <=
                            by_hand_stage(h.all[1], TIMELINE_ADMITTED) &&
                        by_hand_stage(h.all[5], TIMELINE_FIRST_TOKEN) <
                            by_hand_stage(leader, TIMELINE_FIRST_TOKEN));
        by_hand_close(&h);
    }
}

static void under_srpf_too(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){.max_batch_seqs = 1, .max_active = 16});
    struct request *leader = by_hand_submit(&h, by_hand_prompt(96, 250, 0, 1));   /* 126 ms */
    struct request *other = by_hand_submit(&h, fake_params(7, 150, 1));           /* 76 ms */
    struct request *follower = by_hand_submit(&h, by_hand_prompt(96, 100, 1, 1)); /* 51 ms */
    by_hand_finish(&h);
    assert_true(by_hand_stage(follower, TIMELINE_FIRST_TOKEN) <=
                by_hand_stage(other, TIMELINE_ADMITTED));
    assert_true(by_hand_stage(leader, TIMELINE_ADMITTED) <
                by_hand_stage(follower, TIMELINE_ADMITTED));
    by_hand_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_prefix_is_computed_once),
        cmocka_unit_test(of_a_partly_filled_block_only_the_rest_is_computed),
        cmocka_unit_test(of_a_partly_shared_block_followers_wait_for_the_whole),
        cmocka_unit_test(without_the_cache_everybody_computes),
        cmocka_unit_test(a_salt_keeps_tenants_apart),
        cmocka_unit_test(the_public_part_is_everybodys),
        cmocka_unit_test(when_the_leader_is_cancelled_one_who_waits_takes_over),
        cmocka_unit_test(a_leader_is_as_urgent_as_who_waits_for_it),
        cmocka_unit_test(under_srpf_too),
    };
    return cmocka_run_group_tests_name("engine_prefix", tests, NULL, NULL);
}
