/* References: matrix products with int8 and float activations.
 *
 * The product with int8 activations is integer within a group of 32, then float in the order of K:
 *
 *     acc += (w.d * (scale-weighted sum of w.q * x.q) + w.m * x.total) * x.scale
 *
 * Where halves of a group have minima of their own, w.m * x.total is their sum.
 */
#include "kernels/panel.h"
#include "kernels/quant_group.h"
#include "kernels/variants.h"

/* Value i of a lane, unsigned: panel.h draws the lines. */
static int panel_quant(const struct panel_format *f, const uint8_t *group, size_t r, int i)
{
    const uint8_t *lane = group + 4 * r + i % 4;
    if (f->bits == 8)
        return lane[PANEL_LINE * (i / 4)];
    if (f->bits < 4) {
        int q = lane[PANEL_LINE * (i / 16)] >> 2 * (i % 16 / 4) & 3;
        return f->bits == 3 ? q | (lane[PANEL_LINE * 2] >> i / 4 & 1) << 2 : q;
    }
    int q = lane[PANEL_LINE * (i % 16 / 4)] >> 4 * (i / 16) & 15;
    if (f->bits == 5)
        q |= (lane[PANEL_LINE * 4] >> i / 4 & 1) << 4;
    if (f->bits == 6)
        q |= (lane[PANEL_LINE * (4 + i / 16)] >> 2 * (i % 16 / 4) & 3) << 4;
    return f->table ? quant_iq4[q] + f->zero : q;
}

static float panel_half(const uint8_t *at, size_t r)
{
    uint16_t h;
    memcpy(&h, at + 2 * r, sizeof h);
    return half_to_float(h);
}

static struct quant_scales panel_scales_of(const struct panel_format *f, const uint8_t *chunk,
                                           size_t in, size_t r)
{
    struct quant_scales s = {.scale = {1, 1}};
    s.d = panel_half(chunk + (f->groups == 2 ? PANEL_D_AT(in) : 0), r);
    if (f->scales == PANEL_DM)
        s.m[0] = panel_half(chunk + PANEL_M_AT(in), r);
    if (f->scales == PANEL_K) {
        s.d *= (float)chunk[PANEL_SCALE_AT(in) + r];
        s.m[0] = -panel_half(chunk + PANEL_DMIN_AT, r) * (float)chunk[PANEL_MIN_AT(in) + r];
    }
    if (f->scales == PANEL_GROUPS)
        s.d *= (float)(int8_t)chunk[PANEL_SCALE_AT(in) + r];
    for (int h = 0; h < 2; h++) {
        uint8_t byte = chunk[PANEL_HALF_AT(in, h) + r];
        if (f->scales == PANEL_HALVES || f->scales == PANEL_MIRRORED)
            s.scale[h] = (int8_t)byte;
        if (f->scales == PANEL_NIBBLES) {
            s.scale[h] = byte & 15;
            s.m[h] = -panel_half(chunk + PANEL_DMIN_AT, r) * (float)(byte >> 4);
        }
    }
    return s;
}

/* Quant v of a half with that scale, as a number. */
static int value_of(const struct panel_format *f, int v, int scale)
{
    return f->scales == PANEL_MIRRORED && scale < 0 ? f->zero - 1 - v : v - f->zero;
}

/* d * the integer sum + m * the sum of the activations, all over the activations' scale. */
static float group_dot(const struct panel_format *f, const uint8_t *panel, size_t r, size_t g,
                       const struct q8_block *x)
{
    const uint8_t *chunk = panel + panel_chunk_at(f, g);
    struct quant_scales s = panel_scales_of(f, chunk, g % f->groups, r);
    int32_t half[2] = {0, 0};
    for (int i = 0; i < PANEL_VALUES; i++) {
        int v = panel_quant(f, chunk + f->header + g % f->groups * f->group, r, i);
        half[i / 16] += value_of(f, v, s.scale[i / 16]) * x->q[i];
    }
    float min = s.m[0] * (float)x->total;
    if (f->scales == PANEL_NIBBLES)
        min = s.m[0] * (float)x->first + s.m[1] * (float)(x->total - x->first);
    return s.d * (float)(s.scale[0] * half[0] + s.scale[1] * half[1]) + min;
}

/* Row by row of the weights; the group is unpacked again for each token, which is slow and plain.*/
static void matmul_q8_ref(const struct matmul_q8_args *a, const struct panel_format *f)
{
    for (size_t r = 0; r < a->n_rows; r++) {
        const uint8_t *panel = (const uint8_t *)a->w + r / PANEL_ROWS * a->panel_bytes;
        for (size_t t = 0; t < a->n_tokens; t++) {
            const struct q8_block *x = a->x + t * a->x_stride;
            float acc = 0.0f;
            for (size_t g = 0; g < a->n_groups; g++)
                acc += group_dot(f, panel, r % PANEL_ROWS, g, x + g) * x[g].scale;
            a->out[t * a->out_stride + r] = acc;
        }
    }
}

#define X(type, name, groups)                                                                      \
    static void matmul_q8_##name##_ref(const struct matmul_q8_args *a)                             \
    {                                                                                              \
        matmul_q8_ref(a, &panel_##name);                                                           \
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

static void matmul_f32_ref(const struct matmul_f32_args *a,
                           void (*dequantize)(float *out, const void *row, size_t n))
{
    for (size_t r = 0; r < a->n_rows; r++) {
        dequantize(a->scratch, (const char *)a->w + r * a->w_row_bytes, a->k);
        for (size_t t = 0; t < a->n_tokens; t++) {
            a->out[t * a->out_stride + r] = dot_f32(a->scratch, a->x + t * a->x_stride, a->k);
        }
    }
}

#define X(type, name, groups)                                                                      \
    static void matmul_f32_##name##_ref(const struct matmul_f32_args *a)                           \
    {                                                                                              \
        matmul_f32_ref(a, dequantize_##name##_ref);                                                \
    }
FLOAT_TYPE_MAP(X)
QUANT_TYPE_MAP(X)
#undef X

void matmul_ref_fill(struct kernels *k)
{
#define X(type, name, groups) k->matmul_q8[TENSOR_##type] = matmul_q8_##name##_ref;
    QUANT_TYPE_MAP(X)
#undef X
#define X(type, name, groups) k->matmul_f32[TENSOR_##type] = matmul_f32_##name##_ref;
    FLOAT_TYPE_MAP(X)
    QUANT_TYPE_MAP(X)
#undef X
}
