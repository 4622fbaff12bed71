/* References: the operations on single vectors. Sums run in double, in the order of the index. */
#include "kernels/half.h"
#include "kernels/variants.h"

#include <math.h>

static void rmsnorm_ref(float *out, const float *x, const float *weight, size_t n, float eps)
{
    double squares = 0.0;
    for (size_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    float scale = (float)(1.0 / sqrt(squares / (double)n + (double)eps));
    for (size_t i = 0; i < n; i++)
        out[i] = x[i] * scale * weight[i];
}

static void rope_ref(float *head, const float *cos_sin, size_t n_rot, enum rope_style style)
{
    size_t half = n_rot / 2;
    for (size_t i = 0; i < half; i++) {
        float *a = style == ROPE_NEIGHBOURS ? head + 2 * i : head + i;
        float *b = style == ROPE_NEIGHBOURS ? a + 1 : a + half;
        float c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        float turned = *a * c - *b * s;
        *b = *b * c + *a * s;
        *a = turned;
    }
}

static void swiglu_ref(float *out, const float *gate, const float *up, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = gate[i] / (1.0f + expf(-gate[i])) * up[i];
}

static void add_ref(float *out, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] += x[i];
}

void vector_ref_fill(struct kernels *k)
{
    k->rmsnorm = rmsnorm_ref;
    k->rope = rope_ref;
    k->swiglu = swiglu_ref;
    k->add = add_ref;
}
