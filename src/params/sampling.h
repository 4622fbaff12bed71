/* What a request says about sampling, and what may be said: the rows of sampling_params.def. */
#ifndef FIRSTLIGHT_PARAMS_SAMPLING_H
#define FIRSTLIGHT_PARAMS_SAMPLING_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SAMPLING_temperature, ...: named as the rows are. */
enum sampling_param {
#define PARAM(name, ...) SAMPLING_##name,
#include "params/sampling_params.def"
#undef PARAM
    SAMPLING_PARAMS,
};

struct logit_bias {
    int32_t token;
    float bias; /* at most SAMPLING_BIAS_MOST, and at least minus that */
};
#define SAMPLING_BIAS_MOST 100

struct sampling {
#define PARAM(name, type, ...) type name;
#include "params/sampling_params.def"
#undef PARAM
    bool has_seed;
    uint64_t seed;
    uint32_t choice;         /* of several answers to one prompt: each draws its own numbers */
    struct logit_bias *bias; /* n_bias entries; owned by whoever owns the request_params */
    uint32_t n_bias;
};

/* One parameter. */
struct sampling_row {
    const char *name;
    bool whole; /* a whole number: uint32_t, else float */
    bool above; /* the lowest value itself is not allowed */
    double lowest, highest;
    double standard;      /* the default */
    const char *gguf_key; /* NULL: no model recommends it */
    const char *help;
    size_t offset; /* of the field in struct sampling */
};
extern const struct sampling_row sampling_rows[SAMPLING_PARAMS];

/* What a request gets where neither it nor the model says anything. */
extern const struct sampling sampling_default;

double sampling_get(const struct sampling *s, enum sampling_param p);
void sampling_set(struct sampling *s, enum sampling_param p, double value);

/* Whether a value is in the row's range; a NaN is not. */
bool sampling_row_takes(const struct sampling_row *row, double value);

/* Values of some parameters. Zeroed: of none. */
struct sampling_values {
    bool given[SAMPLING_PARAMS];
    double value[SAMPLING_PARAMS];
};
void sampling_values_set(struct sampling_values *v, enum sampling_param p, double value);
/* Those that are given become those of *s. */
void sampling_take(struct sampling *s, const struct sampling_values *v);

/* STATUS_INVALID names the parameter that is out of its range; a bias is for one of n_vocab tokens.
 */
enum status sampling_check(const struct sampling *s, uint32_t n_vocab, struct err *err);

#endif
