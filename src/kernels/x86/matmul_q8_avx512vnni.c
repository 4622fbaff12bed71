/* Quantised weights times int8 activations with AVX-512 VNNI: a stripe of 16 rows is one vector per
 * step, against tiles of up to eight tokens.
 *
 * vpdpbusd adds four products of unsigned and signed bytes to an int32 lane without saturation
 * (255 * 127 * 32 fits), so a group is eight of them whatever the type. The order of a pair's float
 * operations is that of AVX2. Its first operand is unsigned and the weights go there: the values of
 * Q8_0 plus 128, balanced by its minimum; those of Q6_K as magnitudes, their signs moved to x.
 */
#include "kernels/variants.h"
#include "kernels/x86/stripe_matmul_avx2.h"

#define TILE_TOKENS 8

ALWAYS_INLINE __m512i broadcast_four(const int8_t *q)
{
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm512_set1_epi32(four);
}

/* sum[i] = the integer sums of group g, of the steps from `step` to `end`. */
ALWAYS_INLINE void sum_steps(__m512i sum[], const struct tile *t, size_t g, int step, int end,
                             int tokens, int is_signed)
{
    for (int i = 0; i < tokens; i++)
        sum[i] = _mm512_setzero_si512();
    for (int s = step; s < end; s++) {
        __m512i w = _mm512_load_si512(t->s->q[g][s]);
        __mmask64 negative = is_signed ? _mm512_movepi8_mask(w) : 0;
        __m512i magnitude = is_signed ? _mm512_abs_epi8(w) : w;
        for (int i = 0; i < tokens; i++) {
            __m512i x = broadcast_four(t->x[i][g].q + 4 * s);
            if (is_signed)
                x = _mm512_mask_sub_epi8(x, negative, _mm512_setzero_si512(), x);
            sum[i] = _mm512_dpbusd_epi32(sum[i], magnitude, x);
        }
    }
}

/* Types with one scale and a minimum per group. */
ALWAYS_INLINE void add_group(__m512 acc[], const struct tile *t, size_t g, int tokens)
{
    __m512i sum[TILE_TOKENS];
    __m512 d = _mm512_load_ps(t->s->d[g]), m = _mm512_load_ps(t->s->m[g]);
    sum_steps(sum, t, g, 0, STRIPE_STEPS, tokens, 0);
    for (int i = 0; i < tokens; i++) {
        const struct q8_block *x = &t->x[i][g];
        __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(x->scale));
        acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[i]), scale, acc[i]);
        acc[i] = _mm512_fmadd_ps(m, _mm512_set1_ps(x->scale * (float)x->total), acc[i]);
    }
}

/* Q6_K: an integer scale for each half of the group. */
ALWAYS_INLINE void add_group_scaled(__m512 acc[], const struct tile *t, size_t g, int tokens)
{
    __m512i half[2][TILE_TOKENS];
    __m512 d = _mm512_load_ps(t->s->d[g]);
    __m512i scale0 = _mm512_srai_epi32(_mm512_load_si512(t->s->scale[g][0]), 16);
    __m512i scale1 = _mm512_srai_epi32(_mm512_load_si512(t->s->scale[g][1]), 16);
    sum_steps(half[0], t, g, 0, STRIPE_STEPS / 2, tokens, 1);
    sum_steps(half[1], t, g, STRIPE_STEPS / 2, STRIPE_STEPS, tokens, 1);
    for (int i = 0; i < tokens; i++) {
        __m512i sum = _mm512_add_epi32(_mm512_mullo_epi32(half[0][i], scale0),
                                       _mm512_mullo_epi32(half[1][i], scale1));
        __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(t->x[i][g].scale));
        acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, acc[i]);
    }
}

ALWAYS_INLINE void tile_run(const struct tile *t, int tokens, int is_scaled)
{
    __m512 acc[TILE_TOKENS];
    for (int i = 0; i < tokens; i++)
        acc[i] = _mm512_loadu_ps(t->acc[i]);
    for (size_t g = 0; g < t->n_groups; g++) {
        if (is_scaled)
            add_group_scaled(acc, t, g, tokens);
        else
            add_group(acc, t, g, tokens);
    }
    for (int i = 0; i < tokens; i++)
        _mm512_storeu_ps(t->acc[i], acc[i]);
}

ALWAYS_INLINE void tile_dispatch(const struct tile *t, size_t tokens, int is_scaled)
{
    switch (tokens) {
#define X(n)                                                                                       \
    case n:                                                                                        \
        tile_run(t, n, is_scaled);                                                                 \
        break;
        X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#undef X
    }
}

static void tile_plain_avx512vnni(const struct tile *t, size_t tokens)
{
    tile_dispatch(t, tokens, 0);
}

static void tile_scaled_avx512vnni(const struct tile *t, size_t tokens)
{
    tile_dispatch(t, tokens, 1);
}

#define MATMUL_Q8_MAP(X)                                                                           \
    X(Q4_0, q4_0, q4_0, plain)                                                                     \
    X(Q4_1, q4_1, q4_1, plain)                                                                     \
    X(Q5_0, q5_0, q5_0, plain)                                                                     \
    X(Q5_1, q5_1, q5_1, plain)                                                                     \
    X(Q8_0, q8_0, q8_0_unsigned, plain)                                                            \
    X(Q4_K, q4_k, q4_k, plain)                                                                     \
    X(Q5_K, q5_k, q5_k, plain)                                                                     \
    X(Q6_K, q6_k, q6_k, scaled)

#define X(type, name, unpack, kind)                                                                \
    static void matmul_q8_##name##_avx512vnni(const struct matmul_args *a)                         \
    {                                                                                              \
        matmul_q8(a, unpack_##unpack, tile_##kind##_avx512vnni, TILE_TOKENS);                      \
    }
MATMUL_Q8_MAP(X)
#undef X

void matmul_q8_avx512vnni_fill(struct kernels *k)
{
#define X(type, name, unpack, kind) k->matmul_q8[TENSOR_##type] = matmul_q8_##name##_avx512vnni;
    MATMUL_Q8_MAP(X)
#undef X
}
