/* References: int8 quantisation of activations, matrix products with int8 and float activations.
 *
 * The product with int8 activations is integer within a group of 32, then one multiply-add per
 * group in the order of K, and one more for the type's minimum:
 *
 *     acc += (scale-weighted sum of w.q * x.q) * (w.d * x.scale)
 *     acc += w.m * x.sum
 */
#include "kernels/quant_group.h"
#include "kernels/variants.h"

#include <math.h>

/* A block whose largest magnitude lies below this counts as zero: 127 / max would overflow. */
#define QUANTIZE_TINY 0x1p-100f

static void quantize_q8_block(struct q8_block *out, const float *x)
{
    uint32_t most = 0; /* magnitudes are in the order of their bits, NaN above infinity */
    for (int i = 0; i < Q8_VALUES; i++) {
        uint32_t bits = float_bits(fabsf(x[i]));
        most = bits > most ? bits : most;
    }
    float max = float_from_bits(most);
    float inverse = max < QUANTIZE_TINY ? 0.0f : 127.0f / max;
    int half[2] = {0, 0};
    for (int i = 0; i < Q8_VALUES; i++) {
        float q = rintf(x[i] * inverse);
        out->q[i] = (int8_t)fmaxf(-127.0f, fminf(127.0f, q));
        half[i / 16] += out->q[i];
    }
    out->scale = max < QUANTIZE_TINY ? 0.0f : max / 127.0f;
    out->first = (int16_t)half[0];
    out->total = (int16_t)(half[0] + half[1]);
}

static void quantize_q8_ref(struct q8_block *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n / Q8_VALUES; i++)
        quantize_q8_block(out + i, x + Q8_VALUES * i);
}

static int32_t group_dot(const struct quant_group *w, const struct q8_block *x)
{
    int32_t half[2] = {0, 0};
    for (int i = 0; i < GROUP_VALUES; i++)
        half[i / 16] += w->q[i] * x->q[i];
    return w->s.scale[0] * half[0] + w->s.scale[1] * half[1];
}

/* Row by row of the weights; the group is unpacked again for each token, which is slow and plain.*/
#define X(type, name, groups)                                                                      \
    static float dot_##name##_q8(const void *row, const struct q8_block *x, size_t n_groups)       \
    {                                                                                              \
        float acc = 0.0f;                                                                          \
        struct quant_group w;                                                                      \
        for (size_t i = 0; i < n_groups; i++) {                                                    \
            group_##name(&w, row, i);                                                              \
            acc += (float)group_dot(&w, x + i) * (w.s.d * x[i].scale);                             \
            acc += w.s.m * (x[i].scale * (float)x[i].total);                                       \
        }                                                                                          \
        return acc;                                                                                \
    }                                                                                              \
    static void matmul_q8_##name##_ref(const struct matmul_args *a)                                \
    {                                                                                              \
        for (size_t r = 0; r < a->n_rows; r++) {                                                   \
            const char *row = (const char *)a->w + r * a->w_row_bytes;                             \
            for (size_t t = 0; t < a->n_tokens; t++) {                                             \
                const void *x = (const char *)a->x + t * a->x_row_bytes;                           \
                a->out[t * a->out_stride + r] = dot_##name##_q8(row, x, a->k / GROUP_VALUES);      \
            }                                                                                      \
        }                                                                                          \
    }
QUANT_TYPE_MAP(X)
#undef X

/* Double inside, so that this is the value to compare with. */
static float dot_f32(const float *w, const float *x, size_t k)
{
    double acc = 0.0;
    for (size_t i = 0; i < k; i++)
        acc += (double)w[i] * (double)x[i];
    return (float)acc;
}

static void matmul_f32_ref(const struct matmul_args *a,
                           void (*dequantize)(float *out, const void *row, size_t n))
{
    for (size_t r = 0; r < a->n_rows; r++) {
        dequantize(a->scratch, (const char *)a->w + r * a->w_row_bytes, a->k);
        for (size_t t = 0; t < a->n_tokens; t++) {
            const void *x = (const char *)a->x + t * a->x_row_bytes;
            a->out[t * a->out_stride + r] = dot_f32(a->scratch, x, a->k);
        }
    }
}

#define X(type, name, groups)                                                                      \
    static void matmul_f32_##name##_ref(const struct matmul_args *a)                               \
    {                                                                                              \
        matmul_f32_ref(a, dequantize_##name##_ref);                                                \
    }
FLOAT_TYPE_MAP(X)
QUANT_TYPE_MAP(X)
#undef X

void matmul_ref_fill(struct kernels *k)
{
    k->quantize_q8 = quantize_q8_ref;
#define X(type, name, groups) k->matmul_q8[TENSOR_##type] = matmul_q8_##name##_ref;
    QUANT_TYPE_MAP(X)
#undef X
#define X(type, name, groups) k->matmul_f32[TENSOR_##type] = matmul_f32_##name##_ref;
    FLOAT_TYPE_MAP(X)
    QUANT_TYPE_MAP(X)
#undef X
}
