#include "model/quantize.h"

#include "base/err.h"
#include "kernels/half.h"

#include <math.h>
#include <string.h>

#define BLOCK    32
#define F16_MOST 65504.0f

/* ggml's order of the operations is kept, and no product is contracted with a sum
 * (-ffp-contract=off): each step rounds as theirs does. */

/* The largest |x|; an infinity or NaN has the largest bits and so comes through. */
static float largest(const float *x, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = float_bits(x[i]) & 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    return float_from_bits(most);
}

/* Half away from zero, as roundf, for |x| below 2^23: in SSE2, where roundf would be a call. */
static int8_t round_away(float x)
{
    float a = fabsf(x);
    int whole = (int)a;
    whole += a - (float)whole >= 0.5f;
    return (int8_t)(x < 0 ? -whole : whole);
}

/* | scale, F16 | 32 int8 | */
static void q8_0_block(unsigned char *out, const float *x)
{
    float d = largest(x, BLOCK) / 127;
    float id = d != 0 ? 1 / d : 0;
    uint16_t scale = half_from_float(d);
    memcpy(out, &scale, sizeof scale);
    for (int i = 0; i < BLOCK; i++) {
        int8_t q = round_away(x[i] * id);
        memcpy(out + 2 + i, &q, 1);
    }
}

/* The value with the largest magnitude, the first of several, with its sign. */
static float quantize_extreme(const float *x)
{
    float most = 0, value = 0;
    for (int i = 0; i < BLOCK; i++) {
        float a = fabsf(x[i]);
        value = a > most ? x[i] : value;
        most = a > most ? a : most;
    }
    return value;
}

/* Four bits: 0 .. 15 for -8 .. 7 scales. */
static unsigned char nibble(float x)
{
    int q = (int)(x + 8.5f);
    return (unsigned char)(q > 15 ? 15 : q);
}

/* | scale, F16 | 16 bytes: values 0..15 in the low halves, 16..31 in the high | */
static void q4_0_block(unsigned char *out, const float *x)
{
    float d = quantize_extreme(x) / -8;
    float id = d != 0 ? 1 / d : 0;
    uint16_t scale = half_from_float(d);
    memcpy(out, &scale, sizeof scale);
    for (int i = 0; i < BLOCK / 2; i++)
        out[2 + i] = (unsigned char)(nibble(x[i] * id) | nibble(x[i + BLOCK / 2] * id) << 4);
}

/* A scale whose inverse overflows makes no block: such values are as good as zero. */
static bool has_inverse(float d)
{
    return d == 0 || isfinite(1 / d);
}

static bool quantize_blocks(enum tensor_type type, unsigned char *out, const float *x, size_t n)
{
    static const float zeros[BLOCK];
    size_t bytes = tensor_type_block_bytes(type);
    float range = type == TENSOR_Q8_0 ? 127 : 8;
    for (size_t at = 0; at < n; at += BLOCK, out += bytes) {
        float most = largest(x + at, BLOCK);
        if (!(most / range <= F16_MOST))
            return false;
        const float *from = has_inverse(most / range) ? x + at : zeros;
        if (type == TENSOR_Q8_0)
            q8_0_block(out, from);
        else
            q4_0_block(out, from);
    }
    return true;
}

static bool quantize_halves(enum tensor_type type, unsigned char *out, const float *x, size_t n)
{
    float most = largest(x, n);
    if (type == TENSOR_F16 ? !(most < 65520.0f) : !(most < 0x1.ffp127f))
        return false;
    for (size_t i = 0; i < n; i++) {
        uint16_t h = type == TENSOR_F16 ? half_from_float(x[i]) : bf16_from_float(x[i]);
        memcpy(out + 2 * i, &h, sizeof h);
    }
    return true;
}

bool quantize_has(enum tensor_type type)
{
    return type == TENSOR_F32 || type == TENSOR_F16 || type == TENSOR_BF16 || type == TENSOR_Q8_0 ||
           type == TENSOR_Q4_0;
}

bool quantize_row(enum tensor_type type, void *out, const float *x, size_t n)
{
    REQUIRE(quantize_has(type) && n % tensor_type_block_values(type) == 0);
    switch (type) {
    case TENSOR_F32:
        memcpy(out, x, n * sizeof *x);
        return isfinite(largest(x, n));
    case TENSOR_F16:
    case TENSOR_BF16:
        return quantize_halves(type, out, x, n);
    default:
        return quantize_blocks(type, out, x, n);
    }
}
