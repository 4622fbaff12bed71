/* Tests of the operations on single vectors. */
#ifndef FIRSTLIGHT_TESTS_KERNELS_CHECK_VECTOR_H
#define FIRSTLIGHT_TESTS_KERNELS_CHECK_VECTOR_H

#include "kernels/half.h"
#include "kernels/check.h"

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

/* Two products and a sum: three roundings at most of each term. Dims past n_rot stay. */
static void check_rope(const struct kernels *k, size_t n_rot, enum rope_style style,
                       struct worst *worst)
{
    struct guarded head = floats_make(n_rot, true), cs = floats_make(n_rot, false);
    float before[256], *x = head.data;
    random_floats(before, n_rot, 10.0f);
    memcpy(x, before, n_rot * sizeof *x);
    for (size_t i = 0; i < n_rot / 2; i++) {
        double angle = 1000.0 * (double)random_float();
        ((float *)cs.data)[2 * i] = (float)cos(angle);
        ((float *)cs.data)[2 * i + 1] = (float)sin(angle);
    }
    k->rope(x, cs.data, n_rot, style);
    for (size_t i = 0; i < n_rot / 2; i++) {
        size_t at_a = style == ROPE_NEIGHBOURS ? 2 * i : i;
        size_t at_b = style == ROPE_NEIGHBOURS ? 2 * i + 1 : i + n_rot / 2;
        double a = (double)before[at_a], b = (double)before[at_b];
        double c = (double)((float *)cs.data)[2 * i], s = (double)((float *)cs.data)[2 * i + 1];
        check_error(worst, (double)x[at_a], a * c - b * s, 3 * EPS * (fabs(a * c) + fabs(b * s)));
        check_error(worst, (double)x[at_b], b * c + a * s, 3 * EPS * (fabs(b * c) + fabs(a * s)));
    }
    guarded_free(&head);
    guarded_free(&cs);
}

static void test_rope(void **state)
{
    static const size_t sizes[] = {2, 4, 6, 8, 10, 16, 18, 30, 64, 80, 128, 256};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        struct worst worst = {0};
        for (size_t i = 0; i < COUNT(sizes); i++) {
            check_rope(&level.k, sizes[i], ROPE_NEIGHBOURS, &worst);
            check_rope(&level.k, sizes[i], ROPE_HALVES, &worst);
        }
        check_report(level.name, "rope", "", worst);
    }
}

/* exp within 2 ulp (4 EPS), then sum, quotient and product; below e^-87 gate / (1 + e^-gate) may be
 * anything under 1e-36. */
static void check_swiglu(const struct kernels *k, size_t n, float scale, bool in_place,
                         struct worst *worst)
{
    struct guarded gate = floats_make(n, true), up = floats_make(n, false);
    struct guarded out = floats_make(n, true), before = floats_make(n, true);
    random_floats(gate.data, n, scale);
    random_floats(up.data, n, 1.0f);
    memcpy(before.data, gate.data, n * sizeof(float));
    float *got = in_place ? gate.data : out.data;
    k->swiglu(got, gate.data, up.data, n);
    for (size_t i = 0; i < n; i++) {
        double g = (double)((float *)before.data)[i], u = (double)((float *)up.data)[i];
        double want = g / (1.0 + exp(-g)) * u;
        check_error(worst, (double)got[i], want, 8 * EPS * fabs(want) + 1e-36);
    }
    guarded_free(&gate);
    guarded_free(&up);
    guarded_free(&out);
    guarded_free(&before);
}

static void test_swiglu(void **state)
{
    static const float scales[] = {1.0f, 20.0f, 100.0f, 1e10f, 1e-30f, 0.0f};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        struct worst worst = {0};
        for (size_t c = 0; c < COUNT(scales) * COUNT(vector_sizes); c++)
            check_swiglu(&level.k, vector_sizes[c / COUNT(scales)], scales[c % COUNT(scales)],
                         c % 2, &worst);
        check_report(level.name, "swiglu", "", worst);
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
