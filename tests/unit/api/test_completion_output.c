/* What is written of a call, and when its first content counts as written: an engine run by hand in
 * virtual time, and a client whose every write takes a while. */
#include "api/api_kind.h"
#include "api/completion.h"
#include "api/openai_sse.h"
#include "http/http_transport.h"
#include "unit/engine/by_hand.h"

#include <jansson.h>
#include <semaphore.h>

#define MS         INT64_C(1000)
#define WRITE_US   (7 * MS)
#define CHOICE_US  (5 * MS) /* that it takes to make JSON of an unstreamed choice */
#define MAX_WRITES 16

static struct by_hand hand;

/* What the client got. */
static struct {
    uint32_t n;
    int64_t began_us[MAX_WRITES], done_us[MAX_WRITES];
    char text[MAX_WRITES][2048];
    bool ended;
    int status;
} got;

static struct hold unsent; /* what waits for the client: nothing, for he reads */

static void take(const char *bytes, size_t len)
{
    const size_t most = sizeof got.text[0] - 1;
    assert_true(got.n < MAX_WRITES);
    memcpy(got.text[got.n], bytes, len < most ? len : most);
    got.began_us[got.n] = clock_now_us();
    hand.clock.now_us += WRITE_US;
    got.done_us[got.n++] = clock_now_us();
}

static void via_add_header(struct http_exchange *x, const char *name, const char *value)
{
    (void)x, (void)name, (void)value;
}

static void via_reply(struct http_exchange *x, int status, const char *body, size_t len)
{
    (void)x;
    take(body, len);
    got.status = status;
    got.ended = true;
}

static void via_write(struct http_exchange *x, const char *bytes, size_t len)
{
    (void)x;
    take(bytes, len);
}

static void via_end(struct http_exchange *x, bool cut)
{
    (void)x;
    assert_false(cut);
    got.ended = true;
}

static size_t via_waiting(const struct http_exchange *x)
{
    (void)x;
    return 0;
}

static struct hold *via_unsent(const struct http_exchange *x)
{
    (void)x;
    return &unsent;
}

static const struct http_transport client = {.add_header = via_add_header,
                                             .reply = via_reply,
                                             .stream_write = via_write,
                                             .stream_end = via_end,
                                             .stream_waiting = via_waiting,
                                             .unsent = via_unsent};

static void slow_choice(struct buf *out, const struct openai_response *a,
                        const struct openai_response_choice *c)
{
    openai_sse_format.choice(out, a, c);
    hand.clock.now_us += CHOICE_US;
}

/* A call that was submitted: choice i has prompts of its own and wants max_tokens[i]. */
struct scene {
    struct server server;
    struct http_exchange x;
    struct completion call;
    struct wire_format form;
};

static uint32_t wanted_logprobs; /* 0: none */

static void submit(struct scene *s, uint32_t i, uint32_t max_tokens)
{
    struct request_params p = by_hand_prompt(0, 20, (int32_t)i, max_tokens);
    p.timeline.at_us[TIMELINE_RECEIVED] = p.timeline.at_us[TIMELINE_TOKENIZED] = clock_now_us();
    p.user = &s->call.choices[i];
    p.logprobs = wanted_logprobs > 0;
    p.top_logprobs = wanted_logprobs;
    s->call.choices[i] = (struct choice){.call = &s->call, .index = i};
    s->call.choices[i].r = fake_submit(s->server.engine, &p);
}

static void begin(struct scene *s, bool streaming, uint32_t n, const uint32_t *max_tokens)
{
    struct engine_options options = {0};
    memset(&got, 0, sizeof got);
    by_hand_open(&hand, 64, &options);
    *s = (struct scene){.x = {.via = &client, .errors = &openai_response_errors, .request_id = "r"},
                        .form = openai_sse_format};
    metrics_init(&s->server.metrics);
    s->server.engine = hand.engine;
    s->form.choice = slow_choice;
    s->call = (struct completion){.server = &s->server,
                                  .x = &s->x,
                                  .choices = mem_array(n, sizeof(struct choice)),
                                  .n_choices = n,
                                  .n_live = n,
                                  .form = &s->form,
                                  .ask = {.kind = &api_chat, .n = n},
                                  .streaming = streaming,
                                  .answer = {.kind = &api_chat, .id = "id", .model = "m"}};
    struct err e;
    assert_int_equal(prompts_make(&s->call.ask.prompts, 1, &e), STATUS_OK);
    s->server.base = event_base_new();
    event_assign(&s->call.timer, s->server.base, -1, 0, completion_output_timer, &s->call);
    http_hold_answer(&s->x, &s->call.kept);
    for (uint32_t i = 0; i < n; i++)
        submit(s, i, max_tokens[i]);
}

static void take_events(void)
{
    struct request *r;
    while ((r = engine_next_event(hand.engine)))
        completion_output_news(request_user(r));
}

/* Runs to the end of the answer, and gives what its `ttft` says. */
static json_t *finish(struct scene *s)
{
    do
        take_events();
    while (!got.ended && engine_thread_turn(hand.engine));
    assert_true(got.ended && s->call.n_live == 0);
    const char *figures = strstr(got.text[got.n - 1], "\"ttft\":");
    assert_non_null(figures);
    json_t *ttft = json_loads(strchr(figures, '{'), JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(ttft);
    return ttft;
}

static int64_t us_of(const json_t *ttft, const char *name)
{
    return (int64_t)(json_number_value(json_object_get(ttft, name)) * 1000 + 0.5);
}

static void close_scene(struct scene *s)
{
    buf_fini(&s->call.out);
    buf_fini(&s->call.logprobs);
    completion_drop(&s->call);
    prompts_fini(&s->call.ask.prompts);
    mem_free(s->call.choices);
    event_base_free(s->server.base);
    fake_close_by_hand(hand.engine);
    fake_world_close(&hand.world);
}

static void end(struct scene *s, json_t *ttft)
{
    struct histogram_view v;
    metrics_read(&s->server.metrics, METRICS_TTFT, &v);
    assert_int_equal(v.count, 1);
    json_decref(ttft);
    close_scene(s);
}

static void test_first_content_is_written(void **state)
{
    (void)state;
    struct scene s;
    begin(&s, true, 1, (const uint32_t[]){5});
    json_t *ttft = finish(&s);
    const struct timeline *t = &s.call.timeline;
    assert_int_equal(t->at_us[TIMELINE_FIRST_CONTENT], got.done_us[0]);
    assert_int_equal(us_of(ttft, "first_write_ms"),
                     got.done_us[0] - t->at_us[TIMELINE_FIRST_TOKEN]);
    assert_true(us_of(ttft, "first_write_ms") >= WRITE_US);
    assert_int_equal(us_of(ttft, "decode_ms"), 0);
    end(&s, ttft);
}

/* Content and end are there in one turn, and the end tells how long the content's write took. */
static void test_one_token(void **state)
{
    (void)state;
    struct scene s;
    begin(&s, true, 1, (const uint32_t[]){1});
    json_t *ttft = finish(&s);
    assert_int_equal(got.n, 2);
    assert_null(strstr(got.text[0], "\"ttft\""));
    assert_int_equal(s.call.timeline.at_us[TIMELINE_FIRST_CONTENT], got.done_us[0]);
    assert_true(us_of(ttft, "first_write_ms") >= WRITE_US);
    end(&s, ttft);
}

/* The call's times are those of the choice that was written first, though another ends first. */
static void test_choices(void **state)
{
    (void)state;
    struct scene s;
    begin(&s, true, 2, (const uint32_t[]){4, 1});
    json_t *ttft = finish(&s);
    int64_t first = s.call.timeline.at_us[TIMELINE_FIRST_CONTENT];
    assert_int_equal(first, got.done_us[0]);
    assert_non_null(strstr(got.text[0], "\"index\":0"));
    assert_int_equal(us_of(ttft, "total_ms"), first - s.call.timeline.at_us[TIMELINE_RECEIVED]);
    end(&s, ttft);
}

/* Figures that are in the body come after all else of it. */
static void test_unstreamed(void **state)
{
    (void)state;
    struct scene s;
    begin(&s, false, 2, (const uint32_t[]){3, 3});
    json_t *ttft = finish(&s);
    const struct timeline *t = &s.call.timeline;
    assert_int_equal(got.n, 1);
    assert_int_equal(t->at_us[TIMELINE_FIRST_CONTENT], got.began_us[0]);
    assert_true(t->at_us[TIMELINE_FIRST_CONTENT] - t->at_us[TIMELINE_FINISHED] >= CHOICE_US);
    assert_int_equal(us_of(ttft, "total_ms"), got.began_us[0] - t->at_us[TIMELINE_RECEIVED]);
    assert_int_equal(us_of(ttft, "decode_ms"),
                     t->at_us[TIMELINE_FINISHED] - t->at_us[TIMELINE_FIRST_TOKEN]);
    assert_int_equal(us_of(ttft, "first_write_ms"), got.began_us[0] - t->at_us[TIMELINE_FINISHED]);
    end(&s, ttft);
}

static sem_t gate;

static void wait_for_gate(struct text_job *job)
{
    (void)job;
    sem_wait(&gate);
}

static void gate_passed(struct text_job *job)
{
    (void)job;
}

/* One choice waits for the text worker when the other is broken off: it is not made. */
static void test_a_broken_answer_is_not_made(void **state)
{
    (void)state;
    struct scene s;
    struct err e;
    struct text_job busy = {
        .work = wait_for_gate, .done = gate_passed, .bytes = SIZE_MAX, .never_slow = true};
    wanted_logprobs = 20;
    begin(&s, false, 2, (const uint32_t[]){30, 60});
    wanted_logprobs = 0;
    sem_init(&gate, 0, 0);
    assert_int_equal(text_worker_open(&s.server.text, s.server.base, 4, &e), STATUS_OK);
    assert_true(text_worker_submit(s.server.text, &busy));
    while (!s.call.choices[0].making && engine_thread_turn(hand.engine))
        take_events();
    assert_true(s.call.choices[0].making && s.call.n_live == 2);
    engine_cancel(hand.engine, s.call.choices[1].r);
    for (int i = 0; i < 2; i++) {
        engine_thread_turn(hand.engine);
        take_events();
    }
    assert_true(got.ended);
    assert_non_null(strstr(got.text[0], "broken off"));
    assert_int_equal(s.call.n_live, 0);
    sem_post(&gate);
    text_worker_close(s.server.text);
    assert_int_equal(s.call.choices[0].json.len, 0);
    end(&s, NULL);
}

/* Choices that are as large as the test wants. */

static size_t choice_bytes;

static void large_choice(struct buf *out, const struct openai_response *a,
                         const struct openai_response_choice *c)
{
    (void)a, (void)c;
    if (!buf_reserve(out, choice_bytes))
        return;
    memset(out->data + out->len, ' ', choice_bytes);
    out->len += choice_bytes;
    out->data[out->len] = '\0';
}

static struct byte_budget budget;

/* Two choices, of which one is done long before the other. */
static void begin_large(struct scene *s, size_t bytes, size_t most)
{
    struct client who = client_limit_of_address(NULL);
    choice_bytes = bytes;
    byte_budget_init(&budget, most);
    unsent = (struct hold){0};
    assert_true(byte_budget_open(&unsent, &budget, &who));
    begin(s, false, 2, (const uint32_t[]){3, 60});
    s->form.choice = large_choice;
}

static void run_until(const struct scene *s, uint32_t n_live)
{
    struct request *r;
    for (bool more = true; s->call.n_live > n_live && more;) {
        more = engine_thread_turn(hand.engine);
        while ((r = engine_next_event(hand.engine)))
            completion_output_news(request_user(r));
    }
    assert_int_equal(s->call.n_live, n_live);
}

static void end_large(struct scene *s)
{
    close_scene(s);
    assert_int_equal(budget.held, 0);
    byte_budget_end(&unsent);
    unsent = (struct hold){0};
}

static void test_a_finished_choice_is_held(void **state)
{
    (void)state;
    struct scene s;
    begin_large(&s, 1500, 64 << 10);
    run_until(&s, 1);
    assert_int_equal(budget.held, 0); /* so little every exchange may take */
    run_until(&s, 0);
    end_large(&s);
    begin_large(&s, 6000, 64 << 10);
    run_until(&s, 1);
    assert_false(got.ended);
    assert_in_range(budget.held, 6000, 6100);
    choice_bytes = 100;
    run_until(&s, 0);
    assert_true(got.ended && got.status == 200);
    assert_null(s.call.choices);
    end_large(&s);
}

static void test_a_choice_without_room_ends_the_answer(void **state)
{
    (void)state;
    struct scene s;
    begin_large(&s, 6000, 10000); /* a client has half of that */
    run_until(&s, 1);
    assert_true(got.ended && got.status == 503);
    assert_non_null(strstr(got.text[0], "--max-unsent-memory"));
    assert_int_equal(budget.held, 0);
    assert_int_equal(budget.refused, 1);
    s.call.x = NULL; /* what the exchange's end does */
    s.call.preparing = true;
    run_until(&s, 0);
    assert_true(by_hand_stats(&hand).generated_tokens < 60); /* nobody waits for the other */
    end_large(&s);
}

static void test_a_choice_has_a_limit(void **state)
{
    (void)state;
    struct scene s;
    begin_large(&s, (size_t)LIMIT_CHOICE_BYTES + 1, 0);
    run_until(&s, 1);
    assert_true(got.ended && got.status == 503);
    assert_non_null(strstr(got.text[0], "a choice may have 67108864 bytes"));
    s.call.x = NULL;
    s.call.preparing = true;
    run_until(&s, 0);
    end_large(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_content_is_written),
        cmocka_unit_test(test_one_token),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_unstreamed),
        cmocka_unit_test(test_a_broken_answer_is_not_made),
        cmocka_unit_test(test_a_finished_choice_is_held),
        cmocka_unit_test(test_a_choice_without_room_ends_the_answer),
        cmocka_unit_test(test_a_choice_has_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
