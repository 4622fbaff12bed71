/* The engine in virtual time: its times are those of the machine, to the microsecond. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/simulate.h"
#include "support/cmocka_all.h"

#include <string.h>

static const struct simulate_machine machine = {
    .step_us = 1000, .token_us = 100, .pair_us = 1, .decode_us = 200, .read_us = 2};

static struct simulate_options options(void)
{
    return (struct simulate_options){.engine = {.n_ctx = 512, .n_slots = 8, .policy = "fifo"},
                                     .kv_blocks = 64,
                                     .machine = machine};
}

static int32_t words[512];

static struct simulate_request request(int64_t at_us, uint32_t n_tokens, uint32_t max_tokens)
{
    for (int i = 0; i < 512; i++)
        words[i] = i * 7 % SIMULATE_VOCAB;
    return (struct simulate_request){
        .at_us = at_us, .tokens = words, .n_tokens = n_tokens, .max_tokens = max_tokens};
}

static void simulate(const struct simulate_options *o, struct simulate_request *r, uint32_t n,
                     struct simulate_result *out)
{
    struct err err = {0};
    if (simulate_run(o, r, n, out, &err) != STATUS_OK)
        fail_msg("%s", err.text);
}

static void one_alone_takes_what_the_machine_takes(void **state)
{
    (void)state;
    struct simulate_options o = options();
    struct simulate_request r = request(5000, 10, 3);
    struct simulate_result result;
    simulate(&o, &r, 1, &result);
    assert_false(r.refused);
    assert_int_equal(r.admitted_us, 5000);
    assert_int_equal(r.first_us, 5000 + 1000 + 10 * 100 + 45 + 1); /* a step is never 0 */
    int64_t first = 1000 + 200 + 10 * 2 + 1, second = 1000 + 200 + 11 * 2 + 1;
    assert_int_equal(r.worst_gap_us, second);
    assert_int_equal(r.end_us, r.first_us + first + second);
    assert_int_equal(result.end_us, r.end_us);
    assert_int_equal(result.n_steps, 3);
    assert_int_equal(result.stats.generated_tokens, 3);
    assert_int_equal(simulate_machine_us(&machine, 0, 10, 3), r.end_us - 5000 - 3 * 1001);
    simulate_fini(&result);
}

static void a_prompt_that_came_before_is_cached(void **state)
{
    (void)state;
    struct simulate_options o = options();
    struct simulate_request r[] = {request(0, 100, 1), request(100000, 100, 1)};
    struct simulate_result result;
    simulate(&o, r, 2, &result);
    assert_int_equal(r[0].n_cached, 0);
    assert_int_equal(r[1].n_cached, 99);
    assert_int_equal(r[1].first_us - r[1].at_us, 1000 + 200 + 99 * 2 + 1); /* as a decode */
    o.engine.no_prefix_cache = true;
    r[0] = request(0, 100, 1);
    r[1] = request(100000, 100, 1);
    simulate_fini(&result);
    simulate(&o, r, 2, &result);
    assert_int_equal(r[1].n_cached, 0);
    simulate_fini(&result);
}

static void who_finds_no_slot_is_refused(void **state)
{
    (void)state;
    struct simulate_options o = options();
    struct simulate_request r[12];
    struct simulate_result result;
    uint32_t refused = 0;
    for (int i = 0; i < 12; i++)
        r[i] = request(0, 50, 2);
    simulate(&o, r, 12, &result);
    for (int i = 0; i < 12; i++) {
        refused += r[i].refused;
        assert_int_equal(r[i].refused, r[i].end_us == 0);
    }
    assert_int_equal(refused, 4);
    simulate_fini(&result);
}

static void short_ones_come_between_the_layers_of_a_long_one(void **state)
{
    (void)state;
    struct simulate_options o = options();
    struct simulate_request r[40];
    struct simulate_result result;
    o.engine.policy = "srpf";
    o.engine.no_prefix_cache = true;
    for (int i = 0; i < 40; i++) /* every 100 ms; each tenth is long */
        r[i] = request(100000 * i, i % 10 == 9 ? 400 : 8, 1);
    r[20].at_us = r[19].at_us + 5000; /* in the middle of a long one */
    simulate(&o, r, 40, &result);
    assert_true(result.stats.parked >= 1);
    assert_true(r[20].first_us < r[19].first_us);
    simulate_fini(&result);
}

static void the_clock_is_real_again_afterwards(void **state)
{
    (void)state;
    struct simulate_options o = options();
    struct simulate_request r = request(0, 10, 1);
    struct simulate_result result;
    struct err err = {0};
    int64_t before = clock_real_ns();
    simulate(&o, &r, 1, &result);
    simulate_fini(&result);
    assert_true(clock_now_ns() >= before);
    o.engine.policy = "luck";
    assert_int_equal(simulate_run(&o, &r, 1, &result, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "luck"));
    simulate_fini(&result);
    assert_true(clock_now_ns() >= before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_alone_takes_what_the_machine_takes),
        cmocka_unit_test(a_prompt_that_came_before_is_cached),
        cmocka_unit_test(who_finds_no_slot_is_refused),
        cmocka_unit_test(short_ones_come_between_the_layers_of_a_long_one),
        cmocka_unit_test(the_clock_is_real_again_afterwards),
    };
    return cmocka_run_group_tests_name("simulate", tests, NULL, NULL);
}
