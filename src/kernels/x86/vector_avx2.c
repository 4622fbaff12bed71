/* The operations on single vectors with AVX2. */
#include "kernels/half.h"
#include "kernels/variants.h"
#include "kernels/x86/vec_avx2.h"

#include <math.h>

/* As in the reference: a smaller block counts as zero. */
#define QUANTIZE_TINY 0x1p-100f

/* Magnitudes are in the order of their bits, and NaN is above infinity: an integer maximum keeps
 * it, a float one would pass it over. */
ALWAYS_INLINE __m256i magnitude_bits(const float *x)
{
    __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)x);
    return _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MAX));
}

ALWAYS_INLINE float max_magnitude(__m256i v)
{
    __m128i most = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0x4e));
    most = _mm_max_epi32(most, _mm_shuffle_epi32(most, 0xb1));
    return _mm_cvtss_f32(_mm_castsi128_ps(most));
}

/* Eight floats to int32 within [-127, 127], ties to even. */
ALWAYS_INLINE __m256i round_q8(const float *x, __m256 inverse)
{
    __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x), inverse);
    v = _mm256_min_ps(v, _mm256_set1_ps(127.0f)); /* 127 for NaN */
    return _mm256_cvtps_epi32(_mm256_max_ps(v, _mm256_set1_ps(-127.0f)));
}

/* Four vectors of int32 to bytes. The packs work within 128-bit halves, so quadruples come out as
 * 0 2 4 6 1 3 5 7 and are put in order at the end. */
ALWAYS_INLINE __m256i pack_q8(__m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* The sum of the first 16 bytes, and that of all 32 in the upper half of the word. */
ALWAYS_INLINE uint32_t sum_halves(__m256i bytes)
{
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    __m256i v = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0x4e));
    v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0xb1));
    uint32_t first = (uint32_t)_mm256_cvtsi256_si32(v);
    uint32_t second = (uint32_t)_mm_cvtsi128_si32(_mm256_extracti128_si256(v, 1));
    return (first & 0xffff) | (first + second) << 16;
}

static void quantize_q8_block_avx2(struct q8_block *out, const float *x)
{
    __m256i most = _mm256_setzero_si256();
    for (int i = 0; i < Q8_VALUES; i += 8)
        most = _mm256_max_epi32(most, magnitude_bits(x + i));
    float max = max_magnitude(most);
    __m256 inverse = _mm256_set1_ps(max < QUANTIZE_TINY ? 0.0f : 127.0f / max);
    __m256i q = pack_q8(round_q8(x, inverse), round_q8(x + 8, inverse), round_q8(x + 16, inverse),
                        round_q8(x + 24, inverse));
    _mm256_storeu_si256((__m256i *)out->q, q);
    out->scale = max < QUANTIZE_TINY ? 0.0f : max / 127.0f;
    uint32_t sums = sum_halves(q);
    out->first = (int16_t)sums;
    out->total = (int16_t)(sums >> 16);
}

static void quantize_q8_avx2(struct q8_block *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n / Q8_VALUES; i++)
        quantize_q8_block_avx2(out + i, x + Q8_VALUES * i);
}

static float sum_squares(const float *x, size_t n)
{
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        for (size_t j = 0; j < 4; j++) {
            __m256 v = _mm256_loadu_ps(x + i + 8 * j);
            acc[j] = _mm256_fmadd_ps(v, v, acc[j]);
        }
    }
    for (; i < n; i += 8) {
        __m256 v = n - i >= 8 ? _mm256_loadu_ps(x + i) : load_tail(x + i, n - i);
        acc[0] = _mm256_fmadd_ps(v, v, acc[0]);
    }
    return sum8(_mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3])));
}

static void rmsnorm_avx2(float *out, const float *x, const float *weight, size_t n, float eps)
{
    float scale = 1.0f / sqrtf(sum_squares(x, n) / (float)n + eps);
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), _mm256_set1_ps(scale));
        _mm256_storeu_ps(out + i, _mm256_mul_ps(v, _mm256_loadu_ps(weight + i)));
    }
    for (; i < n; i++)
        out[i] = x[i] * scale * weight[i];
}

/* {a, b, a, b, ..}: a c - b s in the even lanes, b c + a s in the odd. */
static void rope_neighbours_avx2(float *head, const float *cos_sin, size_t n_rot)
{
    size_t i = 0;
    for (; i + 8 <= n_rot; i += 8) {
        __m256 x = _mm256_loadu_ps(head + i), cs = _mm256_loadu_ps(cos_sin + i);
        __m256 crossed = _mm256_mul_ps(_mm256_permute_ps(x, 0xb1), _mm256_movehdup_ps(cs));
        _mm256_storeu_ps(head + i, _mm256_fmaddsub_ps(x, _mm256_moveldup_ps(cs), crossed));
    }
    for (; i < n_rot; i += 2) {
        float a = head[i], b = head[i + 1], c = cos_sin[i], s = cos_sin[i + 1];
        head[i] = fmaf(a, c, -(b * s));
        head[i + 1] = fmaf(b, c, a * s);
    }
}

static void rope_halves_avx2(float *head, const float *cos_sin, size_t n_rot)
{
    size_t half = n_rot / 2, i = 0;
    for (; i + 8 <= half; i += 8) {
        __m256 a = _mm256_loadu_ps(head + i), b = _mm256_loadu_ps(head + half + i);
        __m256 cs0 = _mm256_loadu_ps(cos_sin + 2 * i), cs1 = _mm256_loadu_ps(cos_sin + 2 * i + 8);
        __m256 low = _mm256_permute2f128_ps(cs0, cs1, 0x20);
        __m256 high = _mm256_permute2f128_ps(cs0, cs1, 0x31);
        __m256 c = _mm256_shuffle_ps(low, high, 0x88), s = _mm256_shuffle_ps(low, high, 0xdd);
        _mm256_storeu_ps(head + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
        _mm256_storeu_ps(head + half + i, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
    }
    for (; i < half; i++) {
        float a = head[i], b = head[half + i], c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        head[i] = fmaf(a, c, -(b * s));
        head[half + i] = fmaf(b, c, a * s);
    }
}

static void rope_avx2(float *head, const float *cos_sin, size_t n_rot, enum rope_style style)
{
    if (style == ROPE_NEIGHBOURS)
        rope_neighbours_avx2(head, cos_sin, n_rot);
    else
        rope_halves_avx2(head, cos_sin, n_rot);
}

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
    k->rope = rope_avx2;
    k->swiglu = swiglu_avx2;
    k->add = add_avx2;
}
