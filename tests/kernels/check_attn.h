/* Tests of attention: several spans folded one after another, then acc / l, against a softmax over
 * all positions at once in double. */
#ifndef FIRSTLIGHT_TESTS_KERNELS_CHECK_ATTN_H
#define FIRSTLIGHT_TESTS_KERNELS_CHECK_ATTN_H

#include "kernels/half.h"
#include "kernels/check.h"

#define SPANS     3
#define POSITIONS (SPANS * KV_BLOCK)

struct attn_case {
    enum kv_type type;
    size_t head_dim, n_q;
    struct guarded k, v;           /* (POSITIONS, head_dim) as cached */
    float *k_float, *v_float;      /* the same as floats */
    float *q;                      /* (n_q, head_dim) */
    size_t seen[ATTN_MAX_QUERIES]; /* positions of query i */
};

/* Positions that no query sees are left as guard bytes, or as NaN: they must not matter. */
static struct guarded cache_make(const struct attn_case *c, const struct kernels *ref,
                                 float *floats)
{
    size_t n = POSITIONS * c->head_dim, most = 0;
    struct guarded g = guarded_make(n * KV_TYPE_BYTES(c->type), 4, true);
    for (size_t i = 0; i < c->n_q; i++)
        most = c->seen[i] > most ? c->seen[i] : most;
    memset(g.data, 0xff, g.size);
    ref->kv_store[c->type](g.data, floats, most * c->head_dim);
    if (c->type == KV_F16)
        ref->dequantize[TENSOR_F16](floats, g.data, most * c->head_dim);
    return g;
}

static struct attn_case attn_make(enum kv_type type, size_t head_dim, size_t n_q, float scale)
{
    struct kernels ref;
    struct attn_case c = {.type = type, .head_dim = head_dim, .n_q = n_q};
    size_t n = POSITIONS * head_dim;
    c.k_float = mem_array(n, sizeof(float));
    c.v_float = mem_array(n, sizeof(float));
    c.q = mem_array(n_q * head_dim, sizeof(float));
    assert_true(c.k_float && c.v_float && c.q);
    random_floats(c.k_float, n, 1.0f);
    random_floats(c.v_float, n, 1.0f);
    random_floats(c.q, n_q * head_dim, scale);
    for (size_t i = 0; i < n_q; i++)
        c.seen[i] = random_u32() % 4 ? 1 + random_u32() % POSITIONS : POSITIONS - i % 8;
    kernels_fill(&ref, 0);
    c.k = cache_make(&c, &ref, c.k_float);
    c.v = cache_make(&c, &ref, c.v_float);
    return c;
}

static void attn_free(struct attn_case *c)
{
    guarded_free(&c->k);
    guarded_free(&c->v);
    mem_free(c->k_float);
    mem_free(c->v_float);
    mem_free(c->q);
}

/* Queries first .. first + n - 1 over all spans; m, l (n) and acc (n, head_dim) are written. */
static void attn_run(const struct attn_case *c, const struct kernels *k, size_t first, size_t n,
                     float *m, float *l, float *acc)
{
    const float *q[ATTN_MAX_QUERIES];
    float *accs[ATTN_MAX_QUERIES];
    uint32_t visible[ATTN_MAX_QUERIES];
    size_t span_bytes = KV_BLOCK * c->head_dim * KV_TYPE_BYTES(c->type);
    struct guarded g = guarded_make(n * c->head_dim * sizeof *acc, 4, true);
    memset(g.data, 0, g.size);
    for (size_t i = 0; i < n; i++) {
        q[i] = c->q + (first + i) * c->head_dim;
        accs[i] = (float *)g.data + i * c->head_dim;
        m[i] = -INFINITY;
        l[i] = 0.0f;
    }
    for (size_t span = 0; span < SPANS; span++) {
        for (size_t i = 0; i < n; i++) {
            size_t seen = c->seen[first + i], from = span * KV_BLOCK;
            visible[i] = seen <= from ? 0 : (uint32_t)MIN_OF(seen - from, KV_BLOCK);
        }
        k->attn[c->type](&(struct attn_args){.k = (char *)c->k.data + span * span_bytes,
                                             .v = (char *)c->v.data + span * span_bytes,
                                             .head_dim = c->head_dim,
                                             .n_q = n,
                                             .q = q,
                                             .visible = visible,
                                             .m = m,
                                             .l = l,
                                             .acc = accs});
    }
    memcpy(acc, g.data, g.size);
    guarded_free(&g);
}

/* A score's error is at most (head_dim + 1) EPS sum|q k| =: e, and rounding score - max adds as
 * much again for large scores, so a weight's relative error is 2e + 4 EPS (exp) + EPS per shrinking
 * and addition, of which there are at most two a position. It enters numerator and denominator. */
static void attn_check_query(const struct attn_case *c, size_t i, float m, float l,
                             const float *acc, struct worst *worst)
{
    double scores[POSITIONS], max = -INFINITY, sum = 0.0, error = 0.0;
    const float *q = c->q + i * c->head_dim;
    for (size_t j = 0; j < c->seen[i]; j++) {
        double dot = 0.0, size = 0.0;
        for (size_t d = 0; d < c->head_dim; d++) {
            double product = (double)q[d] * (double)c->k_float[j * c->head_dim + d];
            dot += product;
            size += fabs(product);
        }
        scores[j] = dot;
        max = fmax(max, dot);
        error = fmax(error, ((double)c->head_dim + 3.0) * EPS * size);
    }
    for (size_t j = 0; j < c->seen[i]; j++)
        sum += exp(scores[j] - max);
    double relative = 2.0 * error + (2.0 * (double)c->seen[i] + 8.0) * EPS;
    check_error(worst, (double)m, max, error + 1e-44);
    check_error(worst, (double)l, sum, relative * sum);
    for (size_t d = 0; d < c->head_dim; d++) {
        double want = 0.0, size = 0.0;
        for (size_t j = 0; j < c->seen[i]; j++) {
            double term = exp(scores[j] - max) / sum * (double)c->v_float[j * c->head_dim + d];
            want += term;
            size += fabs(term);
        }
        check_error(worst, (double)(acc[d] / l), want, 2.0 * relative * size + 1e-37);
    }
}

/* Against the reference; then each query alone and in windows, bit by bit. */
static void attn_check(struct attn_case *c, const struct kernels *k, struct worst *worst)
{
    float m[ATTN_MAX_QUERIES], l[ATTN_MAX_QUERIES], m1[ATTN_MAX_QUERIES], l1[ATTN_MAX_QUERIES];
    float *acc = mem_array(2 * c->n_q * c->head_dim, sizeof *acc);
    assert_non_null(acc);
    float *part = acc + c->n_q * c->head_dim;
    attn_run(c, k, 0, c->n_q, m, l, acc);
    for (size_t i = 0; i < c->n_q; i++)
        attn_check_query(c, i, m[i], l[i], acc + i * c->head_dim, worst);
    for (size_t n = 1; n < c->n_q; n = n < 3 ? n + 1 : 2 * n) {
        for (size_t i = 0; i + n <= c->n_q; i += n) {
            attn_run(c, k, i, n, m1, l1, part);
            assert_memory_equal(m1, m + i, n * sizeof *m);
            assert_memory_equal(l1, l + i, n * sizeof *l);
            assert_memory_equal(part, acc + i * c->head_dim, n * c->head_dim * sizeof *acc);
        }
    }
    mem_free(acc);
}

static void test_attn(void **state)
{
    static const size_t dims[] = {1, 4, 8, 20, 64, 80, 100, 128, 256};
    static const size_t queries[] = {1, 2, 3, 9, ATTN_MAX_QUERIES};
    static const float scales[] = {0.3f, 0.0f, 30.0f};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (int type = 0; type < KV_TYPES; type++) {
            struct worst worst = {0};
            for (size_t i = 0; i < COUNT(dims) * COUNT(queries) * COUNT(scales); i++) {
                struct attn_case c = attn_make((enum kv_type)type, dims[i % COUNT(dims)],
                                               queries[i / COUNT(dims) % COUNT(queries)],
                                               scales[i / COUNT(dims) / COUNT(queries)]);
                attn_check(&c, &level.k, &worst);
                attn_free(&c);
            }
            check_report(level.name, "attn", type == KV_F32 ? "f32" : "f16", worst);
        }
    }
}

#endif
