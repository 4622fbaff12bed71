/* What the engine says of itself: why somebody waited, how long steps took. */
#include "unit/engine/by_hand.h"

#define MS 1000

static struct request_wait wait_of(const struct request *r)
{
    struct request_wait w;
    request_waited(r, &w);
    return w;
}

static void expect_reason(const struct request *r, const char *reason)
{
    struct request_wait w = wait_of(r);
    assert_true(w.over);
    assert_string_equal(request_wait_reason(&w), reason);
}

/* --- why somebody waited -------------------------------------------------------------------- */

static void who_comes_to_an_idle_engine_waits_for_nothing(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    struct request *r = by_hand_submit(&h, fake_params(6, 20, 2));
    by_hand_turn(&h);
    struct request_wait w = wait_of(r);
    expect_reason(r, "nothing");
    assert_int_equal(w.waiting + w.running + w.tokens + w.steps, 0);
    assert_int_equal(w.prompts + w.prompt_tokens, 0);
    assert_true(request_is_admitted(r));
    by_hand_close(&h);
}

static void one_comes_in_the_first_layer(struct by_hand *h)
{
    if (h->n_layers == 1)
        by_hand_submit(h, fake_params(7, 120, 2));
}

static void who_comes_during_a_step_waits_for_it(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    by_hand_submit(&h, fake_params(6, 248, 2));
    h.meanwhile = one_comes_in_the_first_layer;
    by_hand_turn(&h);
    by_hand_turn(&h);
    struct request_wait w = wait_of(h.all[1]);
    expect_reason(h.all[1], "step");
    assert_true(w.in_step);
    assert_int_equal(w.running, 1);
    assert_int_equal(w.tokens, 248);
    assert_int_equal(w.waiting, 0);
    assert_int_equal(w.prompts + w.prompt_tokens, 0); /* the step stood aside for it */
    by_hand_close(&h);
}

static void who_waits_for_a_whole_step_waits_for_its_prompt(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){.policy = "fifo"});
    by_hand_submit(&h, fake_params(6, 248, 2));
    h.meanwhile = one_comes_in_the_first_layer;
    by_hand_turn(&h);
    assert_false(request_is_admitted(h.all[1]));
    by_hand_turn(&h);
    struct request_wait w = wait_of(h.all[1]);
    expect_reason(h.all[1], "step");
    assert_true(request_is_admitted(h.all[1]));
    assert_int_equal(w.prompts, 1);
    assert_int_equal(w.prompt_tokens, 248);
    by_hand_close(&h);
}

/* Two that share a step are both computed in part when the third gets its place. */
static void prompts_that_are_not_done_count_too(void **state)
{
    (void)state;
    struct by_hand h;
    struct engine_options o = {.max_batch_tokens = 64, .max_active = 2, .policy = "fifo"};
    by_hand_open(&h, 60, &o);
    by_hand_submit(&h, fake_params(6, 100, 1));
    by_hand_submit(&h, fake_params(7, 100, 1));
    struct request *third = by_hand_submit(&h, fake_params(8, 20, 1));
    by_hand_finish(&h);
    struct request_wait w = wait_of(third);
    assert_int_equal(w.prompts, 2);
    assert_in_range(w.prompt_tokens, 101, 199);
    by_hand_close(&h);
}

/* Steps of 64 rows; the second in the order of its policy gets none before the first is through. */
static void who_comes_behind_another_waits_for_a_turn(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){.max_batch_tokens = 64, .policy = "fifo"});
    by_hand_submit(&h, fake_params(6, 248, 1));
    struct request *second = by_hand_submit(&h, fake_params(7, 60, 1));
    by_hand_finish(&h);
    struct request_wait w = wait_of(second);
    expect_reason(second, "turn");
    assert_int_equal(w.waiting, 1);
    assert_int_equal(w.tokens, 248);
    assert_true(w.steps >= 3);
    assert_int_equal(w.prompts, 1);
    assert_in_range(w.prompt_tokens, 190, 248); /* the rest shares a step with it */
    assert_int_equal(w.steps_no_blocks + w.steps_no_place, 0);
    by_hand_close(&h);
}

static void who_finds_no_blocks_waits_for_them(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 10, &(struct engine_options){.no_prefix_cache = true});
    by_hand_submit(&h, fake_params(6, 200, 4));
    by_hand_turn(&h);
    struct request *second = by_hand_submit(&h, fake_params(7, 150, 1));
    by_hand_finish(&h);
    struct request_wait w = wait_of(second);
    expect_reason(second, "kv_blocks");
    assert_true(w.steps_no_blocks >= 2 && w.steps_no_blocks <= w.steps);
    assert_int_equal(w.running, 1);
    by_hand_close(&h);
}

static void who_finds_all_places_taken_waits_for_one(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){.max_active = 1});
    by_hand_submit(&h, fake_params(6, 20, 5));
    by_hand_turn(&h);
    struct request *second = by_hand_submit(&h, fake_params(7, 20, 1));
    by_hand_finish(&h);
    struct request_wait w = wait_of(second);
    expect_reason(second, "max_active");
    assert_int_equal(w.steps_no_place, 4);
    assert_int_equal(w.prompts + w.prompt_tokens, 0); /* only decodes ran */
    by_hand_close(&h);
}

static void who_follows_waits_for_the_leader(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){.max_batch_tokens = 64});
    by_hand_submit(&h, by_hand_prompt(192, 200, 1, 1));
    struct request *second = by_hand_submit(&h, by_hand_prompt(192, 200, 2, 1));
    by_hand_finish(&h);
    expect_reason(second, "leader");
    assert_int_equal(request_cached_tokens(second), 192);
    by_hand_close(&h);
}

static void who_is_cancelled_while_waiting_says_what_for(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){.max_active = 1});
    by_hand_submit(&h, fake_params(6, 20, 8));
    by_hand_turn(&h);
    struct request *second = by_hand_submit(&h, fake_params(7, 20, 1));
    by_hand_turn(&h);
    by_hand_turn(&h);
    engine_cancel(h.engine, second);
    by_hand_turn(&h);
    assert_int_equal(second->finish, FINISH_CANCELLED);
    expect_reason(second, "max_active");
    by_hand_close(&h);
}

/* --- what the cache had --------------------------------------------------------------------- */

static struct request *run(struct by_hand *h, struct request_params p)
{
    struct request *r = by_hand_submit(h, p);
    by_hand_finish(h);
    return r;
}

static void who_finds_his_beginning_dropped_is_told_so(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 8, &(struct engine_options){0});
    assert_false(request_was_evicted(run(&h, fake_params(6, 100, 1))));
    assert_false(request_was_evicted(run(&h, fake_params(6, 100, 1)))); /* it is cached */
    assert_false(request_was_evicted(run(&h, fake_params(7, 250, 1)))); /* takes all blocks */
    struct request_params salted = fake_params(6, 100, 1);
    salted.salt.word[0] = 1;
    assert_false(request_was_evicted(run(&h, salted)));
    struct request *r = run(&h, fake_params(6, 100, 1));
    assert_int_equal(request_cached_tokens(r), 0);
    assert_true(request_was_evicted(r));
    r = run(&h, fake_params(6, 100, 1)); /* and cached again */
    assert_false(request_was_evicted(r));
    assert_int_equal(request_cached_tokens(r), 99);
    assert_true(by_hand_stats(&h).prefix_evicted >= 4);
    by_hand_close(&h);
}

/* --- steps ---------------------------------------------------------------------------------- */

static struct engine_step_stats steps_of(const struct by_hand *h)
{
    struct engine_step_stats s;
    engine_step_stats(h->engine, &s);
    return s;
}

static void every_step_is_in_the_histogram(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    int64_t start_us = h.clock.now_us;
    by_hand_submit(&h, fake_params(6, 100, 10));
    by_hand_finish(&h);
    struct engine_step_stats s = steps_of(&h);
    struct engine_stats stats = by_hand_stats(&h);
    assert_int_equal(s.time.count, stats.steps);
    assert_int_equal(s.time.count, 10);
    assert_int_equal(s.time.sum, h.clock.now_us - start_us); /* nothing else takes time here */
    assert_int_equal(stats.busy_us, h.clock.now_us - start_us);
    by_hand_close(&h);
}

/* by_hand's cost model knows the machine once it has seen a step. */
static void a_step_that_was_foreseen_has_a_small_error(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    h.engine->cost.n = 1;
    by_hand_submit(&h, fake_params(6, 100, 10));
    by_hand_finish(&h);
    struct engine_step_stats s = steps_of(&h);
    assert_int_equal(s.error.count, 10);
    assert_true(histogram_quantile(&s.error, 1) < 0.02 * 1e6);
    h.clock.step_us += 9 * MS; /* a decode takes nine times what it did */
    by_hand_submit(&h, fake_params(7, 1, 1));
    by_hand_finish(&h);
    s = steps_of(&h);
    assert_true(histogram_quantile(&s.error, 1) > 0.5 * 1e6);
    by_hand_close(&h);
}

static void a_short_one_comes_in_the_first_layer(struct by_hand *h)
{
    if (h->n_layers == 1)
        by_hand_submit(h, fake_params(7, 8, 1));
}

static void a_parked_step_counts_without_the_short_ones(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    int64_t start_us = h.clock.now_us;
    by_hand_submit(&h, fake_params(6, 248, 1));
    h.meanwhile = a_short_one_comes_in_the_first_layer;
    by_hand_turn(&h);
    int64_t took_us = h.clock.now_us - start_us;
    assert_int_equal(steps_of(&h).time.sum, took_us);
    assert_int_equal(by_hand_stats(&h).parked, 1);
    assert_int_equal(steps_of(&h).time.count, 2);
    by_hand_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_to_an_idle_engine_waits_for_nothing),
        cmocka_unit_test(who_comes_during_a_step_waits_for_it),
        cmocka_unit_test(who_waits_for_a_whole_step_waits_for_its_prompt),
        cmocka_unit_test(prompts_that_are_not_done_count_too),
        cmocka_unit_test(who_comes_behind_another_waits_for_a_turn),
        cmocka_unit_test(who_finds_no_blocks_waits_for_them),
        cmocka_unit_test(who_finds_all_places_taken_waits_for_one),
        cmocka_unit_test(who_follows_waits_for_the_leader),
        cmocka_unit_test(who_is_cancelled_while_waiting_says_what_for),
        cmocka_unit_test(who_finds_his_beginning_dropped_is_told_so),
        cmocka_unit_test(every_step_is_in_the_histogram),
        cmocka_unit_test(a_step_that_was_foreseen_has_a_small_error),
        cmocka_unit_test(a_parked_step_counts_without_the_short_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
