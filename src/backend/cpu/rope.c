/* Cosine and sine of every position and pair, computed once in double precision:
 *
 *     angle(p, i) = p / linear factor * base^(-2i / n_rot) / rope_factors[i]
 */
#include "backend/cpu/cpu.h"

#include <math.h>

static double pair_frequency(const struct model *m, uint32_t pair)
{
    const struct model_config *c = &m->config;
    double f = pow((double)c->rope_base, -2.0 * pair / c->n_rot) / (double)c->rope_factor;
    if (m->rope_factors)
        f /= (double)((const float *)m->rope_factors->data)[pair];
    return f;
}

static void fill_slice(void *arg, int worker)
{
    struct cpu *c = arg;
    uint32_t n_pairs = c->base.model->config.n_rot / 2;
    size_t begin, end;
    pool_slice(c->base.options.n_ctx, 1, worker, pool_threads(c->pool), &begin, &end);
    for (uint32_t i = 0; i < n_pairs; i++) {
        double frequency = pair_frequency(c->base.model, i);
        for (size_t p = begin; p < end; p++) {
            float *out = c->rope + (p * n_pairs + i) * 2;
            out[0] = (float)cos((double)p * frequency);
            out[1] = (float)sin((double)p * frequency);
        }
    }
}

void rope_fill(struct cpu *c)
{
    pool_run(c->pool, fill_slice, c);
}
