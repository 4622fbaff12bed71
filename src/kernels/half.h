/* 16-bit floats: IEEE binary16 (F16) and the upper half of binary32 (BF16), in plain C.
 *
 * Conversions to 16 bits round to nearest, ties to even, as VCVTPS2PH does.
 */
#ifndef FIRSTLIGHT_KERNELS_HALF_H
#define FIRSTLIGHT_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

static inline float float_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float bf16_to_float(uint16_t h)
{
    return float_from_bits((uint32_t)h << 16);
}

/* NaN stays one: its quiet bit is set, so that rounding cannot carry it into infinity. */
static inline uint16_t bf16_from_float(float f)
{
    uint32_t bits = float_bits(f);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}

/* Exponent and mantissa are moved into a binary32 whose exponent is 112 too small; multiplying by
 * 2^112 corrects it and normalises subnormals on the way. 0x7c00 and above are infinity and NaN. */
static inline float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t rest = h & 0x7fffu;
    if (rest >= 0x7c00u)
        return float_from_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    return float_from_bits(sign | float_bits(float_from_bits(rest << 13) * 0x1p112f));
}

/* Subnormal results are rounded by the float adder: 0.5 + |f| has its last bit at 2^-24, which is
 * binary16's smallest step. */
static inline uint16_t half_from_float(float f)
{
    uint32_t bits = float_bits(f);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x1ffu));
    if (rest >= 0x477ff000u) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) /* below 2^-14 */
        return (uint16_t)(sign | (float_bits(float_from_bits(rest) + 0.5f) - 0x3f000000u));
    uint32_t rounded = rest + 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

#endif
