/* The operations on single vectors with AVX2. */
#include "kernels/half.h"
#include "kernels/variants.h"
#include "kernels/x86/vec_avx2.h"

#include <math.h>
#include <stdalign.h>
#include <stdbool.h>

/* --- int8 blocks, two at a time ------------------------------------------------------------- */

/* Magnitudes are in the order of their bits, and NaN is above infinity: an integer maximum keeps
 * it, a float one would pass it over. */
ALWAYS_INLINE __m256i max_bits(const __m256 x[4])
{
    __m256i most = _mm256_setzero_si256(), sign = _mm256_set1_epi32(INT32_MAX);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        most = _mm256_max_epi32(most, _mm256_and_si256(_mm256_castps_si256(x[i]), sign));
    return most;
}

/* The largest magnitude of x[0 .. 3] in the lower half's lanes, of x[4 .. 7] in the upper's. */
ALWAYS_INLINE __m256 max_magnitudes(const __m256 x[8])
{
    __m256i a = max_bits(x), b = max_bits(x + 4);
    __m256i m = _mm256_max_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                 _mm256_permute2x128_si256(a, b, 0x31));
    m = _mm256_max_epi32(m, _mm256_shuffle_epi32(m, 0x4e));
    return _mm256_castsi256_ps(_mm256_max_epi32(m, _mm256_shuffle_epi32(m, 0xb1)));
}

/* {127 / a, 127 / b, a / 127, b / 127} in one division; 0 where the block counts as zero. */
ALWAYS_INLINE __m128 inverses_and_scales(__m256 max)
{
    __m128 all = _mm_set1_ps(127.0f);
    __m128 m = _mm_unpacklo_ps(_mm256_castps256_ps128(max), _mm256_extractf128_ps(max, 1));
    __m128 q = _mm_div_ps(_mm_blend_ps(m, all, 0x3), _mm_blend_ps(m, all, 0xc));
    return _mm_and_ps(q, _mm_cmp_ps(m, _mm_set1_ps(QUANTIZE_TINY), _CMP_NLT_UQ));
}

/* 32 floats to bytes, ties to even, never -128 (which NaN would be). The packs work within 128-bit
 * halves, so quadruples come out as 0 2 4 6 1 3 5 7 and are put in order at the end. */
ALWAYS_INLINE __m256i round_q8(const __m256 x[4], __m256 inverse)
{
    __m256i a = _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(x[0], inverse)),
                                   _mm256_cvtps_epi32(_mm256_mul_ps(x[1], inverse)));
    __m256i b = _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_mul_ps(x[2], inverse)),
                                   _mm256_cvtps_epi32(_mm256_mul_ps(x[3], inverse)));
    __m256i bytes = _mm256_max_epi8(_mm256_packs_epi16(a, b), _mm256_set1_epi8(-127));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Sums of 16 bytes and 16 bytes, as 16 lower bits of two 64-bit lanes; each 2048 too many. */
ALWAYS_INLINE __m128i sum_halves(__m256i bytes)
{
    __m256i biased = _mm256_xor_si256(bytes, _mm256_set1_epi8(INT8_MIN));
    __m256i sums = _mm256_sad_epu8(biased, _mm256_setzero_si256());
    __m128i first = _mm256_castsi256_si128(sums), second = _mm256_extracti128_si256(sums, 1);
    return _mm_add_epi64(_mm_unpacklo_epi64(first, second), _mm_unpackhi_epi64(first, second));
}

/* {first a, first b, second a, second b} to {first, total} of both blocks, each a word. */
ALWAYS_INLINE __m128i sum_words(__m256i a, __m256i b)
{
    __m128 halves = _mm_shuffle_ps(_mm_castsi128_ps(sum_halves(a)), _mm_castsi128_ps(sum_halves(b)),
                                   _MM_SHUFFLE(2, 0, 2, 0)); /* first, second; of a, of b */
    __m128i first = _mm_shuffle_epi32(_mm_castps_si128(halves), _MM_SHUFFLE(3, 1, 2, 0));
    first = _mm_sub_epi32(first, _mm_set1_epi32(16 * 128));
    __m128i total = _mm_add_epi32(first, _mm_shuffle_epi32(first, 0x4e));
    return _mm_blend_epi16(first, _mm_slli_epi32(total, 16), 0xaa);
}

#define PAIR  (2 * Q8_VALUES)
#define CHUNK 512

ALWAYS_INLINE void put_block(struct q8_block *out, __m128i head, __m256i q)
{
    _mm_storel_epi64((__m128i *)out, head);
    _mm256_storeu_si256((__m256i *)out->q, q);
}

/* A pair of blocks from x on; the second is zero when n is one block. */
ALWAYS_INLINE void load_pair(__m256 v[8], const float *x, size_t n)
{
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++)
        v[i] = i < 4 || n >= PAIR ? _mm256_loadu_ps(x + 8 * i) : _mm256_setzero_ps();
}

ALWAYS_INLINE void quantize_pair(struct q8_rows *out, const __m256 x[8], const float factors[4],
                                 bool both)
{
    __m256i a = round_q8(x, _mm256_set1_ps(factors[0]));
    __m256i b = round_q8(x + 4, _mm256_set1_ps(factors[1]));
    __m128i scales = _mm_loadl_epi64((const __m128i *)(factors + 2));
    __m128i heads = _mm_unpacklo_epi32(scales, sum_words(a, b)); /* scale, sums, scale, sums */
    put_block(q8_rows_next(out), heads, a);
    if (both)
        put_block(q8_rows_next(out), _mm_unpackhi_epi64(heads, heads), b);
}

/* n <= CHUNK. All factors first: a block's is one long chain of dependent instructions. */
ALWAYS_INLINE void quantize_chunk(struct q8_rows *out, const float *x, size_t n)
{
    float factors[CHUNK / PAIR][4];
    __m256 v[8];
    for (size_t i = 0; i < n; i += PAIR) {
        load_pair(v, x + i, n - i);
        _mm_storeu_ps(factors[i / PAIR], inverses_and_scales(max_magnitudes(v)));
    }
    for (size_t i = 0; i < n; i += PAIR) {
        load_pair(v, x + i, n - i);
        quantize_pair(out, v, factors[i / PAIR], n - i >= PAIR);
    }
}

static void quantize_q8_avx2(struct q8_block *out, const float *x, size_t n)
{
    struct q8_rows row = q8_rows_start(out, n / Q8_VALUES, n / Q8_VALUES);
    for (size_t i = 0; i < n; i += CHUNK)
        quantize_chunk(&row, x + i, n - i < CHUNK ? n - i : CHUNK);
}

/* --- rmsnorm -------------------------------------------------------------------------------- */

/* x, which delta is added to before where there is one. */
ALWAYS_INLINE __m256 residual8(float *x, const float *delta)
{
    __m256 v = _mm256_loadu_ps(x);
    if (delta) {
        v = _mm256_add_ps(v, _mm256_loadu_ps(delta));
        _mm256_storeu_ps(x, v);
    }
    return v;
}

/* Four accumulators take eights in turn, the rest goes to the first. With a delta n is a multiple
 * of 8. */
ALWAYS_INLINE float sum_squares(float *x, const float *delta, size_t n)
{
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++) {
            __m256 v = residual8(x + i + 8 * j, delta ? delta + i + 8 * j : NULL);
            acc[j] = _mm256_fmadd_ps(v, v, acc[j]);
        }
    }
    for (; i < n; i += 8) {
        bool whole = n - i >= 8;
        __m256 v = whole ? residual8(x + i, delta ? delta + i : NULL) : load_tail(x + i, n - i);
        acc[0] = _mm256_fmadd_ps(v, v, acc[0]);
    }
    return sum8(_mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3])));
}

ALWAYS_INLINE void norm_rows(float *out, const float *x, const float *weight, float scale, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(scale));
        _mm256_storeu_ps(out + i, _mm256_mul_ps(v, _mm256_loadu_ps(weight + i)));
    }
    for (; i < n; i++)
        out[i] = x[i] * scale * weight[i];
}

static void rmsnorm_avx2(float *out, const float *x, const float *weight, size_t n, float eps)
{
    float squares = sum_squares((float *)x, NULL, n); /* without a delta it writes nothing */
    norm_rows(out, x, weight, 1.0f / sqrtf(squares / (float)n + eps), n);
}

static void add_rmsnorm_q8_avx2(struct q8_block *out, float *x, const float *delta,
                                const float *weight, size_t n, float eps)
{
    struct q8_rows row = q8_rows_start(out, n / Q8_VALUES, n / Q8_VALUES);
    alignas(64) float normed[CHUNK];
    float squares = delta ? sum_squares(x, delta, n) : sum_squares(x, NULL, n);
    float scale = 1.0f / sqrtf(squares / (float)n + eps);
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t part = n - i < CHUNK ? n - i : CHUNK;
        norm_rows(normed, x + i, weight + i, scale, part);
        quantize_chunk(&row, normed, part);
    }
}

/* --- rope ----------------------------------------------------------------------------------- */

/* {a, b, a, b, ..}: a c - b s in the even lanes, b c + a s in the odd. */
ALWAYS_INLINE void turn_neighbours(float *x, __m256 c, __m256 s, __m256 scale)
{
    __m256 v = _mm256_loadu_ps(x);
    __m256 crossed = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), s);
    _mm256_storeu_ps(x, _mm256_mul_ps(_mm256_fmaddsub_ps(v, c, crossed), scale));
}

ALWAYS_INLINE void turn_halves(float *x, float *y, __m256 c, __m256 s, __m256 scale)
{
    __m256 a = _mm256_loadu_ps(x), b = _mm256_loadu_ps(y);
    __m256 low = _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s));
    __m256 high = _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s));
    _mm256_storeu_ps(x, _mm256_mul_ps(low, scale));
    _mm256_storeu_ps(y, _mm256_mul_ps(high, scale));
}

/* The vectors' arithmetic on one pair. */
ALWAYS_INLINE void turn_pair(float *x, float *y, const float *cs, float scale)
{
    float a = *x, b = *y;
    *x = fmaf(a, cs[0], -(b * cs[1])) * scale;
    *y = fmaf(b, cs[0], a * cs[1]) * scale;
}

static void rope_neighbours(const struct rope_args *r)
{
    __m256 scale = _mm256_set1_ps(r->scale);
    size_t i = 0;
    for (; i + 8 <= r->n_rot; i += 8) {
        __m256 cs = _mm256_loadu_ps(r->cos_sin + i);
        __m256 c = _mm256_moveldup_ps(cs), s = _mm256_movehdup_ps(cs);
        for (size_t h = 0; h < r->n_heads; h++)
            turn_neighbours(r->heads + h * r->head_dim + i, c, s, scale);
    }
    for (; i < r->n_rot; i += 2) {
        for (size_t h = 0; h < r->n_heads; h++) {
            float *x = r->heads + h * r->head_dim + i;
            turn_pair(x, x + 1, r->cos_sin + i, r->scale);
        }
    }
}

static void rope_halves(const struct rope_args *r)
{
    __m256 scale = _mm256_set1_ps(r->scale);
    size_t half = r->n_rot / 2, i = 0;
    for (; i + 8 <= half; i += 8) {
        const float *at = r->cos_sin + 2 * i;
        __m256 cs0 = _mm256_loadu_ps(at), cs1 = _mm256_loadu_ps(at + 8);
        __m256 low = _mm256_permute2f128_ps(cs0, cs1, 0x20);
        __m256 high = _mm256_permute2f128_ps(cs0, cs1, 0x31);
        __m256 c = _mm256_shuffle_ps(low, high, 0x88), s = _mm256_shuffle_ps(low, high, 0xdd);
        for (size_t h = 0; h < r->n_heads; h++) {
            float *x = r->heads + h * r->head_dim + i;
            turn_halves(x, x + half, c, s, scale);
        }
    }
    for (; i < half; i++) {
        for (size_t h = 0; h < r->n_heads; h++) {
            float *x = r->heads + h * r->head_dim + i;
            turn_pair(x, x + half, r->cos_sin + 2 * i, r->scale);
        }
    }
}

static void rope_avx2(const struct rope_args *r)
{
    if (r->style == ROPE_NEIGHBOURS)
        rope_neighbours(r);
    else
        rope_halves(r);
    if (r->scale == 1.0f)
        return;
    for (size_t h = 0; h < r->n_heads; h++)
        for (size_t i = r->n_rot; i < r->head_dim; i++)
            r->heads[h * r->head_dim + i] *= r->scale;
}

/* --- swiglu, add ---------------------------------------------------------------------------- */

ALWAYS_INLINE __m256 swiglu8(__m256 gate, __m256 up)
{
    __m256 minus = _mm256_xor_ps(gate, _mm256_set1_ps(-0.0f)), infinity = _mm256_set1_ps(INFINITY);
    __m256 beyond = _mm256_cmp_ps(minus, _mm256_set1_ps(88.37f), _CMP_GT_OQ);
    __m256 e = _mm256_blendv_ps(exp8(minus), infinity, beyond);
    __m256 below = _mm256_add_ps(_mm256_set1_ps(1.0f), e);
    return _mm256_mul_ps(_mm256_div_ps(gate, below), up);
}

static void swiglu_avx2(float *out, const float *gate, const float *up, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, swiglu8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i)));
    if (i < n)
        store_tail(out + i, swiglu8(load_tail(gate + i, n - i), load_tail(up + i, n - i)), n - i);
}

static void swiglu_q8_avx2(const struct swiglu_q8_args *a)
{
    struct q8_rows rows = q8_rows_start(a->out, a->n / Q8_VALUES, a->out_stride);
    alignas(64) float hidden[CHUNK];
    size_t n = a->n_rows * a->n;
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t part = n - i < CHUNK ? n - i : CHUNK;
        swiglu_avx2(hidden, a->gate + i, a->up + i, part);
        quantize_chunk(&rows, hidden, part);
    }
}

static void add_avx2(float *out, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_add_ps(_mm256_loadu_ps(out + i), _mm256_loadu_ps(x + i)));
    for (; i < n; i++)
        out[i] += x[i];
}

void vector_avx2_fill(struct kernels *k)
{
    k->quantize_q8 = quantize_q8_avx2;
    k->rmsnorm = rmsnorm_avx2;
    k->add_rmsnorm_q8 = add_rmsnorm_q8_avx2;
    k->rope = rope_avx2;
    k->swiglu = swiglu_avx2;
    k->swiglu_q8 = swiglu_q8_avx2;
    k->add = add_avx2;
}
