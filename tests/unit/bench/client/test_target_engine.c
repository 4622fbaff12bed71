/* An engine of this process as a target: on the scripted backend, and whole on a tiny model. */
#include "bench/client/target_open.h"
#include "unit/engine/fake_backend.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "bench/client/target_engine.h"
#include "bench/load/load.h"
#include "support/byte_vocab.h"
#include "support/tiny_model.h"
#include "text/template/template.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ITEM(text, ...) (&(struct work_item){.prompt = (char[]){text}, __VA_ARGS__})
#define LONG_US         600000000 /* no test comes near it: a poll ends because something came */

/* The real clock, but no two stamps are the same, so that stamps can be told apart: the library's
 * functions are not linked. */
int64_t clock_now_us(void)
{
    static atomic_llong last;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    long long before = atomic_load(&last), now;
    do {
        now = (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
        now = now > before ? now : before + 1;
    } while (!atomic_compare_exchange_weak(&last, &before, now));
    return now;
}

int64_t clock_now_ns(void)
{
    return clock_now_us() * 1000;
}

int64_t clock_unix_s(void)
{
    return time(NULL);
}

static struct fake_world world;
static struct loader loader;
static struct target *target;
static struct engine *engine;

static int open_world(void **state)
{
    static const char source[] = "<|im_start|>{{ messages[0].content }}<|im_end|>";
    (void)state;
    fake_world_open(&world);
    loader = (struct loader){.tokenizer = world.tokenizer, .name = "fake"};
    return template_compile(&loader.chat_template, source, strlen(source), NULL);
}

static int close_world(void **state)
{
    (void)state;
    template_free(loader.chat_template);
    fake_world_close(&world);
    return 0;
}

static void wrap(enum engine_mode mode, uint32_t n_slots)
{
    engine = fake_engine(&world, mode, 80, n_slots, 8, 64);
    assert_int_equal(target_engine_wrap(&target, &loader, engine, "scripted", NULL), STATUS_OK);
}

static int open_target(void **state)
{
    (void)state;
    wrap(ENGINE_CONTINUOUS, 16);
    return 0;
}

static int close_target(void **state)
{
    (void)state;
    target->ops->close(target);
    return 0;
}

static void send(const struct work_item *item, struct record *r)
{
    record_init(r);
    target->ops->send(target, item, r);
}

static void wait_for(const struct record *r, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        while (!record_has_ended(&r[i]))
            target->ops->poll(target, clock_now_us() + LONG_US);
}

static void check_stamps(const struct record *r)
{
    assert_true(r->sent_us > 0 && r->sent_us <= r->accepted_us);
    assert_true(r->accepted_us <= r->first_us && r->first_us <= r->end_us);
    assert_int_equal(r->first_us, r->chunk_us[0]);
    for (uint32_t i = 1; i < r->n_chunks; i++)
        assert_true(r->chunk_us[i] >= r->chunk_us[i - 1]);
    assert_true(r->chunk_us[r->n_chunks - 1] <= r->end_us);
}

/* The parts are of the same clock and the same stamps as the record's. */
static void check_ttft(const struct record *r)
{
    const struct timeline_ttft *t = &r->ttft;
    assert_true(r->has_ttft);
    assert_int_equal(t->total_us, r->first_us - r->sent_us);
    assert_int_equal(t->receive_us + t->tokenize_us + t->submit_us + t->queue_us + t->cache_us +
                         t->prefill_us + t->decode_us + t->first_write_us,
                     t->total_us);
    assert_true(t->tokenize_us >= 0 && t->queue_us >= 0 && t->prefill_us >= 0);
    assert_true(r->server_ttft_ms == (double)t->total_us / 1000);
    assert_true(r->server_queue_ms == (double)t->queue_us / 1000);
    assert_true(r->server_ttft_ms == record_ttft_ms(r));
}

static void a_streamed_answer(void **state)
{
    (void)state;
    struct record r;
    send(ITEM("abc d", .max_tokens = 30, .stream = true), &r);
    assert_int_equal(r.state, RECORD_RUNNING);
    wait_for(&r, 1);
    assert_int_equal(r.state, RECORD_OK);
    assert_string_equal(r.finish, "length");
    assert_int_equal(r.prompt_tokens, 4); /* "ab" is one */
    assert_int_equal(r.completion_tokens, 30);
    assert_true(r.n_chunks >= 1 && r.n_chunks <= 30);
    assert_int_equal(r.cached_tokens, 0);
    assert_int_equal(r.http_status, 0);
    assert_null(r.user);
    check_stamps(&r);
    check_ttft(&r);
    record_fini(&r);
}

static void an_unstreamed_answer_is_one_chunk_at_its_end(void **state)
{
    (void)state;
    struct record r;
    send(ITEM("abc d", .max_tokens = 30), &r);
    wait_for(&r, 1);
    assert_int_equal(r.state, RECORD_OK);
    assert_int_equal(r.completion_tokens, 30);
    assert_int_equal(r.n_chunks, 1);
    assert_int_equal(r.first_us, r.end_us);
    assert_true(r.ttft.decode_us > 0); /* 29 tokens come after the first */
    check_stamps(&r);
    check_ttft(&r);
    record_fini(&r);
}

static void the_blocking_engine_gives_one_chunk_too(void **state)
{
    (void)state;
    struct record r[3];
    wrap(ENGINE_SYNC, 4);
    for (int i = 0; i < 3; i++)
        send(ITEM("abc d", .max_tokens = 10, .stream = true), &r[i]);
    wait_for(r, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(r[i].n_chunks, 1);
        assert_int_equal(r[i].completion_tokens, 10);
        check_ttft(&r[i]);
        record_fini(&r[i]);
    }
    target->ops->close(target);
}

static void the_end_of_text_ends_unless_ignored(void **state)
{
    (void)state;
    for (int ignore = 0; ignore < 2; ignore++) {
        struct record r; /* 'e' is FAKE_ENDS */
        send(ITEM("e", .max_tokens = 10, .ignore_eos = ignore), &r);
        wait_for(&r, 1);
        assert_string_equal(r.finish, ignore ? "length" : "stop");
        assert_int_equal(r.completion_tokens, ignore ? 10 : 4);
        record_fini(&r);
    }
}

/* What the request has is what the fake backend's rule gives for the likeliest tokens. */
static void answers_are_greedy(void **state)
{
    (void)state;
    struct record r;
    send(ITEM("greedy", .max_tokens = 40), &r);
    struct request *request = engine->slots; /* the only one */
    while (request->params.n_prompt == 0)
        request++;
    assert_true(request->params.sampling.temperature == 0);
    fake_finish(engine, &request, 1); /* before the target sees the end */
    fake_expect_tokens(request);
    record_fini(&r);
}

static void a_chat_goes_through_the_template(void **state)
{
    (void)state;
    struct record r;
    send(ITEM("hello", .max_tokens = 5, .chat = true), &r);
    wait_for(&r, 1);
    assert_int_equal(r.state, RECORD_OK);
    assert_int_equal(r.prompt_tokens, 5 + 2);
    record_fini(&r);
}

static void expect_failure(const struct work_item *item, const char *words)
{
    struct record r;
    send(item, &r);
    wait_for(&r, 1);
    assert_int_equal(r.state, RECORD_FAILED);
    assert_true(r.sent_us > 0 && r.end_us >= r.sent_us && r.first_us == 0);
    assert_false(r.has_ttft);
    if (!strstr(r.error, words))
        fail_msg("expected \"%s\", found \"%s\"", words, r.error);
    record_fini(&r);
}

static void what_the_engine_refuses_fails_with_its_words(void **state)
{
    (void)state;
    struct template *template = loader.chat_template;
    char long_prompt[400];
    memset(long_prompt, 'x', sizeof long_prompt);
    long_prompt[sizeof long_prompt - 1] = '\0';
    expect_failure(ITEM(""), "the prompt is empty");
    expect_failure(&(struct work_item){.prompt = long_prompt}, "the prompt has 399 tokens");
    expect_failure(ITEM("\xff", .chat = true), "not UTF-8");
    expect_failure(ITEM("z", .max_tokens = 3), "not finite");
    loader.chat_template = NULL;
    expect_failure(ITEM("a", .chat = true), "no chat template");
    loader.chat_template = template;
}

static void without_a_slot_a_request_fails_and_the_next_may_come(void **state)
{
    (void)state;
    const struct work_item *item = ITEM("abc", .max_tokens = 20, .stream = true);
    struct record r[3];
    wrap(ENGINE_CONTINUOUS, 2);
    for (int i = 0; i < 3; i++)
        send(item, &r[i]); /* an ended one keeps its slot until a poll takes its end */
    assert_int_equal(r[2].state, RECORD_FAILED);
    assert_string_equal(r[2].error, "all 2 request slots are taken");
    wait_for(r, 2);
    assert_int_equal(r[0].state, RECORD_OK);
    assert_int_equal(r[1].state, RECORD_OK);
    for (int i = 0; i < 3; i++)
        record_fini(&r[i]);
    for (int i = 0; i < 5; i++) { /* both slots and both flights are free again */
        send(item, &r[0]);
        send(item, &r[1]);
        wait_for(r, 2);
        assert_int_equal(r[0].state, RECORD_OK);
        assert_int_equal(r[1].state, RECORD_OK);
        record_fini(&r[0]);
        record_fini(&r[1]);
    }
    target->ops->close(target);
}

static void hold_in_a_step(void)
{
    while (atomic_load(&fake_last->held_at) == 0)
        sched_yield();
}

static void a_cancelled_one_ends_so_and_its_neighbour_goes_on(void **state)
{
    (void)state;
    struct record r[2];
    atomic_store(&fake_last->hold, true);
    send(ITEM("a prompt of more than sixteen rows is held", .max_tokens = 200, .stream = true),
         &r[0]);
    send(ITEM("abd", .max_tokens = 20, .stream = true), &r[1]);
    hold_in_a_step();
    target->ops->cancel(target, &r[0]);
    target->ops->cancel(target, &r[0]);
    assert_int_equal(r[0].state, RECORD_RUNNING); /* a poll brings the end */
    atomic_store(&fake_last->hold, false);
    wait_for(r, 2);
    assert_int_equal(r[0].state, RECORD_CANCELLED);
    assert_true(r[0].completion_tokens < 200);
    assert_string_equal(r[0].finish, "");
    assert_int_equal(r[1].state, RECORD_OK);
    target->ops->cancel(target, &r[0]); /* too late: nothing happens */
    assert_int_equal(r[0].state, RECORD_CANCELLED);
    record_fini(&r[0]);
    record_fini(&r[1]);
}

static void a_poll_ends_when_its_time_has_come(void **state)
{
    (void)state;
    int64_t until = clock_now_us() + 20000;
    while (clock_now_us() < until) { /* a signal may end one early */
        target->ops->poll(target, until);
    }
    for (int i = 0; i < 100; i++) /* in the past: at once */
        target->ops->poll(target, i % 2 ? until : 0);
    assert_true(clock_now_us() < until + 60000000);
}

static void closing_ends_what_runs(void **state)
{
    (void)state;
    struct record r;
    wrap(ENGINE_CONTINUOUS, 4);
    send(ITEM("abc", .max_tokens = 200, .stream = true), &r);
    target->ops->close(target);
    record_fini(&r);
}

/* --- runs of the load generator --------------------------------------------------------------- */

enum { N_ITEMS = 60 };
static struct work_item items[N_ITEMS];
static const struct workload many = {items, N_ITEMS};

/* One each 300 us, of 1 to `tokens` tokens, two of three streamed. */
static void make_items(uint32_t tokens)
{
    static char prompts[N_ITEMS][8];
    for (uint32_t i = 0; i < N_ITEMS; i++) {
        snprintf(prompts[i], sizeof prompts[i], "%c%cq", 'f' + (char)(i % 10),
                 'f' + (char)(i / 10));
        items[i] = (struct work_item){.due_us = i * 300,
                                      .prompt = prompts[i],
                                      .max_tokens = 1 + i % tokens,
                                      .ignore_eos = true,
                                      .stream = i % 3 > 0};
    }
}

/* Nothing of the run is left in the engine. */
static void expect_idle(void)
{
    struct engine_stats stats;
    engine_stats(engine, &stats);
    assert_int_equal(stats.running + stats.waiting, 0);
    assert_int_equal(stats.kv_blocks_free, stats.kv_blocks_total);
    assert_int_equal(engine->lists.of[REQUEST_FREE].n, engine->n_slots);
}

static void a_run_of_many(void **state)
{
    (void)state;
    const struct load_options o = {.max_concurrency = 16};
    struct load_result result;
    make_items(7);
    assert_int_equal(load_run(target, &many, &o, &result, NULL), STATUS_OK);
    for (uint32_t i = 0; i < N_ITEMS; i++) {
        const struct record *r = &result.records[i];
        assert_int_equal(r->state, RECORD_OK); /* never more than 16 slots are wanted */
        assert_int_equal(r->completion_tokens, 1 + i % 7);
        assert_true(r->sent_us >= r->due_us);
    }
    assert_true(result.generator.cpu_share >= 0 && result.generator.cpu_share <= 1);
    assert_false(result.interrupted);
    load_fini(&result);
    expect_idle();
}

struct stopper {
    atomic_bool stop;
    uint32_t after; /* so many ends */
};

static void stop_after(void *arg, uint32_t ended, uint32_t failed, uint32_t n)
{
    struct stopper *s = arg;
    (void)failed;
    (void)n;
    if (ended >= s->after)
        atomic_store(&s->stop, true);
}

static void an_interrupted_run_leaves_nothing_behind(void **state)
{
    (void)state;
    make_items(200);
    for (uint32_t after = 1; after < 20; after += 3) {
        struct stopper stopper = {.after = after};
        const struct load_options o = {
            .max_concurrency = 16, .stop = &stopper.stop, .progress = stop_after, .arg = &stopper};
        struct load_result result;
        uint32_t n_of[RECORD_CANCELLED + 1] = {0};
        assert_int_equal(load_run(target, &many, &o, &result, NULL), STATUS_OK);
        for (uint32_t i = 0; i < N_ITEMS; i++)
            n_of[result.records[i].state]++;
        assert_true(result.interrupted);
        assert_int_equal(n_of[RECORD_RUNNING] + n_of[RECORD_FAILED], 0);
        assert_true(n_of[RECORD_OK] >= after && n_of[RECORD_UNSENT] > 0);
        load_fini(&result);
        expect_idle();
    }
}

/* --- a tiny model, opened by its loader ------------------------------------------------------- */

#define TINY_VOCAB 259 /* every byte, and these: */

static void write_tokenizer(struct gguf_writer *w)
{
    static char spelled[TINY_VOCAB][16] = {
        [256] = "<|im_start|>", [257] = "<|im_end|>", [258] = "ab"};
    const char *tokens[TINY_VOCAB], *const merges[] = {"a b"};
    int32_t types[TINY_VOCAB];
    for (int i = 0; i < TINY_VOCAB; i++) {
        if (i < 256)
            spell_byte(i, spelled[i]);
        tokens[i] = spelled[i];
        types[i] = i == 256 || i == 257 ? 3 : 1;
    }
    gguf_writer_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_string(w, "tokenizer.ggml.pre", "gpt-2");
    gguf_writer_strings(w, "tokenizer.ggml.tokens", TINY_VOCAB, tokens);
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, TINY_VOCAB, types, sizeof types);
    gguf_writer_strings(w, "tokenizer.ggml.merges", 1, merges);
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 257);
    gguf_writer_string(w, "tokenizer.chat_template",
                       "<|im_start|>{{ messages[0].content }}<|im_end|>");
}

static void load_tiny(struct loader *l)
{
    struct tiny_model tiny = tiny_model_default;
    char path[] = "/tmp/firstlight-test-XXXXXX";
    struct err err = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tiny.n_vocab = TINY_VOCAB;
    tiny.more = write_tokenizer;
    tiny_write(&tiny);
    assert_true(gguf_writer_save(&tiny.writer, path));
    if (loader_open(l, path, NULL, NULL, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    unlink(path);
    tiny_model_fini(&tiny);
}

static void tiny_run(struct target *t)
{
    const struct workload_options wo = {
        .prompt = "Count to ten.",
        .num_requests = 12,
        .max_new_tokens = 9,
        .unique_prompts = true,
        .burstiness = 1,
        .ignore_eos = true,
        .chat = true,
        .stream = true,
    };
    const struct load_options o = {.n_background = 2, .background_of = &wo};
    struct load_result result;
    struct workload w;
    struct err err = {0};
    if (workload_make(&w, &wo, NULL, 0, &err) || load_run(t, &w, &o, &result, &err))
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < result.n; i++) {
        assert_int_equal(result.records[i].state, RECORD_OK);
        assert_int_equal(result.records[i].completion_tokens, 9);
        assert_true(result.records[i].sent_us >= result.start_us);
    }
    assert_int_equal(result.background_failed, 0);
    load_fini(&result);
    workload_fini(&w);
}

static void a_whole_engine(void **state)
{
    (void)state;
    struct loader l;
    struct err err = {0};
    struct target *t;
    load_tiny(&l);
    for (size_t i = 0; engine_kind_at(i); i++) {
        const struct engine_options options = {
            .kind = engine_kind_at(i), .n_threads = 2, .cpu_levels = cpu_detect(), .n_ctx = 256};
        bool streams = options.kind->mode != ENGINE_SYNC; /* else a background stream's first chunk
                                                             is its end */
        if (target_open_engine(&t, &l, &options, &err) != STATUS_OK)
            fail_msg("%s", err.text);
        assert_true(t->in_process);
        assert_string_equal(t->model, l.name);
        assert_int_equal(strncmp(t->engine, options.kind->name, strlen(options.kind->name)), 0);
        assert_non_null(strstr(t->engine, ", 2 threads"));
        assert_true(target_engine(t)->warm_up.finished > 0);
        if (streams)
            tiny_run(t);
        t->ops->close(t);
    }
    loader_close(&l);
}

static void an_engine_that_cannot_open_is_an_error(void **state)
{
    (void)state;
    struct loader l;
    struct err err = {0};
    struct target *t;
    load_tiny(&l);
    const struct engine_options options = {.n_threads = 1, .n_ctx = 256, .kv_memory = 1};
    assert_int_not_equal(target_open_engine(&t, &l, &options, &err), STATUS_OK);
    assert_true(err.text[0] != '\0');
    loader_close(&l);
}

static void another_target_has_no_engine(void **state)
{
    (void)state;
    static const struct target_ops none;
    assert_null(target_engine(&(struct target){.ops = &none}));
    assert_ptr_equal(target_engine(target), engine);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_target, close_target)
    const struct CMUnitTest tests[] = {
        TEST(a_streamed_answer),
        TEST(an_unstreamed_answer_is_one_chunk_at_its_end),
        cmocka_unit_test(the_blocking_engine_gives_one_chunk_too),
        TEST(the_end_of_text_ends_unless_ignored),
        TEST(answers_are_greedy),
        TEST(a_chat_goes_through_the_template),
        TEST(what_the_engine_refuses_fails_with_its_words),
        cmocka_unit_test(without_a_slot_a_request_fails_and_the_next_may_come),
        TEST(a_cancelled_one_ends_so_and_its_neighbour_goes_on),
        TEST(a_poll_ends_when_its_time_has_come),
        cmocka_unit_test(closing_ends_what_runs),
        TEST(a_run_of_many),
        TEST(an_interrupted_run_leaves_nothing_behind),
        cmocka_unit_test(a_whole_engine),
        cmocka_unit_test(an_engine_that_cannot_open_is_an_error),
        TEST(another_target_has_no_engine),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
