/* Sampling parameters: their defaults and ranges. */
#include "engine/sampling/sampler.h"

#include <math.h>

/* Temperature 1 without limits lets through tokens that a model hardly believes in, and small
 * models then say what is wrong. These are llama.cpp's values. */
const struct sampling sampling_default = {
    .temperature = 0.8f,
    .top_k = 40,
    .top_p = 0.95f,
    .min_p = 0.05f,
    .repetition_penalty = 1,
};

void sampling_recommend(struct sampling *s, const struct generation *g, enum generation_field f)
{
    double x = g->value[f];
    if (!g->said[f])
        return;
    switch (f) {
    case GENERATION_TEMPERATURE:
        s->temperature = (float)x;
        break;
    case GENERATION_TOP_K:
        s->top_k = (uint32_t)x;
        break;
    case GENERATION_TOP_P:
        s->top_p = (float)x;
        break;
    case GENERATION_MIN_P:
        s->min_p = (float)x;
        break;
    case GENERATION_REPETITION_PENALTY:
        s->repetition_penalty = (float)x;
        break;
    case GENERATION_FIELDS:
        break;
    }
}

static enum status check_range(const char *name, float value, float low, float high,
                               bool low_excluded, struct err *err)
{
    if (value >= low && value <= high && !(low_excluded && value == low))
        return STATUS_OK; /* a NaN fails both comparisons */
    return err_param(err, STATUS_INVALID, name, "%s is %g; it must be in %c%g, %g]", name,
                     (double)value, low_excluded ? '(' : '[', (double)low, (double)high);
}

static enum status check_bias(const struct sampling *p, uint32_t n_vocab, struct err *err)
{
    if (p->n_bias > LIMIT_LOGIT_BIAS)
        return err_param(err, STATUS_INVALID, "logit_bias", "logit_bias has %u entries, at most %d",
                         p->n_bias, LIMIT_LOGIT_BIAS);
    for (uint32_t i = 0; i < p->n_bias; i++) {
        if (p->bias[i].token < 0 || (uint32_t)p->bias[i].token >= n_vocab)
            return err_param(err, STATUS_INVALID, "logit_bias",
                             "logit_bias names token %d; the vocabulary has %u", p->bias[i].token,
                             n_vocab);
        enum status status = check_range("logit_bias", p->bias[i].bias, -100, 100, false, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status sampling_check(const struct sampling *p, uint32_t n_vocab, struct err *err)
{
    const struct {
        const char *name;
        float value, low, high;
        bool low_excluded;
    } ranges[] = {
        {"temperature", p->temperature, 0, 2, false},
        {"top_p", p->top_p, 0, 1, true},
        {"min_p", p->min_p, 0, 1, false},
        {"repetition_penalty", p->repetition_penalty, 0, 2, true},
        {"presence_penalty", p->presence_penalty, -2, 2, false},
        {"frequency_penalty", p->frequency_penalty, -2, 2, false},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        enum status status = check_range(ranges[i].name, ranges[i].value, ranges[i].low,
                                         ranges[i].high, ranges[i].low_excluded, err);
        if (status != STATUS_OK)
            return status;
    }
    if (p->top_k > LIMIT_TOP_K)
        return err_param(err, STATUS_INVALID, "top_k", "top_k is %u, at most %d", p->top_k,
                         LIMIT_TOP_K);
    return check_bias(p, n_vocab, err);
}
