#include "params/sampling.h"

#include "base/limits.h"

#include <math.h>

enum { FROM, ABOVE };

const struct sampling_row sampling_rows[SAMPLING_PARAMS] = {
#define PARAM(field, type, from, low, high, usual, key, text)                                      \
    [SAMPLING_##field] = {                                                                         \
        .name = #field,                                                                            \
        .whole = _Generic((type)0, uint32_t                                                        \
                          : true, float                                                            \
                          : false),                                                                \
        .above = from == ABOVE,                                                                    \
        .lowest = low,                                                                             \
        .highest = high,                                                                           \
        .standard = usual,                                                                         \
        .gguf_key = sizeof key > 1 ? key : NULL,                                                   \
        .help = text,                                                                              \
        .offset = offsetof(struct sampling, field),                                                \
    },
#include "params/sampling_params.def"
#undef PARAM
};

const struct sampling sampling_default = {
#define PARAM(field, type, from, low, high, usual, ...) .field = (type)usual,
#include "params/sampling_params.def"
#undef PARAM
};

/* -1 is vLLM's way to say off. */
static double stored(enum sampling_param p, double value)
{
    return sampling_rows[p].whole && value < 0 ? 0 : value;
}

double sampling_get(const struct sampling *s, enum sampling_param p)
{
    const void *field = (const char *)s + sampling_rows[p].offset;
    return sampling_rows[p].whole ? *(const uint32_t *)field : (double)*(const float *)field;
}

void sampling_set(struct sampling *s, enum sampling_param p, double value)
{
    void *field = (char *)s + sampling_rows[p].offset;
    if (sampling_rows[p].whole)
        *(uint32_t *)field = (uint32_t)stored(p, value);
    else
        *(float *)field = (float)value;
}

bool sampling_row_takes(const struct sampling_row *row, double value)
{
    float x = (float)value, lowest = (float)row->lowest; /* as it is stored */
    return x >= lowest && x <= (float)row->highest && !(row->above && x == lowest) &&
           !(row->whole && value != floor(value));
}

void sampling_values_set(struct sampling_values *v, enum sampling_param p, double value)
{
    v->given[p] = true;
    v->value[p] = stored(p, value);
}

void sampling_take(struct sampling *s, const struct sampling_values *v)
{
    for (int p = 0; p < SAMPLING_PARAMS; p++)
        if (v->given[p])
            sampling_set(s, p, v->value[p]);
}

static enum status sampling_out_of_range(const struct sampling_row *row, double value,
                                         struct err *err)
{
    if (row->whole)
        return err_param(err, STATUS_INVALID, row->name, "%s is %.0f, at most %.0f", row->name,
                         value, row->highest);
    return err_param(err, STATUS_INVALID, row->name, "%s is %g; it must be in %c%g, %g]", row->name,
                     value, row->above ? '(' : '[', row->lowest, row->highest);
}

static enum status check_bias(const struct sampling *s, uint32_t n_vocab, struct err *err)
{
    static const struct sampling_row row = {
        .name = "logit_bias", .lowest = -SAMPLING_BIAS_MOST, .highest = SAMPLING_BIAS_MOST};
    if (s->n_bias > LIMIT_LOGIT_BIAS)
        return err_param(err, STATUS_INVALID, row.name, "logit_bias has %u entries, at most %d",
                         s->n_bias, LIMIT_LOGIT_BIAS);
    for (uint32_t i = 0; i < s->n_bias; i++) {
        if (s->bias[i].token < 0 || (uint32_t)s->bias[i].token >= n_vocab)
            return err_param(err, STATUS_INVALID, row.name,
                             "logit_bias names token %d; the vocabulary has %u", s->bias[i].token,
                             n_vocab);
        if (!sampling_row_takes(&row, s->bias[i].bias))
            return sampling_out_of_range(&row, s->bias[i].bias, err);
    }
    return STATUS_OK;
}

enum status sampling_check(const struct sampling *s, uint32_t n_vocab, struct err *err)
{
    for (int p = 0; p < SAMPLING_PARAMS; p++)
        if (!sampling_row_takes(&sampling_rows[p], sampling_get(s, p)))
            return sampling_out_of_range(&sampling_rows[p], sampling_get(s, p), err);
    return check_bias(s, n_vocab, err);
}
