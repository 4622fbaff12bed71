/* Cosine and sine of every position and pair, computed once in double precision:
 *
 *     angle(p, i) = p * base^(-2i / n_rot) / divisor(i)
 */
#include "backend/cpu/cpu_backend.h"

#include <math.h>

/* The pair that turns so often within the original context, as a real number. */
static double yarn_pair(const struct model_rope *r, uint32_t n_rot, double turns)
{
    return n_rot * log(r->n_ctx_original / (turns * 2 * M_PI)) / (2 * log((double)r->base));
}

/* Pairs before that of beta_fast stay, those behind that of beta_slow are slowed by the factor,
 * those between are mixed (Peng et al., arXiv:2309.00071, section 3.2). */
static double yarn_divisor(const struct model_rope *r, uint32_t n_rot, uint32_t pair)
{
    double low = fmax(floor(yarn_pair(r, n_rot, (double)r->beta_fast)), 0);
    double high = fmin(ceil(yarn_pair(r, n_rot, (double)r->beta_slow)), n_rot - 1.0);
    double slowed = fmin(fmax((pair - low) / fmax(high - low, 0.001), 0), 1);
    return 1 / (slowed / (double)r->factor + 1 - slowed);
}

/* Factors of ROPE_MAIN that the file lists, if it does. */
static const struct tensor *listed(const struct model *m, uint32_t n_ctx)
{
    const struct model_rope *r = &m->config.rope[ROPE_MAIN];
    if (r->scaling != ROPE_SCALING_LONG)
        return m->rope_factors;
    return n_ctx > r->n_ctx_original ? m->rope_factors_long : m->rope_factors_short;
}

static double divisor(const struct cpu *c, enum rope_table table, uint32_t pair)
{
    const struct model *m = c->base.model;
    const struct model_rope *r = &m->config.rope[table];
    const struct tensor *factors = table == ROPE_MAIN ? listed(m, c->base.options.n_ctx) : NULL;
    double by = r->scaling == ROPE_SCALING_LINEAR ? (double)r->factor : 1;
    if (r->scaling == ROPE_SCALING_YARN)
        by = yarn_divisor(r, m->config.n_rot, pair);
    return factors ? by * (double)((const float *)factors->data)[pair] : by;
}

static void fill_table(struct cpu *c, enum rope_table table, size_t begin, size_t end)
{
    const struct model_config *m = &c->base.model->config;
    const struct model_rope *r = &m->rope[table];
    uint32_t n_pairs = m->n_rot / 2;
    for (uint32_t i = 0; i < n_pairs; i++) {
        double frequency = pow((double)r->base, -2.0 * i / m->n_rot) / divisor(c, table, i);
        for (size_t p = begin; p < end; p++) {
            float *out = c->rope[table] + (p * n_pairs + i) * 2;
            out[0] = (float)(cos((double)p * frequency) * (double)r->attn_factor);
            out[1] = (float)(sin((double)p * frequency) * (double)r->attn_factor);
        }
    }
}

static void fill_slice(void *arg, int worker)
{
    struct cpu *c = arg;
    size_t begin, end;
    pool_slice(c->base.options.n_ctx, 1, worker, pool_threads(c->pool), &begin, &end);
    for (uint32_t t = 0; t < ROPE_TABLES; t++)
        if (c->rope[t])
            fill_table(c, t, begin, end);
}

void rope_fill(struct cpu *c)
{
    pool_run(c->pool, fill_slice, c);
}
