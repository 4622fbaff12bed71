/* The CPU backend: a row's logits depend on its own tokens and positions only, in every bit.
 *
 * One sequence is computed alone, in one chunk, on one thread: the reference. Then with everything
 * around it changed, one thing at a time, at every CPU level and with both kinds of activations.
 */
#include "support/cmocka_all.h"
#include "support/tiny_model.h"

#include "backend/backend.h"
#include "base/cpu.h"
#include "model/load/loader.h"

#include <math.h>

#define N_TOKENS    100
#define N_NEIGHBOUR 45  /* tokens of each neighbour */
#define N_LONG      600 /* tokens of one that takes several spans of attention */
#define N_BLOCKS    32
#define MAX_ROWS    256
#define SEQ_BLOCKS  4 /* blocks of the sequence under test */

static struct tiny_model tiny;
static int32_t tokens[N_LONG];
static int32_t neighbour_tokens[N_NEIGHBOUR];

/* What is around the sequence. */
struct setting {
    uint32_t levels;
    enum activations activations;
    enum kv_type kv_type;
    int n_threads;
    uint32_t chunk;
    bool neighbours;     /* one before it and one behind it in every batch */
    bool other_blocks;   /* its blocks lie backwards in the cache */
    bool layer_by_layer; /* step_advance(1) */
    bool last_only;      /* only the last row's logits are asked for */
    uint32_t drop_after; /* layers after which the neighbours leave; 0: they stay */
    uint32_t park_after; /* layers after which the step stands aside for others; 0: never */
    bool drop_parked;    /* the neighbours leave while it does */
};

static struct backend *open_backend(const struct setting *s)
{
    struct err err = {0};
    struct backend *b;
    struct backend_options o = {
        .n_threads = s->n_threads,
        .cpu_levels = s->levels,
        .activations = s->activations,
        .kv_type = s->kv_type,
        .max_rows = MAX_ROWS,
        .max_outputs = MAX_ROWS,
        .max_seqs = 4,
        .n_ctx = tiny.model->position_embd ? tiny.model->config.n_ctx_train : 640,
    };
    assert_int_equal(cpu_backend.open(&b, tiny.model, &o, &err), STATUS_OK);
    assert_int_equal(b->ops->kv_create(b, N_BLOCKS, &err), STATUS_OK);
    return b;
}

/* Two whole steps of another sequence, the second one loses it, while the step under way is parked.
 */
static void park(struct backend *b, const struct setting *s)
{
    const uint32_t blocks[] = {24, 25};
    const struct batch_seq other = {1, neighbour_tokens + 1, 40, 0, blocks, OUTPUT_ALL};
    struct step_result result;
    b->ops->step_park(b);
    for (int i = 0; i < 2; i++) {
        b->ops->step_begin(b, &(struct batch){&other, 1});
        if (s->drop_parked && i == 0) {
            b->ops->step_drop(b, 7);
            b->ops->step_drop(b, 9);
        }
        b->ops->step_advance(b, 1);
        if (i == 1)
            b->ops->step_drop(b, 1);
        while (!b->ops->step_advance(b, 1))
            ;
        b->ops->step_finish(b, &result);
        assert_int_equal(result.n_rows, 40);
    }
    b->ops->step_resume(b);
}

static void advance(struct backend *b, const struct setting *s)
{
    uint32_t layers = 0;
    bool watched = s->layer_by_layer || s->drop_after || s->park_after;
    uint32_t step = watched ? 1 : tiny.model->config.n_layers;
    while (!b->ops->step_advance(b, step)) {
        layers += step;
        if (s->park_after && layers == s->park_after)
            park(b, s);
        if (s->drop_after && layers == s->drop_after) {
            b->ops->step_drop(b, 7);
            b->ops->step_drop(b, 9);
        }
    }
}

/* One chunk; the rows of the sequence's logits are copied to `out`. */
static void run_chunk(struct backend *b, const struct setting *s, const uint32_t *blocks,
                      uint32_t at, uint32_t n, float *out)
{
    const uint32_t left[] = {20, 21}, right[] = {22, 23};
    const struct batch_seq own = {8, tokens + at, n, at, blocks, OUTPUT_ALL};
    struct batch_seq seqs[3] = {
        {7, neighbour_tokens, N_NEIGHBOUR, 0, left, OUTPUT_LAST},
        own,
        {9, neighbour_tokens + 3, N_NEIGHBOUR - 3, 0, right, OUTPUT_ALL},
    };
    size_t n_vocab = tiny.model->config.n_vocab;
    uint32_t skip = s->neighbours ? 1 : 0;
    struct step_result result;
    if (s->last_only)
        seqs[1].output = OUTPUT_LAST;
    if (s->neighbours)
        b->ops->step_begin(b, &(struct batch){seqs, 3});
    else
        b->ops->step_begin(b, &(struct batch){seqs + 1, 1});
    advance(b, s);
    b->ops->step_finish(b, &result);
    uint32_t rows = s->last_only ? 1 : n;
    assert_int_equal(result.n_rows, rows + (s->neighbours ? 1 + N_NEIGHBOUR - 3 : 0));
    memcpy(out + (n - rows) * n_vocab, result.logits + skip * n_vocab,
           rows * n_vocab * sizeof *out);
}

/* (N_TOKENS, n_vocab), the caller's to free. */
static float *run_setting(const struct setting *s)
{
    size_t n_vocab = tiny.model->config.n_vocab;
    const uint32_t forward[SEQ_BLOCKS] = {0, 1, 2, 3}, backward[SEQ_BLOCKS] = {31, 11, 30, 5};
    float *logits = mem_array(N_TOKENS * n_vocab, sizeof *logits);
    struct backend *b = open_backend(s);
    assert_non_null(logits);
    for (uint32_t at = 0; at < N_TOKENS; at += s->chunk) {
        uint32_t n = N_TOKENS - at < s->chunk ? N_TOKENS - at : s->chunk;
        run_chunk(b, s, s->other_blocks ? backward : forward, at, n, logits + at * n_vocab);
    }
    b->ops->close(b);
    return logits;
}

static void assert_same(const struct setting *s, const float *expected, const char *what)
{
    size_t n_vocab = tiny.model->config.n_vocab;
    float *logits = run_setting(s);
    size_t first = s->last_only ? (N_TOKENS - 1) * n_vocab : 0;
    size_t bytes = (N_TOKENS * n_vocab - first) * sizeof *logits;
    if (memcmp(logits + first, expected + first, bytes) != 0)
        fail_msg("%s changes bits (levels 0x%x, activations %d, KV type %d)", what, s->levels,
                 (int)s->activations, (int)s->kv_type);
    mem_free(logits);
}

static void check_chunks(const struct setting *base, const float *expected)
{
    static const uint32_t sizes[] = {1, 3, 7, 32, 33};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct setting s = *base;
        char what[32];
        snprintf(what, sizeof what, "a chunk of %u", sizes[i]);
        s.chunk = sizes[i];
        assert_same(&s, expected, what);
        s.neighbours = true;
        assert_same(&s, expected, what);
    }
}

static void check_surroundings(const struct setting *base, const float *expected)
{
    struct setting s = *base;
    s.n_threads = 2;
    assert_same(&s, expected, "a second thread");
    s.n_threads = 5;
    assert_same(&s, expected, "five threads");
    s = *base;
    s.neighbours = true;
    assert_same(&s, expected, "neighbours");
    s.n_threads = 2;
    s.chunk = 40;
    assert_same(&s, expected, "neighbours and a second thread");
    s = *base;
    s.other_blocks = true;
    assert_same(&s, expected, "another block table");
    s = *base;
    s.layer_by_layer = true;
    assert_same(&s, expected, "advancing by one layer");
    s = *base;
    s.last_only = true;
    assert_same(&s, expected, "asking for the last row only");
}

static void check_drops(const struct setting *base, const float *expected)
{
    for (uint32_t after = 1; after <= 2; after++) {
        struct setting s = *base;
        s.neighbours = true;
        s.drop_after = after;
        s.n_threads = 2;
        assert_same(&s, expected, "dropped neighbours");
    }
}

static void check_parking(const struct setting *base, const float *expected)
{
    for (uint32_t after = 1; after <= 2; after++) {
        struct setting s = *base;
        s.park_after = after;
        assert_same(&s, expected, "standing aside");
        s.neighbours = true;
        s.n_threads = 2;
        s.chunk = 40;
        assert_same(&s, expected, "standing aside with neighbours");
        s.drop_parked = true;
        assert_same(&s, expected, "neighbours dropped while standing aside");
    }
}

/* Thread sanitizer looks at the threads, which all types share; every sanitizer is slow. */
#ifdef __SANITIZE_THREAD__
#define FIRST_KV_TYPE KV_BF16
#define LAST_KV_TYPE  KV_BF16
#else
#define FIRST_KV_TYPE 0
#define LAST_KV_TYPE  (KV_TYPES - 1)
#endif
#ifdef FIRSTLIGHT_DEBUG
#define MOST_THREADS      3
#define FIRST_FORM        1
#define REFERENCE_IS_SLOW true
#else
#define MOST_THREADS      16
#define FIRST_FORM        0
#define REFERENCE_IS_SLOW false
#endif

static void check_everything(uint32_t levels, enum activations activations, enum kv_type kv_type)
{
    struct setting base = {
        .levels = levels,
        .activations = activations,
        .kv_type = kv_type,
        .n_threads = 1,
        .chunk = N_TOKENS,
    };
    float *expected = run_setting(&base);
    size_t n = N_TOKENS * tiny.model->config.n_vocab;
    for (size_t i = 0; i < n; i++)
        assert_true(isfinite(expected[i]));
    check_surroundings(&base, expected);
    if (levels || !REFERENCE_IS_SLOW) {
        check_chunks(&base, expected);
        check_drops(&base, expected);
        check_parking(&base, expected);
    }
    mem_free(expected);
}

static void bits_depend_on_the_row_alone(void **state)
{
    (void)state;
    uint32_t machine = cpu_detect();
#ifdef __SANITIZE_THREAD__
    const uint32_t masks[] = {CPU_ALL};
#elif defined FIRSTLIGHT_DEBUG /* slow too, and test_kernels has each level */
    const uint32_t masks[] = {0, CPU_AVX2, CPU_ALL};
#else
    const uint32_t masks[] = {
        0,
        CPU_AVX2,
        CPU_AVX2 | CPU_AVX_VNNI,
        CPU_AVX2 | CPU_AVX512,
        CPU_AVX2 | CPU_AVX512 | CPU_AVX512_VNNI,
        CPU_ALL,
    };
#endif
    uint32_t previous = UINT32_MAX;
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        uint32_t levels = machine & masks[i];
        if (levels == previous || (masks[i] != CPU_ALL && levels != masks[i]))
            continue;
        previous = levels;
        check_everything(levels, ACTIVATIONS_F32, KV_F32);
        int first = levels ? FIRST_KV_TYPE : KV_BF16;
        int last = levels || !REFERENCE_IS_SLOW ? LAST_KV_TYPE : first;
        for (int kv_type = first; kv_type <= last; kv_type++)
            check_everything(levels, ACTIVATIONS_INT8, (enum kv_type)kv_type);
    }
}

/* The same of architectures with other features, as their files are and quantised. */
static void bits_depend_on_the_row_alone_in(const char *path)
{
    struct model *own = tiny.model;
    struct err err = {0};
    for (int i = FIRST_FORM; i < 2; i++) { /* float, quantised */
        struct loader l;
        const struct loader_options o = {
            .path = path, .model_only = true, .recast = i == 1, .dtype = TENSOR_Q8_0};
        if (loader_open_with(&l, &o, &err) != STATUS_OK)
            fail_msg("%s", err.text);
        tiny.model = l.model;
        check_everything(cpu_detect(), i ? ACTIVATIONS_INT8 : ACTIVATIONS_F32, KV_F32);
        loader_close(&l);
    }
    tiny.model = own;
}

static void bits_of_gpt2(void **state)
{
    (void)state;
    bits_depend_on_the_row_alone_in("tests/golden/arch/gpt2_untied");
}

static void bits_of_gemma3(void **state)
{
    (void)state;
    bits_depend_on_the_row_alone_in("tests/golden/arch/gemma3");
}

static void bits_of_olmo2(void **state)
{
    (void)state;
    bits_depend_on_the_row_alone_in("tests/golden/relatives/olmo2");
}

/* The last tokens of a long sequence in one chunk on one thread; or one by one, on threads that
 * divide its spans, beside a short sequence of which each step has one token too. */
static float *run_long(const struct setting *s, uint32_t n_last)
{
    uint32_t blocks[(N_LONG + KV_BLOCK - 1) / KV_BLOCK], short_blocks[] = {20, 21};
    size_t n_vocab = tiny.model->config.n_vocab;
    float *logits = mem_array(n_last * n_vocab, sizeof *logits);
    struct backend *b = open_backend(s);
    struct step_result result;
    uint32_t at = 0;
    assert_non_null(logits);
    for (uint32_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        blocks[i] = i;
    for (uint32_t n; at < N_LONG; at += n) {
        uint32_t left = N_LONG - n_last - at, done = N_LONG - at;
        n = at >= N_LONG - n_last ? s->chunk : left < MAX_ROWS ? left : MAX_ROWS;
        struct batch_seq seqs[] = {
            {8, tokens + at, n, at, blocks, OUTPUT_ALL},
            {9, neighbour_tokens + n_last - done, 1, n_last - done, short_blocks, OUTPUT_LAST},
        };
        b->ops->step_begin(b, &(struct batch){seqs, done <= n_last && n == 1 ? 2 : 1});
        while (!b->ops->step_advance(b, 2))
            ;
        b->ops->step_finish(b, &result);
        if (done <= n_last)
            memcpy(logits + (n_last - done) * n_vocab, result.logits, n * n_vocab * sizeof *logits);
    }
    b->ops->close(b);
    return logits;
}

static void spans_are_merged_alike(void **state)
{
    static const int threads[] = {1, 2, 3, 5, 16};
    enum { N_LAST = 20 };
    (void)state;
    for (int i = 2 * FIRST_KV_TYPE; i < 2 * LAST_KV_TYPE + 2; i++) {
        uint32_t levels = i % 2 ? cpu_detect() : CPU_AVX2 & cpu_detect();
        struct setting s = {
            .levels = levels, .kv_type = (enum kv_type)(i / 2), .n_threads = 1, .chunk = N_LAST};
        float *expected = run_long(&s, N_LAST);
        for (size_t t = 0; t < sizeof threads / sizeof *threads && threads[t] <= MOST_THREADS;
             t++) {
            s.n_threads = threads[t];
            s.chunk = 1;
            float *logits = run_long(&s, N_LAST);
            assert_memory_equal(logits, expected,
                                N_LAST * tiny.model->config.n_vocab * sizeof *logits);
            mem_free(logits);
        }
        mem_free(expected);
    }
}

/* A weight that is no number must end a request, not become a plausible token. */
static void what_is_not_finite_reaches_the_logits(void **state)
{
    (void)state;
    float *weight = (float *)(uintptr_t)tiny.model->layers[1].attn_norm->data;
    float before = weight[3];
    weight[3] = NAN;
    for (int i = 0; i < 4 * KV_TYPES; i++) {
        struct setting s = {
            .levels = i / 2 % 2 ? cpu_detect() : 0,
            .activations = i % 2 ? ACTIVATIONS_F32 : ACTIVATIONS_INT8,
            .kv_type = (enum kv_type)(i / 4),
            .n_threads = 1,
            .chunk = N_TOKENS,
        };
        float *logits = run_setting(&s);
        for (size_t k = 0; k < N_TOKENS * tiny.model->config.n_vocab; k++)
            assert_false(isfinite(logits[k]));
        mem_free(logits);
    }
    weight[3] = before;
}

/* Of its block's second copy only 9 positions are meant: the tenth, the other half of a pair, and
 * those behind it are somebody else's, and not even numbers, until they are stored. */
static void check_copies(enum kv_type kv_type)
{
    struct setting s = {cpu_detect(), ACTIVATIONS_INT8, kv_type, 2, N_TOKENS, .last_only = true};
    size_t n_vocab = tiny.model->config.n_vocab;
    const uint32_t blocks[SEQ_BLOCKS] = {0, 1, 2, 3}, copies[SEQ_BLOCKS] = {4, 5, 2, 3};
    float *weight = (float *)(uintptr_t)tiny.model->layers[0].attn_norm->data, before = weight[3];
    float *expected = run_setting(&s);
    float *logits = mem_array(N_TOKENS * n_vocab, sizeof *logits);
    struct backend *b = open_backend(&s);
    run_chunk(b, &s, blocks, 0, 41, logits);
    weight[3] = NAN;
    run_chunk(b, &s, blocks, 41, 20, logits);
    weight[3] = before;
    b->ops->kv_copy(b, 4, 0, KV_BLOCK);
    b->ops->kv_copy(b, 5, 1, 41 - KV_BLOCK);
    for (uint32_t at = 41; at < N_TOKENS; at = at < 45 ? at + 1 : N_TOKENS)
        run_chunk(b, &s, copies, at, at < 45 ? 1 : N_TOKENS - at, logits + at * n_vocab);
    size_t last = (N_TOKENS - 1) * n_vocab;
    assert_memory_equal(logits + last, expected + last, n_vocab * sizeof *logits);
    b->ops->close(b);
    mem_free(logits);
    mem_free(expected);
}

static void a_copied_block_is_the_same_block(void **state)
{
    (void)state;
    for (int kv_type = 0; kv_type < KV_TYPES; kv_type++)
        check_copies((enum kv_type)kv_type);
}

static void a_step_may_lose_all_its_sequences(void **state)
{
    (void)state;
    struct setting s = {cpu_detect(), ACTIVATIONS_INT8, KV_F16, 2, N_TOKENS, .neighbours = false};
    struct backend *b = open_backend(&s);
    const uint32_t blocks[SEQ_BLOCKS] = {0, 1, 2, 3};
    struct batch_seq seq = {8, tokens, N_TOKENS, 0, blocks, OUTPUT_LAST};
    struct step_result result;
    for (uint32_t after = 0; after <= tiny.model->config.n_layers; after++) {
        b->ops->step_begin(b, &(struct batch){&seq, 1});
        bool done = after > 0 && b->ops->step_advance(b, after);
        b->ops->step_drop(b, 8);
        b->ops->step_drop(b, 8);
        b->ops->step_drop(b, 1000);
        while (!done)
            done = b->ops->step_advance(b, 1);
        b->ops->step_finish(b, &result);
        assert_int_equal(result.n_rows, 1);
    }
    b->ops->close(b);
}

static void too_large_a_cache_names_both_sizes(void **state)
{
    (void)state;
    struct backend_options o = {1, cpu_detect(), ACTIVATIONS_INT8, KV_F16, MAX_ROWS, MAX_ROWS,
                                4, 256};
    struct err err = {0};
    struct backend *b;
    struct backend_memory m;
    assert_int_equal(cpu_backend.open(&b, tiny.model, &o, &err), STATUS_OK);
    assert_int_equal(b->ops->kv_create(b, UINT32_MAX, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.text, "need"));
    assert_non_null(strstr(err.text, "available"));
    b->ops->memory(b, &m);
    assert_int_equal(m.kv, 0);
    assert_true(m.weights > 0 && m.activations > 0);
    assert_true(m.repacked > 0);
    assert_int_equal(m.repacked, cpu_backend.repacked_bytes(tiny.model, ACTIVATIONS_INT8));
    assert_int_equal(cpu_backend.repacked_bytes(tiny.model, ACTIVATIONS_F32), 0);
    assert_int_equal(b->ops->kv_create(b, 2, &err), STATUS_OK);
    b->ops->memory(b, &m);
    assert_true(m.kv >= 2 * model_kv_block_bytes(&tiny.model->config, KV_F16));
    b->ops->close(b);
}

/* Weights are the matrices and the norms that are counted, where there are any. */
static void absent_norms_take_no_memory(void **state)
{
    (void)state;
    const struct loader_options open = {.path = "tests/golden/relatives/olmo2.gguf",
                                        .model_only = true};
    struct backend_options o = {1, cpu_detect(), ACTIVATIONS_F32, KV_F32, 8, 8, 1, 64};
    struct loader l;
    struct err err = {0};
    struct backend *b;
    struct backend_memory memory;
    assert_int_equal(loader_open_with(&l, &open, &err), STATUS_OK);
    assert_int_equal(cpu_backend.open(&b, l.model, &o, &err), STATUS_OK);
    b->ops->memory(b, &memory);
    const struct model *m = l.model;
    const struct model_layer *w = &m->layers[0];
    size_t layer = w->wq->size + w->wk->size + w->wv->size + w->wo->size + w->w_gate->size +
                   w->w_up->size + w->w_down->size;
    assert_int_equal(memory.weights, m->token_embd->size + m->output_norm->size + m->output->size +
                                         m->config.n_layers * layer);
    b->ops->close(b);
    loader_close(&l);
}

/* A table of positions has an end, and nothing reads behind it. */
static void positions_end_with_their_table(void **state)
{
    (void)state;
    struct loader l;
    const struct loader_options open = {.path = "tests/golden/arch/gpt2.gguf", .model_only = true};
    struct backend_options o = {1, cpu_detect(), ACTIVATIONS_F32, KV_F32, 8, 8, 1, 129};
    struct err err = {0};
    struct backend *b;
    assert_int_equal(loader_open_with(&l, &open, &err), STATUS_OK);
    assert_int_equal(cpu_backend.open(&b, l.model, &o, &err), STATUS_INVALID);
    assert_non_null(strstr(err.text, "129 positions"));
    assert_non_null(strstr(err.text, "position_embd.weight has 128"));
    o.n_ctx = 128;
    assert_int_equal(cpu_backend.open(&b, l.model, &o, &err), STATUS_OK);
    b->ops->close(b);
    loader_close(&l);
}

static void the_table_has_the_cpu(void **state)
{
    (void)state;
    assert_ptr_equal(backend_find("cpu"), &cpu_backend);
    assert_ptr_equal(backend_at(0), &cpu_backend);
    assert_null(backend_find("abacus"));
    assert_null(backend_at(1));
}

static int open_model(void **state)
{
    (void)state;
    struct err err = {0};
    struct random random = {3};
    tiny = tiny_model_default;
    tiny.biases = tiny.rope_factors = true;
    for (size_t i = 0; i < N_LONG; i++)
        tokens[i] = (int32_t)random_below(&random, tiny.n_vocab);
    for (size_t i = 0; i < N_NEIGHBOUR; i++)
        neighbour_tokens[i] = (int32_t)random_below(&random, tiny.n_vocab);
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
        cmocka_unit_test(bits_of_gpt2),
        cmocka_unit_test(bits_of_gemma3),
        cmocka_unit_test(bits_of_olmo2),
        cmocka_unit_test(absent_norms_take_no_memory),
        cmocka_unit_test(spans_are_merged_alike),
        cmocka_unit_test(what_is_not_finite_reaches_the_logits),
        cmocka_unit_test(a_copied_block_is_the_same_block),
        cmocka_unit_test(a_step_may_lose_all_its_sequences),
        cmocka_unit_test(too_large_a_cache_names_both_sizes),
        cmocka_unit_test(positions_end_with_their_table),
        cmocka_unit_test(the_table_has_the_cpu),
    };
    return cmocka_run_group_tests_name("cpu_backend", tests, open_model, close_model);
}
