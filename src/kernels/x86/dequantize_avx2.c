/* Rows of every weight type to floats. A group of 32 quants is one vector of bytes; the scales are
 * read as the reference reads them and the values are the reference's, to the bit.
 */
#include "kernels/quant_group.h"
#include "kernels/variants.h"
#include "kernels/x86/vec_avx2.h"

void dequantize_f32_avx2(float *out, const void *row, size_t n)
{
    memcpy(out, row, n * sizeof *out);
}

void dequantize_f16_avx2(float *out, const void *row, size_t n)
{
    const uint8_t *bytes = row;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, half_to_float8(bytes + 2 * i));
    for (; i < n; i++)
        out[i] = half_to_float((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8));
}

void dequantize_bf16_avx2(float *out, const void *row, size_t n)
{
    const uint8_t *bytes = row;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i half = _mm_loadu_si128((const __m128i *)(bytes + 2 * i));
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16);
        _mm256_storeu_ps(out + i, _mm256_castsi256_ps(bits));
    }
    for (; i < n; i++)
        out[i] = bf16_to_float((uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8));
}

/* Bytes i and i + 16 from the nibbles of byte i. */
ALWAYS_INLINE __m256i split_nibbles(const uint8_t *qs)
{
    __m128i v = _mm_loadu_si128((const __m128i *)qs);
    return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(v, 4), v), _mm256_set1_epi8(15));
}

/* 16 in byte i where bit i is set. */
ALWAYS_INLINE __m256i bits_to_16(const uint8_t *bits)
{
    const __m256i spread =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i one_each = _mm256_set1_epi64x((long long)0x8040201008040201);
    int32_t all;
    memcpy(&all, bits, sizeof all);
    __m256i v = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(all), spread), one_each);
    return _mm256_and_si256(_mm256_cmpeq_epi8(v, one_each), _mm256_set1_epi8(16));
}

/* The bits of `mask` of 32 bytes, moved right by `right`. */
ALWAYS_INLINE __m256i byte_bits(const uint8_t *bytes, size_t right, int mask)
{
    __m256i v = _mm256_loadu_si256((const __m256i *)bytes);
    v = _mm256_srl_epi16(v, _mm_cvtsi64_si128((long long)right));
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

ALWAYS_INLINE __m256i minus(__m256i q, int zero_point)
{
    return _mm256_sub_epi8(q, _mm256_set1_epi8((char)zero_point));
}

ALWAYS_INLINE __m256i bytes_q4_0(const struct block_q4_0 *b, size_t j)
{
    (void)j;
    return minus(split_nibbles(b->qs), 8);
}

ALWAYS_INLINE __m256i bytes_q4_1(const struct block_q4_1 *b, size_t j)
{
    (void)j;
    return split_nibbles(b->qs);
}

ALWAYS_INLINE __m256i bytes_q5_0(const struct block_q5_0 *b, size_t j)
{
    (void)j;
    return minus(_mm256_or_si256(split_nibbles(b->qs), bits_to_16(b->qh)), 16);
}

ALWAYS_INLINE __m256i bytes_q5_1(const struct block_q5_1 *b, size_t j)
{
    (void)j;
    return _mm256_or_si256(split_nibbles(b->qs), bits_to_16(b->qh));
}

ALWAYS_INLINE __m256i bytes_q8_0(const struct block_q8_0 *b, size_t j)
{
    (void)j;
    return _mm256_loadu_si256((const __m256i *)b->qs);
}

ALWAYS_INLINE __m256i bytes_q2_k(const struct block_q2_k *b, size_t j)
{
    return byte_bits(b->qs + 32 * (j / 4), 2 * (j % 4), 3);
}

ALWAYS_INLINE __m256i bytes_q3_k(const struct block_q3_k *b, size_t j)
{
    __m256i high = _mm256_slli_epi16(byte_bits(b->hmask, j, 1), 2);
    return minus(_mm256_or_si256(byte_bits(b->qs + 32 * (j / 4), 2 * (j % 4), 3), high), 4);
}

ALWAYS_INLINE __m256i bytes_q4_k(const struct block_q4_k *b, size_t j)
{
    return byte_bits(b->qs + 32 * (j / 2), 4 * (j % 2), 15);
}

ALWAYS_INLINE __m256i bytes_q5_k(const struct block_q5_k *b, size_t j)
{
    __m256i high = _mm256_slli_epi16(byte_bits(b->qh, j, 1), 4);
    return _mm256_or_si256(byte_bits(b->qs + 32 * (j / 2), 4 * (j % 2), 15), high);
}

ALWAYS_INLINE __m256i bytes_q6_k(const struct block_q6_k *b, size_t j)
{
    size_t half = j / 4, s = j % 4;
    __m256i low = byte_bits(b->ql + 64 * half + 32 * (s % 2), 4 * (s / 2), 15);
    __m256i high = _mm256_slli_epi16(byte_bits(b->qh + 32 * half, 2 * s, 3), 4);
    return minus(_mm256_or_si256(low, high), 32);
}

/* The values of 16 bytes of quants. */
ALWAYS_INLINE __m256i look_up_iq4(const uint8_t *qs)
{
    const __m256i table = _mm256_setr_epi8(QUANT_IQ4, QUANT_IQ4);
    return _mm256_shuffle_epi8(table, split_nibbles(qs));
}

ALWAYS_INLINE __m256i bytes_iq4_nl(const struct block_iq4_nl *b, size_t j)
{
    (void)j;
    return look_up_iq4(b->qs);
}

ALWAYS_INLINE __m256i bytes_iq4_xs(const struct block_iq4_xs *b, size_t j)
{
    return look_up_iq4(b->qs + 16 * j);
}

/* Eight of the group's 32 values. */
ALWAYS_INLINE void store_eight(float *out, __m128i q, float d, float m)
{
    __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
    v = _mm256_add_ps(_mm256_mul_ps(v, _mm256_set1_ps(d)), _mm256_set1_ps(m));
    _mm256_storeu_ps(out, v);
}

/* d times an integer scale is exact. */
ALWAYS_INLINE void store_group(float *out, __m256i q, const struct quant_scales *s)
{
    __m128i low = _mm256_castsi256_si128(q), high = _mm256_extracti128_si256(q, 1);
    float d0 = s->d * (float)s->scale[0], d1 = s->d * (float)s->scale[1];
    store_eight(out, low, d0, s->m[0]);
    store_eight(out + 8, _mm_srli_si128(low, 8), d0, s->m[0]);
    store_eight(out + 16, high, d1, s->m[1]);
    store_eight(out + 24, _mm_srli_si128(high, 8), d1, s->m[1]);
}

#define X(type, name, groups)                                                                      \
    void dequantize_##name##_avx2(float *out, const void *row, size_t n)                           \
    {                                                                                              \
        for (size_t i = 0; i < n / GROUP_VALUES; i++) {                                            \
            const struct block_##name *b = (const struct block_##name *)row + i / (groups);        \
            struct quant_scales s = scales_##name(b, i % (groups));                                \
            store_group(out + GROUP_VALUES * i, bytes_##name(b, i % (groups)), &s);                \
        }                                                                                          \
    }
QUANT_TYPE_MAP(X)
#undef X

void dequantize_avx2_fill(struct kernels *k)
{
#define X(type, name, groups) k->dequantize[TENSOR_##type] = dequantize_##name##_avx2;
    FLOAT_TYPE_MAP(X)
    QUANT_TYPE_MAP(X)
#undef X
}
