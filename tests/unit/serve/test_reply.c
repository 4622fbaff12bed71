/* What is written of a call, and when its first content counts as written: an engine run by hand in
 * virtual time, and a client whose every write takes a while. */
#include "serve/call.h"
#include "serve/http_via.h"
#include "serve/stream.h"
#include "unit/engine/by_hand.h"

#include <jansson.h>
#include <semaphore.h>

#define MS         INT64_C(1000)
#define WRITE_US   (7 * MS)
#define CHOICE_US  (5 * MS) /* that it takes to make JSON of an unstreamed choice */
#define MAX_WRITES 16
#define MAX_CHOICE 2

static struct by_hand hand;

/* What the client got. */
static struct {
    uint32_t n;
    int64_t began_us[MAX_WRITES], done_us[MAX_WRITES];
    char text[MAX_WRITES][2048];
    bool ended;
} got;

static void take(const char *bytes, size_t len)
{
    assert_true(got.n < MAX_WRITES && len < sizeof got.text[0]);
    memcpy(got.text[got.n], bytes, len);
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
    (void)x, (void)status;
    take(body, len);
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

static const struct http_via client = {.add_header = via_add_header,
                                       .reply = via_reply,
                                       .stream_write = via_write,
                                       .stream_end = via_end,
                                       .stream_waiting = via_waiting};

static void slow_choice(struct buf *out, const struct answer *a, const struct answer_choice *c)
{
    stream_form.choice(out, a, c);
    hand.clock.now_us += CHOICE_US;
}

/* A call that was submitted: choice i has prompts of its own and wants max_tokens[i]. */
struct scene {
    struct server server;
    struct http_exchange x;
    struct call call;
    struct choice choices[MAX_CHOICE];
    struct form form;
};

static uint32_t wanted_logprobs; /* 0: none */

static void submit(struct scene *s, uint32_t i, uint32_t max_tokens)
{
    struct request_params p = by_hand_prompt(0, 20, (int32_t)i, max_tokens);
    p.timeline.at_us[TIMELINE_RECEIVED] = p.timeline.at_us[TIMELINE_TOKENIZED] = clock_now_us();
    p.user = &s->choices[i];
    p.logprobs = wanted_logprobs > 0;
    p.top_logprobs = wanted_logprobs;
    s->choices[i] = (struct choice){.call = &s->call, .index = i};
    s->choices[i].r = fake_submit(s->server.engine, &p);
}

static void begin(struct scene *s, bool streaming, uint32_t n, const uint32_t *max_tokens)
{
    struct engine_options options = {0};
    memset(&got, 0, sizeof got);
    by_hand_open(&hand, 64, &options);
    *s = (struct scene){.x = {.via = &client, .request_id = "r"}, .form = stream_form};
    metrics_init(&s->server.metrics);
    s->server.engine = hand.engine;
    s->form.choice = slow_choice;
    s->call = (struct call){.server = &s->server,
                            .x = &s->x,
                            .choices = s->choices,
                            .n_choices = n,
                            .n_live = n,
                            .form = &s->form,
                            .ask = {.n = n},
                            .streaming = streaming,
                            .answer = {.id = "id", .model = "m"}};
    s->call.ask.prompts.n = 1;
    s->server.base = event_base_new();
    event_assign(&s->call.timer, s->server.base, -1, 0, reply_timer, &s->call);
    for (uint32_t i = 0; i < n; i++)
        submit(s, i, max_tokens[i]);
}

static void take_events(void)
{
    struct request *r;
    while ((r = engine_next_event(hand.engine)))
        reply_news(request_user(r));
}

/* Runs to the end of the answer, and gives what its `ttft` says. */
static json_t *finish(struct scene *s)
{
    do
        take_events();
    while (!got.ended && engine_turn(hand.engine));
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

static void end(struct scene *s, json_t *ttft)
{
    struct histogram_view v;
    metrics_read(&s->server.metrics, METRICS_TTFT, &v);
    assert_int_equal(v.count, 1);
    json_decref(ttft);
    buf_fini(&s->call.out);
    buf_fini(&s->call.logprobs);
    for (uint32_t i = 0; i < s->call.n_choices; i++)
        buf_fini(&s->choices[i].json);
    event_base_free(s->server.base);
    fake_close_by_hand(hand.engine);
    fake_world_close(&hand.world);
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
    while (!s.choices[0].making && engine_turn(hand.engine))
        take_events();
    assert_true(s.choices[0].making && s.call.n_live == 2);
    engine_cancel(hand.engine, s.choices[1].r);
    for (int i = 0; i < 2; i++) {
        engine_turn(hand.engine);
        take_events();
    }
    assert_true(got.ended);
    assert_non_null(strstr(got.text[0], "broken off"));
    assert_int_equal(s.call.n_live, 0);
    sem_post(&gate);
    text_worker_close(s.server.text);
    assert_int_equal(s.choices[0].json.len, 0);
    end(&s, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_content_is_written),
        cmocka_unit_test(test_one_token),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_unstreamed),
        cmocka_unit_test(test_a_broken_answer_is_not_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
