/* A model with a window and norms of heads: a row's logits depend on its own tokens and positions
 * only, in every bit, however many positions and spans the window leaves behind. */
#include "support/cmocka_all.h"
#include "support/tiny_model.h"

#include "backend/backend.h"
#include "base/cpu.h"

#include <math.h>

#define N_TOKENS    600
#define N_NEIGHBOUR 45
#define WINDOW      70
#define N_LAST      12 /* rows that are compared */
#define SEQ_BLOCKS  ((N_TOKENS + KV_BLOCK - 1) / KV_BLOCK)
#define N_BLOCKS    (SEQ_BLOCKS + 2)

static struct tiny_model tiny;
static int32_t tokens[N_TOKENS];

struct setting {
    uint32_t levels;
    enum activations activations;
    enum kv_type kv_type;
    int n_threads;
    uint32_t chunk;  /* of the first tokens */
    uint32_t last;   /* of the last ones */
    bool neighbours; /* a sequence of two blocks in each of the last steps */
};

static struct backend *open_backend(const struct tiny_model *t, const struct setting *s)
{
    struct err err = {0};
    struct backend *b;
    struct backend_options o = {
        .n_threads = s->n_threads,
        .cpu_levels = s->levels,
        .activations = s->activations,
        .kv_type = s->kv_type,
        .max_rows = N_TOKENS,
        .max_outputs = N_TOKENS,
        .max_seqs = 2,
        .n_ctx = 640,
    };
    assert_int_equal(cpu_backend.open(&b, t->model, &o, &err), STATUS_OK);
    assert_int_equal(b->ops->kv_create(b, N_BLOCKS, &err), STATUS_OK);
    return b;
}

/* The logits of the last rows. */
static float *run(const struct tiny_model *t, const struct setting *s)
{
    const uint32_t own_blocks[] = {N_BLOCKS - 2, N_BLOCKS - 1};
    size_t n_vocab = t->model->config.n_vocab;
    float *logits = mem_array(N_LAST * n_vocab, sizeof *logits);
    struct backend *b = open_backend(t, s);
    uint32_t blocks[SEQ_BLOCKS], n, end = N_TOKENS - N_LAST;
    assert_non_null(logits);
    for (uint32_t i = 0; i < SEQ_BLOCKS; i++)
        blocks[i] = (i * 7 + 3) % SEQ_BLOCKS;
    for (uint32_t at = 0; at < N_TOKENS; at += n) {
        uint32_t left = at < end ? end - at : N_TOKENS - at, most = at < end ? s->chunk : s->last;
        struct step_result result;
        n = left < most ? left : most;
        const struct batch_seq seqs[] = {
            {8, tokens + at, n, at, blocks, OUTPUT_ALL},
            {9, tokens + 5, N_NEIGHBOUR, 0, own_blocks, OUTPUT_LAST},
        };
        b->ops->step_begin(b, &(struct batch){seqs, s->neighbours && at >= end ? 2 : 1});
        while (!b->ops->step_advance(b, 2))
            ;
        b->ops->step_finish(b, &result);
        if (at >= end)
            memcpy(logits + (at - end) * n_vocab, result.logits, n * n_vocab * sizeof *logits);
    }
    b->ops->close(b);
    return logits;
}

static void check(const struct setting *base)
{
    static const struct setting others[] = {
        {.n_threads = 1, .chunk = 33, .last = 7},
        {.n_threads = 2, .chunk = 280, .last = 1},
        {.n_threads = 3, .chunk = 256, .last = 12, .neighbours = true},
        {.n_threads = 1, .chunk = 100, .last = 1, .neighbours = true},
    };
    size_t n = N_LAST * tiny.model->config.n_vocab;
    float *expected = run(&tiny, base);
    for (size_t i = 0; i < n; i++)
        assert_true(isfinite(expected[i]));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct setting s = others[i];
        s.levels = base->levels;
        s.activations = base->activations;
        s.kv_type = base->kv_type;
        float *logits = run(&tiny, &s);
        if (memcmp(logits, expected, n * sizeof *logits) != 0)
            fail_msg("setting %zu changes bits (levels 0x%x, KV type %d)", i, s.levels,
                     (int)s.kv_type);
        mem_free(logits);
    }
    mem_free(expected);
}

static void bits_depend_on_the_row_alone(void **state)
{
    (void)state;
    for (int type = 0; type < KV_TYPES; type++) {
        struct setting s = {cpu_detect(),
                            type % 2 ? ACTIVATIONS_INT8 : ACTIVATIONS_F32,
                            (enum kv_type)type,
                            1,
                            N_TOKENS,
                            N_LAST,
                            false};
        check(&s);
        s.levels &= CPU_AVX2;
        check(&s);
    }
#ifndef FIRSTLIGHT_DEBUG /* minutes */
    check(&(struct setting){0, ACTIVATIONS_INT8, KV_BF16, 1, N_TOKENS, N_LAST, false});
#endif
}

/* Three layers pass on what is up to 3 * (WINDOW - 1) positions back, and nothing from before. */
static void what_the_window_left_behind_has_no_effect(void **state)
{
    (void)state;
    struct setting s = {cpu_detect(), ACTIVATIONS_F32, KV_F32, 2, N_TOKENS, N_LAST, false};
    size_t bytes = N_LAST * tiny.model->config.n_vocab * sizeof(float);
    uint32_t first = N_TOKENS - N_LAST - 3 * (WINDOW - 1);
    float *expected = run(&tiny, &s);
    for (uint32_t at = 0; at < 2; at++) {
        int32_t *token = &tokens[first - 1 + at];
        *token ^= 1;
        float *logits = run(&tiny, &s);
        assert_int_equal(memcmp(logits, expected, bytes) != 0, at == 1);
        *token ^= 1;
        mem_free(logits);
    }
    mem_free(expected);
}

static int open_model(void **state)
{
    (void)state;
    struct err err = {0};
    struct random random = {7};
    tiny = tiny_model_default;
    tiny.arch = "qwen3";
    tiny.head_norms = true;
    tiny.window = WINDOW;
    for (size_t i = 0; i < N_TOKENS; i++)
        tokens[i] = (int32_t)random_below(&random, tiny.n_vocab);
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
        cmocka_unit_test(bits_depend_on_the_row_alone),
        cmocka_unit_test(what_the_window_left_behind_has_no_effect),
    };
    return cmocka_run_group_tests_name("relatives", tests, open_model, close_model);
}
