/* Policies over the same arrivals: what is the same for all of them, and what an option changes. */
#include "bench/kinds/simulation.h"
#include "support/cmocka_all.h"

static struct simulation_options options(enum simulation_arrivals arrivals)
{
    struct simulation_options o = simulation_default;
    o.arrivals = arrivals;
    o.num_requests = 100;
    o.engine.machine = simulate_machine_default;
    o.engine.engine.n_slots = 200;
    return o;
}

static struct simulation_run simulated(const struct simulation_options *o, const char *policy,
                                       uint32_t run)
{
    struct simulation_run r;
    struct err err = {0};
    if (simulation_run(o, policy, run, &r, &err) != STATUS_OK)
        fail_msg("%s", err.text);
    return r;
}

static void arrivals_are_the_same_for_each_policy_and_others_for_each_run(void **state)
{
    (void)state;
    for (int arrivals = SIMULATION_BURSTS; arrivals < SIMULATION_TRACE; arrivals++) {
        struct simulation_options o = options((enum simulation_arrivals)arrivals);
        struct simulation_run r[] = {simulated(&o, "fifo", 0), simulated(&o, "fifo", 0),
                                     simulated(&o, "srpf", 0), simulated(&o, "fifo", 1)};
        for (int i = 0; i < 4; i++)
            assert_int_equal(r[i].n, 100);
        assert_true(r[0].speed == r[1].speed && r[0].speed == r[2].speed);
        assert_true(r[0].speed != r[3].speed);
        assert_memory_equal(r[0].ttft.v, r[1].ttft.v, 100 * sizeof *r[0].ttft.v);
        assert_memory_not_equal(r[0].ttft.v, r[3].ttft.v, 100 * sizeof *r[0].ttft.v);
        for (int i = 0; i < 4; i++)
            simulation_run_fini(&r[i]);
    }
}

static void goodput_counts_who_meets_both_objectives(void **state)
{
    (void)state;
    struct simulation_options o = options(SIMULATION_BURSTS);
    static const struct {
        double ttft_ms, gap_ms;
        uint32_t good;
    } cases[] = {{1e9, 1e9, 100}, {0, 1e9, 0}, {1e9, 0, 0}};
    for (int i = 0; i < 3; i++) {
        o.ttft_ms = cases[i].ttft_ms;
        o.gap_ms = cases[i].gap_ms;
        struct simulation_run r = simulated(&o, "fifo", 0);
        assert_int_equal(r.good, cases[i].good);
        simulation_run_fini(&r);
    }
}

static void load_or_speed_decide_how_fast_the_machine_is(void **state)
{
    (void)state;
    struct simulation_options o = options(SIMULATION_LONG_AMONG_SHORT);
    struct simulation_run base = simulated(&o, "fifo", 0);
    o.load *= 2;
    struct simulation_run loaded = simulated(&o, "fifo", 0);
    assert_true(loaded.speed > 0.499 * base.speed && loaded.speed < 0.501 * base.speed);
    assert_true(series_percentile(&loaded.ttft, 50) > series_percentile(&base.ttft, 50));
    o.speed = 3;
    struct simulation_run given = simulated(&o, "fifo", 0);
    assert_true(given.speed == 3);
    simulation_run_fini(&base);
    simulation_run_fini(&loaded);
    simulation_run_fini(&given);
}

static void blocks_of_a_trace_are_shared_as_recorded(void **state)
{
    (void)state;
    struct replay_request requests[] = {
        {.at_ms = 0, .input_tokens = 150, .output_tokens = 2, .n_hashes = 2, .first_hash = 0},
        {.at_ms = 9000, .input_tokens = 150, .output_tokens = 2, .n_hashes = 2, .first_hash = 2},
        {.at_ms = 18000, .input_tokens = 150, .output_tokens = 2, .n_hashes = 2, .first_hash = 4},
    };
    uint64_t ids[] = {1, 2, 1, 3, 4, 2};
    struct replay replay = {
        .requests = requests, .n = 3, .hash_ids = ids, .n_hash_ids = 6, .block_tokens = 64};
    struct simulation_options o = options(SIMULATION_TRACE);
    o.replay = &replay;
    o.speed = 1;
    struct simulation_run r = simulated(&o, "srpf", 0);
    assert_int_equal(r.n, 3);
    /* the second has the first block of the first one, the third shares nothing from its start */
    assert_true(r.stats.prefix_hit >= 64 && r.stats.prefix_hit < 70);
    simulation_run_fini(&r);
}

static void an_error_names_what_is_wrong(void **state)
{
    (void)state;
    struct simulation_options o = options(SIMULATION_LONG_AMONG_SHORT);
    struct simulation_run r;
    struct err err = {0};
    o.engine.kv_blocks = 3; /* not one of its prompts fits */
    assert_int_equal(simulation_run(&o, "fifo", 0, &r, &err), STATUS_NO_MEMORY);
    assert_int_equal(simulation_run(&o, "luck", 0, &r, &err), STATUS_INVALID);
    simulation_run_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrivals_are_the_same_for_each_policy_and_others_for_each_run),
        cmocka_unit_test(goodput_counts_who_meets_both_objectives),
        cmocka_unit_test(load_or_speed_decide_how_fast_the_machine_is),
        cmocka_unit_test(blocks_of_a_trace_are_shared_as_recorded),
        cmocka_unit_test(an_error_names_what_is_wrong),
    };
    return cmocka_run_group_tests_name("simulation", tests, NULL, NULL);
}
