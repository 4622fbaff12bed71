/* The evaluator: which logits it hands out, in what order, whatever the chunks. */
#include "support/cmocka_all.h"
#include "support/tiny_model.h"

#include "base/cpu.h"
#include "engine/evaluator.h"

#define N_TOKENS 50

static struct tiny_model tiny;
static int32_t tokens[N_TOKENS];

struct taken {
    uint32_t next; /* the position that must come */
    float logits[N_TOKENS][80];
};

static void take(void *arg, uint32_t position, const float *logits)
{
    struct taken *t = arg;
    assert_int_equal(position, t->next);
    memcpy(t->logits[position], logits, sizeof t->logits[position]);
    t->next++;
}

static struct evaluator *open_evaluator(uint32_t rows, uint32_t outputs)
{
    struct err err = {0};
    struct evaluator *e;
    struct backend_options o = {
        .n_threads = 1,
        .cpu_levels = cpu_detect(),
        .max_rows = rows,
        .max_outputs = outputs,
        .n_ctx = N_TOKENS,
        .kv_type = KV_F16,
    };
    assert_int_equal(evaluator_open(&e, &cpu_backend, tiny.model, &o, &err), STATUS_OK);
    return e;
}

static void gives_the_wanted_positions_in_order(void **state)
{
    (void)state;
    static const uint32_t rows[] = {N_TOKENS, 16, 7, 1}, outputs[] = {N_TOKENS, 4, 7, 1};
    static const uint32_t wanted[] = {0, 1, 15, 16, 30, N_TOKENS - 1, N_TOKENS};
    static struct taken all, some;
    struct evaluator *e = open_evaluator(N_TOKENS, N_TOKENS);
    all.next = 0;
    evaluator_feed(e, tokens, N_TOKENS, 0, take, &all);
    assert_int_equal(all.next, N_TOKENS);
    evaluator_close(e);
    for (size_t i = 0; i < 4; i++) {
        e = open_evaluator(rows[i], outputs[i]);
        for (size_t w = 0; w < sizeof wanted / sizeof wanted[0]; w++) {
            evaluator_cut(e, 0);
            some.next = wanted[w];
            evaluator_feed(e, tokens, N_TOKENS, wanted[w], take, &some);
            assert_int_equal(some.next, N_TOKENS);
            assert_int_equal(evaluator_length(e), N_TOKENS);
            assert_memory_equal(some.logits[wanted[w] % N_TOKENS], all.logits[wanted[w] % N_TOKENS],
                                (N_TOKENS - wanted[w]) * sizeof all.logits[0]);
        }
        evaluator_close(e);
    }
}

static void can_be_cut_back_and_go_on(void **state)
{
    (void)state;
    static struct taken first, second;
    struct evaluator *e = open_evaluator(16, 16);
    first.next = second.next = 40;
    evaluator_feed(e, tokens, N_TOKENS, 40, take, &first);
    evaluator_cut(e, 33);
    evaluator_feed(e, tokens + 33, N_TOKENS - 33, 40, take, &second);
    assert_memory_equal(first.logits[40], second.logits[40], 10 * sizeof first.logits[0]);
    evaluator_close(e);
}

static void names_an_id_out_of_range(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(evaluator_check(tiny.model, (int32_t[]){0, 79}, 2, &err), STATUS_OK);
    assert_int_equal(evaluator_check(tiny.model, (int32_t[]){0, 80}, 2, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "80"));
    assert_int_equal(evaluator_check(tiny.model, (int32_t[]){-1}, 1, &err), STATUS_INVALID);
}

static int open_model(void **state)
{
    (void)state;
    struct err err = {0};
    tiny = tiny_model_default;
    for (int32_t i = 0; i < N_TOKENS; i++)
        tokens[i] = i * 37 % (int32_t)tiny.n_vocab;
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
        cmocka_unit_test(gives_the_wanted_positions_in_order),
        cmocka_unit_test(can_be_cut_back_and_go_on),
        cmocka_unit_test(names_an_id_out_of_range),
    };
    return cmocka_run_group_tests_name("evaluator", tests, open_model, close_model);
}
