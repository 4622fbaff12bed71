/* Times of the kernels, by `test_kernels --bench [word]`: every entry at every level, or those
 * whose operation or type contains the word. The best of several runs, one thread. */
#ifndef FIRSTLIGHT_TESTS_KERNELS_BENCH_H
#define FIRSTLIGHT_TESTS_KERNELS_BENCH_H

#include "base/clock.h"
#include "kernels/kv_layout.h"
#include "kernels/panel.h"
#include "kernels/weights.h"

#include <stdalign.h>

#define BENCH_NS 60000000 /* spent on each entry */

static const char *bench_word;

static bool bench_wanted(const char *op, const char *type)
{
    return !bench_word || strstr(op, bench_word) || strcmp(type, bench_word) == 0;
}

typedef void bench_fn(void *context);

/* The shortest time of one call, in nanoseconds. */
static double bench_time(bench_fn *fn, void *context)
{
    int64_t start = clock_now_ns(), best = INT64_MAX, end;
    do {
        int64_t before = clock_now_ns();
        fn(context);
        end = clock_now_ns();
        best = end - before < best ? end - before : best;
    } while (end - start < BENCH_NS);
    return (double)best;
}

struct bench_matmul {
    matmul_q8_fn *q8; /* or */
    matmul_f32_fn *f32;
    struct matmul_q8_args a;
    struct matmul_f32_args f;
};

static void bench_matmul_call(void *context)
{
    struct bench_matmul *b = context;
    if (b->q8)
        b->q8(&b->a);
    else
        b->f32(&b->f);
}

/* A matrix to multiply with, in the form that the entry takes. */
static void *bench_weights(struct bench_matmul *b, const struct type_shape *shape)
{
    size_t row_bytes = tensor_row_bytes(shape->type, b->f.k), rows = b->f.n_rows;
    uint8_t *w = mem_aligned(rows * row_bytes);
    assert_non_null(w);
    fill_weights(shape, w, rows * b->f.k, WEIGHTS_RANDOM);
    b->f.w = w;
    b->f.w_row_bytes = row_bytes;
    if (!b->q8)
        return w;
    b->a.panel_bytes = panel_bytes(shape->type, b->f.k);
    uint8_t *panels = mem_aligned(rows / PANEL_ROWS * b->a.panel_bytes);
    assert_non_null(panels);
    for (size_t r = 0; r < rows; r += PANEL_ROWS)
        panel_pack(shape->type, panels + r / PANEL_ROWS * b->a.panel_bytes, w + r * row_bytes,
                   row_bytes, PANEL_ROWS, b->f.k);
    b->a.w = panels;
    mem_free(w);
    return panels;
}

/* Operations count a multiplication and an addition each; bytes are the weights' in the file. */
static void bench_matmul(const struct check_level *level, bool q8, const struct type_shape *shape,
                         size_t k, size_t rows, size_t tokens)
{
    if (k % tensor_type_block_values(shape->type) != 0)
        return;
    void *x = mem_aligned(tokens * k * sizeof(float));
    float *out = mem_aligned((tokens * rows + k) * sizeof *out);
    assert_true(x && out);
    if (q8)
        fill_q8(x, tokens * k / 32, X_RANDOM);
    else
        random_floats(x, tokens * k, 1.0f);
    struct bench_matmul b = {
        .q8 = q8 ? level->k.matmul_q8[shape->type] : NULL,
        .f32 = level->k.matmul_f32[shape->type],
        .a = {out + k, rows, NULL, 0, rows, x, k / 32, tokens, k / 32},
        .f = {out + k, rows, NULL, 0, rows, x, k, tokens, k, out},
    };
    void *w = bench_weights(&b, shape);
    double ns = bench_time(bench_matmul_call, &b);
    printf("%-40s %-10s %-4s %5zu x %-5zu %4zu tokens %9.1f us %8.1f GOP/s %7.2f GB/s\n",
           level->name, q8 ? "matmul_q8" : "matmul_f32", tensor_type_name(shape->type), rows, k,
           tokens, ns / 1e3, 2.0 * (double)(rows * k * tokens) / ns,
           (double)(rows * tensor_row_bytes(shape->type, k)) / ns);
    mem_free(w);
    mem_free(x);
    mem_free(out);
}

/* K-quants need K a multiple of 256, so the third shape is theirs. The fourth is a head, whose
 * weights no cache holds. */
static void bench_matmuls(const struct check_level *level)
{
    static const size_t shapes[][2] = {{576, 1536}, {1536, 576}, {2048, 2048}, {1536, 32768}};
    static const size_t tokens[] = {1, 4, 32, 512};
    for (size_t i = 0; i < COUNT(type_shapes) * COUNT(shapes) * COUNT(tokens); i++) {
        const struct type_shape *t = &type_shapes[i / COUNT(shapes) / COUNT(tokens)];
        const size_t *shape = shapes[i / COUNT(tokens) % COUNT(shapes)];
        size_t n = tokens[i % COUNT(tokens)];
        const char *name = tensor_type_name(t->type);
        if (shape[1] > 8192 && n > 1)
            continue;
        if (t->group && bench_wanted("matmul_q8", name))
            bench_matmul(level, true, t, shape[0], shape[1], n);
        if (bench_wanted("matmul_f32", name))
            bench_matmul(level, false, t, shape[0], shape[1], n);
    }
}

/* The vector operations on 4096 values: in L1, as in a forward pass. */
#define BENCH_N 4096

struct bench_vector {
    /* As the forward pass has its rows; not a multiple of 4 KiB apart, where stores hold up loads.
     */
    alignas(64) float a[BENCH_N + 128];
    float b[BENCH_N + 128], c[BENCH_N + 128];
    struct q8_block q[BENCH_N / Q8_VALUES];
    const struct kernels *k;
};

static void bench_quantize_q8(void *p)
{
    struct bench_vector *b = p;
    b->k->quantize_q8(b->q, b->a, BENCH_N);
}

static void bench_rmsnorm(void *p)
{
    struct bench_vector *b = p;
    b->k->rmsnorm(b->c, b->a, b->b, BENCH_N, 1e-5f);
}

static void bench_rope(void *p)
{
    struct bench_vector *b = p;
    b->k->rope(&(struct rope_args){b->c, BENCH_N / 64, 64, b->b, 64, ROPE_NEIGHBOURS, 1.0f});
}

static void bench_layernorm(void *p)
{
    struct bench_vector *b = p;
    b->k->layernorm(b->c, b->a, b->b, b->b, BENCH_N, 1e-5f);
}

static void bench_add_layernorm_q8(void *p)
{
    struct bench_vector *b = p;
    b->k->add_layernorm_q8(b->q, b->c, b->a, b->b, b->b, BENCH_N, 1e-5f);
}

static void bench_silu(void *p)
{
    struct bench_vector *b = p;
    b->k->activate[ACTIVATION_SILU](b->c, b->a, b->b, BENCH_N);
}

static void bench_gelu_tanh(void *p)
{
    struct bench_vector *b = p;
    b->k->activate[ACTIVATION_GELU_TANH](b->c, b->a, b->b, BENCH_N);
}

static void bench_gelu_erf(void *p)
{
    struct bench_vector *b = p;
    b->k->activate[ACTIVATION_GELU_ERF](b->c, b->a, b->b, BENCH_N);
}

static void bench_add_rmsnorm_q8(void *p)
{
    struct bench_vector *b = p;
    b->k->add_rmsnorm_q8(b->q, b->c, b->a, b->b, BENCH_N, 1e-5f);
}

/* As the forward pass does: rows of 64. */
static void bench_activate_q8(const struct bench_vector *b, enum activation f, const float *up)
{
    b->k->activate_q8[f](&(struct activate_q8_args){
        .out = (struct q8_block *)b->q,
        .out_stride = 2,
        .gate = b->a,
        .up = up,
        .n_rows = BENCH_N / 64,
        .n = 64,
    });
}

static void bench_silu_q8(void *p)
{
    struct bench_vector *b = p;
    bench_activate_q8(b, ACTIVATION_SILU, b->b);
}

static void bench_gelu_tanh_q8(void *p)
{
    bench_activate_q8(p, ACTIVATION_GELU_TANH, NULL);
}

static void bench_add(void *p)
{
    struct bench_vector *b = p;
    b->k->add(b->c, b->a, BENCH_N);
}

static void bench_group_max(void *p)
{
    struct bench_vector *b = p;
    *(volatile bool *)b->q = b->k->group_max(b->c, b->a, BENCH_N);
}

static void bench_exp_sum(void *p)
{
    struct bench_vector *b = p;
    *(volatile float *)&b->q[0].scale = b->k->exp_sum(b->c, b->a, BENCH_N, 1.0f, 1.25f);
}

static void bench_sum_above(void *p)
{
    struct bench_vector *b = p;
    *(volatile float *)&b->q[0].scale = b->k->sum_above(b->a, BENCH_N, 0.5f);
}

static void bench_vectors(const struct check_level *level)
{
    static const struct {
        const char *name;
        bench_fn *fn;
    } rows[] = {
        {"quantize_q8", bench_quantize_q8},
        {"rmsnorm", bench_rmsnorm},
        {"add_rmsnorm_q8", bench_add_rmsnorm_q8},
        {"rope", bench_rope},
        {"layernorm", bench_layernorm},
        {"add_layernorm_q8", bench_add_layernorm_q8},
        {"silu", bench_silu},
        {"gelu_tanh", bench_gelu_tanh},
        {"gelu_erf", bench_gelu_erf},
        {"silu_q8", bench_silu_q8},
        {"gelu_tanh_q8", bench_gelu_tanh_q8},
        {"add", bench_add},
        {"group_max", bench_group_max},
        {"exp_sum", bench_exp_sum},
        {"sum_above", bench_sum_above},
    };
    static struct bench_vector b;
    b.k = &level->k;
    random_floats(b.a, BENCH_N, 1.0f);
    random_floats(b.b, BENCH_N, 1.0f);
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (!bench_wanted(rows[i].name, ""))
            continue;
        double ns = bench_time(rows[i].fn, &b);
        printf("%-40s %-15s %27s %9.3f us %8.2f Gvalue/s\n", level->name, rows[i].name, "",
               ns / 1e3, BENCH_N / ns);
    }
}

/* One KV head of 64 dims over 512 positions, for a decode step's 3 queries and a prefill's 48. */
#define BENCH_DIM       64
#define BENCH_POSITIONS 512

struct bench_attn {
    const struct kernels *k;
    enum kv_type type;
    struct attn_args a;
    struct kv_store_args store;
};

static void bench_attn_call(void *context)
{
    struct bench_attn *b = context;
    b->k->attn[b->type](&b->a);
}

static void bench_kv_store_call(void *context)
{
    struct bench_attn *b = context;
    for (b->store.at = 0; b->store.at < KV_BLOCK; b->store.at++)
        b->k->kv_store[b->type](&b->store);
}

static void bench_attn(const struct check_level *level, enum kv_type type, size_t n_q)
{
    enum { N_BLOCKS = BENCH_POSITIONS / KV_BLOCK };
    static _Alignas(64) float kv[2 * BENCH_POSITIONS * BENCH_DIM];
    static _Alignas(64) float scratch[ATTN_SCRATCH(BENCH_DIM)];
    static float rows[ATTN_MAX_QUERIES][BENCH_DIM], acc[ATTN_MAX_QUERIES][BENCH_DIM];
    static float m[ATTN_MAX_QUERIES], l[ATTN_MAX_QUERIES];
    uint32_t seen[ATTN_MAX_QUERIES], blocks[N_BLOCKS];
    const float *q[ATTN_MAX_QUERIES];
    float *accs[ATTN_MAX_QUERIES];
    size_t bytes = kv_layout_bytes(type, BENCH_DIM);
    struct bench_attn b = {
        .k = &level->k,
        .type = type,
        .a = {(char *)kv, (char *)kv + bytes, 2 * bytes, blocks, 0, BENCH_POSITIONS, BENCH_DIM, n_q,
              q, seen, 0, m, l, accs, scratch},
        .store = {.head_dim = BENCH_DIM, .key = rows[0], .value = rows[1]},
    };
    random_floats(rows[0], ATTN_MAX_QUERIES * BENCH_DIM, 0.1f);
    for (size_t i = 0; i < n_q; i++) {
        q[i] = rows[i];
        accs[i] = acc[i];
        seen[i] = BENCH_POSITIONS;
    }
    for (uint32_t i = 0; i < N_BLOCKS; i++) {
        blocks[i] = i;
        b.store.k = (char *)kv + 2 * i * bytes;
        b.store.v = (char *)b.store.k + bytes;
        bench_kv_store_call(&b);
    }
    double ns = bench_time(bench_attn_call, &b);
    printf("%-40s %-10s %-4s %3zu queries %22s %9.3f us %8.1f GOP/s\n", level->name, "attn",
           kv_layout_names[type], n_q, "", ns / 1e3,
           4.0 * (double)(n_q * BENCH_POSITIONS * BENCH_DIM) / ns);
    if (n_q > 1)
        return;
    ns = bench_time(bench_kv_store_call, &b);
    printf("%-40s %-10s %-4s %34s %9.3f us %8.2f Gvalue/s\n", level->name, "kv_store",
           kv_layout_names[type], "", ns / 1e3, 2.0 * KV_BLOCK * BENCH_DIM / ns);
}

static void bench_run(const char *word)
{
    static const size_t n_q[] = {1, 3, 8, 48};
    struct check_level level;
    bench_word = word;
    FOR_EACH_LEVEL(level)
    {
        bench_matmuls(&level);
        bench_vectors(&level);
        for (size_t i = 0; bench_wanted("attn", "") && i < KV_TYPES * COUNT(n_q); i++)
            bench_attn(&level, (enum kv_type)(i / COUNT(n_q)), n_q[i % COUNT(n_q)]);
    }
}

#endif
