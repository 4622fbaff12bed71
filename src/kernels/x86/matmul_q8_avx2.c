/* Quantised weights times int8 activations with AVX2: a stripe of 16 rows at a time
 * (stripe_avx2.h), against tiles of up to four tokens.
 *
 * Within a group of 32 the sum is an exact integer, whichever way it is computed; over the groups a
 * pair has one float accumulator, in one lane, in the order of K:
 *
 *     acc = fma(integer sum, w.d * x.scale, acc);   acc = fma(w.m, x.sum, acc)
 *
 * vpmaddubsw adds two products of an unsigned and a signed byte into int16. |x| <= 127, so:
 *
 *     4 bits  2 * 15 * 127 =  3810   8 steps fit 32767: the whole group is summed in int16
 *     5 bits  2 * 31 * 127 =  7874   4 steps
 *     6 bits  2 * 32 * 127 =  8128   4 steps (magnitudes; the sign moves to x)
 *     8 bits  2 * 128 * 127 = 32512  1 step  (likewise)
 */
#include "kernels/variants.h"
#include "kernels/x86/stripe_matmul_avx2.h"

#define TILE_TOKENS 4
#define VECTORS     (STRIPE_ROWS / 8)

/* What a family of types needs of the inner loop. */
struct family {
    int int16_steps; /* steps summed in int16 before widening */
    int is_signed;
    int has_min;
    int has_scale;
};

static const struct family four_bits = {.int16_steps = 8, .has_min = 1};
static const struct family five_bits = {.int16_steps = 4, .has_min = 1};
static const struct family six_bits = {.int16_steps = 4, .is_signed = 1, .has_scale = 1};
static const struct family eight_bits = {.int16_steps = 1, .is_signed = 1};

ALWAYS_INLINE __m256i load256(const void *p)
{
    return _mm256_load_si256(p);
}

ALWAYS_INLINE __m256i broadcast_four(const int8_t *q)
{
    return _mm256_castps_si256(_mm256_broadcast_ss((const float *)(const void *)q));
}

/* gcc 12 may add integers in any order, and then loads all eight steps before it adds: 152 instead
 * of 227 GOP/s. An empty statement that seems to change the sum stops it. */
#define KEEP_ORDER(v) __asm__("" : "+x"(v))

/* sum[i][v] += the steps from `step` on that fit int16. */
ALWAYS_INLINE void add_steps(__m256i sum[][VECTORS], const struct tile *t, size_t g, int step,
                             int tokens, struct family f)
{
    __m256i part[TILE_TOKENS][VECTORS];
#pragma GCC unroll 8
    for (int s = step; s < step + f.int16_steps; s++) {
        __m256i w[VECTORS];
        for (int v = 0; v < VECTORS; v++)
            w[v] = load256(t->s->q[g][s] + 32 * v);
        for (int i = 0; i < tokens; i++) {
            __m256i x = broadcast_four(t->x[i][g].q + 4 * s);
            for (int v = 0; v < VECTORS; v++) {
                __m256i p = f.is_signed ? _mm256_maddubs_epi16(_mm256_abs_epi8(w[v]),
                                                               _mm256_sign_epi8(x, w[v]))
                                        : _mm256_maddubs_epi16(w[v], x);
                part[i][v] = s == step ? p : _mm256_add_epi16(part[i][v], p);
                KEEP_ORDER(part[i][v]);
            }
        }
    }
    for (int v = 0; v < VECTORS; v++) {
        __m256i weight =
            f.has_scale ? load256(t->s->scale[g][step / 4] + 8 * v) : _mm256_set1_epi16(1);
        for (int i = 0; i < tokens; i++) {
            __m256i wide = _mm256_madd_epi16(part[i][v], weight);
            sum[i][v] = step == 0 ? wide : _mm256_add_epi32(sum[i][v], wide);
        }
    }
}

ALWAYS_INLINE __m256 add_group(__m256 acc, __m256i sum, const struct tile *t, size_t g, int i,
                               int v, struct family f)
{
    const struct q8_block *x = &t->x[i][g];
    __m256 scale = _mm256_mul_ps(_mm256_load_ps(t->s->d[g] + 8 * v), _mm256_set1_ps(x->scale));
    acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, acc);
    if (f.has_min)
        acc = _mm256_fmadd_ps(_mm256_load_ps(t->s->m[g] + 8 * v),
                              _mm256_set1_ps(x->scale * (float)x->total), acc);
    return acc;
}

ALWAYS_INLINE void tile_run(const struct tile *t, int tokens, struct family f)
{
    __m256 acc[TILE_TOKENS][VECTORS];
    for (int i = 0; i < tokens; i++)
        for (int v = 0; v < VECTORS; v++)
            acc[i][v] = _mm256_loadu_ps(t->acc[i] + 8 * v);
    for (size_t g = 0; g < t->n_groups; g++) {
        __m256i sum[TILE_TOKENS][VECTORS];
#pragma GCC unroll 8
        for (int step = 0; step < STRIPE_STEPS; step += f.int16_steps)
            add_steps(sum, t, g, step, tokens, f);
        for (int i = 0; i < tokens; i++)
            for (int v = 0; v < VECTORS; v++)
                acc[i][v] = add_group(acc[i][v], sum[i][v], t, g, i, v, f);
    }
    for (int i = 0; i < tokens; i++)
        for (int v = 0; v < VECTORS; v++)
            _mm256_storeu_ps(t->acc[i] + 8 * v, acc[i][v]);
}

ALWAYS_INLINE void tile_dispatch(const struct tile *t, size_t tokens, struct family f)
{
    if (tokens == 4)
        tile_run(t, 4, f);
    else if (tokens == 3)
        tile_run(t, 3, f);
    else if (tokens == 2)
        tile_run(t, 2, f);
    else
        tile_run(t, 1, f);
}

static void tile_four_bits_avx2(const struct tile *t, size_t tokens)
{
    tile_dispatch(t, tokens, four_bits);
}

static void tile_five_bits_avx2(const struct tile *t, size_t tokens)
{
    tile_dispatch(t, tokens, five_bits);
}

static void tile_six_bits_avx2(const struct tile *t, size_t tokens)
{
    tile_dispatch(t, tokens, six_bits);
}

static void tile_eight_bits_avx2(const struct tile *t, size_t tokens)
{
    tile_dispatch(t, tokens, eight_bits);
}

#define MATMUL_Q8_MAP(X)                                                                           \
    X(Q4_0, q4_0, four_bits)                                                                       \
    X(Q4_1, q4_1, four_bits)                                                                       \
    X(Q5_0, q5_0, five_bits)                                                                       \
    X(Q5_1, q5_1, five_bits)                                                                       \
    X(Q8_0, q8_0, eight_bits)                                                                      \
    X(Q4_K, q4_k, four_bits)                                                                       \
    X(Q5_K, q5_k, five_bits)                                                                       \
    X(Q6_K, q6_k, six_bits)

#define X(type, name, family)                                                                      \
    static void matmul_q8_##name##_avx2(const struct matmul_args *a)                               \
    {                                                                                              \
        matmul_q8(a, unpack_##name, tile_##family##_avx2, TILE_TOKENS);                            \
    }
MATMUL_Q8_MAP(X)
#undef X

void matmul_q8_avx2_fill(struct kernels *k)
{
#define X(type, name, family) k->matmul_q8[TENSOR_##type] = matmul_q8_##name##_avx2;
    MATMUL_Q8_MAP(X)
#undef X
}
