/* Out of KV blocks: the youngest is put back and computes the same tokens again. */
#include "unit/engine/by_hand.h"

/* Four blocks of prompts and four of answers, for two; the pool has eight. */
static void who_is_put_back_computes_the_same_tokens(void **state)
{
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        struct by_hand h;
        by_hand_open(&h, 8, &(struct engine_options){.no_prefix_cache = !cache});
        for (int i = 0; i < 3; i++)
            by_hand_submit(&h, fake_params(6 + i, 70, 100)); /* 6 blocks each in the end */
        by_hand_finish(&h);
        struct engine_stats stats = by_hand_stats(&h);
        assert_true(stats.preempted >= 1);
        for (uint32_t i = 1; i < h.n; i++) /* the oldest is never put back */
            assert_true(by_hand_stage(h.all[i - 1], TIMELINE_FINISHED) <
                        by_hand_stage(h.all[i], TIMELINE_FINISHED));
        assert_int_equal(stats.generated_tokens, 300); /* none is told twice */
        by_hand_close(&h);                             /* and all are right */
    }
}

/* What the put back one had computed is in the cache as long as nobody needs the blocks. */
static void the_cache_keeps_what_was_put_back(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 8, &(struct engine_options){0});
    by_hand_submit(&h, fake_params(6, 60, 40));
    by_hand_submit(&h, fake_params(7, 120, 10));
    for (int i = 0; i < 5; i++)
        by_hand_turn(&h);
    assert_int_equal(by_hand_stats(&h).prompt_tokens, 180);
    assert_true(preempt_youngest(h.engine));
    assert_int_equal(h.all[1]->state, REQUEST_WAITING);
    assert_int_equal(h.all[1]->n_cached, 120);
    assert_false(preempt_youngest(h.engine)); /* who is alone goes on */
    by_hand_finish(&h);
    assert_int_equal(by_hand_stats(&h).preempted, 1);
    assert_true(by_hand_stats(&h).prompt_tokens < 180 + 10); /* its answer so far again */
    assert_int_equal(request_cached_tokens(h.all[1]), 0);    /* as it was at first */
    by_hand_close(&h);
}

/* Its followers still find it. */
static void a_leader_that_is_put_back_still_leads(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){.max_batch_tokens = 40, .max_batch_seqs = 8});
    by_hand_submit(&h, fake_params(7, 20, 30));
    by_hand_submit(&h, by_hand_prompt(160, 170, 0, 5));
    by_hand_submit(&h, by_hand_prompt(160, 170, 1, 5));
    struct request *leader = h.all[1], *follower = h.all[2];
    while (leader->n_past == 0)
        by_hand_turn(&h);
    assert_ptr_equal(follower->leader, leader);
    assert_true(preempt_youngest(h.engine));
    assert_int_equal(leader->state, REQUEST_WAITING);
    by_hand_finish(&h);
    assert_int_equal(request_cached_tokens(follower), 160);
    by_hand_close(&h);
}

static void a_cancel_after_being_put_back(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 8, &(struct engine_options){0});
    by_hand_submit(&h, fake_params(6, 60, 40));
    by_hand_submit(&h, fake_params(7, 60, 40));
    for (int i = 0; i < 5; i++)
        by_hand_turn(&h);
    assert_true(preempt_youngest(h.engine));
    engine_cancel(h.engine, h.all[1]);
    by_hand_finish(&h);
    assert_int_equal(h.all[1]->finish, FINISH_CANCELLED);
    assert_true(h.all[1]->n_tokens > 0);
    by_hand_close(&h);
}

/* Prompts that do not fit whole beside ones that find no blocks: there is always something to do.
 * (The oldest of these waits for blocks, the second was put back in the middle of its answer.) */
static void every_policy_always_finds_a_step(void **state)
{
    (void)state;
    for (size_t i = 0; policy_at(i); i++) {
        struct by_hand h;
        by_hand_open(&h, 10,
                     &(struct engine_options){
                         .policy = policy_at(i)->name, .max_batch_tokens = 200, .n_ctx = FAKE_CTX});
        for (int n = 0; n < 40; n++)
            by_hand_submit(&h, fake_params(6 + n % 15, n % 4 ? 30 + 5 * (n % 10) : 250, 60));
        by_hand_finish(&h);
        assert_true(by_hand_stats(&h).preempted > 0);
        by_hand_close(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_put_back_computes_the_same_tokens),
        cmocka_unit_test(the_cache_keeps_what_was_put_back),
        cmocka_unit_test(a_leader_that_is_put_back_still_leads),
        cmocka_unit_test(a_cancel_after_being_put_back),
        cmocka_unit_test(every_policy_always_finds_a_step),
    };
    return cmocka_run_group_tests_name("preempt_youngest", tests, NULL, NULL);
}
