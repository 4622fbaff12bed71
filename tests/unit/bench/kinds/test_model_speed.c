/* The measurement of a model alone: what runs, how often, and what the result says of it. The
 * speeds are the machine's. */
#include "support/cmocka_all.h"
#include "support/tiny_model.h"

#include "base/cpu.h"
#include "base/limits.h"
#include "bench/kinds/model_speed.h"

static struct tiny_model tiny;
static uint32_t n_calls, n_total;

static void count(uint32_t run, uint32_t n_runs)
{
    assert_int_equal(run, n_calls);
    n_calls++;
    n_total = n_runs;
}

static struct model_speed_options options(void)
{
    return (struct model_speed_options){
        .n_prompt = 40,
        .n_prompts = 1,
        .n_generate = 3,
        .batch = 1,
        .depth = 5,
        .warmup_runs = 2,
        .repeat_runs = 3,
        .seed = 7,
        .backend = {.n_threads = 1, .cpu_levels = cpu_detect(), .kv_type = KV_F16},
        .progress = count,
    };
}

static void test_repeats_count_and_warm_ups_do_not(void **state)
{
    (void)state;
    struct model_speed_options o = options();
    struct model_speed m;
    struct err err = {0};
    struct result r;
    n_calls = 0;
    assert_int_equal(model_speed_run(&m, tiny.model, &o, &err), STATUS_OK);
    assert_int_equal(n_calls, 5);
    assert_int_equal(n_total, 5);
    assert_int_equal(m.prefill.n, 3);
    assert_int_equal(m.decode.n, 3);
    for (int i = 0; i < 3; i++)
        assert_true(m.prefill.v[i] > 0 && m.decode.v[i] > 0);
    result_init(&r, "model", NULL, model_speed_workload(&o), json_object());
    model_speed_result(&m, &r);
    const json_t *metrics = json_object_get(r.root, "metrics");
    const json_t *decode = json_object_get(metrics, "decode_tokens_per_s");
    assert_int_equal(json_object_size(metrics), 2);
    assert_non_null(json_object_get(metrics, "prefill_tokens_per_s"));
    assert_string_equal(json_string_value(json_object_get(decode, "better")), "higher");
    for (size_t i = 0; i < 3; i++)
        assert_true(json_real_value(json_array_get(json_object_get(decode, "repeats"), i)) ==
                    m.decode.v[i]);
    result_fini(&r);
    model_speed_fini(&m);
}

/* The cache holds the longer of both, of as many sequences as the larger of both: the backend
 * aborts on a step that is too long for it. */
static void test_several_prompts_and_sequences(void **state)
{
    (void)state;
    static const struct {
        uint32_t n_prompt, n_prompts, n_generate, batch;
    } cases[] = {{8, 64, 3, 2}, {7, 3, 80, 64}, {1, 2, 1, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        struct model_speed_options o = options();
        struct model_speed m;
        struct err err = {0};
        struct result r;
        n_calls = 0;
        o.n_prompt = cases[c].n_prompt;
        o.n_prompts = cases[c].n_prompts;
        o.n_generate = cases[c].n_generate;
        o.batch = cases[c].batch;
        assert_int_equal(model_speed_run(&m, tiny.model, &o, &err), STATUS_OK);
        assert_int_equal(m.prefill.n, 3);
        assert_int_equal(m.prompts.n, 3);
        assert_int_equal(m.decode.n, 3);
        for (int i = 0; i < 3; i++)
            assert_true(m.prompts_percent.v[i] == 100 * m.prompts.v[i] / m.prefill.v[i]);
        result_init(&r, "model", NULL, model_speed_workload(&o), json_object());
        model_speed_result(&m, &r);
        const json_t *metrics = json_object_get(r.root, "metrics");
        assert_int_equal(json_object_size(metrics), 4);
        assert_non_null(json_object_get(metrics, "prompts_of_prefill"));
        result_fini(&r);
        model_speed_fini(&m);
    }
}

static void test_workload_is_what_was_asked(void **state)
{
    (void)state;
    struct model_speed_options o = options();
    json_t *got = model_speed_workload(&o);
    json_t *expected = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "prompt_tokens", 40, "prompts",
                                 1, "decode_tokens", 3, "batch", 1, "depth", 5, "seed", 7);
    assert_true(json_equal(got, expected));
    json_decref(got);
    json_decref(expected);
}

/* The longest sequence is refused one token later, before anything is allocated for it. */
static void test_too_long(void **state)
{
    (void)state;
    struct model_speed_options o = options();
    struct model_speed m;
    struct err err = {0};
    n_calls = 0;
    o.depth = LIMIT_CONTEXT - o.n_prompt + 1;
    assert_int_equal(model_speed_run(&m, tiny.model, &o, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--depth");
    assert_int_equal(n_calls, 0);
    o.depth = 0;
    o.n_generate = LIMIT_CONTEXT + 1;
    assert_int_equal(model_speed_run(&m, tiny.model, &o, &err), STATUS_INVALID);
    o = options();
    o.n_prompts = LIMIT_BATCH_TOKENS / o.n_prompt + 1; /* not one step */
    assert_int_equal(model_speed_run(&m, tiny.model, &o, &err), STATUS_INVALID);
    assert_string_equal(err.param, "--prompts");
    model_speed_fini(&m);
}

static int open_model(void **state)
{
    (void)state;
    struct err err = {0};
    tiny = tiny_model_default;
    return tiny_model_bind(&tiny, &err);
}

static int close_model(void **state)
{
    (void)state;
    tiny_model_fini(&tiny);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeats_count_and_warm_ups_do_not),
        cmocka_unit_test(test_several_prompts_and_sequences),
        cmocka_unit_test(test_workload_is_what_was_asked),
        cmocka_unit_test(test_too_long),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
