/* References: what sampling asks of a row of logits. */
#include "kernels/variants.h"

#include <float.h>
#include <math.h>

static bool group_max_ref(float *out, const float *x, size_t n)
{
    bool finite = true;
    for (size_t g = 0; g < GROUPS(n); g++)
        out[g] = -FLT_MAX;
    for (size_t i = 0; i < n; i++) {
        float *group = &out[i / GROUP_SPAN * GROUP_LANES + i % GROUP_LANES];
        *group = x[i] > *group ? x[i] : *group;
        finite = finite && isfinite(x[i]);
    }
    return finite;
}

static float exp_sum_ref(float *out, const float *x, size_t n, float max, float scale)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        out[i] = expf((x[i] - max) * scale);
        sum += (double)out[i];
    }
    return (float)sum;
}

static float sum_above_ref(const float *x, size_t n, float floor)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] > floor ? (double)x[i] : 0.0;
    return (float)sum;
}

void sample_ref_fill(struct kernels *k)
{
    k->group_max = group_max_ref;
    k->exp_sum = exp_sum_ref;
    k->sum_above = sum_above_ref;
}
