/* Deadlines, and clients that leave before their turn: nobody computes what nobody waits for. */
#include "unit/engine/by_hand.h"

static struct request *submit_until(struct by_hand *h, int32_t own, uint32_t max_tokens,
                                    int64_t deadline_us)
{
    struct request_params p = by_hand_prompt(0, 64, own, max_tokens);
    p.deadline_us = deadline_us;
    return by_hand_submit(h, p);
}

/* by_hand_close wants whole answers of all but those that were cancelled. */
static void close_broken(struct by_hand *h)
{
    by_hand_finish(h);
    struct engine_stats stats = by_hand_stats(h);
    assert_int_equal(stats.kv_blocks_free, stats.kv_blocks_total);
    assert_int_equal(stats.backlog_tokens, 0);
    assert_int_equal(stats.queued, 0);
    for (uint32_t i = 0; i < h->n; i++) {
        fake_expect_tokens(h->all[i]);
        engine_release(h->engine, h->all[i]);
    }
    fake_close_by_hand(h->engine);
    fake_world_close(&h->world);
}

/* One is active, the next has not had its turn when its time is up. */
static void overdue_in_the_queue(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){.max_active = 1});
    struct request *first = submit_until(&h, 1, 40, 0);
    by_hand_turn(&h);
    struct request *late = submit_until(&h, 2, 4, h.clock.now_us + 5000);
    struct request *patient = submit_until(&h, 3, 4, h.clock.now_us + 10 * 1000000);
    while (!late->finished)
        by_hand_turn(&h);
    assert_int_equal(late->finish, FINISH_TIMEOUT);
    assert_string_equal(finish_reason_name(late->finish), "timeout");
    assert_true(h.clock.now_us >= late->params.deadline_us);
    assert_true(h.clock.now_us < late->params.deadline_us + 5000); /* a step or two */
    assert_false(first->finished);
    by_hand_finish(&h);
    assert_int_equal(first->finish, FINISH_LENGTH);
    assert_int_equal(patient->finish, FINISH_LENGTH);
    assert_int_equal(by_hand_stage(late, TIMELINE_ADMITTED), 0);
    assert_int_equal(by_hand_computed(&h), 128); /* of two prompts */
    close_broken(&h);
}

static void overdue_on_arrival(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    struct request *late = submit_until(&h, 1, 4, h.clock.now_us);
    by_hand_turn(&h);
    assert_true(late->finished && late->finish == FINISH_TIMEOUT);
    assert_int_equal(by_hand_stats(&h).steps, 0);
    close_broken(&h);
}

/* Between two layers of its prompt: its rows are dropped, the step ends it. */
static void overdue_in_prefill(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    struct request *late = submit_until(&h, 1, 4, h.clock.now_us + 10000); /* of 33 ms */
    by_hand_turn(&h);
    assert_true(late->finished && late->finish == FINISH_TIMEOUT);
    assert_int_equal(atomic_load(&fake_last->drops), 1);
    assert_int_equal(late->n_tokens, 0);
    close_broken(&h);
}

/* What it has said so far stays; its neighbours do not notice. */
static void overdue_in_decode(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    struct request *late = submit_until(&h, 1, 100, h.clock.now_us + 100000);
    struct request *other = submit_until(&h, 2, 100, h.clock.now_us + 100 * 1000000);
    by_hand_finish(&h);
    assert_int_equal(late->finish, FINISH_TIMEOUT);
    assert_in_range(late->n_tokens, 1, 99);
    assert_int_equal(other->finish, FINISH_LENGTH);
    assert_int_equal(other->n_tokens, 100);
    close_broken(&h);
}

/* The earliest deadline is kept, and the next one is found when it has passed. */
static void each_at_its_own_time(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 100, &(struct engine_options){.max_active = 1});
    submit_until(&h, 0, 100, 0);
    for (int32_t i = 1; i <= 5; i++) /* the last to come is the first to go */
        submit_until(&h, i, 100, h.clock.now_us + (6 - i) * 20000);
    by_hand_finish(&h);
    for (uint32_t i = 1; i <= 5; i++) {
        const struct request *r = h.all[i];
        int64_t late_us = by_hand_stage(r, TIMELINE_FINISHED) - r->params.deadline_us;
        assert_int_equal(r->finish, FINISH_TIMEOUT);
        assert_in_range(late_us, 0, 10000); /* a layer of a prompt, of 33 ms */
    }
    close_broken(&h);
}

/* A client that leaves before its turn. */
static void cancelled_in_the_queue(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){.max_active = 1});
    submit_until(&h, 1, 10, 0);
    by_hand_turn(&h);
    struct request *gone = submit_until(&h, 2, 4, 0);
    by_hand_turn(&h);
    engine_cancel(h.engine, gone);
    by_hand_finish(&h);
    assert_int_equal(gone->finish, FINISH_CANCELLED);
    assert_int_equal(by_hand_stage(gone, TIMELINE_ADMITTED), 0);
    assert_int_equal(by_hand_computed(&h), 64); /* of the first */
    close_broken(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overdue_in_the_queue), cmocka_unit_test(overdue_on_arrival),
        cmocka_unit_test(overdue_in_prefill),   cmocka_unit_test(overdue_in_decode),
        cmocka_unit_test(each_at_its_own_time), cmocka_unit_test(cancelled_in_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
