/* In words what a request waited for: each kind, singular and plural, short and long. */
#include "observe/wait_reason.h"

#include "support/cmocka_all.h"

#include <jansson.h>
#include <stdlib.h>

#define MS 1000

static struct timeline queued_for(int64_t us)
{
    return (struct timeline){.at_us = {[TIMELINE_QUEUED] = 5000, [TIMELINE_ADMITTED] = 5000 + us}};
}

static void expect(const struct request_wait *w, int64_t us, const char *words)
{
    struct timeline t = queued_for(us);
    struct buf out = {0};
    wait_reason_words(&out, w, &t);
    assert_string_equal(buf_str(&out), words);
    buf_fini(&out);
}

#define WAIT(...) (&(struct request_wait){.over = true, __VA_ARGS__})

static void test_prompts(void **state)
{
    (void)state;
    expect(WAIT(.steps = 2, .prompts = 2, .prompt_tokens = 1024), 180 * MS,
           "waited 180 ms behind two prompts of 1,024 tokens in all");
    expect(WAIT(.steps = 1, .prompts = 1, .prompt_tokens = 512), 90 * MS,
           "waited 90 ms behind a prompt of 512 tokens");
    expect(WAIT(.in_step = true, .prompts = 1, .prompt_tokens = 1), MS,
           "waited 1 ms behind a prompt of one token");
    expect(WAIT(.in_step = true, .steps = 9, .prompts = 12, .prompt_tokens = 12), 3 * MS,
           "waited 3 ms behind twelve prompts of 12 tokens in all");
    expect(WAIT(.steps = 90, .prompts = 13, .prompt_tokens = 1234567), 75 * 1000 * MS,
           "waited 75 s behind 13 prompts of 1,234,567 tokens in all");
    expect(WAIT(.steps = 90, .prompts = 1000, .prompt_tokens = 1000000), 8765 * MS,
           "waited 8.8 s behind 1,000 prompts of 1,000,000 tokens in all");
}

static void test_other_kinds(void **state)
{
    (void)state;
    expect(WAIT(.followed = true, .steps = 3, .prompts = 1, .prompt_tokens = 64), 20 * MS,
           "waited 20 ms for a prompt that begins like it, to use what that one computed");
    expect(WAIT(.steps = 3, .steps_no_blocks = 2), 1200 * MS, "waited 1.2 s for free KV blocks");
    expect(WAIT(.steps = 3, .steps_no_place = 3), 12 * MS,
           "waited 12 ms for one of the running requests to end");
    expect(WAIT(.steps = 1), 12 * MS, "waited 12 ms while one step of other answers ran");
    expect(WAIT(.steps = 7), 12 * MS, "waited 12 ms while seven steps of other answers ran");
    expect(WAIT(.steps = 1700), 17000 * MS, "waited 17 s while 1,700 steps of other answers ran");
    expect(WAIT(.in_step = true), 7 * MS, "waited 7 ms for the step under way");
    expect(WAIT(0), 2 * MS, "waited 2 ms before the engine took it");
}

static void test_durations(void **state)
{
    (void)state;
    const struct request_wait *w = WAIT(.in_step = true);
    expect(w, 999, "");
    expect(w, 0, "");
    expect(w, 1499, "waited 1 ms for the step under way");
    expect(w, 1500, "waited 2 ms for the step under way");
    expect(w, 999499, "waited 999 ms for the step under way");
    expect(w, 999500, "waited 1.0 s for the step under way");
    expect(w, 9949 * MS, "waited 9.9 s for the step under way");
    expect(w, 9950 * MS, "waited 10 s for the step under way");
    expect(w, 3600 * 1000 * (int64_t)MS, "waited 3600 s for the step under way");
}

/* One that left before it was admitted waited until its end; one that never was queued did not. */
static void test_never_admitted(void **state)
{
    (void)state;
    struct buf out = {0};
    struct timeline t = {.at_us = {[TIMELINE_QUEUED] = 1, [TIMELINE_FINISHED] = 30 * MS + 1}};
    wait_reason_words(&out, WAIT(.steps = 2, .steps_no_place = 2), &t);
    assert_string_equal(buf_str(&out), "waited 30 ms for one of the running requests to end");
    buf_clear(&out);
    t.at_us[TIMELINE_QUEUED] = 0;
    wait_reason_words(&out, WAIT(.steps = 2), &t);
    assert_string_equal(buf_str(&out), "");
    buf_fini(&out);
}

static void test_json(void **state)
{
    (void)state;
    struct timeline t = queued_for(180 * MS);
    struct buf out = {0};
    buf_puts(&out, "{\"a\":1");
    wait_reason_json(&out,
                     WAIT(.waiting = 2, .running = 3, .tokens = 4, .steps = 5, .prompts = 2,
                          .prompt_tokens = 1024),
                     &t);
    buf_putc(&out, '}');
    json_t *all = json_loads(buf_str(&out), JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(all);
    json_t *expected =
        json_pack("{s:s,s:i,s:i,s:i,s:b,s:b,s:i,s:i,s:i,s:i,s:i,s:s}", "for", "turn", "waiting", 2,
                  "running", 3, "tokens", 4, "in_step", 0, "leader", 0, "steps", 5,
                  "steps_no_blocks", 0, "steps_no_place", 0, "prompts", 2, "prompt_tokens", 1024,
                  "words", "waited 180 ms behind two prompts of 1,024 tokens in all");
    assert_true(json_equal(json_object_get(all, "waited"), expected));
    json_decref(all);
    json_decref(expected);
    buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts),   cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_durations), cmocka_unit_test(test_never_admitted),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
