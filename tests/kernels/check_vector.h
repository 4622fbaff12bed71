/* Tests of the operations on single vectors. */
#ifndef FIRSTLIGHT_TESTS_KERNELS_CHECK_VECTOR_H
#define FIRSTLIGHT_TESTS_KERNELS_CHECK_VECTOR_H

#include "kernels/check.h"
#include "kernels/half.h"

static const size_t vector_sizes[] = {1, 2, 5, 7, 8, 9, 16, 31, 33, 64, 100, 576, 1537};

/* A guarded array of floats at an odd multiple of 4 bytes. */
static struct guarded floats_make(size_t n, bool written)
{
    return guarded_make(n * sizeof(float), 4, written);
}

/* The quants are the nearest to x / scale up to the rounding of 127 / max and of the product
 * (127 * 2 EPS); scale and sums are exact functions of max and the quants. */
static void check_q8_block(const struct q8_block *b, const float *x, struct worst *worst)
{
    float max = 0.0f;
    int half[2] = {0, 0};
    for (int i = 0; i < Q8_VALUES; i++)
        max = fmaxf(max, fabsf(x[i]));
    for (int i = 0; i < Q8_VALUES; i++) {
        assert_in_range(b->q[i] + 127, 0, 254);
        half[i / 16] += b->q[i];
        double step = (double)b->scale, bound = (0.5 + 254.0 * EPS) * step;
        if (max >= 0x1p-100f)
            check_error(worst, step * b->q[i], (double)x[i], bound + 128 * EPS * step);
    }
    assert_true(b->scale == (max < 0x1p-100f ? 0.0f : max / 127.0f));
    assert_int_equal(b->first, half[0]);
    assert_int_equal(b->total, half[0] + half[1]);
}

static void test_quantize_q8(void **state)
{
    static const float scales[] = {1.0f, 0.0f, 1e30f, 1e-30f, 0x1p-99f, 1e-38f, 1e-42f};
    static const size_t blocks[] = {1, 2, 3, 18};
    (void)state;
    struct check_level level;
    struct kernels ref;
    kernels_fill(&ref, 0);
    FOR_EACH_LEVEL(level)
    {
        struct worst worst = {0};
        for (size_t c = 0; c < COUNT(scales) * COUNT(blocks); c++) {
            size_t n = 32 * blocks[c % COUNT(blocks)], bytes = n / 32 * sizeof(struct q8_block);
            struct guarded x = floats_make(n, false), out = guarded_make(bytes, 4, true);
            struct guarded want = guarded_make(bytes, 4, true);
            random_floats(x.data, n, scales[c / COUNT(blocks)]);
            ((float *)x.data)[n / 2] = 0.5f * ((float *)x.data)[0]; /* a tie now and then */
            level.k.quantize_q8(out.data, x.data, n);
            ref.quantize_q8(want.data, x.data, n);
            assert_memory_equal(out.data, want.data, bytes);
            for (size_t b = 0; b < n / 32; b++)
                check_q8_block((struct q8_block *)out.data + b, (float *)x.data + 32 * b, &worst);
            guarded_free(&x);
            guarded_free(&out);
            guarded_free(&want);
        }
        check_report(level.name, "quantize_q8", "", worst);
    }
}

/* What is not finite stays so, wherever in the block it is. */
static void test_quantize_q8_not_finite(void **state)
{
    static const float odd[] = {NAN, -NAN, INFINITY, -INFINITY};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (size_t c = 0; c < COUNT(odd) * Q8_VALUES; c++) {
            float x[2 * Q8_VALUES];
            struct q8_block out[2];
            random_floats(x, COUNT(x), 1.0f);
            x[c % Q8_VALUES] = odd[c / Q8_VALUES];
            level.k.quantize_q8(out, x, COUNT(x));
            assert_false(isfinite(out[0].scale));
            assert_true(isfinite(out[1].scale));
        }
    }
}

/* The sum of squares adds in chains of n / 32 + 8 and its root halves the error; five more
 * roundings (division, addition, root and reciprocal, two products). */
static void check_rmsnorm(const struct kernels *k, size_t n, float scale, struct worst *worst)
{
    struct guarded x = floats_make(n, false), w = floats_make(n, false), out = floats_make(n, true);
    const float *xs = x.data, *ws = w.data;
    double squares = 0.0;
    random_floats(x.data, n, scale);
    random_floats(w.data, n, 1.0f);
    k->rmsnorm(out.data, xs, ws, n, 1e-5f);
    for (size_t i = 0; i < n; i++)
        squares += (double)xs[i] * (double)xs[i];
    double factor = 1.0 / sqrt(squares / (double)n + (double)1e-5f);
    for (size_t i = 0; i < n; i++) {
        double want = (double)xs[i] * factor * (double)ws[i];
        double bound = (((double)n / 32.0 + 8.0) / 2.0 + 6.0) * EPS * fabs(want) + 1e-44;
        check_error(worst, (double)((float *)out.data)[i], want, bound);
    }
    guarded_free(&x);
    guarded_free(&w);
    guarded_free(&out);
}

static void test_rmsnorm(void **state)
{
    static const float scales[] = {1.0f, 0.0f, 1e15f, 1e-15f};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        struct worst worst = {0};
        for (size_t c = 0; c < COUNT(scales) * COUNT(vector_sizes); c++)
            check_rmsnorm(&level.k, vector_sizes[c / COUNT(scales)], scales[c % COUNT(scales)],
                          &worst);
        check_report(level.name, "rmsnorm", "", worst);
    }
}

/* The bits of the operations one after the other, at each level; x is what add leaves. */
static void check_add_rmsnorm_q8(const struct kernels *k, size_t n, float scale, bool with_delta)
{
    size_t bytes = n / Q8_VALUES * sizeof(struct q8_block);
    struct guarded x = floats_make(n, true), delta = floats_make(n, false);
    struct guarded w = floats_make(n, false), normed = floats_make(n, true);
    struct guarded sum = floats_make(n, true);
    struct guarded out = guarded_make(bytes, 4, true), want = guarded_make(bytes, 4, true);
    random_floats(x.data, n, scale);
    random_floats(delta.data, n, scale);
    random_floats(w.data, n, 1.0f);
    memcpy(sum.data, x.data, n * sizeof(float));
    if (with_delta)
        k->add(sum.data, delta.data, n);
    k->rmsnorm(normed.data, sum.data, w.data, n, 1e-5f);
    k->quantize_q8(want.data, normed.data, n);
    k->add_rmsnorm_q8(out.data, x.data, with_delta ? delta.data : NULL, w.data, n, 1e-5f);
    assert_memory_equal(x.data, sum.data, n * sizeof(float));
    assert_memory_equal(out.data, want.data, bytes);
    struct guarded *all[] = {&x, &delta, &w, &normed, &sum, &out, &want};
    for (size_t i = 0; i < COUNT(all); i++)
        guarded_free(all[i]);
}

static const size_t block_sizes[] = {32, 64, 96, 128, 160, 576, 1536};

static void test_add_rmsnorm_q8(void **state)
{
    static const float scales[] = {1.0f, 0.0f, 1e15f, 1e-15f, INFINITY};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (size_t c = 0; c < COUNT(scales) * COUNT(block_sizes); c++) {
            size_t n = block_sizes[c / COUNT(scales)];
            check_add_rmsnorm_q8(&level.k, n, scales[c % COUNT(scales)], true);
            check_add_rmsnorm_q8(&level.k, n, scales[c % COUNT(scales)], false);
        }
    }
}

/* The sums add in chains of n / 32 + 8. An error of the mean moves every value by `shift`, and the
 * variance by its square. */
static void check_layernorm(const struct kernels *k, size_t n, float scale, float offset,
                            struct worst *worst)
{
    struct guarded x = floats_make(n, false), w = floats_make(n, false), b = floats_make(n, false);
    struct guarded out = floats_make(n, true);
    const float *xs = x.data, *ws = w.data, *bs = b.data;
    double mean = 0.0, sizes = 0.0, variance = 0.0, chain = (double)n / 32.0 + 8.0;
    random_floats(x.data, n, scale);
    random_floats(w.data, n, 1.0f);
    random_floats(b.data, n, 1.0f);
    for (size_t i = 0; i < n; i++)
        ((float *)x.data)[i] += offset * scale;
    k->layernorm(out.data, xs, ws, bs, n, 1e-5f);
    for (size_t i = 0; i < n; i++) {
        mean += (double)xs[i] / (double)n;
        sizes += fabs((double)xs[i]) / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        variance += ((double)xs[i] - mean) * ((double)xs[i] - mean) / (double)n;
    variance += (double)1e-5f;
    double shift = (chain + 2.0) * EPS * sizes, factor = 1.0 / sqrt(variance);
    for (size_t i = 0; i < n; i++) {
        double part = ((double)xs[i] - mean) * factor * (double)ws[i];
        double relative = (chain / 2.0 + 8.0) * EPS + shift * shift / (2.0 * variance);
        double bound = fabs((double)ws[i]) * factor * shift + fabs(part) * relative +
                       2.0 * EPS * fabs((double)bs[i]) + 1e-44;
        check_error(worst, (double)((float *)out.data)[i], part + (double)bs[i], bound);
    }
    struct guarded *all[] = {&x, &w, &b, &out};
    for (size_t i = 0; i < COUNT(all); i++)
        guarded_free(all[i]);
}

static void test_layernorm(void **state)
{
    static const float scales[] = {1.0f, 0.0f, 1e15f, 1e-15f}, offsets[] = {0.0f, 1.0f, -300.0f};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        struct worst worst = {0};
        for (size_t c = 0; c < COUNT(scales) * COUNT(offsets) * COUNT(vector_sizes); c++)
            check_layernorm(&level.k, vector_sizes[c / COUNT(scales) / COUNT(offsets)],
                            scales[c % COUNT(scales)], offsets[c / COUNT(scales) % COUNT(offsets)],
                            &worst);
        check_report(level.name, "layernorm", "", worst);
    }
}

/* The bits of the operations one after the other, at each level; x is what add leaves. */
static void check_add_layernorm_q8(const struct kernels *k, size_t n, float scale, bool with_delta)
{
    size_t bytes = n / Q8_VALUES * sizeof(struct q8_block);
    struct guarded x = floats_make(n, true), delta = floats_make(n, false);
    struct guarded w = floats_make(n, false), b = floats_make(n, false);
    struct guarded normed = floats_make(n, true), sum = floats_make(n, true);
    struct guarded out = guarded_make(bytes, 4, true), want = guarded_make(bytes, 4, true);
    random_floats(x.data, n, scale);
    random_floats(delta.data, n, scale);
    random_floats(w.data, n, 1.0f);
    random_floats(b.data, n, 1.0f);
    memcpy(sum.data, x.data, n * sizeof(float));
    if (with_delta)
        k->add(sum.data, delta.data, n);
    k->layernorm(normed.data, sum.data, w.data, b.data, n, 1e-5f);
    k->quantize_q8(want.data, normed.data, n);
    k->add_layernorm_q8(out.data, x.data, with_delta ? delta.data : NULL, w.data, b.data, n, 1e-5f);
    assert_memory_equal(x.data, sum.data, n * sizeof(float));
    assert_memory_equal(out.data, want.data, bytes);
    struct guarded *all[] = {&x, &delta, &w, &b, &normed, &sum, &out, &want};
    for (size_t i = 0; i < COUNT(all); i++)
        guarded_free(all[i]);
}

static void test_add_layernorm_q8(void **state)
{
    static const float scales[] = {1.0f, 0.0f, 1e15f, 1e-15f, INFINITY};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (size_t c = 0; c < COUNT(scales) * COUNT(block_sizes); c++) {
            size_t n = block_sizes[c / COUNT(scales)];
            check_add_layernorm_q8(&level.k, n, scales[c % COUNT(scales)], true);
            check_add_layernorm_q8(&level.k, n, scales[c % COUNT(scales)], false);
        }
    }
}

/* One dim of a pair. Two products and a sum, then the scale: four roundings at most of each term.
 */
static void check_turned(struct worst *worst, float got, double p, double q, float scale)
{
    double s = (double)scale;
    check_error(worst, (double)got, (p + q) * s, 4 * EPS * s * (fabs(p) + fabs(q)));
}

/* Dims past n_rot are only scaled. */
static void check_rope(const struct kernels *k, size_t n_rot, size_t n_still, enum rope_style style,
                       float scale, struct worst *worst)
{
    enum { HEADS = 3 };
    size_t dim = n_rot + n_still;
    struct guarded heads = floats_make(HEADS * dim, true), cs = floats_make(n_rot, false);
    float before[HEADS * 256], *cos_sin = cs.data;
    random_floats(before, HEADS * dim, 10.0f);
    memcpy(heads.data, before, HEADS * dim * sizeof(float));
    for (size_t i = 0; i < n_rot / 2; i++) {
        double angle = 1000.0 * (double)random_float();
        cos_sin[2 * i] = (float)cos(angle);
        cos_sin[2 * i + 1] = (float)sin(angle);
    }
    k->rope(&(struct rope_args){heads.data, HEADS, dim, cs.data, n_rot, style, scale});
    for (size_t h = 0; h < HEADS; h++) {
        const float *was = before + h * dim, *x = (float *)heads.data + h * dim;
        for (size_t i = 0; i < n_rot / 2; i++) {
            size_t at_a = style == ROPE_NEIGHBOURS ? 2 * i : i;
            size_t at_b = style == ROPE_NEIGHBOURS ? 2 * i + 1 : i + n_rot / 2;
            double a = (double)was[at_a], b = (double)was[at_b];
            double c = (double)cos_sin[2 * i], s = (double)cos_sin[2 * i + 1];
            check_turned(worst, x[at_a], a * c, -b * s, scale);
            check_turned(worst, x[at_b], b * c, a * s, scale);
        }
        for (size_t i = n_rot; i < dim; i++)
            assert_true(x[i] == was[i] * scale);
    }
    guarded_free(&heads);
    guarded_free(&cs);
}

static void test_rope(void **state)
{
    static const size_t sizes[] = {2, 4, 6, 8, 10, 16, 18, 30, 34, 64, 80, 128, 224};
    static const size_t still[] = {0, 0, 1, 8, 31};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        struct worst worst = {0};
        for (size_t i = 0; i < COUNT(sizes) * COUNT(still); i++) {
            size_t n_rot = sizes[i / COUNT(still)], rest = still[i % COUNT(still)];
            check_rope(&level.k, n_rot, rest, ROPE_NEIGHBOURS, 1.0f, &worst);
            check_rope(&level.k, n_rot, rest, ROPE_NEIGHBOURS, 0.3f, &worst);
            check_rope(&level.k, n_rot, rest, ROPE_HALVES, 1.0f, &worst);
            check_rope(&level.k, n_rot, rest, ROPE_HALVES, 0.3f, &worst);
        }
        check_report(level.name, "rope", "", worst);
    }
}

static const char *const activation_names[] = {"silu", "gelu_tanh", "gelu_erf"};

/* The value, and how many EPS of it are allowed. exp is within 2 ulp (4 EPS), then a sum, a
 * quotient and a product. What goes into exp has an error too: gelu_tanh's of five roundings, where
 * exp is not small beside one; the tail of gelu_erf has a^2 / 2 there, and 12 roundings besides. */
static double activation_value(enum activation f, double x, double *bound)
{
    double y = x * (1.5957691216057308 + 0.071354816272 * x * x), a = fabs(x);
    *bound = 8.0;
    switch (f) {
    case ACTIVATION_SILU:
        return x / (1.0 + exp(-x));
    case ACTIVATION_GELU_TANH:
        *bound += 5.0 * fabs(y) / (1.0 + exp(y));
        return x / (1.0 + exp(-y));
    default:
        *bound += x < 0 ? 12.0 + 2.0 * a * a : (12.0 + 2.0 * a * a) * 0.5 * erfc(a * M_SQRT1_2);
        return 0.5 * x * erfc(-x * M_SQRT1_2);
    }
}

/* Below e^-87 what is left may be anything under 1e-36. */
static void check_activate(const struct kernels *k, enum activation f, size_t n, float scale,
                           unsigned form, struct worst *worst)
{
    bool in_place = form & 1, gated = form & 2;
    struct guarded gate = floats_make(n, true), up = floats_make(n, false);
    struct guarded out = floats_make(n, true), before = floats_make(n, true);
    random_floats(gate.data, n, scale);
    random_floats(up.data, n, 1.0f);
    memcpy(before.data, gate.data, n * sizeof(float));
    float *got = in_place ? gate.data : out.data;
    k->activate[f](got, gate.data, gated ? up.data : NULL, n);
    for (size_t i = 0; i < n; i++) {
        double bound, want = activation_value(f, (double)((float *)before.data)[i], &bound);
        want *= gated ? (double)((float *)up.data)[i] : 1.0;
        check_error(worst, (double)got[i], want, bound * EPS * fabs(want) + 1e-36);
    }
    guarded_free(&gate);
    guarded_free(&up);
    guarded_free(&out);
    guarded_free(&before);
}

static void test_activate(void **state)
{
    static const float scales[] = {1.0f, 4.0f, 20.0f, 100.0f, 1e10f, 1e25f, 1e-30f, 0.0f};
    enum { FORMS = 4 };
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (enum activation f = 0; f < ACTIVATIONS; f++) {
            struct worst worst = {0};
            for (size_t c = 0; c < COUNT(scales) * COUNT(vector_sizes) * FORMS; c++)
                check_activate(&level.k, f, vector_sizes[c / COUNT(scales) / FORMS],
                               scales[c % COUNT(scales)], c / COUNT(scales) % FORMS, &worst);
            check_report(level.name, "activate", activation_names[f], worst);
        }
    }
}

/* The bits of both operations one after the other, row by row; between rows nothing is written. */
static void check_activate_q8(const struct kernels *k, enum activation f, size_t n_rows, size_t n,
                              float scale, bool gated)
{
    size_t blocks = n / Q8_VALUES, stride = blocks + 3;
    size_t bytes = ((n_rows - 1) * stride + blocks) * sizeof(struct q8_block);
    struct guarded gate = floats_make(n_rows * n, false), up = floats_make(n_rows * n, false);
    struct guarded hidden = floats_make(n, true);
    struct guarded out = guarded_make(bytes, 4, true), want = guarded_make(bytes, 4, true);
    random_floats(gate.data, n_rows * n, scale);
    random_floats(up.data, n_rows * n, 1.0f);
    const float *ups = gated ? up.data : NULL;
    for (size_t r = 0; r < n_rows; r++) {
        k->activate[f](hidden.data, (float *)gate.data + r * n, gated ? ups + r * n : NULL, n);
        k->quantize_q8((struct q8_block *)want.data + r * stride, hidden.data, n);
    }
    k->activate_q8[f](&(struct activate_q8_args){out.data, stride, gate.data, ups, n_rows, n});
    assert_memory_equal(out.data, want.data, bytes);
    struct guarded *all[] = {&gate, &up, &hidden, &out, &want};
    for (size_t i = 0; i < COUNT(all); i++)
        guarded_free(all[i]);
}

static void test_activate_q8(void **state)
{
    static const float scales[] = {1.0f, 20.0f, 100.0f, 1e10f, 1e-30f, 0.0f, INFINITY};
    static const size_t n_rows[] = {1, 2, 3, 9, 17};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (size_t c = 0; c < COUNT(scales) * COUNT(block_sizes) * COUNT(n_rows); c++)
            for (enum activation f = 0; f < ACTIVATIONS; f++)
                check_activate_q8(&level.k, f, n_rows[c % COUNT(n_rows)],
                                  block_sizes[c / COUNT(n_rows) % COUNT(block_sizes)],
                                  scales[c / COUNT(n_rows) / COUNT(block_sizes)], (c + f) % 2);
    }
}

static void test_add(void **state)
{
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (size_t c = 0; c < COUNT(vector_sizes); c++) {
            size_t n = vector_sizes[c];
            struct guarded out = floats_make(n, true), x = floats_make(n, false);
            float before[2048];
            random_floats(before, n, 1.0f);
            random_floats(x.data, n, 1.0f);
            memcpy(out.data, before, n * sizeof *before);
            level.k.add(out.data, x.data, n);
            for (size_t i = 0; i < n; i++)
                assert_true(((float *)out.data)[i] == before[i] + ((float *)x.data)[i]);
            guarded_free(&out);
            guarded_free(&x);
        }
    }
}

#endif
