#include "engine/cost.h"

#include <math.h>

/* Sizes at which a feature is 1, so that all weights are milliseconds of about the same size. */
#define SCALE_TOKENS  256.0
#define SCALE_PAIRS   (256.0 * 1024)
#define SCALE_DECODES 16.0
#define SCALE_READS   (16.0 * 1024)

#define FIRST_VARIANCE 1e4  /* of a weight that nothing is known of: (100 ms)^2 */
#define DRIFT          1e-4 /* of each weight squared, a step: a hundredth in standard deviation */
#define NOISE          0.1  /* standard deviation of a step's time, relative */
#define NOISE_MS       0.05 /* and absolute */
#define SURPRISE       3.0  /* standard deviations beyond which a step is an outlier */
#define CREDULOUS      30   /* steps at first that are all believed */
#define ERROR_DECAY    0.05
#define LATE_SHARE     0.05 /* of steps that may take longer than `late` times the prediction */
#define LATE_GAIN      0.02
#define LATE_MOST      1.5

void cost_init(struct cost *c)
{
    *c = (struct cost){.late = 1};
    for (int i = 0; i < COST_WEIGHTS; i++)
        c->p[i][i] = FIRST_VARIANCE;
}

static void features(const struct cost_step *s, double x[COST_WEIGHTS])
{
    x[0] = 1;
    x[1] = s->n_prefill / SCALE_TOKENS;
    x[2] = (double)s->prefill_before / SCALE_PAIRS;
    x[3] = s->n_decode / SCALE_DECODES;
    x[4] = (double)s->decode_before / SCALE_READS;
}

static double predict_ms(const struct cost *c, const struct cost_step *s)
{
    double x[COST_WEIGHTS], ms = 0;
    features(s, x);
    for (int i = 0; i < COST_WEIGHTS; i++)
        ms += c->w[i] * x[i];
    return ms;
}

int64_t cost_predict_us(const struct cost *c, const struct cost_step *s)
{
    return (int64_t)(1000 * predict_ms(c, s));
}

/* Random walk: a known weight becomes a little less known, an unknown one stays as it is. */
static void drift(struct cost *c)
{
    for (int i = 0; i < COST_WEIGHTS; i++)
        if (c->p[i][i] < FIRST_VARIANCE)
            c->p[i][i] += DRIFT * (c->w[i] * c->w[i] + NOISE_MS * NOISE_MS);
}

/* One step of the Kalman filter (Kalman 1960) for a scalar observation, its surprise bounded as in
 * Huber's estimator. */
static void update(struct cost *c, const double x[COST_WEIGHTS], double ms)
{
    double px[COST_WEIGHTS], expected = 0, sd = NOISE * ms + NOISE_MS, variance = sd * sd;
    for (int i = 0; i < COST_WEIGHTS; i++) {
        px[i] = 0;
        for (int j = 0; j < COST_WEIGHTS; j++)
            px[i] += c->p[i][j] * x[j];
        expected += c->w[i] * x[i];
    }
    for (int i = 0; i < COST_WEIGHTS; i++)
        variance += px[i] * x[i];
    double bound = SURPRISE * sqrt(variance), surprise = ms - expected;
    if (c->n > CREDULOUS)
        surprise = fmax(-bound, fmin(bound, surprise));
    for (int i = 0; i < COST_WEIGHTS; i++) {
        c->w[i] += px[i] / variance * surprise;
        for (int j = 0; j < COST_WEIGHTS; j++)
            c->p[i][j] -= px[i] * px[j] / variance;
    }
}

/* Nothing takes less than no time: what a negative weight is short of goes to those that it is
 * correlated with, as if it had been observed to be 0. */
static void keep_positive(struct cost *c)
{
    for (int i = 0; i < COST_WEIGHTS; i++) {
        double excess = c->w[i];
        if (excess >= 0 || c->p[i][i] <= 0)
            continue;
        for (int j = 0; j < COST_WEIGHTS; j++)
            c->w[j] -= c->p[j][i] / c->p[i][i] * excess;
    }
    for (int i = 0; i < COST_WEIGHTS; i++)
        c->w[i] = fmax(c->w[i], 0);
}

/* A quantile followed by steps up and down in the odds' proportion (Robbins & Monro 1951). */
static void follow_late(struct cost *c, double predicted, double ms)
{
    double step = ms > predicted * c->late ? 1 - LATE_SHARE : -LATE_SHARE;
    c->late = fmax(1, fmin(LATE_MOST, c->late + LATE_GAIN * step));
}

int64_t cost_within_us(const struct cost *c, int64_t us)
{
    return (int64_t)((double)us / c->late);
}

void cost_observe(struct cost *c, const struct cost_step *s, int64_t us)
{
    double x[COST_WEIGHTS], ms = (double)us / 1000;
    if (us <= 0)
        return;
    double predicted = predict_ms(c, s), off = fabs(predicted - ms) / ms;
    if (c->n > CREDULOUS && s->n_prefill > 0 && s->n_decode > 0)
        follow_late(c, predicted, ms);
    c->error = c->n == 0 ? off : c->error + ERROR_DECAY * (off - c->error);
    c->n++;
    features(s, x);
    drift(c);
    update(c, x, ms);
    keep_positive(c);
}

void cost_add_chunk(struct cost_step *s, uint32_t n, uint32_t n_past)
{
    s->n_prefill += n;
    s->prefill_before += (uint64_t)n * n_past + (uint64_t)n * (n > 0 ? n - 1 : 0) / 2;
}

void cost_add_decode(struct cost_step *s, uint32_t n_past)
{
    s->n_decode++;
    s->decode_before += n_past;
}

int64_t cost_prompt_us(const struct cost *c, uint32_t n_past, uint32_t n_goal)
{
    struct cost_step work = {0};
    cost_add_chunk(&work, n_goal - n_past, n_past);
    return cost_predict_us(c, &work);
}

static int64_t with_chunk_us(const struct cost *c, const struct cost_step *s, uint32_t n,
                             uint32_t n_past)
{
    struct cost_step more = *s;
    cost_add_chunk(&more, n, n_past);
    return cost_predict_us(c, &more);
}

uint32_t cost_fit(const struct cost *c, const struct cost_step *s, uint32_t n_past, uint32_t max,
                  int64_t budget_us)
{
    uint32_t fits = 0, over = max + 1;
    if (with_chunk_us(c, s, max, n_past) <= budget_us)
        return max;
    while (over - fits > 1) { /* the prediction never falls with n */
        uint32_t n = fits + (over - fits) / 2;
        if (with_chunk_us(c, s, n, n_past) <= budget_us)
            fits = n;
        else
            over = n;
    }
    return fits;
}

uint32_t cost_saturation(const struct cost *c, const struct cost_step *with, double efficiency,
                         uint32_t max)
{
    double step = predict_ms(c, with), token = c->w[1] / SCALE_TOKENS;
    if (token <= 0 || efficiency >= 1)
        return max;
    double n = efficiency / (1 - efficiency) * step / token;
    return n < 1 ? 1 : n < max ? (uint32_t)n : max;
}
