/* A stripe: 16 weight rows over up to 24 groups of 32 values, unpacked to bytes and interleaved so
 * that a lane of 32 bits holds four neighbouring values of one row:
 *
 *     q[group][step]   | row 0: values 4s..4s+3 | row 1: 4s..4s+3 | ... | row 15: 4s..4s+3 |
 *                        <------- one 32-bit lane, 16 lanes = 64 bytes, step s = 0..7 ------->
 *
 * The four activations that meet them are one broadcast of 32 bits. Lanes never mix, so a row's sum
 * needs no horizontal step and cannot depend on its neighbours: whatever rows and tokens share a
 * call, a pair's operations are the same. The unpacking is paid once per stripe for all tokens.
 *
 * What the values and scales mean:
 *
 *     w = d * q + m              q unsigned, below 32 (Q4_*, Q5_*; Q4_0 and Q5_0 have m = -8d,
 * -16d) w = d * q                  q signed (Q8_0); or q + 128 unsigned and m = -128d w = d *
 * scale[half] * q    q signed, two scales per group (Q6_K), m unset
 *
 * Needs AVX2 and F16C; AVX-512 variants use it too. A tail of fewer than 16 rows repeats its last.
 */
#ifndef FIRSTLIGHT_KERNELS_X86_STRIPE_AVX2_H
#define FIRSTLIGHT_KERNELS_X86_STRIPE_AVX2_H

#include "kernels/kernels.h"
#include "kernels/quant_blocks.h"
#include "kernels/x86/vec_avx2.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define STRIPE_ROWS 16
#define STRIPE_GROUPS                                                                              \
    24 /* 17 KB with the scales: half of L1; a multiple of the 8 in a superblock */
#define STRIPE_STEPS 8

struct stripe {
    _Alignas(64) uint8_t q[STRIPE_GROUPS][STRIPE_STEPS][4 * STRIPE_ROWS];
    float d[STRIPE_GROUPS][STRIPE_ROWS];
    float m[STRIPE_GROUPS][STRIPE_ROWS];
    /* the scale twice, as two int16: what vpmaddwd takes */
    int32_t scale[STRIPE_GROUPS][2][STRIPE_ROWS];
};

/* Half a stripe: the eight rows of one 256-bit vector, and the stripe's column they go to. */
struct octet {
    struct stripe *s;
    const uint8_t *rows[8];
    size_t at; /* 0 or 8 */
};

typedef void octet_unpack(const struct octet *o, size_t first_group, size_t n_groups);

ALWAYS_INLINE void octet_put(const struct octet *o, size_t group, int step, __m256i v)
{
    _mm256_store_si256((__m256i *)(o->s->q[group][step] + 4 * o->at), v);
}

ALWAYS_INLINE void octet_put_d(const struct octet *o, size_t group, __m256 v)
{
    _mm256_store_ps(o->s->d[group] + o->at, v);
}

ALWAYS_INLINE void octet_put_m(const struct octet *o, size_t group, __m256 v)
{
    _mm256_store_ps(o->s->m[group] + o->at, v);
}

/* Lanes r and r + 4 from 16 bytes of each row: the 4x4 transposes of the two 128-bit halves. */
ALWAYS_INLINE __m256i load_two(const struct octet *o, int r, size_t offset)
{
    __m128i low = _mm_loadu_si128((const __m128i *)(o->rows[r] + offset));
    __m128i high = _mm_loadu_si128((const __m128i *)(o->rows[r + 4] + offset));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1);
}

/* out[j], lane r = the 32-bit word j of the 16 bytes at `offset` of row r. */
ALWAYS_INLINE void load_words(__m256i out[4], const struct octet *o, size_t offset)
{
    __m256i r0 = load_two(o, 0, offset), r1 = load_two(o, 1, offset);
    __m256i r2 = load_two(o, 2, offset), r3 = load_two(o, 3, offset);
    __m256i a = _mm256_unpacklo_epi32(r0, r1), b = _mm256_unpacklo_epi32(r2, r3);
    __m256i c = _mm256_unpackhi_epi32(r0, r1), d = _mm256_unpackhi_epi32(r2, r3);
    out[0] = _mm256_unpacklo_epi64(a, b);
    out[1] = _mm256_unpackhi_epi64(a, b);
    out[2] = _mm256_unpacklo_epi64(c, d);
    out[3] = _mm256_unpackhi_epi64(c, d);
}

ALWAYS_INLINE __m128i load_four_u32(const uint8_t *const *rows, size_t offset)
{
    __m128i a =
        _mm_unpacklo_epi32(_mm_loadu_si32(rows[0] + offset), _mm_loadu_si32(rows[1] + offset));
    __m128i b =
        _mm_unpacklo_epi32(_mm_loadu_si32(rows[2] + offset), _mm_loadu_si32(rows[3] + offset));
    return _mm_unpacklo_epi64(a, b);
}

/* Lane r = the 32-bit word at `offset` of row r. */
ALWAYS_INLINE __m256i load_u32(const struct octet *o, size_t offset)
{
    return _mm256_set_m128i(load_four_u32(o->rows + 4, offset), load_four_u32(o->rows, offset));
}

/* The binary16 in the low half of each lane as a float. */
ALWAYS_INLINE __m256 low_half_to_float(__m256i v)
{
    __m256i low = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

ALWAYS_INLINE __m256 high_half_to_float(__m256i v)
{
    return low_half_to_float(_mm256_srli_epi32(v, 16));
}

/* Bit i of the low nibble of each lane to bit 4 of byte i: the multiplication puts bit i at 8i. */
ALWAYS_INLINE __m256i nibble_to_bit4(__m256i v)
{
    __m256i nibble = _mm256_and_si256(v, _mm256_set1_epi32(15));
    __m256i spread = _mm256_mullo_epi32(nibble, _mm256_set1_epi32(0x00204081));
    return _mm256_slli_epi32(_mm256_and_si256(spread, _mm256_set1_epi32(0x01010101)), 4);
}

ALWAYS_INLINE __m256i low_nibbles(__m256i v)
{
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}

ALWAYS_INLINE __m256i high_nibbles(__m256i v)
{
    return low_nibbles(_mm256_srli_epi16(v, 4));
}

/* Q4_0, Q4_1, Q5_0, Q5_1 share the nibbles' order; qs, qh: offsets, qh only with five_bits. */
ALWAYS_INLINE void unpack_nibbles(const struct octet *o, size_t group, size_t qs, size_t qh,
                                  int five_bits)
{
    __m256i words[4];
    __m256i high = five_bits ? load_u32(o, qh) : _mm256_setzero_si256();
    load_words(words, o, qs);
    for (int j = 0; j < 4; j++) {
        __m256i first = low_nibbles(words[j]), second = high_nibbles(words[j]);
        if (five_bits) {
            first = _mm256_or_si256(first, nibble_to_bit4(_mm256_srli_epi32(high, 4 * j)));
            second = _mm256_or_si256(second, nibble_to_bit4(_mm256_srli_epi32(high, 4 * j + 16)));
        }
        octet_put(o, group, j, first);
        octet_put(o, group, j + 4, second);
    }
}

/* d * (q - offset) as d * q + m. */
ALWAYS_INLINE void put_d_with_offset(const struct octet *o, size_t group, __m256i head,
                                     float offset)
{
    __m256 d = low_half_to_float(head);
    octet_put_d(o, group, d);
    octet_put_m(o, group, _mm256_mul_ps(d, _mm256_set1_ps(-offset)));
}

ALWAYS_INLINE void put_d_and_m(const struct octet *o, size_t group, __m256i head)
{
    octet_put_d(o, group, low_half_to_float(head));
    octet_put_m(o, group, high_half_to_float(head));
}

ALWAYS_INLINE void unpack_q4_0(const struct octet *o, size_t first, size_t n)
{
    for (size_t g = 0; g < n; g++) {
        size_t at = (first + g) * sizeof(struct block_q4_0);
        put_d_with_offset(o, g, load_u32(o, at), 8.0f);
        unpack_nibbles(o, g, at + offsetof(struct block_q4_0, qs), 0, 0);
    }
}

ALWAYS_INLINE void unpack_q4_1(const struct octet *o, size_t first, size_t n)
{
    for (size_t g = 0; g < n; g++) {
        size_t at = (first + g) * sizeof(struct block_q4_1);
        put_d_and_m(o, g, load_u32(o, at));
        unpack_nibbles(o, g, at + offsetof(struct block_q4_1, qs), 0, 0);
    }
}

ALWAYS_INLINE void unpack_q5_0(const struct octet *o, size_t first, size_t n)
{
    for (size_t g = 0; g < n; g++) {
        size_t at = (first + g) * sizeof(struct block_q5_0);
        put_d_with_offset(o, g, load_u32(o, at), 16.0f);
        unpack_nibbles(o, g, at + offsetof(struct block_q5_0, qs),
                       at + offsetof(struct block_q5_0, qh), 1);
    }
}

ALWAYS_INLINE void unpack_q5_1(const struct octet *o, size_t first, size_t n)
{
    for (size_t g = 0; g < n; g++) {
        size_t at = (first + g) * sizeof(struct block_q5_1);
        put_d_and_m(o, g, load_u32(o, at));
        unpack_nibbles(o, g, at + offsetof(struct block_q5_1, qs),
                       at + offsetof(struct block_q5_1, qh), 1);
    }
}

/* Signed, or with as_unsigned each value plus 128, which flips its highest bit. */
ALWAYS_INLINE void unpack_bytes(const struct octet *o, size_t first, size_t n, int as_unsigned)
{
    const __m256i flip = _mm256_set1_epi8(as_unsigned ? (char)0x80 : 0);
    for (size_t g = 0; g < n; g++) {
        size_t at = (first + g) * sizeof(struct block_q8_0);
        put_d_with_offset(o, g, load_u32(o, at), 128.0f);
        for (int part = 0; part < 2; part++) {
            __m256i words[4];
            load_words(words, o, at + offsetof(struct block_q8_0, qs) + 16 * (size_t)part);
            for (int j = 0; j < 4; j++)
                octet_put(o, g, 4 * part + j, _mm256_xor_si256(words[j], flip));
        }
    }
}

ALWAYS_INLINE void unpack_q8_0(const struct octet *o, size_t first, size_t n)
{
    unpack_bytes(o, first, n, 0);
}

ALWAYS_INLINE void unpack_q8_0_unsigned(const struct octet *o, size_t first, size_t n)
{
    unpack_bytes(o, first, n, 1);
}

/* The 6-bit scales and minima of a Q4_K or Q5_K superblock: four of each in a vector's lane. */
struct k_head {
    __m256 d, dmin;
    __m256i scales[2]; /* groups 0..3, 4..7 in the bytes of row r's lane */
    __m256i mins[2];
};

ALWAYS_INLINE struct k_head load_k_head(const struct octet *o, size_t at)
{
    const __m256i six = _mm256_set1_epi8(63), two_high = _mm256_set1_epi8(0x30);
    __m256i w[4];
    load_words(w, o, at); /* d and dmin, then the 12 bytes of scales */
    struct k_head h = {
        low_half_to_float(w[0]), high_half_to_float(w[0]), {w[1], w[1]}, {w[2], w[2]}};
    __m256i scale_high = _mm256_and_si256(_mm256_srli_epi16(w[1], 2), two_high);
    __m256i min_high = _mm256_and_si256(_mm256_srli_epi16(w[2], 2), two_high);
    h.scales[0] = _mm256_and_si256(w[1], six);
    h.mins[0] = _mm256_and_si256(w[2], six);
    h.scales[1] = _mm256_or_si256(low_nibbles(w[3]), scale_high);
    h.mins[1] = _mm256_or_si256(high_nibbles(w[3]), min_high);
    return h;
}

/* Byte j of each lane as a float. */
ALWAYS_INLINE __m256 byte_to_float(__m256i v, int j)
{
    __m256i byte = _mm256_and_si256(_mm256_srli_epi32(v, 8 * j), _mm256_set1_epi32(255));
    return _mm256_cvtepi32_ps(byte);
}

ALWAYS_INLINE void put_k_head(const struct octet *o, size_t group, const struct k_head *h, int j)
{
    __m256 scale = byte_to_float(h->scales[j / 4], j % 4);
    __m256 min = byte_to_float(h->mins[j / 4], j % 4);
    octet_put_d(o, group, _mm256_mul_ps(h->d, scale));
    octet_put_m(o, group, _mm256_mul_ps(_mm256_sub_ps(_mm256_setzero_ps(), h->dmin), min));
}

/* Groups 2p and 2p + 1 of a superblock; qh is used with five_bits only. */
ALWAYS_INLINE void unpack_k_pair(const struct octet *o, size_t group, size_t qs, size_t qh, int p,
                                 int five_bits)
{
    const __m256i bit4 = _mm256_set1_epi8(16);
    for (int part = 0; part < 2; part++) {
        __m256i words[4], high[4];
        load_words(words, o, qs + 16 * (size_t)part);
        if (five_bits)
            load_words(high, o, qh + 16 * (size_t)part);
        for (int j = 0; j < 4; j++) {
            __m256i first = low_nibbles(words[j]), second = high_nibbles(words[j]);
            if (five_bits) {
                __m256i bits = _mm256_slli_epi16(_mm256_srli_epi16(high[j], 2 * p), 4);
                first = _mm256_or_si256(first, _mm256_and_si256(bits, bit4));
                bits = _mm256_srli_epi16(bits, 1);
                second = _mm256_or_si256(second, _mm256_and_si256(bits, bit4));
            }
            octet_put(o, group, 4 * part + j, first);
            octet_put(o, group + 1, 4 * part + j, second);
        }
    }
}

/* n groups from `first`, both multiples of 8. */
ALWAYS_INLINE void unpack_k(const struct octet *o, size_t first, size_t n, size_t block_bytes,
                            size_t qs, size_t qh, int five_bits)
{
    for (size_t g = 0; g < n; g += 8) {
        size_t at = (first + g) / 8 * block_bytes;
        struct k_head head = load_k_head(o, at);
#pragma GCC unroll 4
        for (int p = 0; p < 4; p++) {
            put_k_head(o, g + 2 * (size_t)p, &head, 2 * p);
            put_k_head(o, g + 2 * (size_t)p + 1, &head, 2 * p + 1);
            unpack_k_pair(o, g + 2 * (size_t)p, at + qs + 32 * (size_t)p, at + qh, p, five_bits);
        }
    }
}

ALWAYS_INLINE void unpack_q4_k(const struct octet *o, size_t first, size_t n)
{
    unpack_k(o, first, n, sizeof(struct block_q4_k), offsetof(struct block_q4_k, qs), 0, 0);
}

ALWAYS_INLINE void unpack_q5_k(const struct octet *o, size_t first, size_t n)
{
    unpack_k(o, first, n, sizeof(struct block_q5_k), offsetof(struct block_q5_k, qs),
             offsetof(struct block_q5_k, qh), 1);
}

/* Signed byte j of each lane, twice as int16. */
ALWAYS_INLINE __m256i scale_pair(__m256i v, int j)
{
    __m256i top = _mm256_slli_epi32(v, 24 - 8 * j);
    __m256i high = _mm256_and_si256(_mm256_srai_epi32(top, 8), _mm256_set1_epi32((int)0xffff0000));
    return _mm256_or_si256(high, _mm256_srli_epi32(_mm256_srai_epi32(top, 8), 16));
}

/* Groups s and s + 2 of a Q6_K half (s = 0, 1): the low and high nibbles of the same bytes. */
ALWAYS_INLINE void unpack_q6_k_pair(const struct octet *o, size_t group, size_t ql, size_t qh,
                                    int s)
{
    const __m256i offset = _mm256_set1_epi8(32), two = _mm256_set1_epi8(0x30);
    for (int part = 0; part < 2; part++) {
        __m256i words[4], high[4];
        load_words(words, o, ql + 16 * (size_t)part);
        load_words(high, o, qh + 16 * (size_t)part);
        for (int j = 0; j < 4; j++) {
            __m256i up = _mm256_slli_epi16(high[j], 4 - 2 * s),
                    down = _mm256_srli_epi16(high[j], 2 * s);
            __m256i first = _mm256_or_si256(low_nibbles(words[j]), _mm256_and_si256(up, two));
            __m256i second = _mm256_or_si256(high_nibbles(words[j]), _mm256_and_si256(down, two));
            octet_put(o, group, 4 * part + j, _mm256_sub_epi8(first, offset));
            octet_put(o, group + 2, 4 * part + j, _mm256_sub_epi8(second, offset));
        }
    }
}

ALWAYS_INLINE void put_q6_k_head(const struct octet *o, size_t g, size_t at)
{
    __m256i scales[4];
    __m256 d = low_half_to_float(
        _mm256_srli_epi32(load_u32(o, at + offsetof(struct block_q6_k, d) - 2), 16));
    load_words(scales, o, at + offsetof(struct block_q6_k, scales));
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        octet_put_d(o, g + (size_t)j, d);
        for (int half = 0; half < 2; half++) {
            __m256i pair = scale_pair(scales[j / 2], 2 * (j % 2) + half);
            int32_t *out = o->s->scale[g + (size_t)j][half] + o->at;
            _mm256_store_si256((__m256i *)out, pair);
        }
    }
}

ALWAYS_INLINE void unpack_q6_k(const struct octet *o, size_t first, size_t n)
{
    for (size_t g = 0; g < n; g += 8) {
        size_t at = (first + g) / 8 * sizeof(struct block_q6_k);
        put_q6_k_head(o, g, at);
        for (int half = 0; half < 2; half++) {
            for (int s = 0; s < 2; s++) {
                size_t ql = at + 64 * (size_t)half + 32 * (size_t)s;
                size_t qh = at + offsetof(struct block_q6_k, qh) + 32 * (size_t)half;
                unpack_q6_k_pair(o, g + 4 * (size_t)half + (size_t)s, ql, qh, s);
            }
        }
    }
}

/* Fills the stripe with groups first .. first + n - 1 of rows r .. r + 15. */
ALWAYS_INLINE void stripe_fill(struct stripe *s, const struct matmul_args *a, size_t r,
                               size_t first, size_t n, octet_unpack *unpack)
{
    for (size_t at = 0; at < STRIPE_ROWS; at += 8) {
        struct octet o = {.s = s, .at = at};
        for (size_t i = 0; i < 8; i++) {
            size_t row = r + at + i < a->n_rows ? r + at + i : a->n_rows - 1;
            o.rows[i] = (const uint8_t *)a->w + row * a->w_row_bytes;
        }
        unpack(&o, first, n);
    }
}

#endif
