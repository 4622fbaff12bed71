/* Cancellation in every state and at random moments: one finished event each, every block back. */
#include "unit/engine/group_world.h"

#include "support/random.h"

static void expect_idle(const struct engine *e)
{
    struct engine_stats stats;
    engine_stats(e, &stats);
    assert_int_equal(stats.kv_blocks_free, stats.kv_blocks_total);
    assert_int_equal(stats.running, 0);
    assert_int_equal(stats.waiting, 0);
}

static void wait_until_held(void)
{
    while (atomic_load(&fake_last->held_at) == 0)
        sched_yield();
}

static void in_prefill_it_takes_a_layer(void **state)
{
    (void)state;
    struct engine *e = fake_engine(&world, ENGINE_CONTINUOUS, 40, 8, 8, 64);
    atomic_store(&fake_last->hold, true);
    struct request_params p = fake_params(1, 60, 100);
    struct request *r = fake_submit(e, &p);
    wait_until_held();
    engine_cancel(e, r);
    engine_cancel(e, r);
    atomic_store(&fake_last->hold, false);
    fake_finish(e, &r, 1);
    assert_int_equal(r->finish, FINISH_CANCELLED);
    assert_int_equal(atomic_load(&fake_last->drops), 1);
    assert_int_equal(r->n_tokens, 0);
    engine_cancel(e, r); /* after the end: nothing */
    engine_release(e, r);
    expect_idle(e);
    engine_close(e);
}

static void while_waiting_it_ends_at_once(void **state)
{
    (void)state;
    struct engine *e = fake_engine(&world, ENGINE_CONTINUOUS, 40, 8, 1, 64);
    atomic_store(&fake_last->hold, true);
    struct request_params p = fake_params(1, 60, 20);
    struct request *running = fake_submit(e, &p);
    wait_until_held();
    p = fake_params(2, 60, 20);
    struct request *waiting = fake_submit(e, &p);
    engine_cancel(e, waiting);
    atomic_store(&fake_last->hold, false);
    fake_finish(e, (struct request *[]){running, waiting}, 2);
    assert_int_equal(waiting->finish, FINISH_CANCELLED);
    assert_int_equal(waiting->params.timeline.at_us[TIMELINE_ADMITTED], 0); /* never started */
    assert_int_equal(running->finish, FINISH_LENGTH);
    fake_expect_tokens(running);
    engine_release(e, running);
    engine_release(e, waiting);
    expect_idle(e);
    engine_close(e);
}

static void in_decode_it_keeps_what_there_is(void **state)
{
    (void)state;
    struct engine *e = fake_engine(&world, ENGINE_CONTINUOUS, 40, 8, 8, 64);
    struct request_params p = fake_params(1, 10, 240);
    struct request *r = fake_submit(e, &p);
    while (atomic_load(&r->tokens_visible) < 5)
        sched_yield();
    engine_cancel(e, r);
    fake_finish(e, &r, 1);
    assert_true(r->finish == FINISH_CANCELLED || r->finish == FINISH_LENGTH);
    assert_true(r->n_tokens >= 5);
    fake_expect_tokens(r);
    engine_release(e, r);
    expect_idle(e);
    engine_close(e);
}

static void a_late_cancel_spares_the_slots_next_user(void **state)
{
    (void)state;
    struct engine *e = fake_engine(&world, ENGINE_CONTINUOUS, 40, 1, 1, 64);
    for (int round = 0; round < 300; round++) {
        struct request_params p = fake_params(1, 4, 2);
        struct request *r = fake_submit(e, &p);
        while (atomic_load(&r->tokens_visible) < 1)
            sched_yield();
        engine_cancel(e, r); /* it may just have ended by itself */
        fake_finish(e, &r, 1);
        engine_release(e, r);
        p = fake_params(2, 4, 3);
        r = fake_submit(e, &p);
        fake_finish(e, &r, 1);
        assert_int_equal(r->finish, FINISH_LENGTH);
        engine_release(e, r);
    }
    expect_idle(e);
    engine_close(e);
}

/* Those that nobody reads have given their slots back, without an event. */
static void wait_for_slots(struct engine *e)
{
    while (e->lists.of[REQUEST_FREE].n < e->n_slots) {
        engine_wait(e);
        engine_events_clear(e);
        assert_null(engine_next_event(e));
    }
}

static void a_discarded_one_is_never_heard_of(void **state)
{
    (void)state;
    struct engine *e = fake_engine(&world, ENGINE_CONTINUOUS, 40, 4, 4, 64);
    struct request_params p = fake_params(1, 4, 2);
    struct request *r = fake_submit(e, &p), *other;
    fake_finish(e, &r, 1);
    engine_discard(e, r); /* it has ended */
    assert_int_equal(e->lists.of[REQUEST_FREE].n, e->n_slots);
    p = fake_params(2, 4, 1000);
    r = fake_submit(e, &p);
    while (atomic_load(&r->tokens_visible) < 1) /* news is on its way */
        sched_yield();
    engine_discard(e, r);
    p = fake_params(3, 4, 2);
    other = fake_submit(e, &p);
    fake_finish(e, &other, 1);
    assert_int_equal(other->finish, FINISH_LENGTH);
    engine_release(e, other);
    wait_for_slots(e);
    expect_idle(e);
    engine_close(e);
}

/* --- random moments --------------------------------------------------------------------------- */

#define MANY 10

static void spin(struct random *random)
{
    for (uint32_t n = random_below(random, 400); n > 0; n--)
        atomic_signal_fence(memory_order_seq_cst);
    for (uint32_t n = random_below(random, 3); n > 0; n--)
        sched_yield();
}

static struct request *submit_random(struct engine *e, struct random *random)
{
    struct request_params p =
        fake_params((int32_t)(5 + random_below(random, 20)), 1 + random_below(random, 80),
                    1 + random_below(random, 12));
    return fake_submit(e, &p);
}

/* Some requests, some of them cancelled on the way; their ends are counted. */
static void run_seed(struct engine *e, uint64_t seed)
{
    struct random random = {seed * 2654435761u + 1};
    struct request *r[MANY];
    uint32_t n = 1 + random_below(&random, MANY);
    atomic_store(&fake_last->slow, random_below(&random, 4));
    for (uint32_t i = 0; i < n; i++) {
        r[i] = submit_random(e, &random);
        spin(&random);
        if (random_below(&random, 3) == 0)
            engine_cancel(e, r[random_below(&random, i + 1)]);
    }
    for (uint32_t i = random_below(&random, n); i > 0; i--) {
        spin(&random);
        engine_cancel(e, r[random_below(&random, n)]);
    }
    if (n > 1 && random_below(&random, 2))
        engine_discard(e, r[--n]);
    fake_finish(e, r, n);
    for (uint32_t i = 0; i < n; i++) {
        if (r[i]->finish != FINISH_CANCELLED)
            assert_int_equal(r[i]->n_tokens, r[i]->max_tokens);
        fake_expect_tokens(r[i]);
        engine_release(e, r[i]);
    }
    wait_for_slots(e);
    expect_idle(e);
}

static void at_random_moments(void **state)
{
    (void)state;
    for (int mode = ENGINE_CONTINUOUS; mode <= ENGINE_SYNC; mode++) {
        struct engine *e = fake_engine(&world, (enum engine_mode)mode, 10, MANY, 4, 24);
        for (uint64_t seed = 0; seed < 3000; seed++)
            run_seed(e, seed);
        struct engine_stats stats;
        engine_stats(e, &stats);
        assert_true(stats.cancelled > 500 && stats.cancelled < stats.finished);
        engine_close(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_prefill_it_takes_a_layer),
        cmocka_unit_test(while_waiting_it_ends_at_once),
        cmocka_unit_test(in_decode_it_keeps_what_there_is),
        cmocka_unit_test(a_late_cancel_spares_the_slots_next_user),
        cmocka_unit_test(a_discarded_one_is_never_heard_of),
        cmocka_unit_test(at_random_moments),
    };
    return cmocka_run_group_tests_name("engine_cancel", tests, open_world, close_world);
}
