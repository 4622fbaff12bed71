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
    assert_string_equal(engine_limit(h.engine), "queued_requests");
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
    assert_string_equal(engine_limit(h.engine), "queued_tokens");
    assert_non_null(strstr(err.text, "150"));
    by_hand_finish(&h);
    assert_int_equal(ask(&h, 60, 3, &err), STATUS_OK);
    assert_int_equal(ask(&h, 41, 4, &err), STATUS_OVERLOADED);
    assert_int_equal(ask(&h, 40, 5, &err), STATUS_OK);
    by_hand_close(&h);
}

/* At 1 ms a step and 0.5 ms a token of prompt, as the cost model says before anything has run. */
static void the_queue_is_bounded_in_time(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    by_hand_open(&h, 60, &(struct engine_options){.max_queue_ms = 50, .max_queued_tokens = 1000});
    assert_int_equal(ask(&h, 8, 1, &err), STATUS_OK);
    by_hand_finish(&h);
    assert_int_equal(ask(&h, 150, 2, &err), STATUS_OK); /* nobody is before it */
    assert_int_equal(ask(&h, 1, 3, &err), STATUS_OVERLOADED);
    assert_non_null(strstr(err.text, "--max-queue-ms"));
    assert_string_equal(engine_limit(h.engine), "queue_time");
    assert_true(engine_retry_after_us(h.engine, 1, 1) > 0);
    by_hand_finish(&h);
    assert_int_equal(ask(&h, 40, 4, &err), STATUS_OK);
    assert_int_equal(ask(&h, 40, 5, &err), STATUS_OK);
    assert_int_equal(ask(&h, 40, 6, &err), STATUS_OVERLOADED);
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
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 1);
    engine_mailbox_drain(h.engine);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 1);
    assert_int_equal(ask(&h, 90, 2, &err), STATUS_OK);
    engine_cancel(h.engine, h.all[2]);
    engine_mailbox_drain(h.engine);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 1);
    assert_int_equal(h.all[2]->n_past, 0);
    by_hand_close(&h);
}

/* The owner cannot know all: of a text that begins like one under way it expects the whole blocks;
 * what the engine thread finds is the charge. */
static void the_engine_corrects_what_was_expected(void **state)
{
    (void)state;
    struct by_hand h;
    by_hand_open(&h, 60, &(struct engine_options){0});
    by_hand_submit(&h, by_hand_prompt(0, 96, 1, 4));
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 96);
    by_hand_submit(&h, by_hand_prompt(0, 96, 1, 4)); /* follows the first */
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 96 + 1);
    struct request_params p = by_hand_prompt(0, 100, 1, 4); /* its first 96 are the same */
    p.prompt[99] = (p.prompt[99] + 1) % FAKE_END;
    by_hand_submit(&h, p);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 96 + 1 + 4);
    engine_mailbox_drain(h.engine);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 96 + 1 + 4);
    engine_cancel(h.engine, h.all[0]); /* now the second has it all to compute */
    engine_mailbox_drain(h.engine);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 96 + 4);
    by_hand_close(&h);
}

/* What is dropped from the cache is charged again. Four blocks: the second prompt takes them all.
 */
static void what_was_dropped_is_charged(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    by_hand_open(&h, 8, &(struct engine_options){0});
    assert_int_equal(ask(&h, 100, 1, &err), STATUS_OK);
    by_hand_finish(&h);
    assert_int_equal(ask(&h, 250, 2, &err), STATUS_OK);
    by_hand_finish(&h);
    for (uint32_t i = 0; i < 2; i++) /* else it counts as under way */
        engine_release(h.engine, h.all[i]);
    h.n = 0;
    assert_int_equal(ask(&h, 100, 1, &err), STATUS_OK);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 100);
    by_hand_close(&h);
}

/* Each finds what the one before it computes, whether they are taken or refused. */
static void copies_of_a_prompt_are_charged_once(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    by_hand_open(&h, 60, &(struct engine_options){.max_queued_tokens = 200});
    assert_int_equal(ask(&h, 50, 1, &err), STATUS_OK);
    for (int32_t text = 2; text < 4; text++) {
        struct request_params p[8];
        for (uint32_t i = 0; i < 8; i++)
            p[i] = by_hand_prompt(0, 100, text, 4);
        enum status status = engine_submit_all(h.engine, p, 8, &h.all[h.n], &err);
        assert_int_equal(status, text == 2 ? STATUS_OK : STATUS_OVERLOADED);
        h.n += status == STATUS_OK ? 8 : 0;
        assert_int_equal(by_hand_stats(&h).backlog_tokens, 50 + 100 + 7);
        for (uint32_t i = 0; i < 8; i++)
            request_params_fini(&p[i]);
    }
    assert_non_null(strstr(err.text, "107")); /* not 800 */
    by_hand_close(&h);
}

/* The public part is found under every salt, and behind it what the salt itself computed. */
static void what_is_behind_the_public_part_is_the_salts(void **state)
{
    (void)state;
    struct by_hand h;
    static const struct {
        uint64_t salt;
        uint32_t charge;
    } asked[] = {{0, 160 - 64}, {0, 1}, {1, 160 - 64}, {1, 1}, {0, 1}};
    by_hand_open(&h, 60, &(struct engine_options){0});
    struct request_params p = by_hand_prompt(80, 80, 0, 1);
    p.salt = prefix_salt_public;
    by_hand_submit(&h, p);
    for (uint32_t i = 0; i < 5; i++) {
        by_hand_finish(&h);
        engine_release(h.engine, h.all[--h.n]); /* else it counts as under way */
        p = by_hand_prompt(80, 160, 1, 3);
        p.salt.word[0] = asked[i].salt;
        by_hand_submit(&h, p);
        assert_int_equal(by_hand_stats(&h).backlog_tokens, asked[i].charge);
    }
    by_hand_close(&h);
}

static uint64_t n_expected(const struct by_hand *h)
{
    const struct expected_cache *x = &h->engine->prefix.expect;
    uint64_t n = 0;
    for (uint64_t i = 0; i <= x->mask; i++)
        n += x->chains[i];
    return n;
}

/* Whichever is released first: until the last one is, the prompt is under way. */
static void copies_of_a_prompt_are_counted_once(void **state)
{
    (void)state;
    static const uint32_t orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};
    struct by_hand h;
    struct err err = {0};
    by_hand_open(&h, 60, &(struct engine_options){0});
    for (int32_t i = 0; i < 4; i++) {
        struct request_params p[5]; /* one text, three times the next, and the first again */
        for (int32_t j = 0; j < 5; j++)
            p[j] = by_hand_prompt(0, 100, 2 * i + (j > 0 && j < 4), 4);
        uint64_t before = n_expected(&h);
        assert_int_equal(engine_submit_all(h.engine, p, 5, h.all, &err), STATUS_OK);
        assert_int_equal(n_expected(&h) - before, 3 * 3);
        assert_int_equal(by_hand_stats(&h).backlog_tokens, 100 + (100 + 1 + 1) + 1);
        for (uint32_t j = 0; j < 5; j++)
            engine_cancel(h.engine, h.all[j]);
        by_hand_finish(&h);
        before = n_expected(&h);
        for (uint32_t j = 0; j < 3; j++) {
            engine_release(h.engine, h.all[1 + orders[i][j]]);
            assert_int_equal(before - n_expected(&h), j == 2 ? 3 : 0);
        }
        engine_release(h.engine, h.all[0]);
        engine_release(h.engine, h.all[4]);
        assert_int_equal(before - n_expected(&h), 3 * 3);
    }
    by_hand_close(&h);
}

static void what_is_refused_is_not_counted(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    by_hand_open(&h, 60, &(struct engine_options){.max_queued_tokens = 150});
    assert_int_equal(ask(&h, 50, 1, &err), STATUS_OK);
    struct request_params p[6];
    for (int32_t i = 0; i < 6; i++) /* three texts, two of each */
        p[i] = by_hand_prompt(0, 100, 2 + i / 2, 4);
    uint64_t before = n_expected(&h);
    assert_int_equal(engine_submit_all(h.engine, p, 6, &h.all[h.n], &err), STATUS_OVERLOADED);
    assert_non_null(strstr(err.text, "303"));
    assert_int_equal(n_expected(&h), before);
    for (uint32_t i = 0; i < 6; i++)
        request_params_fini(&p[i]);
    by_hand_close(&h);
}

/* Prompts whose rows are wanted are computed, whatever is cached. */
static void a_prompt_that_is_priced_is_charged_whole(void **state)
{
    (void)state;
    struct by_hand h;
    struct err err = {0};
    by_hand_open(&h, 60, &(struct engine_options){0});
    assert_int_equal(ask(&h, 96, 1, &err), STATUS_OK);
    by_hand_finish(&h);
    struct request_params p = by_hand_prompt(0, 96, 1, 4);
    p.logprobs = p.prompt_logprobs = true;
    by_hand_submit(&h, p);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 96);
    engine_mailbox_drain(h.engine);
    assert_int_equal(by_hand_stats(&h).backlog_tokens, 96);
    by_hand_close(&h);
}

/* --- the wait that is told ------------------------------------------------------------------ */

#define SECOND 1000000

/* A slow machine: 100 tokens are 2 s, in steps of 0.3 s. */
static void open_slow(struct by_hand *h, struct engine_options *o)
{
    o->max_step_prompt_tokens = 16;
    o->no_prefix_cache = true;
    by_hand_open(h, 200, o);
    h->clock.token_us = 20000;
    h->engine->cost.w[1] = 256 * 20;
}

static bool has_room(const struct by_hand *h, uint32_t n_prompt)
{
    struct request_params p = {.n_prompt = n_prompt};
    return h->engine->lists.of[REQUEST_FREE].n > 0 &&
           admission_check(h->engine, &p, 1, NULL) == STATUS_OK;
}

/* As it is told: in whole seconds, at least one. */
static int64_t whole_seconds(int64_t us)
{
    int64_t s = (us + SECOND - 1) / SECOND;
    return s > 0 ? s : 1;
}

static bool within_twice(int64_t a, int64_t b)
{
    return a <= 2 * b && b <= 2 * a;
}

/* Who has ended makes room. */
static void release_ended(struct by_hand *h)
{
    struct request *r;
    while ((r = engine_next_event(h->engine))) {
        struct request_news news;
        request_read(r, &news);
        if (news.finish != FINISH_NONE)
            engine_release(h->engine, r);
    }
}

static bool try(struct by_hand *h, struct random *random, uint32_t n_prompt)
{
    struct request_params p =
        by_hand_prompt(0, n_prompt, (int32_t)random_below(random, 20), 1 + random_below(random, 8));
    struct request *r;
    bool taken = engine_submit(h->engine, &p, &r, NULL) == STATUS_OK;
    request_params_fini(&p);
    return taken;
}

static void close_slow(struct by_hand *h)
{
    h->meanwhile = NULL;
    engine_close(h->engine);
    clock_simulate(NULL);
    fake_world_close(&h->world);
}

/* A crowd comes and fills the queue; then nobody does. The last one refused needs as long as it was
 * told, within a factor of two, and comes back to find room. When one more is admitted or ends is
 * a matter of chance, when so many tokens are computed is not: `right` is the share to ask for. */
static void after_a_crowd(struct engine_options *options, double right)
{
    struct by_hand h;
    struct random random = {7};
    uint32_t n_right = 0, n_room = 0;
    const uint32_t crowds = 60;
    open_slow(&h, options);
    h.meanwhile = release_ended;
    for (uint32_t i = 0; i < crowds; i++) {
        uint32_t n = 40 + random_below(&random, 121);
        for (uint32_t turns = random_below(&random, 20); turns > 0; turns--) {
            try(&h, &random, 40 + random_below(&random, 121));
            engine_thread_turn(h.engine);
        }
        while (try(&h, &random, n))
            ;
        int64_t start_us = h.clock.now_us, told_us = engine_retry_after_us(h.engine, 1, n);
        int64_t back_us = start_us + whole_seconds(told_us) * SECOND;
        while (!has_room(&h, n) && engine_thread_turn(h.engine))
            ;
        int64_t needed_s = whole_seconds(h.clock.now_us - start_us);
        n_right += within_twice(whole_seconds(told_us), needed_s);
        while (h.clock.now_us < back_us && engine_thread_turn(h.engine))
            ;
        n_room += start_us + needed_s * SECOND <= back_us || has_room(&h, n);
    }
    print_message("of %u, %u were told right and %u found room\n", crowds, n_right, n_room);
    assert_true(n_right >= right * crowds);
    assert_true(n_room >= 0.8 * crowds);
    close_slow(&h);
}

static void told_right_after_a_crowd_in_tokens(void **state)
{
    (void)state;
    after_a_crowd(&(struct engine_options){.max_queued_tokens = 600}, 0.95);
}

static void told_right_after_a_crowd_in_time(void **state)
{
    (void)state;
    after_a_crowd(&(struct engine_options){.max_queue_ms = 12000}, 0.95);
}

static void told_right_after_a_crowd_in_requests(void **state)
{
    (void)state;
    after_a_crowd(&(struct engine_options){.max_queued_requests = 4, .max_active = 2}, 0.66);
}

static void told_right_after_a_crowd_in_slots(void **state)
{
    (void)state;
    after_a_crowd(&(struct engine_options){.max_active = 4}, 0.66);
}

/* Five times as many come as can be served, for ten minutes. Each one refused looks after every
 * layer whether it would be taken now; those that come anew take the room before it. */
struct refused {
    int64_t at_us, told_us;
    bool done;
};

#define REFUSED 2000
#define TOKENS  100

struct overload {
    struct by_hand h; /* first: what `meanwhile` gets */
    struct random random;
    int64_t next_us;
    struct refused refused[REFUSED];
    uint32_t n_refused, n_taken, n_done, n_right;
};

static void arrive(struct overload *o)
{
    if (try(&o->h, &o->random, TOKENS)) {
        o->n_taken++;
        return;
    }
    assert_true(o->n_refused < REFUSED);
    o->refused[o->n_refused++] = (struct refused){
        .at_us = o->h.clock.now_us, .told_us = engine_retry_after_us(o->h.engine, 1, TOKENS)};
}

static void overloaded(struct by_hand *h)
{
    struct overload *o = (struct overload *)h;
    release_ended(h);
    bool room = has_room(h, TOKENS);
    for (uint32_t i = 0; room && i < o->n_refused; i++) {
        struct refused *r = &o->refused[i];
        if (r->done)
            continue;
        r->done = true;
        o->n_done++;
        o->n_right +=
            within_twice(whole_seconds(r->told_us), whole_seconds(h->clock.now_us - r->at_us));
    }
    for (; o->next_us <= h->clock.now_us; o->next_us += 2 * SECOND / 5)
        arrive(o);
}

static void told_right_under_overload(void **state)
{
    (void)state;
    struct overload *o = mem_zalloc(sizeof *o);
    open_slow(&o->h, &(struct engine_options){.max_queued_tokens = 600});
    o->h.meanwhile = overloaded;
    o->random.state = 7;
    o->next_us = o->h.clock.now_us;
    int64_t end_us = o->h.clock.now_us + INT64_C(600) * SECOND;
    overloaded(&o->h);
    while (o->h.clock.now_us < end_us)
        engine_thread_turn(o->h.engine);
    print_message("taken %u, refused %u; of %u, %u were told right\n", o->n_taken, o->n_refused,
                  o->n_done, o->n_right);
    assert_true(o->n_refused > 3 * o->n_taken);
    assert_true(o->n_done > 1000 && o->n_right * 10 > o->n_done * 9);
    close_slow(&o->h);
    mem_free(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_is_bounded_in_requests),
        cmocka_unit_test(the_queue_is_bounded_in_time),
        cmocka_unit_test(the_queue_is_bounded_in_tokens),
        cmocka_unit_test(several_at_once_are_charged_together),
        cmocka_unit_test(a_charge_is_what_is_still_to_be_computed),
        cmocka_unit_test(the_engine_corrects_what_was_expected),
        cmocka_unit_test(what_was_dropped_is_charged),
        cmocka_unit_test(copies_of_a_prompt_are_charged_once),
        cmocka_unit_test(what_is_behind_the_public_part_is_the_salts),
        cmocka_unit_test(copies_of_a_prompt_are_counted_once),
        cmocka_unit_test(what_is_refused_is_not_counted),
        cmocka_unit_test(a_prompt_that_is_priced_is_charged_whole),
        cmocka_unit_test(told_right_after_a_crowd_in_tokens),
        cmocka_unit_test(told_right_after_a_crowd_in_time),
        cmocka_unit_test(told_right_after_a_crowd_in_requests),
        cmocka_unit_test(told_right_after_a_crowd_in_slots),
        cmocka_unit_test(told_right_under_overload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
