/* Backpressure: what the queue refuses, what is charged, and the wait that the refused are told. */
#include "unit/engine/by_hand.h"

/* --- room ----------------------------------------------------------------------------------- */

static enum status ask(struct by_hand *h, uint32_t n_prompt, int32_t own, struct err *err)
{
    struct request_params p = by_hand_prompt(0, n_prompt, own, 4);
    struct request *r;
    enum status status = engine_submit(h->engine, &p, &r, err);
    if (status == STATUS_OK)
        h->all[h->n++] = r;
    request_params_fini(&p);
    return status;
}

static void the_queue_is_bounded_in_requests(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    by_hand_open(&h, 60, &(struct engine_options){.max_queued_requests = 3, .max_active = 1});
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(ask(&h, 8, i, &err), STATUS_OK);
    assert_int_equal(ask(&h, 8, 3, &err), STATUS_OVERLOADED);
    assert_non_null(strstr(err.text, "--max-queued-requests"));
    assert_int_equal(by_hand_stats(&h).queued, 3);
    by_hand_turn(&h); /* one is admitted */
    assert_int_equal(by_hand_stats(&h).queued, 2);
    assert_int_equal(ask(&h, 8, 4, &err), STATUS_OK);
    assert_int_equal(ask(&h, 8, 5, &err), STATUS_OVERLOADED);
    engine_cancel(h.engine, h.all[2]);
    by_hand_turn(&h);
    assert_int_equal(ask(&h, 8, 6, &err), STATUS_OK);
    by_hand_close(&h);
}

static void the_queue_is_bounded_in_tokens(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    by_hand_open(&h, 60, &(struct engine_options){.max_queued_tokens = 100});
    assert_int_equal(ask(&h, 150, 1, &err), STATUS_OK); /* nobody is before it */
    assert_int_equal(ask(&h, 1, 2, &err), STATUS_OVERLOADED);
    assert_non_null(strstr(err.text, "--max-queued-tokens"));
    assert_non_null(strstr(err.text, "150"));
    by_hand_finish(&h);
    assert_int_equal(ask(&h, 60, 3, &err), STATUS_OK);
    assert_int_equal(ask(&h, 41, 4, &err), STATUS_OVERLOADED);
    assert_int_equal(ask(&h, 40, 5, &err), STATUS_OK);
    by_hand_close(&h);
}

static void several_at_once_are_charged_together(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    by_hand_open(&h, 60, &(struct engine_options){.max_queued_tokens = 100});
    assert_int_equal(ask(&h, 50, 1, &err), STATUS_OK);
    struct request_params p[2] = {by_hand_prompt(0, 26, 2, 4), by_hand_prompt(0, 26, 3, 4)};
    assert_int_equal(engine_submit_all(h.engine, p, 2, &h.all[1], &err), STATUS_OVERLOADED);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 50);
    request_params_fini(&p[0]);
    request_params_fini(&p[1]);
    by_hand_close(&h);
}

static void a_charge_is_what_is_still_to_be_computed(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    by_hand_open(&h, 60, &(struct engine_options){.max_step_prompt_tokens = 32});
    assert_int_equal(ask(&h, 96, 1, &err), STATUS_OK);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 96);
    by_hand_turn(&h);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 64);
    by_hand_finish(&h);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 0);
    assert_int_equal(ask(&h, 96, 1, &err), STATUS_OK); /* all but its last token is cached */
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 96);
    engine_drain_messages(h.engine);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 1);
    assert_int_equal(ask(&h, 90, 2, &err), STATUS_OK);
    engine_cancel(h.engine, h.all[2]);
    engine_drain_messages(h.engine);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 1);
    assert_int_equal(h.all[2]->n_past, 0);
    by_hand_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_is_bounded_in_requests),
        cmocka_unit_test(the_queue_is_bounded_in_tokens),
        cmocka_unit_test(several_at_once_are_charged_together),
        cmocka_unit_test(a_charge_is_what_is_still_to_be_computed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
