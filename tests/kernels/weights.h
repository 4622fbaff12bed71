/* Weights and activations for the kernel tests: random and extreme, in every type. */
#ifndef FIRSTLIGHT_TESTS_KERNELS_WEIGHTS_H
#define FIRSTLIGHT_TESTS_KERNELS_WEIGHTS_H

#include "kernels/check.h"
#include "kernels/half.h"
#include "kernels/quant_group.h"

/* Where a type keeps its 16-bit scales, and what unsigned value stands for zero. */
struct type_shape {
    enum tensor_type type;
    int d_at, m_at; /* -1: none */
    double zero_point;
    void (*group)(struct quant_group *g, const void *row, size_t index); /* NULL: floats */
};

static const struct type_shape type_shapes[] = {
    {TENSOR_F32, -1, -1, 0, NULL},
    {TENSOR_F16, -1, -1, 0, NULL},
    {TENSOR_BF16, -1, -1, 0, NULL},
    {TENSOR_Q4_0, 0, -1, 8, group_q4_0},
    {TENSOR_Q4_1, 0, 2, 0, group_q4_1},
    {TENSOR_Q5_0, 0, -1, 16, group_q5_0},
    {TENSOR_Q5_1, 0, 2, 0, group_q5_1},
    {TENSOR_Q8_0, 0, -1, 128, group_q8_0},
    {TENSOR_Q4_K, 0, 2, 0, group_q4_k},
    {TENSOR_Q5_K, 0, 2, 0, group_q5_k},
    {TENSOR_Q6_K, 208, -1, 32, group_q6_k},
    {TENSOR_Q2_K, 80, 82, 0, group_q2_k},
    {TENSOR_Q3_K, 108, -1, 4, group_q3_k},
    {TENSOR_IQ4_NL, 0, -1, 128, group_iq4_nl},
    {TENSOR_IQ4_XS, 0, -1, 128, group_iq4_xs},
};

enum weight_fill {
    WEIGHTS_RANDOM,
    WEIGHTS_ZERO,    /* all bytes 00 */
    WEIGHTS_ONES,    /* quants ff: the largest unsigned ones */
    WEIGHTS_LOWEST,  /* quants 80: -128 in Q8_0 */
    WEIGHTS_HIGHEST, /* quants 7f: 127 in Q8_0 */
    WEIGHTS_HUGE,    /* random quants, scales 65504 */
    WEIGHTS_TINY,    /* random quants, scales 2^-24, binary16's least */
    WEIGHT_FILLS
};

static const char *const weight_fill_names[] = {"random",  "zero", "ones", "lowest",
                                                "highest", "huge", "tiny"};

static inline void put_u16(uint8_t *at, uint16_t v)
{
    memcpy(at, &v, sizeof v);
}

static inline uint16_t fill_scale(enum weight_fill fill, float scale)
{
    switch (fill) {
    case WEIGHTS_ZERO:
        return 0;
    case WEIGHTS_HUGE:
        return 0x7bff;
    case WEIGHTS_TINY:
        return 0x0001;
    default:
        return half_from_float(scale);
    }
}

static inline uint8_t fill_byte(enum weight_fill fill)
{
    switch (fill) {
    case WEIGHTS_ZERO:
        return 0;
    case WEIGHTS_ONES:
        return 0xff;
    case WEIGHTS_LOWEST:
        return 0x80;
    case WEIGHTS_HIGHEST:
        return 0x7f;
    default:
        return (uint8_t)random_u32();
    }
}

static inline void fill_float_weights(enum tensor_type type, uint8_t *row, size_t n,
                                      enum weight_fill fill)
{
    static const float scales[] = {0.1f, 0.0f, 1.0f, 1.0f, 1.0f, 6e4f, 0x1p-20f};
    for (size_t i = 0; i < n; i++) {
        float f = scales[fill] * random_float();
        uint32_t bits = float_bits(f);
        if (type == TENSOR_F32)
            memcpy(row + 4 * i, &f, sizeof f);
        else
            put_u16(row + 2 * i, type == TENSOR_F16 ? half_from_float(f) : (uint16_t)(bits >> 16));
    }
}

static inline void fill_weights(const struct type_shape *s, uint8_t *row, size_t n,
                                enum weight_fill fill)
{
    size_t bytes = tensor_type_block_bytes(s->type);
    if (!s->group) {
        fill_float_weights(s->type, row, n, fill);
        return;
    }
    for (size_t b = 0; b < n / tensor_type_block_values(s->type); b++, row += bytes) {
        for (size_t i = 0; i < bytes; i++)
            row[i] = fill_byte(fill);
        put_u16(row + s->d_at, fill_scale(fill, 0.01f * random_float()));
        if (s->m_at >= 0)
            put_u16(row + s->m_at, fill_scale(fill, 0.1f * random_float()));
    }
}

enum x_fill { X_RANDOM, X_ZERO, X_HIGHEST, X_LOWEST, X_ALTERNATING, X_FILLS };

/* Activation blocks whose sums agree with their quants, as quantize_q8 makes them. */
static inline void fill_q8(struct q8_block *x, size_t n_blocks, enum x_fill fill)
{
    for (size_t b = 0; b < n_blocks; b++) {
        int half[2] = {0, 0};
        for (int i = 0; i < Q8_VALUES; i++) {
            int random = (int)(random_u32() % 255u) - 127;
            const int q[X_FILLS] = {random, 0, 127, -127, i % 2 ? 127 : -127};
            x[b].q[i] = (int8_t)q[fill];
            half[i / 16] += q[fill];
        }
        x[b].scale = 0.02f * (1.0f + random_float());
        x[b].first = (int16_t)half[0];
        x[b].total = (int16_t)(half[0] + half[1]);
    }
}

#endif
