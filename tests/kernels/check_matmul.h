/* Tests of the matrix products and of dequantisation. */
#ifndef FIRSTLIGHT_TESTS_KERNELS_CHECK_MATMUL_H
#define FIRSTLIGHT_TESTS_KERNELS_CHECK_MATMUL_H

#include "kernels/avxvnni_evex.h"
#include "kernels/panel.h"
#include "kernels/weights.h"

/* The largest product of each case: an odd number of rows past two panels of 16, tiles of five and
 * four tokens. Every smaller shape is a window of it. */
#define ROWS   35
#define TOKENS 13
#define GAP    3 /* floats between output rows, which must survive */

/* One of the two functions is set. */
struct product {
    const struct type_shape *shape;
    matmul_q8_fn *q8;
    matmul_f32_fn *f32;
    size_t k;
    size_t w_row_bytes;
    size_t x_stride; /* q8 blocks or floats from a token to the next */
    size_t x_size;   /* bytes of one */
    struct guarded w, x, scratch;
    double want[TOKENS][ROWS];
    double bound[TOKENS][ROWS];
};

static void product_free(struct product *p)
{
    guarded_free(&p->w);
    guarded_free(&p->x);
    guarded_free(&p->scratch);
}

/* Weights one byte off any alignment, activations at the 4 bytes that their type has. */
static void product_make(struct product *p, enum weight_fill fill)
{
    p->w_row_bytes = tensor_row_bytes(p->shape->type, p->k);
    p->x_size = p->q8 ? sizeof(struct q8_block) : sizeof(float);
    p->x_stride = (p->q8 ? p->k / Q8_VALUES : p->k) + 1;
    p->w = guarded_make(ROWS * p->w_row_bytes, 1, false);
    p->x = guarded_make((TOKENS * p->x_stride - 1) * p->x_size, 4, false);
    p->scratch = guarded_make(p->k * sizeof(float), 0, true);
    for (size_t r = 0; r < ROWS; r++)
        fill_weights(p->shape, (uint8_t *)p->w.data + r * p->w_row_bytes, p->k, fill);
}

static void product_run_f32(const struct product *p, struct matmul_f32_args *a)
{
    a->w_row_bytes = p->w_row_bytes;
    a->k = p->k;
    a->scratch = p->scratch.data;
    p->f32(a);
}

/* The window's rows are packed by themselves. Every other time memory ends with the panels, for
 * the sanitizers; else guard bytes follow. */
static void product_run_q8(const struct product *p, const struct matmul_f32_args *f)
{
    enum tensor_type type = p->shape->type;
    size_t bytes = panel_bytes(type, p->k);
    size_t n_panels = (f->n_rows + PANEL_ROWS - 1) / PANEL_ROWS;
    struct guarded panels = guarded_make(n_panels * bytes, 0, f->n_tokens % 2);
    memset(panels.data, 0, panels.size);
    for (size_t r = 0; r < f->n_rows; r += PANEL_ROWS)
        panel_pack(type, (uint8_t *)panels.data + r / PANEL_ROWS * bytes,
                   (const uint8_t *)f->w + r * p->w_row_bytes, p->w_row_bytes,
                   MIN_OF(f->n_rows - r, PANEL_ROWS), p->k);
    p->q8(&(struct matmul_q8_args){
        .out = f->out,
        .out_stride = f->out_stride,
        .w = panels.data,
        .panel_bytes = bytes,
        .n_rows = f->n_rows,
        .x = (const void *)f->x,
        .x_stride = f->x_stride,
        .n_tokens = f->n_tokens,
        .n_groups = p->k / PANEL_VALUES,
    });
    guarded_free(&panels);
}

/* A window of rows and tokens into out (tokens, rows + GAP), whose gaps are checked. */
static void product_run(const struct product *p, float *out, size_t row, size_t n_rows,
                        size_t token, size_t n_tokens)
{
    size_t stride = n_rows + GAP;
    struct guarded g = guarded_make(((n_tokens - 1) * stride + n_rows) * sizeof *out, 4, true);
    float *got = g.data;
    struct matmul_f32_args a = {
        .out = got,
        .out_stride = stride,
        .w = (const char *)p->w.data + row * p->w_row_bytes,
        .n_rows = n_rows,
        .x = (const void *)((const char *)p->x.data + token * p->x_stride * p->x_size),
        .x_stride = p->x_stride,
        .n_tokens = n_tokens,
    };
    if (p->q8)
        product_run_q8(p, &a);
    else
        product_run_f32(p, &a);
    for (size_t t = 0; t < n_tokens; t++) {
        memcpy(out + t * n_rows, got + t * stride, n_rows * sizeof *out);
        for (size_t b = 0; t + 1 < n_tokens && b < GAP * sizeof *out; b++)
            assert_int_equal(((unsigned char *)(got + t * stride + n_rows))[b], GUARD_BYTE);
    }
    guarded_free(&g);
}

/* The whole against the reference, then windows against the whole, bit by bit. */
static void product_check(const struct product *p, struct worst *worst)
{
    static const size_t rows[] = {1, 2, 3, 5, 8, 16, 17, 31};
    static float whole[TOKENS][ROWS], part[TOKENS * ROWS];
    product_run(p, whole[0], 0, ROWS, 0, TOKENS);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t r = 0; r < ROWS; r++)
            check_error(worst, (double)whole[t][r], p->want[t][r], p->bound[t][r]);
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t n_tokens = 1; n_tokens <= TOKENS; n_tokens++) {
            size_t n = rows[i], row = random_u32() % (ROWS - n + 1);
            size_t token = random_u32() % (TOKENS - n_tokens + 1);
            product_run(p, part, row, n, token, n_tokens);
            for (size_t t = 0; t < n_tokens; t++)
                assert_memory_equal(part + t * n, &whole[token + t][row], n * sizeof(float));
        }
    }
}

/* Half a unit, where the variant takes a row's scales in whole units (panel.h), else 0. */
static double scale_error(const struct product *p, const char *row)
{
    struct kernels avx2;
    struct quant_group g;
    double largest = 0.0;
    int exponent;
    kernels_fill(&avx2, check_machine_levels() & CPU_AVX2);
    const struct panel_format *f = panel_format_of(p->shape->type);
    if (f->head == 0 || !(check_machine_levels() & CPU_AVX2) ||
        p->q8 != avx2.matmul_q8[p->shape->type])
        return 0.0;
    for (size_t b = 0; b < p->k / GROUP_VALUES; b++) {
        p->shape->group(&g, row, b);
        largest = fmax(largest, fabs((double)g.s.d));
    }
    frexp(largest, &exponent);
    return largest > 0.0 ? ldexp(0.5, exponent - PANEL_UNIT_BITS) : 0.0;
}

/* The exact integer sums, in double. An implementation may take q unsigned and give back the zero
 * point through x.total; `size` bounds the magnitude of what it then adds up. Per group three
 * roundings (integer to float, product of scales, multiply-add), one for the sum's own, and every
 * addition that follows, two a group: (2 n_groups + 4) EPS size. */
static void want_q8(struct product *p, size_t t, size_t r)
{
    const struct q8_block *x = (struct q8_block *)p->x.data + t * p->x_stride;
    const char *row = (const char *)p->w.data + r * p->w_row_bytes;
    size_t n_groups = p->k / GROUP_VALUES;
    double sum = 0.0, size = 0.0, half_unit = scale_error(p, row), off = 0.0;
    for (size_t b = 0; b < n_groups; b++) {
        struct quant_group g;
        p->shape->group(&g, row, b);
        int64_t dot = 0, magnitude = 0;
        for (int i = 0; i < GROUP_VALUES; i++) {
            int scale = g.s.scale[i / 16];
            dot += scale * g.q[i] * x[b].q[i];
            magnitude += abs(scale) * (abs(g.q[i]) + (int)p->shape->zero_point) * abs(x[b].q[i]);
        }
        double d = (double)g.s.d * (double)x[b].scale;
        double min[2] = {(double)g.s.m[0] * x[b].first,
                         (double)g.s.m[1] * (x[b].total - x[b].first)};
        double both = (min[0] + min[1]) * (double)x[b].scale;
        sum += d * (double)dot + both;
        off += half_unit * (double)x[b].scale * fabs((double)dot);
        size += fabs(d) * 2.0 * (double)magnitude + fabs(both);
        if (p->shape->type == TENSOR_Q2_K) /* a rounding for each half */
            size += (fabs(min[0]) + fabs(min[1])) * (double)x[b].scale;
    }
    p->want[t][r] = sum;
    p->bound[t][r] = (2.0 * (double)n_groups + 4.0) * EPS * size + off + (double)FLT_MIN;
}

static void check_q8_case(const struct check_level *level, const struct type_shape *shape, size_t k,
                          enum weight_fill wf, enum x_fill xf, struct worst *worst)
{
    static struct product p;
    p = (struct product){.shape = shape, .q8 = level->k.matmul_q8[shape->type], .k = k};
    product_make(&p, wf);
    fill_q8(p.x.data, TOKENS * p.x_stride - 1, xf);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t r = 0; r < ROWS; r++)
            want_q8(&p, t, r);
    product_check(&p, worst);
    product_free(&p);
}

/* One block, a few, odd and even; panels have chunks of two. */
static const size_t k_blocks_of_32[] = {1, 2, 3, 7, 18, 25, 49};
static const size_t k_blocks_of_256[] = {1, 2, 3, 4, 7};

static size_t case_k(const struct type_shape *shape, size_t i)
{
    size_t block = tensor_type_block_values(shape->type);
    if (block == 256)
        return i < COUNT(k_blocks_of_256) ? 256 * k_blocks_of_256[i] : 0;
    return i < COUNT(k_blocks_of_32) ? 32 * k_blocks_of_32[i] : 0;
}

static void check_q8_level(const struct check_level *level)
{
    for (size_t s = 0; s < COUNT(type_shapes); s++) {
        const struct type_shape *shape = &type_shapes[s];
        struct worst worst = {0};
        assert_true(!shape->group == !level->k.matmul_q8[shape->type]);
        assert_true(!shape->group == !panel_format_of(shape->type));
        if (!shape->group)
            continue;
        for (size_t i = 0, k; (k = case_k(shape, i)) != 0; i++)
            check_q8_case(level, shape, k, WEIGHTS_RANDOM, X_RANDOM, &worst);
        for (int wf = 0; wf < WEIGHT_FILLS; wf++)
            for (int xf = 0; xf < X_FILLS; xf++)
                check_q8_case(level, shape, 256, (enum weight_fill)wf, (enum x_fill)xf, &worst);
        check_report(level->name, "matmul_q8", tensor_type_name(shape->type), worst);
    }
}

static void test_matmul_q8(void **state)
{
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    check_q8_level(&level);
}

#define BAD_ROW 5

/* A row with an infinite scale in its last block, and the same row without it. */
static void check_not_finite(const struct check_level *level, const struct type_shape *shape)
{
    static float good[TOKENS][ROWS], bad[TOKENS][ROWS];
    const uint16_t infinity = 0x7c00;
    struct product p = {.shape = shape, .q8 = level->k.matmul_q8[shape->type], .k = 512};
    product_make(&p, WEIGHTS_RANDOM);
    fill_q8(p.x.data, TOKENS * p.x_stride - 1, X_RANDOM);
    product_run(&p, good[0], 0, ROWS, 0, TOKENS);
    size_t block = tensor_type_block_bytes(shape->type);
    char *last = (char *)p.w.data + (BAD_ROW + 1) * p.w_row_bytes - block;
    memcpy(last + shape->d_at, &infinity, sizeof infinity);
    for (size_t n = 1; n <= TOKENS; n += TOKENS - 1) {
        product_run(&p, bad[0], 0, ROWS, 0, n);
        for (size_t t = 0; t < n; t++) {
            assert_false(isfinite(bad[t][BAD_ROW]));
            bad[t][BAD_ROW] = good[t][BAD_ROW];
        }
        assert_memory_equal(bad, good, n * sizeof bad[0]);
    }
    product_free(&p);
}

/* What a file has wrong stays visible, and in its own row. */
static void test_matmul_q8_not_finite(void **state)
{
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (size_t s = 0; s < COUNT(type_shapes); s++)
            if (type_shapes[s].group)
                check_not_finite(&level, &type_shapes[s]);
    }
}

static void test_matmul_q8_avxvnni_by_evex(void **state)
{
    (void)state;
    uint32_t want = CPU_AVX2 | CPU_AVX512 | CPU_AVX512_VNNI;
    struct check_level level = {.name = "avx_vnni in EVEX coding"};
    if ((check_machine_levels() & want) != want)
        skip();
    kernels_fill(&level.k, CPU_AVX2);
    avxvnni_evex_fill(&level.k);
    check_q8_level(&level);
}

/* Dequantised values rounded once or twice, then no chain of more than k / 8 + 8 additions. */
static void want_f32(struct product *p, const float *row, size_t t, size_t r)
{
    const float *x = (float *)p->x.data + t * p->x_stride;
    double sum = 0.0, size = 0.0;
    for (size_t i = 0; i < p->k; i++) {
        sum += (double)row[i] * (double)x[i];
        size += fabs((double)row[i] * (double)x[i]);
    }
    p->want[t][r] = sum;
    p->bound[t][r] = ((double)p->k / 8.0 + 8.0) * EPS * size + (double)FLT_MIN;
}

static void check_f32_case(const struct check_level *level, const struct type_shape *shape,
                           size_t k, enum weight_fill wf, float scale, struct worst *worst)
{
    static struct product p;
    float *row = mem_array(k, sizeof *row);
    assert_non_null(row);
    p = (struct product){.shape = shape, .f32 = level->k.matmul_f32[shape->type], .k = k};
    product_make(&p, wf);
    random_floats(p.x.data, TOKENS * p.x_stride - 1, scale);
    for (size_t r = 0; r < ROWS; r++) {
        level->k.dequantize[shape->type](row, (char *)p.w.data + r * p.w_row_bytes, k);
        for (size_t t = 0; t < TOKENS; t++)
            want_f32(&p, row, t, r);
    }
    product_check(&p, worst);
    product_free(&p);
    mem_free(row);
}

static void test_matmul_f32(void **state)
{
    static const size_t float_k[] = {1, 3, 7, 8, 9, 16, 31, 100, 577};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (size_t s = 0; s < COUNT(type_shapes); s++) {
            const struct type_shape *shape = &type_shapes[s];
            struct worst worst = {0};
            for (size_t i = 0, k; (k = case_k(shape, i)) != 0; i++)
                check_f32_case(&level, shape, k, WEIGHTS_RANDOM, 1.0f, &worst);
            for (size_t i = 0; !shape->group && i < COUNT(float_k); i++)
                check_f32_case(&level, shape, float_k[i], WEIGHTS_RANDOM, 1.0f, &worst);
            for (int wf = 0; wf < WEIGHT_FILLS; wf++)
                check_f32_case(&level, shape, 256, (enum weight_fill)wf, 1e6f, &worst);
            check_report(level.name, "matmul_f32", tensor_type_name(shape->type), worst);
        }
    }
}

/* Every level's values are the reference's: d * q and the addition of m round alike everywhere. */
static void test_dequantize(void **state)
{
    (void)state;
    struct kernels ref;
    struct check_level level;
    kernels_fill(&ref, 0);
    FOR_EACH_LEVEL(level)
    {
        for (size_t s = 0; s < COUNT(type_shapes); s++) {
            const struct type_shape *shape = &type_shapes[s];
            for (int wf = 0; wf < WEIGHT_FILLS; wf++) {
                size_t n = shape->group ? 768 : 771, bytes = tensor_row_bytes(shape->type, n);
                struct guarded row = guarded_make(bytes, 1, false);
                struct guarded a = guarded_make(n * sizeof(float), 4, true);
                struct guarded b = guarded_make(n * sizeof(float), 0, true);
                fill_weights(shape, row.data, n, (enum weight_fill)wf);
                level.k.dequantize[shape->type](a.data, row.data, n);
                ref.dequantize[shape->type](b.data, row.data, n);
                assert_memory_equal(a.data, b.data, n * sizeof(float));
                guarded_free(&row);
                guarded_free(&a);
                guarded_free(&b);
            }
        }
    }
}

/* tests/golden/dequant/<type>.bin: uint32 n, the row's bytes, n floats by the `gguf` package. */
static void check_golden(const struct kernels *k, enum tensor_type type)
{
    static uint8_t row[8192];
    static float want[2048], got[2048];
    char path[256];
    uint32_t n = 0;
    snprintf(path, sizeof path, "tests/golden/dequant/%s.bin", tensor_type_name(type));
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s: cannot open; run from the repository's root", path);
    assert_int_equal(fread(&n, sizeof n, 1, f), 1);
    assert_true(n <= COUNT(want));
    assert_int_equal(fread(row, tensor_row_bytes(type, n), 1, f), 1);
    assert_int_equal(fread(want, sizeof *want, n, f), n);
    fclose(f);
    k->dequantize[type](got, row, n);
    for (size_t i = 0; i < n; i++) /* by value: d * 0 is -0 there for a negative d */
        assert_true(got[i] == want[i]);
}

static void test_dequantize_golden(void **state)
{
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    for (size_t s = 0; s < COUNT(type_shapes); s++)
        check_golden(&level.k, type_shapes[s].type);
}

#endif
