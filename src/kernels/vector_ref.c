/* References: the operations on single vectors. Sums run in double, in the order of the index. */
#include "kernels/half.h"
#include "kernels/variants.h"

#include <math.h>

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

static float norm_scale(const float *x, size_t n, float eps)
{
    double squares = 0.0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    return (float)(1.0 / sqrt(squares / (double)n + (double)eps));
}

static void rmsnorm_ref(float *out, const float *x, const float *weight, size_t n, float eps)
{
    float scale = norm_scale(x, n, eps);
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * scale * weight[i];
}

static void add_rmsnorm_q8_ref(struct q8_block *out, float *x, const float *delta,
                               const float *weight, size_t n, float eps)
{
    float normed[Q8_VALUES];
    for (size_t i = 0; delta && i < n; i++)
        x[i] += delta[i];
    float scale = norm_scale(x, n, eps);
    for (size_t i = 0; i < n; i += Q8_VALUES) {
        for (size_t j = 0; j < Q8_VALUES; j++)
            normed[j] = x[i + j] * scale * weight[i + j];
        quantize_q8_block(out + i / Q8_VALUES, normed);
    }
}

struct moments {
    float mean;
    float scale; /* one over the standard deviation */
};

static struct moments layernorm_moments(const float *x, size_t n, float eps)
{
    double mean = 0.0, squares = 0.0;
    for (size_t i = 0; i < n; i++)
        mean += (double)x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++)
        squares += ((double)x[i] - mean) * ((double)x[i] - mean);
    return (struct moments){(float)mean, (float)(1.0 / sqrt(squares / (double)n + (double)eps))};
}

static void layernorm_ref(float *out, const float *x, const float *weight, const float *bias,
                          size_t n, float eps)
{
    struct moments m = layernorm_moments(x, n, eps);
    for (size_t i = 0; i < n; i++)
        out[i] = (x[i] - m.mean) * m.scale * weight[i] + bias[i];
}

static void add_layernorm_q8_ref(struct q8_block *out, float *x, const float *delta,
                                 const float *weight, const float *bias, size_t n, float eps)
{
    float normed[Q8_VALUES];
    for (size_t i = 0; delta && i < n; i++)
        x[i] += delta[i];
    struct moments m = layernorm_moments(x, n, eps);
    for (size_t i = 0; i < n; i += Q8_VALUES) {
        for (size_t j = 0; j < Q8_VALUES; j++)
            normed[j] = (x[i + j] - m.mean) * m.scale * weight[i + j] + bias[i + j];
        quantize_q8_block(out + i / Q8_VALUES, normed);
    }
}

static void rope_ref(const struct rope_args *r)
{
    size_t half = r->n_rot / 2;
    for (size_t h = 0; h < r->n_heads; h++) {
        float *head = r->heads + h * r->head_dim;
        for (size_t i = 0; i < half; i++) {
            float *a = r->style == ROPE_NEIGHBOURS ? head + 2 * i : head + i;
            float *b = r->style == ROPE_NEIGHBOURS ? a + 1 : a + half;
            float c = r->cos_sin[2 * i], s = r->cos_sin[2 * i + 1];
            float turned = *a * c - *b * s;
            *b = *b * c + *a * s;
            *a = turned;
        }
        for (size_t i = 0; i < r->head_dim; i++)
            head[i] *= r->scale;
    }
}

/* --- activations ---------------------------------------------------------------------------- */

static float silu(float x)
{
    return x / (1.0f + expf(-x));
}

/* (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), which keeps the digits of small results. */
static float gelu_tanh(float x)
{
    return x / (1.0f + expf(-x * (GELU_LINEAR + GELU_CUBIC * x * x)));
}

/* erfc keeps the digits that 1 + erf loses. */
static float gelu_erf(float x)
{
    return 0.5f * x * erfcf(-x * (float)M_SQRT1_2);
}

static void activate_q8(const struct activate_q8_args *a,
                        void (*activate)(float *out, const float *gate, const float *up, size_t n))
{
    float hidden[Q8_VALUES];
    size_t blocks = a->n / Q8_VALUES;
    for (size_t i = 0; i < a->n_rows * blocks; i++) {
        const float *up = a->up ? a->up + i * Q8_VALUES : NULL;
        activate(hidden, a->gate + i * Q8_VALUES, up, Q8_VALUES);
        quantize_q8_block(a->out + i / blocks * a->out_stride + i % blocks, hidden);
    }
}

/* Entries of the table for one function. */
#define ACTIVATION_REF(f)                                                                          \
    static void f##_ref(float *out, const float *gate, const float *up, size_t n)                  \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            out[i] = f(gate[i]) * (up ? up[i] : 1.0f);                                             \
    }                                                                                              \
    static void f##_q8_ref(const struct activate_q8_args *a)                                       \
    {                                                                                              \
        activate_q8(a, f##_ref);                                                                   \
    }

ACTIVATION_REF(silu)
ACTIVATION_REF(gelu_tanh)
ACTIVATION_REF(gelu_erf)

static void add_ref(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] += x[i];
}

void vector_ref_fill(struct kernels *k)
{
    k->quantize_q8 = quantize_q8_ref;
    k->rmsnorm = rmsnorm_ref;
    k->add_rmsnorm_q8 = add_rmsnorm_q8_ref;
    k->rope = rope_ref;
    k->layernorm = layernorm_ref;
    k->add_layernorm_q8 = add_layernorm_q8_ref;
    k->activate[ACTIVATION_SILU] = silu_ref;
    k->activate[ACTIVATION_GELU_TANH] = gelu_tanh_ref;
    k->activate[ACTIVATION_GELU_ERF] = gelu_erf_ref;
    k->activate_q8[ACTIVATION_SILU] = silu_q8_ref;
    k->activate_q8[ACTIVATION_GELU_TANH] = gelu_tanh_q8_ref;
    k->activate_q8[ACTIVATION_GELU_ERF] = gelu_erf_q8_ref;
    k->add = add_ref;
}
