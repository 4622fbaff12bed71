/* What sampling asks of a row of logits, with AVX2. */
#include "kernels/variants.h"
#include "kernels/x86/vec_avx2.h"

#include <float.h>

/* One span. A product with zero is zero, or NaN of what is not finite: *odd keeps it. Two chains of
 * maxima for each half of the lanes, as many as the latency of a maximum takes. */
ALWAYS_INLINE void span_max(float *out, const float *x, __m256 odd[4])
{
    __m256 max[4];
    for (int c = 0; c < 4; c++)
        max[c] = _mm256_set1_ps(-FLT_MAX);
    for (size_t i = 0; i < GROUP_SPAN; i += 32) {
        for (size_t c = 0; c < 4; c++) {
            __m256 v = _mm256_loadu_ps(x + i + 8 * c);
            max[c] = _mm256_max_ps(max[c], v);
            odd[c] = _mm256_fmadd_ps(v, _mm256_setzero_ps(), odd[c]);
        }
    }
    _mm256_storeu_ps(out, _mm256_max_ps(max[0], max[2]));
    _mm256_storeu_ps(out + 8, _mm256_max_ps(max[1], max[3]));
}

static bool group_max_avx2(float *out, const float *x, size_t n)
{
    __m256 odd[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + GROUP_SPAN <= n; i += GROUP_SPAN, out += GROUP_LANES)
        span_max(out, x + i, odd);
    if (i < n) {
        float last[GROUP_SPAN];
        memcpy(last, x + i, (n - i) * sizeof *x);
        for (size_t j = n - i; j < GROUP_SPAN; j++)
            last[j] = -FLT_MAX;
        span_max(out, last, odd);
    }
    __m256 sum = _mm256_add_ps(_mm256_add_ps(odd[0], odd[1]), _mm256_add_ps(odd[2], odd[3]));
    return _mm256_movemask_ps(_mm256_cmp_ps(sum, sum, _CMP_UNORD_Q)) == 0;
}

/* Two accumulators take eights in turn, the tail joins their sum. A vocabulary's 50,000 terms stay
 * within 3,000 additions per lane. */
static float exp_sum_avx2(float *out, const float *x, size_t n, float max, float scale)
{
    __m256 acc[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    __m256 shift = _mm256_set1_ps(max), factor = _mm256_set1_ps(scale);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        for (size_t c = 0; c < 2; c++) {
            __m256 v = _mm256_sub_ps(_mm256_loadu_ps(x + i + 8 * c), shift);
            __m256 e = exp8(_mm256_mul_ps(v, factor));
            _mm256_storeu_ps(out + i + 8 * c, e);
            acc[c] = _mm256_add_ps(acc[c], e);
        }
    }
    for (; i < n; i += 8) {
        size_t left = n - i < 8 ? n - i : 8;
        float tail[8] = {0};
        __m256 v = _mm256_sub_ps(load_tail(x + i, left), shift);
        store_tail(tail, exp8(_mm256_mul_ps(v, factor)), left);
        memcpy(out + i, tail, left * sizeof *out);
        acc[i / 8 % 2] = _mm256_add_ps(acc[i / 8 % 2], _mm256_loadu_ps(tail));
    }
    return sum8(_mm256_add_ps(acc[0], acc[1]));
}

ALWAYS_INLINE __m256 add_above(__m256 acc, __m256 v, __m256 floor)
{
    return _mm256_add_ps(acc, _mm256_and_ps(v, _mm256_cmp_ps(v, floor, _CMP_GT_OQ)));
}

static float sum_above_avx2(const float *x, size_t n, float floor)
{
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    const __m256 bound = _mm256_set1_ps(floor);
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (size_t c = 0; c < 4; c++)
            acc[c] = add_above(acc[c], _mm256_loadu_ps(x + i + 8 * c), bound);
    for (; i < n; i += 8)
        acc[0] = add_above(acc[0], load_tail(x + i, n - i < 8 ? n - i : 8), bound);
    return sum8(_mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3])));
}

void sample_avx2_fill(struct kernels *k)
{
    k->group_max = group_max_avx2;
    k->exp_sum = exp_sum_avx2;
    k->sum_above = sum_above_avx2;
}
