/* Tests of attention: a sequence of several spans, its blocks out of order, folded and divided by
 * the sum, against a softmax over all positions at once in double. */
#ifndef FIRSTLIGHT_TESTS_KERNELS_CHECK_ATTN_H
#define FIRSTLIGHT_TESTS_KERNELS_CHECK_ATTN_H

#include "kernels/check.h"
#include "kernels/kv_layout.h"

#define POSITIONS (2 * ATTN_SPAN + 39)
#define BLOCKS    ((POSITIONS + KV_BLOCK - 1) / KV_BLOCK)
#define BF16_EPS  0x1p-8 /* unit roundoff */

struct attn_case {
    enum kv_type type;
    size_t head_dim, n_q;
    bool exact_q;      /* rounding the queries, as the type's arithmetic may, changes nothing */
    struct guarded kv; /* (BLOCKS, 2) blocks of keys and of values */
    uint32_t blocks[BLOCKS];
    float *k, *v; /* (POSITIONS, head_dim) as cached, as floats */
    float *q;     /* (n_q, head_dim) */
    uint32_t seen[ATTN_MAX_QUERIES];
    uint32_t window; /* 0: none */
};

/* How far a kernel's arithmetic may be from float's. */
enum attn_arithmetic { ATTN_FLOAT, ATTN_BFLOAT16, ATTN_INTEGERS };

static enum attn_arithmetic attn_arithmetic(enum kv_type type, uint32_t levels)
{
    uint32_t bf16 = CPU_AVX512 | CPU_AVX512_BF16, vnni = CPU_AVX512 | CPU_AVX512_VNNI;
    if (type == KV_BF16 && (levels & bf16) == bf16)
        return ATTN_BFLOAT16;
    return type == KV_Q8_0 && (levels & vnni) == vnni ? ATTN_INTEGERS : ATTN_FLOAT;
}

static double group_max(const float *x, size_t head_dim, size_t d)
{
    double max = 0.0;
    for (size_t i = d / KV_GROUP * KV_GROUP; i < head_dim && i < d / KV_GROUP * KV_GROUP + KV_GROUP;
         i++)
        max = fmax(max, fabs((double)x[i]));
    return max;
}

/* Numbers of about the same size that the arithmetic of the type does not round: of 8 bits, or
 * multiples of 1 / 127 of the first of each 32, which is a power of two times 127. */
static void make_exact(float *q, enum kv_type type, size_t head_dim)
{
    for (size_t d = 0; d < head_dim; d++) {
        if (type != KV_Q8_0)
            q[d] = bf16_to_float(bf16_from_float(q[d]));
        else
            q[d] =
                d % KV_GROUP ? 0.25f * fmaxf(-127.0f, fminf(127.0f, rintf(4.0f * q[d]))) : 31.75f;
    }
}

/* The first position that a query sees. */
static size_t case_from(const struct attn_case *c, size_t i)
{
    return c->window && c->seen[i] > c->window ? c->seen[i] - c->window : 0;
}

static char *case_keys(const struct attn_case *c, size_t position)
{
    return (char *)c->kv.data +
           c->blocks[position / KV_BLOCK] * 2 * kv_layout_bytes(c->type, c->head_dim);
}

static void shuffle_blocks(struct attn_case *c)
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint32_t j = random_u32() % (i + 1);
        c->blocks[i] = c->blocks[j];
        c->blocks[j] = i;
    }
}

static void store_position(const struct attn_case *c, const struct kernels *ref, uint32_t p)
{
    char *keys = case_keys(c, p), *values = keys + kv_layout_bytes(c->type, c->head_dim);
    ref->kv_store[c->type](&(struct kv_store_args){keys, values, p % KV_BLOCK, c->head_dim,
                                                   c->k + p * c->head_dim, c->v + p * c->head_dim});
}

/* Positions that no query sees stay 0xff, which is NaN: they must not matter. */
static void store_cache(struct attn_case *c)
{
    struct kernels ref;
    size_t bytes = kv_layout_bytes(c->type, c->head_dim);
    uint32_t most = 0;
    kernels_fill(&ref, 0);
    for (size_t i = 0; i < c->n_q; i++)
        most = c->seen[i] > most ? c->seen[i] : most;
    c->kv = guarded_make(BLOCKS * 2 * bytes, 0, true);
    memset(c->kv.data, 0xff, c->kv.size);
    for (uint32_t p = 0; p < most; p++) {
        char *keys = case_keys(c, p), *values = keys + bytes;
        float *k = c->k + p * c->head_dim, *v = c->v + p * c->head_dim;
        store_position(c, &ref, p);
        for (size_t d = 0; d < c->head_dim; d++) {
            k[d] = kv_layout_load_key(c->type, keys, c->head_dim, p % KV_BLOCK, d);
            v[d] = kv_layout_load_value(c->type, values, c->head_dim, p % KV_BLOCK, d);
        }
    }
}

static struct attn_case attn_make(enum kv_type type, size_t head_dim, size_t n_q, float scale)
{
    static const uint32_t windows[] = {0, 1, 33, 0, ATTN_SPAN, 70, ATTN_SPAN + 45};
    static size_t turn;
    struct attn_case c = {.type = type, .head_dim = head_dim, .n_q = n_q, .exact_q = scale > 1};
    c.window = windows[turn++ % COUNT(windows)];
    size_t n = POSITIONS * head_dim;
    c.k = mem_array(n, sizeof(float));
    c.v = mem_array(n, sizeof(float));
    c.q = mem_array(n_q * head_dim, sizeof(float));
    assert_true(c.k && c.v && c.q);
    random_floats(c.k, n, 1.0f);
    random_floats(c.v, n, 1.0f);
    random_floats(c.q, n_q * head_dim, scale);
    for (size_t i = 0; c.exact_q && i < n_q; i++)
        make_exact(c.q + i * head_dim, type, head_dim);
    for (size_t i = 0; i < n_q; i++)
        c.seen[i] = random_u32() % 4 ? 1 + random_u32() % POSITIONS : POSITIONS - (uint32_t)i % 8;
    shuffle_blocks(&c);
    store_cache(&c);
    return c;
}

static void attn_free(struct attn_case *c)
{
    guarded_free(&c->kv);
    mem_free(c->k);
    mem_free(c->v);
    mem_free(c->q);
}

/* What the queries of a case came to. */
struct attn_out {
    float m[ATTN_MAX_QUERIES];
    float l[ATTN_MAX_QUERIES];
    float *acc; /* (n_q, head_dim) */
};

static struct attn_out out_make(const struct attn_case *c)
{
    struct attn_out o = {.acc = mem_array(c->n_q * c->head_dim, sizeof(float))};
    assert_non_null(o.acc);
    return o;
}

/* Queries first_q .. first_q + n - 1 over the positions [first, end), from the first state. */
static void attn_run(const struct attn_case *c, const struct kernels *k, size_t first_q, size_t n,
                     uint32_t first, uint32_t end, struct attn_out *out)
{
    const float *q[ATTN_MAX_QUERIES];
    float *acc[ATTN_MAX_QUERIES];
    size_t bytes = kv_layout_bytes(c->type, c->head_dim);
    struct guarded g = guarded_make(n * c->head_dim * sizeof(float), 4, true);
    struct guarded scratch = guarded_make(ATTN_SCRATCH(c->head_dim) * sizeof(float), 0, true);
    memset(g.data, 0, g.size);
    for (size_t i = 0; i < n; i++) {
        q[i] = c->q + (first_q + i) * c->head_dim;
        acc[i] = (float *)g.data + i * c->head_dim;
        out->m[i] = -INFINITY;
        out->l[i] = 0.0f;
    }
    k->attn[c->type](&(struct attn_args){.keys = c->kv.data,
                                         .values = (char *)c->kv.data + bytes,
                                         .block_bytes = 2 * bytes,
                                         .blocks = c->blocks,
                                         .first = first,
                                         .end = end,
                                         .head_dim = c->head_dim,
                                         .n_q = n,
                                         .q = q,
                                         .seen = c->seen + first_q,
                                         .window = c->window,
                                         .m = out->m,
                                         .l = out->l,
                                         .acc = acc,
                                         .scratch = scratch.data});
    memcpy(out->acc, g.data, g.size);
    guarded_free(&g);
    guarded_free(&scratch);
}

/* A score's error is at most (head_dim + 1) EPS sum|q k| =: e, and rounding score - max adds as
 * much again for large scores, so a weight's relative error is 2e + 8 EPS (exp) + EPS per shrinking
 * and addition, of which there are at most two a position. It enters numerator and denominator.
 * Coarser arithmetic rounds queries, unless that changes nothing, and weights: to bfloat16, or to
 * half of 1/127 of a group's largest and half of 1/32767 of what the largest scale of the values,
 * at most `largest` / 127, comes to with a weight of 1. */
static void attn_check_query(const struct attn_case *c, size_t i, const struct attn_out *o,
                             enum attn_arithmetic arithmetic, struct worst *worst)
{
    static double scores[POSITIONS];
    double max = -INFINITY, sum = 0.0, error = 0.0, largest = 0.0;
    const float *q = c->q + i * c->head_dim, *acc = o->acc + i * c->head_dim;
    double round_p = arithmetic == ATTN_BFLOAT16 ? BF16_EPS : 0.0;
    for (size_t j = case_from(c, i); j < c->seen[i]; j++) {
        double dot = 0.0, rounded = 0.0;
        for (size_t d = 0; d < c->head_dim; d++) {
            double k = (double)c->k[j * c->head_dim + d], product = (double)q[d] * k;
            dot += product;
            rounded += ((double)c->head_dim + 3.0) * EPS * fabs(product);
            largest = fmax(largest, fabs((double)c->v[j * c->head_dim + d]));
            if (arithmetic == ATTN_BFLOAT16 && !c->exact_q)
                rounded += BF16_EPS * fabs(product);
            if (arithmetic == ATTN_INTEGERS && !c->exact_q)
                rounded += 0.5 / 127.0 * group_max(q, c->head_dim, d) * fabs(k);
        }
        scores[j] = dot;
        max = fmax(max, dot);
        error = fmax(error, rounded);
    }
    for (size_t j = case_from(c, i); j < c->seen[i]; j++)
        sum += scores[j] = exp(scores[j] - max);
    double relative = 2.0 * error + (2.0 * (double)c->seen[i] + 12.0) * EPS, coarse = 0.0;
    if (arithmetic == ATTN_INTEGERS)
        coarse = 0.5 / 32767.0 * largest * (double)(c->seen[i] - case_from(c, i)) / sum;
    check_error(worst, (double)o->m[i], max, error + 1e-44);
    check_error(worst, (double)o->l[i], sum, relative * sum);
    for (size_t d = 0; d < c->head_dim; d++) {
        double want = 0.0, size = 0.0;
        for (size_t j = case_from(c, i); j < c->seen[i]; j++) {
            double term = scores[j] / sum * (double)c->v[j * c->head_dim + d];
            want += term;
            size += fabs(term);
        }
        double got = (double)(acc[d] / o->l[i]);
        check_error(worst, got, want, (2.0 * relative + round_p) * size + coarse + 1e-35);
    }
}

/* Each query alone and in windows, bit by bit. */
static void attn_check_windows(const struct attn_case *c, const struct kernels *k,
                               const struct attn_out *all)
{
    struct attn_out part = out_make(c);
    for (size_t n = 1; n < c->n_q; n = n < 3 ? n + 1 : 2 * n - 1) {
        for (size_t i = 0; i + n <= c->n_q; i += n) {
            attn_run(c, k, i, n, 0, POSITIONS, &part);
            assert_memory_equal(part.m, all->m + i, n * sizeof(float));
            assert_memory_equal(part.l, all->l + i, n * sizeof(float));
            assert_memory_equal(part.acc, all->acc + i * c->head_dim,
                                n * c->head_dim * sizeof(float));
        }
    }
    mem_free(part.acc);
}

/* Spans computed apart and merged in their order, bit by bit. */
static void attn_check_merge(const struct attn_case *c, const struct kernels *k,
                             const struct attn_out *all)
{
    struct attn_out sum = out_make(c), span = out_make(c);
    attn_run(c, k, 0, c->n_q, 0, ATTN_SPAN, &sum);
    for (uint32_t first = ATTN_SPAN; first < POSITIONS; first += ATTN_SPAN) {
        attn_run(c, k, 0, c->n_q, first, first + ATTN_SPAN, &span);
        for (size_t i = 0; i < c->n_q; i++) {
            size_t at = i * c->head_dim;
            struct attn_state to = {sum.m[i], sum.l[i], sum.acc + at};
            if (c->seen[i] <= first || case_from(c, i) >= first + ATTN_SPAN)
                continue; /* nothing there */
            k->attn_merge(&to, &(struct attn_state){span.m[i], span.l[i], span.acc + at},
                          c->head_dim);
            sum.m[i] = to.m;
            sum.l[i] = to.l;
        }
    }
    assert_memory_equal(sum.m, all->m, c->n_q * sizeof(float));
    assert_memory_equal(sum.l, all->l, c->n_q * sizeof(float));
    assert_memory_equal(sum.acc, all->acc, c->n_q * c->head_dim * sizeof(float));
    mem_free(sum.acc);
    mem_free(span.acc);
}

static void attn_check(const struct attn_case *c, const struct kernels *k, struct worst *worst)
{
    struct attn_out all = out_make(c);
    enum attn_arithmetic arithmetic = attn_arithmetic(c->type, k->levels);
    attn_run(c, k, 0, c->n_q, 0, POSITIONS, &all);
    for (size_t i = 0; i < c->n_q; i++)
        attn_check_query(c, i, &all, arithmetic, worst);
    attn_check_windows(c, k, &all);
    attn_check_merge(c, k, &all);
    mem_free(all.acc);
}

static void test_attn(void **state)
{
    static const size_t dims[] = {1, 4, 8, 21, 64, 80, 100, 128, 200};
    static const size_t queries[] = {1, 2, 3, 5, 9, 31, ATTN_MAX_QUERIES};
    static const float scales[] = {0.3f, 0.0f, 30.0f};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (int type = 0; type < KV_TYPES; type++) {
            struct worst worst = {0};
            for (size_t i = 0; i < COUNT(dims) * COUNT(queries); i++) {
                size_t n_q = queries[i / COUNT(dims)];
                if (n_q * dims[i % COUNT(dims)] > 4000 && level.k.levels == 0)
                    continue; /* plain C takes minutes */
                struct attn_case c = attn_make((enum kv_type)type, dims[i % COUNT(dims)], n_q,
                                               scales[i % COUNT(scales)]);
                attn_check(&c, &level.k, &worst);
                attn_free(&c);
            }
            check_report(level.name, "attn", kv_layout_names[type], worst);
        }
    }
}

enum attn_place { IN_QUERY, IN_KEY, IN_VALUE, ATTN_PLACES };

/* NaN in one dim of every query, or of position 0's key or value. */
static void put_nan(struct attn_case *c, enum attn_place place, size_t dim)
{
    struct kernels ref;
    kernels_fill(&ref, 0);
    for (size_t i = 0; place == IN_QUERY && i < c->n_q; i++)
        c->q[i * c->head_dim + dim] = NAN;
    if (place != IN_QUERY)
        (place == IN_KEY ? c->k : c->v)[dim] = NAN;
    store_position(c, &ref, 0);
}

/* No arithmetic hides what is not a number from a query that sees it. */
static void test_attn_not_finite(void **state)
{
    enum { HEAD_DIM = 40, QUERIES = 14, DIM = 35 };
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (int i = 0; i < KV_TYPES * ATTN_PLACES; i++) {
            struct attn_case c =
                attn_make((enum kv_type)(i / ATTN_PLACES), HEAD_DIM, QUERIES, 0.3f);
            struct attn_out all = out_make(&c);
            c.window = 0;
            put_nan(&c, (enum attn_place)(i % ATTN_PLACES), DIM);
            attn_run(&c, &level.k, 0, QUERIES, 0, POSITIONS, &all);
            for (size_t q = 0; q < QUERIES; q++)
                assert_true(isnan(all.acc[q * HEAD_DIM + DIM] / all.l[q]));
            mem_free(all.acc);
            attn_free(&c);
        }
    }
}

/* By how much a cached number may differ from x; q8_0's scale is max|x| / 127 of its 32 dims. */
static double store_bound(enum kv_type type, double x, double max)
{
    switch (type) {
    case KV_F32:
        return 0.0;
    case KV_F16:
        return 0x1p-11 * x + 0x1p-25;
    case KV_BF16:
        return BF16_EPS * x;
    default:
        return (0.5 + 512.0 * EPS) * max / 127.0 + 0x1p-100;
    }
}

/* A whole block, in any order of positions, as the reference has it and as x has it. */
static void check_store(const struct check_level *level, enum kv_type type, size_t head_dim,
                        struct worst *worst)
{
    size_t bytes = kv_layout_bytes(type, head_dim), n = KV_BLOCK * head_dim;
    struct guarded x = guarded_make(2 * n * sizeof(float), 4, false);
    struct guarded got = guarded_make(2 * bytes, 0, true), want = guarded_make(2 * bytes, 0, true);
    float *k = x.data, *v = k + n;
    struct kernels ref;
    kernels_fill(&ref, 0);
    random_floats(k, 2 * n, head_dim % 3 ? 1.0f : 1e4f);
    for (size_t i = 0; i < KV_BLOCK; i++) {
        size_t at = i * 13 % KV_BLOCK;
        struct kv_store_args a = {got.data, (char *)got.data + bytes, at,
                                  head_dim, k + at * head_dim,        v + at * head_dim};
        level->k.kv_store[type](&a);
        a.k = want.data;
        a.v = (char *)want.data + bytes;
        ref.kv_store[type](&a);
    }
    assert_memory_equal(got.data, want.data, 2 * bytes);
    for (size_t at = 0; at < KV_BLOCK; at++) {
        for (size_t d = 0; d < head_dim; d++) {
            const float *key = k + at * head_dim, *value = v + at * head_dim;
            const char *values = (char *)got.data + bytes;
            double got_k = (double)kv_layout_load_key(type, got.data, head_dim, at, d);
            double got_v = (double)kv_layout_load_value(type, values, head_dim, at, d);
            check_error(worst, got_k, (double)key[d],
                        store_bound(type, fabs((double)key[d]), group_max(key, head_dim, d)));
            check_error(worst, got_v, (double)value[d],
                        store_bound(type, fabs((double)value[d]), group_max(value, head_dim, d)));
        }
    }
    guarded_free(&x);
    guarded_free(&got);
    guarded_free(&want);
}

static void test_kv_store(void **state)
{
    static const size_t dims[] = {1, 4, 8, 21, 33, 64, 65, 80, 100, 128, 129, 256};
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (int type = 0; type < KV_TYPES; type++) {
            struct worst worst = {0};
            for (size_t i = 0; i < COUNT(dims); i++)
                check_store(&level, (enum kv_type)type, dims[i], &worst);
            check_report(level.name, "kv_store", kv_layout_names[type], worst);
        }
    }
}

/* A number of each kind as the first dim of a key of `head_dim` ones. */
static float stored(const struct kernels *k, enum kv_type type, float x)
{
    enum { HEAD_DIM = 40 };
    float key[HEAD_DIM], block[KV_BLOCK * 48 + 2 * KV_BLOCK], values[KV_BLOCK * 48 + 2 * KV_BLOCK];
    for (size_t d = 0; d < HEAD_DIM; d++)
        key[d] = d ? 1.0f : x;
    k->kv_store[type](&(struct kv_store_args){block, values, 3, HEAD_DIM, key, key});
    float got = kv_layout_load_key(type, block, HEAD_DIM, 3, 0);
    float value = kv_layout_load_value(type, values, HEAD_DIM, 3, 0);
    assert_true(got == value || (isnan(got) && isnan(value)));
    assert_true(fabsf(kv_layout_load_key(type, block, HEAD_DIM, 3, 33) - 1.0f) < 1e-6f);
    return got;
}

/* Every binary16 and bfloat16 comes back as itself, and halfway goes to the even one; what is not
 * finite stays so, in every type. */
static void test_kv_store_numbers(void **state)
{
    (void)state;
    struct check_level level;
    FOR_EACH_LEVEL(level)
    {
        for (uint32_t i = 0; i < 0x7c00; i += 1 + i % 3) {
            float x = half_to_float((uint16_t)i), next = half_to_float((uint16_t)(i + 1));
            assert_true(stored(&level.k, KV_F16, -x) == -x);
            if (i < 0x7bff)
                assert_true(stored(&level.k, KV_F16, 0.5f * (x + next)) == (i % 2 ? next : x));
        }
        for (uint32_t i = 0x80; i < 0x7f80; i += 1 + i % 3) {
            float x = bf16_to_float((uint16_t)i);
            float middle = float_from_bits(float_bits(x) + 0x8000u);
            assert_true(stored(&level.k, KV_BF16, -x) == -x);
            assert_true(stored(&level.k, KV_BF16, middle) == bf16_to_float((uint16_t)(i + i % 2)));
        }
        for (int type = 0; type < KV_TYPES; type++) {
            assert_false(isfinite(stored(&level.k, (enum kv_type)type, INFINITY)));
            assert_true(isnan(stored(&level.k, (enum kv_type)type, NAN)));
            assert_true(isnan(stored(&level.k, (enum kv_type)type, float_from_bits(0xff800001u))));
        }
    }
}

#endif
