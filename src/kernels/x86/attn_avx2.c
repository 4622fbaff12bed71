/* Attention over one span of cached positions with AVX2 (see struct attn_args).
 *
 * Per call, in pieces of 64 dims so that head_dim has no limit:
 *
 *     scores   K is transposed to (dim, position), so that lanes are positions: a score is one
 *              lane's chain of fmas over the dims, and no sum crosses lanes.
 *     softmax  per query over its 32 scores, those it must not see at -infinity.
 *     values   lanes are dims: acc = fma(p[j], v[j], acc) over the positions it sees.
 *
 * The transposition and the conversion from binary16 are shared by all queries of the call; a
 * query's operations are the same however many there are.
 */
#include "kernels/variants.h"
#include "kernels/x86/vec_avx2.h"

#include <math.h>

#define PIECE 64 /* dims */
#define SCORE_QUERIES                                                                              \
    3 /* at a time: 12 sums, 3 broadcasts and a vector of keys fill 16 registers */
#define SPAN_VECTORS (KV_BLOCK / 8) /* of positions */

struct attn_work {
    _Alignas(32) float k[PIECE][KV_BLOCK]; /* (dim, position) */
    _Alignas(32) float v[KV_BLOCK][PIECE]; /* (position, dim) */
    _Alignas(32) float scores[ATTN_MAX_QUERIES][KV_BLOCK];
};

/* n <= 8 cached values from index i. */
ALWAYS_INLINE __m256 load_kv(enum kv_type type, const void *rows, size_t i, size_t n)
{
    const char *p = (const char *)rows + i * KV_TYPE_BYTES(type);
    if (n >= 8)
        return type == KV_F32 ? _mm256_loadu_ps((const float *)(const void *)p) : half_to_float8(p);
    uint32_t lanes[8] = {0};
    memcpy(lanes, p, n * KV_TYPE_BYTES(type));
    return type == KV_F32 ? _mm256_loadu_ps((const float *)(const void *)lanes)
                          : half_to_float8(lanes);
}

ALWAYS_INLINE void transpose8(__m256 r[8])
{
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xee);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

/* Dims d .. d + n - 1 of the first `span` keys; positions up to the next multiple of 8 are zero. */
ALWAYS_INLINE void load_keys(struct attn_work *w, const struct attn_args *a, enum kv_type type,
                             size_t span, size_t d, size_t n)
{
    for (size_t j = 0; j < span; j += 8) {
        for (size_t e = 0; e < n; e += 8) {
            __m256 r[8];
            for (size_t i = 0; i < 8; i++)
                r[i] = j + i < span ? load_kv(type, a->k, (j + i) * a->head_dim + d + e, n - e)
                                    : _mm256_setzero_ps();
            transpose8(r);
            for (size_t i = 0; i < 8; i++)
                _mm256_store_ps(w->k[e + i] + j, r[i]);
        }
    }
}

/* Continues the chains of `queries` (1 to 3) queries from i over n more dims. */
ALWAYS_INLINE void score_queries(struct attn_work *w, const struct attn_args *a, size_t i, size_t d,
                                 size_t n, int queries)
{
    __m256 acc[SCORE_QUERIES][SPAN_VECTORS];
    for (int t = 0; t < queries; t++)
        for (int v = 0; v < SPAN_VECTORS; v++)
            acc[t][v] =
                d == 0 ? _mm256_setzero_ps() : _mm256_load_ps(w->scores[i + (size_t)t] + 8 * v);
    for (size_t e = 0; e < n; e++) {
        __m256 q[SCORE_QUERIES];
        for (int t = 0; t < queries; t++)
            q[t] = _mm256_set1_ps(a->q[i + (size_t)t][d + e]);
        for (int v = 0; v < SPAN_VECTORS; v++) {
            __m256 k = _mm256_load_ps(w->k[e] + 8 * v);
            for (int t = 0; t < queries; t++)
                acc[t][v] = _mm256_fmadd_ps(q[t], k, acc[t][v]);
        }
    }
    for (int t = 0; t < queries; t++)
        for (int v = 0; v < SPAN_VECTORS; v++)
            _mm256_store_ps(w->scores[i + (size_t)t] + 8 * v, acc[t][v]);
}

static void score_all_avx2(struct attn_work *w, const struct attn_args *a, size_t d, size_t n)
{
    size_t i = 0;
    for (; i + 3 <= a->n_q; i += 3)
        score_queries(w, a, i, d, n, 3);
    if (i + 2 == a->n_q)
        score_queries(w, a, i, d, n, 2);
    else if (i < a->n_q)
        score_queries(w, a, i, d, n, 1);
}

/* Scores to probabilities relative to the new maximum; m and l brought up to date. Returns what the
 * numerator so far must be multiplied by; the first span's exp(-inf) is 0. */
static float softmax_avx2(float *scores, float *m, float *l, uint32_t visible)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256 s[SPAN_VECTORS], most = _mm256_set1_ps(*m), sum = _mm256_setzero_ps();
    for (int v = 0; v < SPAN_VECTORS; v++) {
        __m256i limit = _mm256_set1_epi32((int)visible - 8 * v);
        __m256 seen = _mm256_castsi256_ps(_mm256_cmpgt_epi32(limit, lane));
        s[v] = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), _mm256_load_ps(scores + 8 * v), seen);
        most = _mm256_max_ps(most, s[v]);
    }
    float max = max8(most);
    for (int v = 0; v < SPAN_VECTORS; v++) {
        __m256 p = exp8(_mm256_sub_ps(s[v], _mm256_set1_ps(max)));
        _mm256_store_ps(scores + 8 * v, p);
        sum = _mm256_add_ps(sum, p);
    }
    float shrink = _mm256_cvtss_f32(exp8(_mm256_set1_ps(*m - max)));
    *m = max;
    *l = fmaf(*l, shrink, sum8(sum));
    return shrink;
}

/* acc = acc * shrink + sum of p[j] v[j], for `vectors` eights of dims. */
ALWAYS_INLINE void add_values(float *acc, const float *v, size_t stride, const float *p,
                              uint32_t visible, float shrink, int vectors)
{
    __m256 sum[8];
    for (int i = 0; i < vectors; i++)
        sum[i] = _mm256_mul_ps(_mm256_loadu_ps(acc + 8 * i), _mm256_set1_ps(shrink));
    for (uint32_t j = 0; j < visible; j++) {
        __m256 pj = _mm256_set1_ps(p[j]);
        for (int i = 0; i < vectors; i++)
            sum[i] = _mm256_fmadd_ps(pj, _mm256_loadu_ps(v + j * stride + 8 * (size_t)i), sum[i]);
    }
    for (int i = 0; i < vectors; i++)
        _mm256_storeu_ps(acc + 8 * i, sum[i]);
}

/* The n <= PIECE dims of one query from `acc` on. */
static void add_piece_avx2(float *acc, const struct attn_work *w, const float *p, uint32_t visible,
                           float shrink, size_t n)
{
    if (n == PIECE) {
        add_values(acc, w->v[0], PIECE, p, visible, shrink, PIECE / 8);
        return;
    }
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        add_values(acc + i, w->v[0] + i, PIECE, p, visible, shrink, 1);
    if (i < n) {
        float tail[8] = {0};
        memcpy(tail, acc + i, (n - i) * sizeof *acc);
        add_values(tail, w->v[0] + i, PIECE, p, visible, shrink, 1);
        memcpy(acc + i, tail, (n - i) * sizeof *acc);
    }
}

ALWAYS_INLINE void load_values(struct attn_work *w, const struct attn_args *a, enum kv_type type,
                               size_t span, size_t d, size_t n)
{
    for (size_t j = 0; j < span; j++)
        for (size_t e = 0; e < n; e += 8)
            _mm256_store_ps(w->v[j] + e, load_kv(type, a->v, j * a->head_dim + d + e, n - e));
}

ALWAYS_INLINE size_t piece_size(const struct attn_args *a, size_t d)
{
    return a->head_dim - d < PIECE ? a->head_dim - d : PIECE;
}

static size_t largest_visible(const struct attn_args *a)
{
    uint32_t span = 0;
    for (size_t i = 0; i < a->n_q; i++)
        span = a->visible[i] > span ? a->visible[i] : span;
    return span;
}

ALWAYS_INLINE void attn_avx2(const struct attn_args *a, enum kv_type type)
{
    struct attn_work w;
    float shrink[ATTN_MAX_QUERIES];
    size_t span = largest_visible(a);
    for (size_t d = 0; d < a->head_dim; d += PIECE) {
        load_keys(&w, a, type, span, d, piece_size(a, d));
        score_all_avx2(&w, a, d, piece_size(a, d));
    }
    for (size_t i = 0; i < a->n_q; i++)
        if (a->visible[i] > 0)
            shrink[i] = softmax_avx2(w.scores[i], &a->m[i], &a->l[i], a->visible[i]);
    for (size_t d = 0; d < a->head_dim; d += PIECE) {
        size_t n = piece_size(a, d);
        load_values(&w, a, type, span, d, n);
        for (size_t i = 0; i < a->n_q; i++)
            if (a->visible[i] > 0)
                add_piece_avx2(a->acc[i] + d, &w, w.scores[i], a->visible[i], shrink[i], n);
    }
}

static void attn_f32_avx2(const struct attn_args *a)
{
    attn_avx2(a, KV_F32);
}

static void attn_f16_avx2(const struct attn_args *a)
{
    attn_avx2(a, KV_F16);
}

void attn_avx2_fill(struct kernels *k)
{
    k->attn[KV_F32] = attn_f32_avx2;
    k->attn[KV_F16] = attn_f16_avx2;
}
