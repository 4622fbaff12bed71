/* Steps that stand aside between two layers. */
#include "unit/engine/by_hand.h"

#define MS 1000

static void a_short_one_comes(struct by_hand *h)
{
    if (h->n_layers == 1) {
        struct request_params p = fake_params(7, 8, 2); /* 5 ms, of 125 */
        by_hand_submit(h, p);
    }
}

static void a_short_prompt_interrupts_a_long_one(void **state)
{
    (void)state;
    static const char *const policies[] = {"srpf", "fifo"};
    for (int parks = 0; parks < 2; parks++) {
        struct by_hand h;
        by_hand_open(&h, 60, &(struct engine_options){.policy = policies[!parks]});
        struct request *long_one = by_hand_submit(&h, fake_params(6, 248, 2));
        h.meanwhile = a_short_one_comes;
        by_hand_turn(&h);
        const struct request *short_one = h.all[1];
        assert_int_equal(by_hand_stats(&h).parked, parks);
        assert_true(by_hand_stage(long_one, TIMELINE_FIRST_TOKEN) > 0); /* by the same turn */
        assert_int_equal(by_hand_stage(short_one, TIMELINE_FIRST_TOKEN) > 0, parks);
        if (parks)
            assert_true(by_hand_stage(short_one, TIMELINE_FIRST_TOKEN) -
                            by_hand_stage(short_one, TIMELINE_QUEUED) <
                        6 * MS);
        by_hand_close(&h);
    }
}

static void a_prompt_that_is_longer_than_what_is_left_waits(struct by_hand *h)
{
    if (h->n_layers == 1)
        by_hand_submit(h, fake_params(7, 200, 2));
}

static void not_for_one_that_is_longer_than_what_is_left(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    by_hand_submit(&h, fake_params(6, 248, 2));
    h.meanwhile = a_prompt_that_is_longer_than_what_is_left_waits;
    by_hand_turn(&h);
    assert_int_equal(by_hand_stats(&h).parked, 0);
    by_hand_close(&h);
}

/* --- decodes -------------------------------------------------------------------------------- */

/* The time when each token of the short one came. */
static struct {
    uint32_t n;
    int64_t at_us, worst_us;
} stream;

static void watch_the_stream(struct by_hand *h)
{
    const struct request *r = h->n > 1 ? h->all[1] : NULL;
    a_short_one_comes(h);
    if (!r || r->n_tokens == stream.n)
        return;
    int64_t gap_us = r->served_us - stream.at_us;
    if (stream.n > 0 && gap_us > stream.worst_us)
        stream.worst_us = gap_us;
    stream.n = r->n_tokens;
    stream.at_us = r->served_us;
}

static void a_short_one_that_goes_on(struct by_hand *h)
{
    if (h->n_layers == 1)
        by_hand_submit(h, fake_params(7, 8, 100));
    watch_the_stream(h);
}

/* Its stream keeps its gap, to a layer of the long step, though the long step had no decodes when
 * it was planned. */
static void decodes_keep_their_gap_while_the_long_one_waits(void **state)
{
    (void)state;
    struct by_hand h;
    stream.n = 0;
    stream.worst_us = 0;
    by_hand_open(&h, 60, &(struct engine_options){.decode_gap_ms = 40});
    struct request *long_one = by_hand_submit(&h, fake_params(6, 248, 2)); /* layers of 31 ms */
    h.meanwhile = a_short_one_that_goes_on;
    by_hand_turn(&h);
    assert_true(by_hand_stats(&h).parked >= 3);
    assert_true(h.all[1]->n_tokens >= 3 && long_one->n_tokens == 1);
    assert_true(stream.worst_us <= 40 * MS);
    struct request *next = by_hand_submit(&h, fake_params(8, 248, 2)); /* and in mixed steps */
    while (next->n_tokens == 0)
        by_hand_turn(&h);
    /* the first of them came right after the long step's last layer: the least chunk, 8 ms, is more
     * than what was left of the gap */
    assert_true(stream.worst_us <= 48 * MS && stream.n > 5);
    assert_int_equal(by_hand_stats(&h).gap_missed, 0);
    by_hand_close(&h);
}

/* --- cancels -------------------------------------------------------------------------------- */

static void cancel_the_parked(struct by_hand *h)
{
    a_short_one_comes(h);
    if (!fake_last->has_parked)
        return;
    engine_cancel(h->engine, h->all[0]);
    assert_false(h->all[0]->finished);
    assert_int_equal(h->engine->kv.lens[h->all[0]->slot], 8); /* its step may still write there */
}

static void a_cancel_in_the_parked_step_frees_its_blocks_with_that_step(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    struct request *long_one = by_hand_submit(&h, fake_params(6, 248, 2));
    h.meanwhile = cancel_the_parked;
    by_hand_turn(&h);
    assert_int_equal(by_hand_stats(&h).parked, 1);
    assert_int_equal(atomic_load(&fake_last->drops), 1);
    assert_true(long_one->finished && long_one->finish == FINISH_CANCELLED);
    assert_int_equal(h.engine->kv.lens[long_one->slot], 0);
    assert_int_equal(h.all[1]->n_tokens, 1);
    by_hand_close(&h);
}

static void cancel_the_short_one(struct by_hand *h)
{
    a_short_one_comes(h);
    if (fake_last->has_parked)
        engine_cancel(h->engine, h->all[1]);
}

static void a_cancel_in_the_short_step_spares_the_parked_one(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    struct request *long_one = by_hand_submit(&h, fake_params(6, 248, 2));
    h.meanwhile = cancel_the_short_one;
    by_hand_turn(&h);
    assert_int_equal(h.all[1]->finish, FINISH_CANCELLED);
    assert_int_equal(long_one->n_tokens, 1);
    by_hand_close(&h);
}

/* --- nobody starves ------------------------------------------------------------------------- */

/* Short prompts, twice as many as there is time for, in place of those that have ended. */
static void an_endless_crowd(struct by_hand *h)
{
    for (uint32_t i = 1; i < BY_HAND_MAX; i++) {
        if (h->all[i] && !h->all[i]->finished)
            continue;
        if (h->all[i])
            engine_release(h->engine, h->all[i]);
        struct request_params p = fake_params(7, 20, 1);
        p.prompt[1] = (int32_t)(i % FAKE_END);
        p.prompt[2] = (int32_t)(h->n_layers % FAKE_END);
        h->all[i] = fake_submit(h->engine, &p);
    }
}

/* One that takes 126 ms among 63 of 11 ms, without end. In the order of its policy at most all of
 * those go before each of its chunks, once it has waited for as long as it takes (srpf) or for a
 * second (pack, lookahead). */
static void a_long_one_comes_to_its_turn_among_endless_short_ones(void **state)
{
    (void)state;
    for (size_t i = 0; policy_at(i); i++) {
        struct by_hand h;
        by_hand_open(&h, 600,
                     &(struct engine_options){.policy = policy_at(i)->name,
                                              .max_batch_tokens = 128,
                                              .max_batch_seqs = 8,
                                              .max_active = BY_HAND_MAX,
                                              .no_prefix_cache = true});
        struct request *long_one = by_hand_submit(&h, fake_params(6, 250, 1));
        an_endless_crowd(&h);
        int64_t start_us = h.clock.now_us;
        while (!long_one->finished) {
            by_hand_turn(&h);
            an_endless_crowd(&h);
            assert_true(h.clock.now_us - start_us < 2500 * MS);
        }
        h.n = BY_HAND_MAX;
        by_hand_close(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_prompt_interrupts_a_long_one),
        cmocka_unit_test(not_for_one_that_is_longer_than_what_is_left),
        cmocka_unit_test(decodes_keep_their_gap_while_the_long_one_waits),
        cmocka_unit_test(a_cancel_in_the_parked_step_frees_its_blocks_with_that_step),
        cmocka_unit_test(a_cancel_in_the_short_step_spares_the_parked_one),
        cmocka_unit_test(a_long_one_comes_to_its_turn_among_endless_short_ones),
    };
    return cmocka_run_group_tests_name("engine_park", tests, NULL, NULL);
}
