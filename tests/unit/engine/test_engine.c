/* The whole engine on a scripted backend: batches, events, ends, refusals, the blocking mode. */
#include "unit/engine/group_world.h"

#include "text/tokenizer/detok.h"

#include <unistd.h>

static struct engine *open_default(void)
{
    return fake_engine(&world, ENGINE_CONTINUOUS, 40, 16, 8, 64);
}

static enum finish_reason run_to_end(struct engine *e, struct request *r)
{
    fake_finish(e, &r, 1);
    fake_expect_tokens(r);
    return r->finish;
}

static void one_request(void **state)
{
    (void)state;
    struct engine *e = open_default();
    struct request_params p = fake_params(1, 40, 30);
    int tag;
    p.user = &tag;
    struct request *r = fake_submit(e, &p);
    assert_null(p.prompt); /* taken */
    assert_int_equal(run_to_end(e, r), FINISH_LENGTH);
    struct request_news all;
    request_all(r, &all);
    assert_int_equal(all.n_tokens, 30);
    assert_ptr_equal(request_user(r), &tag);
    assert_int_equal(request_prompt_tokens(r), 40);
    const struct timeline *t = request_timeline(r);
    for (int s = TIMELINE_QUEUED; s < TIMELINE_FIRST_TOKEN; s++)
        assert_true(t->at_us[s] > 0 && t->at_us[s] <= t->at_us[s + 1]);
    assert_true(t->at_us[TIMELINE_FIRST_TOKEN] <= t->at_us[TIMELINE_FINISHED]);
    engine_release(e, r);
    struct engine_stats stats;
    engine_stats(e, &stats);
    assert_int_equal(stats.prompt_tokens, 40);
    assert_int_equal(stats.generated_tokens, 30);
    assert_int_equal(stats.finished, 1);
    assert_int_equal(stats.steps, 30);
    assert_int_equal(stats.kv_blocks_free, stats.kv_blocks_total);
    engine_close(e);
}

static void news_are_told_once_and_in_order(void **state)
{
    (void)state;
    struct engine *e = open_default();
    struct request_params p = fake_params(2, 5, 100);
    struct request *r = fake_submit(e, &p);
    struct request_news news = {0}, all;
    char text[4096];
    uint32_t tokens = 0;
    size_t len = 0;
    while (news.finish == FINISH_NONE) {
        engine_wait(e);
        while (engine_next_event(e)) {
            request_read(r, &news);
            memcpy(text + len, news.text, news.text_len);
            len += news.text_len;
            tokens += news.n_tokens;
        }
    }
    request_all(r, &all);
    assert_int_equal(tokens, 100);
    assert_int_equal(len, all.text_len);
    assert_memory_equal(text, all.text, len);
    engine_release(e, r);
    engine_close(e);
}

static void an_end_token_ends_unless_ignored(void **state)
{
    (void)state;
    struct engine *e = open_default();
    for (int ignore = 0; ignore < 2; ignore++) {
        struct request_params p = fake_params(FAKE_ENDS, 1, 10);
        p.ignore_eos = ignore;
        struct request *r = fake_submit(e, &p);
        assert_int_equal(run_to_end(e, r), ignore ? FINISH_LENGTH : FINISH_STOP);
        struct request_news all;
        request_all(r, &all);
        assert_int_equal(all.n_tokens, ignore ? 10 : 4);
        assert_int_equal(all.tokens[3], FAKE_END);
        assert_null(memchr(all.text, '<', all.text_len)); /* control tokens give no text */
        engine_release(e, r);
    }
    engine_close(e);
}

static void max_tokens_is_cut_to_the_context(void **state)
{
    (void)state;
    struct engine *e = open_default();
    static const uint32_t asked[] = {0, 1000, 20};
    static const uint32_t expected[] = {56, 56, 20};
    for (int i = 0; i < 3; i++) {
        struct request_params p = fake_params(3, 200, asked[i]);
        struct request *r = fake_submit(e, &p);
        assert_int_equal(run_to_end(e, r), FINISH_LENGTH);
        assert_int_equal(r->n_tokens, expected[i]);
        engine_release(e, r);
    }
    engine_close(e);
}

static void many_share_steps_and_none_disturbs_another(void **state)
{
    (void)state;
    enum { N = 16 };
    const struct engine_options options = {
        .n_threads = 1,
        .kv_type = KV_F32,
        .n_ctx = FAKE_CTX,
        .kv_memory = 40 * model_kv_block_bytes(&world.model.config, KV_F32),
        .n_slots = 16,
        .max_batch_seqs = 8,
        .max_batch_tokens = 64,
        .policy = "fifo",
    };
    struct engine *e = fake_open_engine(&world, ENGINE_CONTINUOUS, &options);
    struct request *r[N];
    int64_t last = 0;
    atomic_store(&fake_last->hold, true); /* so that they arrive while the first one runs */
    for (int i = 0; i < N; i++) {
        struct request_params p = fake_params(5 + i, (uint32_t)(1 + i * 37 % 90), 20);
        r[i] = fake_submit(e, &p);
    }
    atomic_store(&fake_last->hold, false);
    fake_finish(e, r, N);
    assert_int_equal(atomic_load(&fake_last->max_seqs), 8);
    assert_true(atomic_load(&fake_last->mixed) > 0);
    for (int i = 0; i < N; i++) {
        fake_expect_tokens(r[i]);
        assert_int_equal(r[i]->n_tokens, 20);
        assert_true(r[i]->params.timeline.at_us[TIMELINE_ADMITTED] >= last); /* first come ... */
        last = r[i]->params.timeline.at_us[TIMELINE_ADMITTED];
        engine_release(e, r[i]);
    }
    engine_close(e);
}

static void a_step_takes_no_more_of_prompts_than_asked_for(void **state)
{
    (void)state;
    enum { N = 8 };
    const struct engine_options options = {
        .n_threads = 1,
        .kv_type = KV_F32,
        .kv_memory = 64 * model_kv_block_bytes(&world.model.config, KV_F32),
        .n_slots = N,
        .max_batch_seqs = N,
        .max_batch_tokens = 64,
        .max_step_prompts = 2,
        .max_step_prompt_tokens = 12,
    };
    struct engine *e = fake_open_engine(&world, ENGINE_CONTINUOUS, &options);
    struct request *r[N];
    for (int i = 0; i < N; i++) {
        struct request_params p = fake_params(5 + i, 8, 20);
        r[i] = fake_submit(e, &p);
    }
    fake_finish(e, r, N);
    assert_true(atomic_load(&fake_last->most_prompts) <= 2);
    assert_true(atomic_load(&fake_last->most_prompt_tokens) <= 12);
    for (int i = 0; i < N; i++) {
        fake_expect_tokens(r[i]);
        engine_release(e, r[i]);
    }
    engine_close(e);
}

static void refuses_when_slots_are_taken(void **state)
{
    (void)state;
    struct engine *e = fake_engine(&world, ENGINE_CONTINUOUS, 40, 2, 2, 64);
    struct request *r[2], *none;
    struct err err = {0};
    for (int i = 0; i < 2; i++) {
        struct request_params p = fake_params(1, 4, 4);
        r[i] = fake_submit(e, &p);
    }
    struct request_params p = fake_params(1, 4, 4);
    assert_int_equal(engine_submit(e, &p, &none, &err), STATUS_OVERLOADED);
    assert_non_null(p.prompt); /* untouched */
    fake_finish(e, r, 2);
    engine_release(e, r[1]);
    r[1] = fake_submit(e, &p);
    fake_finish(e, &r[1], 1);
    engine_release(e, r[0]);
    engine_release(e, r[1]);
    engine_close(e);
}

static void a_draining_engine_finishes_and_refuses(void **state)
{
    (void)state;
    struct engine *e = open_default();
    struct request_params p = fake_params(1, 4, 50);
    struct request *r = fake_submit(e, &p), *none;
    engine_drain(e);
    p = fake_params(1, 4, 50);
    assert_int_equal(engine_submit(e, &p, &none, NULL), STATUS_UNAVAILABLE);
    request_params_fini(&p);
    assert_int_equal(run_to_end(e, r), FINISH_LENGTH);
    engine_release(e, r);
    engine_close(e);
}

static void expect_invalid(struct engine *e, struct request_params *p, const char *param)
{
    struct err err = {0};
    struct request *none;
    assert_int_equal(engine_submit(e, p, &none, &err), STATUS_INVALID);
    assert_string_equal(err.param, param);
    request_params_fini(p);
}

static void names_a_bad_parameter(void **state)
{
    (void)state;
    struct engine *e = open_default();
    struct request_params p = fake_params(1, 256, 1);
    expect_invalid(e, &p, "prompt");
    p = fake_params(1, 1, 1);
    p.n_prompt = 0;
    expect_invalid(e, &p, "prompt");
    p = fake_params(FAKE_VOCAB, 1, 1);
    expect_invalid(e, &p, "prompt");
    p = fake_params(-1, 1, 1);
    expect_invalid(e, &p, "prompt");
    p = fake_params(1, 1, 1);
    p.stop[p.n_stop++] = mem_strdup("");
    expect_invalid(e, &p, "stop");
    p = fake_params(1, 1, 1);
    p.stop[p.n_stop++] = mem_strdup("\x80");
    expect_invalid(e, &p, "stop");
    p = fake_params(1, 1, 1);
    p.sampling.temperature = 3;
    expect_invalid(e, &p, "temperature");
    engine_close(e);
}

static void logits_that_are_not_finite_end_one_request(void **state)
{
    (void)state;
    struct engine *e = open_default();
    struct request_params p = fake_params(FAKE_NAN, 10, 20);
    struct request *r[2] = {fake_submit(e, &p)};
    p = fake_params(1, 10, 20);
    r[1] = fake_submit(e, &p);
    fake_finish(e, r, 2);
    assert_int_equal(r[0]->finish, FINISH_ERROR);
    assert_int_equal(r[0]->n_tokens, 0);
    assert_int_equal(r[1]->finish, FINISH_LENGTH);
    fake_expect_tokens(r[1]);
    engine_release(e, r[0]);
    engine_release(e, r[1]);
    engine_close(e);
}

/* --- text and stop strings -------------------------------------------------------------------- */

/* The text of one request, into out; the reason it ended. */
static enum finish_reason text_of(struct engine *e, int32_t first, const char *stop, char *out)
{
    struct request_params p = fake_params(first, 3, 60);
    if (stop)
        p.stop[p.n_stop++] = mem_strdup(stop);
    struct request *r = fake_submit(e, &p);
    size_t len = 0;
    while (!r->finished) {
        struct request_news news;
        engine_wait(e);
        while (engine_next_event(e)) {
            request_read(r, &news);
            memcpy(out + len, news.text, news.text_len);
            len += news.text_len;
        }
    }
    out[len] = '\0';
    enum finish_reason reason = r->finish;
    engine_release(e, r);
    return reason;
}

static void a_stop_string_cuts_the_text(void **state)
{
    (void)state;
    struct engine *e = open_default();
    char full[1024], cut[1024], stop[16];
    for (int round = 0; round < 100; round++) {
        int32_t first = 5 + round % 20;
        text_of(e, first, NULL, full);
        size_t len = strlen(full), at = (size_t)round * 13 % (len - 8),
               size = 1 + (size_t)round % 6;
        while (((unsigned char)full[at] & 0xc0) == 0x80)
            at++;
        memcpy(stop, full + at, size);
        stop[size] = '\0';
        assert_int_equal(text_of(e, first, stop, cut), FINISH_STOP);
        size_t expected = (size_t)(strstr(full, stop) - full);
        assert_int_equal(strlen(cut), expected);
        assert_memory_equal(cut, full, expected);
    }
    assert_int_equal(text_of(e, 1, "never in it", cut), FINISH_LENGTH);
    text_of(e, 1, NULL, full);
    assert_string_equal(cut, full);
    engine_close(e);
}

static void text_is_the_detokenized_tokens(void **state)
{
    (void)state;
    struct engine *e = open_default();
    struct request_params p = fake_params(7, 3, 200);
    struct request *r = fake_submit(e, &p);
    run_to_end(e, r);
    struct request_news all;
    request_all(r, &all);
    struct detok detok = {0};
    char text[4096];
    size_t len = 0;
    for (uint32_t i = 0; i < all.n_tokens; i++) {
        size_t n;
        const char *piece = tokenizer_piece(world.tokenizer, all.tokens[i], &n);
        len += detok_push(&detok, piece, n, text + len);
    }
    assert_int_equal(len, all.text_len);
    assert_memory_equal(text, all.text, len);
    engine_release(e, r);
    engine_close(e);
}

/* --- sampling, modes, start and end ----------------------------------------------------------- */

static void a_seed_gives_the_same_in_any_company(void **state)
{
    (void)state;
    struct engine *e = open_default();
    int32_t alone[40];
    for (int round = 0; round < 3; round++) {
        struct request *r[5] = {0};
        for (int i = 0; i < 1 + 2 * round; i++) {
            struct request_params p = fake_params(i == 0 ? 1 : 6 + i, 5, 40);
            p.sampling.temperature = 2;
            p.sampling.has_seed = i == 0;
            p.sampling.seed = 99;
            p.sampling.repetition_penalty = 1.1f;
            p.sampling.frequency_penalty = 0.1f;
            r[i] = fake_submit(e, &p);
        }
        fake_finish(e, r, (uint32_t)(1 + 2 * round));
        if (round == 0)
            memcpy(alone, r[0]->tokens, sizeof alone);
        assert_memory_equal(alone, r[0]->tokens, r[0]->n_tokens * sizeof *alone);
        for (int i = 0; i < 1 + 2 * round; i++)
            engine_release(e, r[i]);
    }
    engine_close(e);
}

static void sync_mode_runs_one_at_a_time_and_tells_all_at_once(void **state)
{
    (void)state;
    struct engine *e = fake_engine(&world, ENGINE_SYNC, 40, 16, 8, 64);
    struct request *r[4], *event;
    for (int i = 0; i < 4; i++) {
        struct request_params p = fake_params(i, 10, 10);
        p.ignore_eos = true;
        r[i] = fake_submit(e, &p);
    }
    for (int finished = 0; finished < 4;) {
        engine_wait(e);
        while ((event = engine_next_event(e))) {
            struct request_news news;
            request_read(event, &news);
            assert_ptr_equal(event, r[finished]); /* one event each, in order */
            assert_int_equal(news.finish, FINISH_LENGTH);
            assert_int_equal(news.n_tokens, 10);
            fake_expect_tokens(event);
            finished++;
        }
    }
    assert_int_equal(atomic_load(&fake_last->max_seqs), 1);
    for (int i = 0; i < 4; i++)
        engine_release(e, r[i]);
    engine_close(e);
}

static void warming_up_leaves_no_trace(void **state)
{
    (void)state;
    struct engine *e = open_default();
    struct engine_stats stats;
    assert_int_equal(engine_warm(e, NULL, 0, NULL), STATUS_OK);
    engine_stats(e, &stats);
    stats.busy_us = 0; /* of the last step it may be counted a moment later */
#define X(name) assert_int_equal(stats.name, 0);
    ENGINE_COUNTERS(X)
#undef X
    assert_int_equal(stats.kv_blocks_free, stats.kv_blocks_total);
    assert_true(atomic_load(&fake_last->max_seqs) > 0);
    engine_close(e);
}

static void closing_ends_whatever_runs(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        struct engine *e = open_default();
        for (int i = 0; i < 12; i++) {
            struct request_params p = fake_params(i, 30, 100);
            fake_submit(e, &p);
        }
        if (round % 2)
            usleep((useconds_t)(round * 20));
        engine_close(e);
    }
}

static void tells_what_was_sized(void **state)
{
    (void)state;
    struct engine *e = fake_engine(&world, ENGINE_CONTINUOUS, 4, 3, 100, 64);
    struct engine_info info;
    engine_info(e, &info);
    assert_int_equal(info.n_ctx, 128); /* four blocks */
    assert_int_equal(info.n_kv_blocks, 4);
    assert_int_equal(info.n_slots, 3);
    assert_true(info.slots_memory > 0);
    engine_close(e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_request),
        cmocka_unit_test(news_are_told_once_and_in_order),
        cmocka_unit_test(an_end_token_ends_unless_ignored),
        cmocka_unit_test(max_tokens_is_cut_to_the_context),
        cmocka_unit_test(many_share_steps_and_none_disturbs_another),
        cmocka_unit_test(a_step_takes_no_more_of_prompts_than_asked_for),
        cmocka_unit_test(refuses_when_slots_are_taken),
        cmocka_unit_test(a_draining_engine_finishes_and_refuses),
        cmocka_unit_test(names_a_bad_parameter),
        cmocka_unit_test(logits_that_are_not_finite_end_one_request),
        cmocka_unit_test(a_stop_string_cuts_the_text),
        cmocka_unit_test(text_is_the_detokenized_tokens),
        cmocka_unit_test(a_seed_gives_the_same_in_any_company),
        cmocka_unit_test(sync_mode_runs_one_at_a_time_and_tells_all_at_once),
        cmocka_unit_test(warming_up_leaves_no_trace),
        cmocka_unit_test(closing_ends_whatever_runs),
        cmocka_unit_test(tells_what_was_sized),
    };
    return cmocka_run_group_tests_name("engine", tests, open_world, close_world);
}
