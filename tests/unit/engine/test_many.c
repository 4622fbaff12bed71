/* Several answers at once, and what is told of each token: submission of all or none, choices,
 * log probabilities, the least number of tokens. */
#include "unit/engine/group_world.h"

#include <math.h>

static struct engine *open_slots_of(uint32_t n_slots)
{
    return fake_engine(&world, ENGINE_CONTINUOUS, 60, n_slots, 8, 64);
}

/* --- all or none ------------------------------------------------------------------------------ */

static void all_are_taken_or_none(void **state)
{
    (void)state;
    struct engine *e = open_slots_of(4);
    struct request_params p[4];
    struct request *r[4];
    struct err err = {0};
    struct request_params first[2] = {fake_params(1, 4, 4), fake_params(2, 4, 4)};
    struct request *running[2];
    assert_int_equal(engine_submit_all(e, first, 2, running, &err), STATUS_OK);
    assert_null(first[1].prompt);
    for (int i = 0; i < 3; i++)
        p[i] = fake_params(3 + i, 4, 4);
    assert_int_equal(engine_submit_all(e, p, 3, r, &err), STATUS_OVERLOADED);
    assert_non_null(strstr(err.text, "2 of 4"));
    for (int i = 0; i < 3; i++)
        assert_non_null(p[i].prompt);
    fake_finish(e, running, 2);
    engine_release(e, running[0]);
    assert_int_equal(engine_submit_all(e, p, 3, r, &err), STATUS_OK);
    fake_finish(e, r, 3);
    engine_release(e, running[1]);
    for (int i = 0; i < 3; i++) {
        fake_expect_tokens(r[i]);
        assert_int_equal(r[i]->params.prompt[0], 3 + i);
        engine_release(e, r[i]);
    }
    engine_close(e);
}

static void a_bad_one_refuses_all(void **state)
{
    (void)state;
    struct engine *e = open_slots_of(4);
    struct request_params p[2] = {fake_params(1, 4, 4), fake_params(2, 4, 4)};
    struct request *r[2];
    struct err err = {0};
    p[1].sampling.top_p = 0;
    assert_int_equal(engine_submit_all(e, p, 2, r, &err), STATUS_INVALID);
    assert_string_equal(err.param, "top_p");
    p[1].sampling.top_p = 1;
    assert_int_equal(engine_submit_all(e, p, 2, r, &err), STATUS_OK);
    fake_finish(e, r, 2);
    engine_release(e, r[0]);
    engine_release(e, r[1]);
    engine_close(e);
}

/* Whoever comes later with the same prompt finds it in the cache. */
static void a_prompt_is_computed_once(void **state)
{
    (void)state;
    struct engine *e = open_slots_of(8);
    struct request_params p[5];
    struct request *r[5];
    for (int i = 0; i < 5; i++)
        p[i] = fake_params(9, 100, 10);
    assert_int_equal(engine_submit_all(e, p, 5, r, NULL), STATUS_OK);
    fake_finish(e, r, 5);
    assert_int_equal(request_cached_tokens(r[0]), 0);
    for (int i = 1; i < 5; i++)
        assert_int_equal(request_cached_tokens(r[i]), 99);
    for (int i = 0; i < 5; i++) {
        fake_expect_tokens(r[i]);
        engine_release(e, r[i]);
    }
    engine_close(e);
}

/* --- choices ---------------------------------------------------------------------------------- */

static void draw(struct engine *e, uint64_t seed, uint32_t first, uint32_t n, int32_t (*out)[40])
{
    struct request_params p[8];
    struct request *r[8];
    for (uint32_t i = 0; i < n; i++) {
        p[i] = fake_params(1, 5, 40);
        p[i].ignore_eos = true;
        p[i].sampling.temperature = 2;
        p[i].sampling.top_k = 0; /* any token may come */
        p[i].sampling.top_p = 1;
        p[i].sampling.min_p = 0;
        p[i].sampling.has_seed = true;
        p[i].sampling.seed = seed;
        p[i].sampling.choice = first + i;
    }
    assert_int_equal(engine_submit_all(e, p, n, r, NULL), STATUS_OK);
    fake_finish(e, r, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(r[i]->n_tokens, 40);
        memcpy(out[i], r[i]->tokens, sizeof *out);
        engine_release(e, r[i]);
    }
}

static void choices_differ_and_come_again(void **state)
{
    (void)state;
    struct engine *e = open_slots_of(16);
    int32_t many[8][40], alone[1][40], other[1][40];
    draw(e, 5, 0, 8, many);
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(many[i], many[k], sizeof *many);
    for (uint32_t i = 0; i < 8; i++) {
        draw(e, 5, i, 1, alone);
        assert_memory_equal(alone, many[i], sizeof *many);
    }
    draw(e, 6, 0, 1, other);
    assert_memory_not_equal(other, many[0], sizeof *many);
    engine_close(e);
}

/* --- log probabilities ------------------------------------------------------------------------ */

/* The script's row: its choice has 10, the others 0. */
static void rows_come_with_their_tokens(void **state)
{
    (void)state;
    struct engine *e = open_slots_of(4);
    struct request_params p = fake_params(7, 3, 50);
    p.logprobs = true;
    p.top_logprobs = 3;
    struct request *r = fake_submit(e, &p);
    fake_finish(e, &r, 1);
    fake_expect_tokens(r);
    struct request_news all;
    request_all(r, &all);
    double whole = log(exp(10) + FAKE_VOCAB - 1);
    assert_int_equal(all.logprobs_width, 4);
    size_t text = 0;
    for (uint32_t i = 0; i < all.n_tokens; i++) {
        const struct token_logprob *row = all.logprobs + (size_t)i * all.logprobs_width;
        assert_int_equal(row[0].token, all.tokens[i]);
        assert_int_equal(row[1].token, all.tokens[i]);
        assert_float_equal(row[0].logprob, 10 - whole, 1e-5);
        assert_float_equal(row[3].logprob, -whole, 1e-5);
        assert_true(row[2].token < row[3].token);
        assert_true(all.text_before[i] >= text && all.text_before[i] <= all.text_len);
        text = all.text_before[i];
    }
    assert_int_equal(all.text_before[0], 0);
    engine_release(e, r);
    p = fake_params(7, 3, 5);
    r = fake_submit(e, &p);
    fake_finish(e, &r, 1);
    request_all(r, &all);
    assert_null(all.logprobs);
    engine_release(e, r);
    engine_close(e);
}

static void what_is_read_in_parts_is_the_whole(void **state)
{
    (void)state;
    struct engine *e = open_slots_of(4);
    struct request_params p = fake_params(7, 3, 100);
    p.logprobs = true;
    struct request *r = fake_submit(e, &p);
    uint32_t at = 0;
    while (!r->finished) {
        engine_wait(e);
        while (engine_next_event(e)) {
            struct request_news news;
            request_read(r, &news);
            assert_int_equal(news.logprobs_width, 1);
            for (uint32_t i = 0; i < news.n_tokens; i++)
                assert_int_equal(news.logprobs[i].token, news.tokens[i]);
            assert_ptr_equal(news.logprobs, r->logprobs.rows + at);
            assert_ptr_equal(news.text_before, r->logprobs.text_before + at);
            at += news.n_tokens;
        }
    }
    assert_int_equal(at, 100);
    engine_release(e, r);
    engine_close(e);
}

/* However long the prompt, how many neighbours it has and what is cached of it. */
static void a_prompt_has_rows_too(void **state)
{
    (void)state;
    struct engine *e = open_slots_of(8);
    for (uint32_t round = 0; round < 4; round++) {
        struct request_params p[5];
        struct request *r[5];
        uint32_t n = 1 + 70 * round;
        for (uint32_t i = 0; i < 5; i++) {
            p[i] = fake_params(7, n, 10);
            p[i].logprobs = p[i].prompt_logprobs = i % 2 == 0;
            p[i].top_logprobs = 1;
        }
        assert_int_equal(engine_submit_all(e, p, 5, r, NULL), STATUS_OK);
        fake_finish(e, r, 5);
        for (uint32_t i = 0; i < 5; i++) {
            struct request_news all;
            request_all(r[i], &all);
            fake_expect_tokens(r[i]);
            for (uint32_t k = 1; all.prompt_logprobs && k < n; k++) {
                const struct token_logprob *row = all.prompt_logprobs + (size_t)2 * k;
                assert_int_equal(row[0].token, r[i]->params.prompt[k]);
                assert_int_equal(row[1].token, fake_next(r[i]->params.prompt, k, k - 1));
                assert_true(row[0].logprob <= row[1].logprob && row[1].logprob < 0);
            }
            assert_int_equal(all.prompt_logprobs != NULL, i % 2 == 0);
            if (i % 2 == 0)
                assert_int_equal(request_cached_tokens(r[i]), 0);
            engine_release(e, r[i]);
        }
    }
    engine_close(e);
}

/* --- the least number of tokens --------------------------------------------------------------- */

static uint32_t tokens_of(struct engine *e, uint32_t min_tokens, const char *stop, char *text)
{
    struct request_params p = fake_params(FAKE_ENDS, 1, 60);
    p.min_tokens = min_tokens;
    if (stop)
        p.stop[p.n_stop++] = mem_strdup(stop);
    struct request *r = fake_submit(e, &p);
    fake_finish(e, &r, 1);
    struct request_news all;
    request_all(r, &all);
    for (uint32_t i = 0; i < all.n_tokens && i < min_tokens; i++)
        assert_int_not_equal(all.tokens[i], FAKE_END);
    if (text) {
        memcpy(text, all.text, all.text_len);
        text[all.text_len] = '\0';
    }
    uint32_t n = all.n_tokens;
    engine_release(e, r);
    return n;
}

static void no_end_before_min_tokens(void **state)
{
    (void)state;
    struct engine *e = open_slots_of(4);
    assert_int_equal(tokens_of(e, 0, NULL, NULL), 4);
    assert_int_equal(tokens_of(e, 3, NULL, NULL), 4);
    assert_int_equal(tokens_of(e, 4, NULL, NULL), 60); /* its one end token was forbidden */
    engine_close(e);
}

static void no_stop_string_before_min_tokens(void **state)
{
    (void)state;
    struct engine *e = open_slots_of(4);
    char full[512], cut[512], stop[2] = "";
    assert_int_equal(tokens_of(e, 10, NULL, full), 60);
    stop[0] = full[0];
    assert_int_equal(tokens_of(e, 0, stop, cut), 1);
    assert_string_equal(cut, "");
    uint32_t n = tokens_of(e, 10, stop, cut);
    assert_true(n >= 10);
    if (n < 60)
        assert_int_equal(full[strlen(cut)], stop[0]);
    assert_memory_equal(cut, full, strlen(cut));
    assert_true(strlen(cut) >= 9);
    engine_close(e);
}

static void refuses_what_cannot_be(void **state)
{
    (void)state;
    struct engine *e = open_slots_of(4);
    struct request *none;
    struct err err = {0};
    struct request_params p = fake_params(1, 1, 5);
    p.min_tokens = 6;
    assert_int_equal(engine_submit(e, &p, &none, &err), STATUS_INVALID);
    assert_string_equal(err.param, "min_tokens");
    p.min_tokens = 5;
    p.top_logprobs = LIMIT_TOP_LOGPROBS + 1;
    assert_int_equal(engine_submit(e, &p, &none, &err), STATUS_INVALID);
    assert_string_equal(err.param, "top_logprobs");
    request_params_fini(&p);
    engine_close(e);
}

static void a_copy_owns_what_it_has(void **state)
{
    (void)state;
    struct request_params p = fake_params(1, 3, 5), copy;
    static const int32_t prompt[] = {4, 5};
    p.stop[p.n_stop++] = mem_strdup("x");
    p.sampling.bias = mem_array(1, sizeof *p.sampling.bias);
    p.sampling.bias[p.sampling.n_bias++] = (struct logit_bias){3, 1.5f};
    assert_int_equal(request_params_copy(&copy, &p, prompt, 2, NULL), STATUS_OK);
    request_params_fini(&p);
    assert_int_equal(copy.n_prompt, 2);
    assert_int_equal(copy.prompt[1], 5);
    assert_string_equal(copy.stop[0], "x");
    assert_int_equal(copy.sampling.bias[0].token, 3);
    assert_int_equal(copy.max_tokens, 5);
    request_params_fini(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_taken_or_none),
        cmocka_unit_test(a_bad_one_refuses_all),
        cmocka_unit_test(a_prompt_is_computed_once),
        cmocka_unit_test(choices_differ_and_come_again),
        cmocka_unit_test(rows_come_with_their_tokens),
        cmocka_unit_test(what_is_read_in_parts_is_the_whole),
        cmocka_unit_test(a_prompt_has_rows_too),
        cmocka_unit_test(no_end_before_min_tokens),
        cmocka_unit_test(no_stop_string_before_min_tokens),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(a_copy_owns_what_it_has),
    };
    return cmocka_run_group_tests_name("many", tests, open_world, close_world);
}
