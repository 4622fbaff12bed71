/* Weights that are lost while steps run: whatever a step computed then goes nowhere. */
#include "unit/engine/by_hand.h"

/* The answer of the engine's check, and how often it was asked. */
static struct {
    bool lost;
    int n;
} weights;

static enum status check(const void *arg, struct err *err)
{
    assert_ptr_equal(arg, &weights);
    weights.n++;
    return weights.lost ? err_set(err, STATUS_UNAVAILABLE, "x.gguf is gone") : STATUS_OK;
}

static void open_checked(struct by_hand *h, struct engine_options *o)
{
    weights.lost = false;
    weights.n = 0;
    by_hand_open(h, 60, o);
    h->engine->check = check;
    h->engine->check_arg = &weights;
}

/* Everybody ended with an error and has only what came before; every block can be had. */
static void close_failed(struct by_hand *h)
{
    by_hand_events(h);
    for (uint32_t i = 0; i < h->n; i++) {
        assert_true(h->all[i]->finished);
        assert_int_equal(h->all[i]->finish, FINISH_ERROR);
        fake_expect_tokens(h->all[i]);
        engine_release(h->engine, h->all[i]);
    }
    struct engine_stats stats = by_hand_stats(h);
    assert_int_equal(stats.kv_blocks_free, stats.kv_blocks_total);
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_int_equal(stats.backlog_tokens, 0);
    fake_close_by_hand(h->engine);
    fake_world_close(&h->world);
}

static void all_is_well(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    open_checked(&h, &(struct engine_options){0});
    by_hand_submit(&h, fake_params(6, 40, 5));
    by_hand_finish(&h);
    assert_int_equal(weights.n, by_hand_stats(&h).steps);
    assert_int_equal(engine_failure(h.engine, &err), STATUS_OK);
    by_hand_close(&h);
}

/* One decodes, one is about to have its first token, one waits for a leader. */
static void everybody_ends_and_nothing_is_published(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    open_checked(&h, &(struct engine_options){0});
    struct request *decodes = by_hand_submit(&h, fake_params(6, 40, 50));
    by_hand_turn(&h);
    by_hand_turn(&h);
    assert_int_equal(decodes->n_tokens, 2);
    uint32_t cached = h.engine->prefix.n_nodes;
    by_hand_submit(&h, fake_params(7, 96, 5));
    by_hand_submit(&h, fake_params(7, 100, 5));
    weights.lost = true;
    by_hand_turn(&h);
    assert_int_equal(decodes->n_tokens, 2);
    assert_int_equal(h.all[1]->n_tokens, 0);
    assert_int_equal(h.engine->prefix.n_nodes, cached);
    assert_int_equal(engine_failure(h.engine, &err), STATUS_UNAVAILABLE);
    assert_string_equal(err.text, "x.gguf is gone");
    assert_false(engine_thread_turn(h.engine));
    close_failed(&h);
}

static void cancel_in_the_first_layer(struct by_hand *h)
{
    weights.lost = true;
    if (h->n_layers == 1)
        engine_cancel(h->engine, h->all[0]);
}

static void who_was_cancelled_in_that_step_is_told_so(void **state)
{
    (void)state;
    struct by_hand h;
    open_checked(&h, &(struct engine_options){0});
    struct request *r = by_hand_submit(&h, fake_params(6, 40, 50));
    h.meanwhile = cancel_in_the_first_layer;
    by_hand_turn(&h);
    assert_int_equal(weights.n, 1); /* it was cancelled within the step */
    assert_int_equal(r->finish, FINISH_CANCELLED);
    engine_release(h.engine, r);
    h.n = 0;
    close_failed(&h);
}

/* A step stands aside for a short prompt, and the weights go in the short step. */
static void lose_them_in_the_short_step(struct by_hand *h)
{
    if (h->n_layers == 1)
        by_hand_submit(h, fake_params(7, 8, 2));
    weights.lost |= fake_last->has_parked;
}

static void a_parked_step_ends_with_an_error_too(void **state)
{
    (void)state;
    struct by_hand h;
    open_checked(&h, &(struct engine_options){.policy = "srpf"});
    by_hand_submit(&h, fake_params(6, 248, 2));
    h.meanwhile = lose_them_in_the_short_step;
    by_hand_turn(&h);
    assert_int_equal(by_hand_stats(&h).parked, 1);
    assert_int_equal(h.all[0]->n_tokens + h.all[1]->n_tokens, 0);
    assert_int_equal(h.engine->prefix.n_nodes, 0);
    close_failed(&h);
}

/* What was on its way when the weights went ends too, and what comes later is refused. */
static void come_in_the_last_layer(struct by_hand *h)
{
    weights.lost = true;
    if (h->n == 1 && h->n_layers % FAKE_LAYERS == 0)
        by_hand_submit(h, fake_params(8, 8, 2));
}

static void late_ones_end_and_later_ones_are_refused(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    struct request *r;
    open_checked(&h, &(struct engine_options){0});
    by_hand_submit(&h, fake_params(6, 40, 2));
    h.meanwhile = come_in_the_last_layer;
    by_hand_turn(&h);
    assert_int_equal(h.n, 2);
    assert_false(engine_thread_turn(h.engine));
    struct request_params p = fake_params(6, 8, 2);
    assert_int_equal(engine_submit(h.engine, &p, &r, &err), STATUS_UNAVAILABLE);
    assert_string_equal(err.text, "x.gguf is gone");
    request_params_fini(&p);
    close_failed(&h);
}

static void weights_lost_while_the_engine_opens(void **state)
{
    (void)state;
    struct fake_world w;
    struct engine *e;
    struct err err = {0};
    fake_world_open(&w);
    const struct engine_parts parts = {.ops = &fake_ops,
                                       .model = &w.model,
                                       .tokenizer = w.tokenizer,
                                       .by_hand = true,
                                       .check = check,
                                       .check_arg = &weights};
    const struct engine_options options = {
        .n_threads = 1, .kv_type = KV_F32, .max_batch_seqs = FAKE_SEQS};
    weights.lost = true;
    assert_int_equal(engine_open_parts(&e, &parts, &options, &err), STATUS_UNAVAILABLE);
    assert_string_equal(err.text, "x.gguf is gone");
    fake_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_is_well),
        cmocka_unit_test(everybody_ends_and_nothing_is_published),
        cmocka_unit_test(who_was_cancelled_in_that_step_is_told_so),
        cmocka_unit_test(a_parked_step_ends_with_an_error_too),
        cmocka_unit_test(late_ones_end_and_later_ones_are_refused),
        cmocka_unit_test(weights_lost_while_the_engine_opens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
