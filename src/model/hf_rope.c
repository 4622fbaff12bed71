#include "model/hf_rope.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Where the parameters are, and what an error calls that object. */
struct source {
    const json_t *object; /* NULL: nothing but the base */
    const char *name;
};

static enum status bad_number(const struct source *s, const char *key, const json_t *found,
                              struct err *err)
{
    char text[HF_VALUE_TEXT];
    return err_param(err, STATUS_INVALID, key, "%s.%s: expected a positive number, found %s",
                     s->name, key, hf_config_text(found, text));
}

static enum status read_number(const struct source *s, const char *key, double *out,
                               struct err *err)
{
    const json_t *value = json_object_get(s->object, key);
    double x = json_number_value(value);
    if (!json_is_number(value) || !(x > 0) || !isfinite((float)x))
        return bad_number(s, key, value, err);
    *out = x;
    return STATUS_OK;
}

/* A model with several kinds of layers has an object of parameters for each kind. */
static enum status find_source(const json_t *json, struct source *s, struct err *err)
{
    char text[HF_VALUE_TEXT];
    s->name = "rope_parameters";
    s->object = json_object_get(json, s->name);
    if (!s->object || json_is_null(s->object)) {
        s->name = "rope_scaling";
        s->object = json_object_get(json, s->name);
    }
    if (json_is_null(s->object))
        s->object = NULL;
    if (s->object && !json_is_object(s->object))
        return err_param(err, STATUS_INVALID, s->name, "%s: expected an object or null, found %s",
                         s->name, hf_config_text(s->object, text));
    return STATUS_OK;
}

static enum status write_base(const struct hf_config *c, const json_t *json, const struct source *s,
                              struct gguf_build *b, double *base, struct err *err)
{
    char key[64];
    struct source top = {json, "config"};
    *base = 10000;
    enum status st = STATUS_OK;
    if (json_object_get(s->object, "rope_theta"))
        st = read_number(s, "rope_theta", base, err);
    else if (json_object_get(json, "rope_theta"))
        st = read_number(&top, "rope_theta", base, err);
    snprintf(key, sizeof key, "%s.rope.freq_base", c->arch->arch);
    gguf_build_f32(b, key, (float)*base);
    return st;
}

/* How many dims of a head turn: a part of them, if either place says so. */
static enum status write_dims(const struct hf_config *c, const json_t *json, const struct source *s,
                              struct gguf_build *b, uint32_t *n_rot, struct err *err)
{
    char key[64];
    double part = 1;
    struct source top = {json, "config"};
    enum status st = STATUS_OK;
    if (json_object_get(s->object, "partial_rotary_factor"))
        st = read_number(s, "partial_rotary_factor", &part, err);
    else if (json_object_get(json, "partial_rotary_factor"))
        st = read_number(&top, "partial_rotary_factor", &part, err);
    if (st)
        return st;
    if (part > 1)
        return err_param(err, STATUS_INVALID, "partial_rotary_factor",
                         "partial_rotary_factor: expected up to 1, found %g", part);
    *n_rot = (uint32_t)(c->head_dim * part);
    snprintf(key, sizeof key, "%s.rope.dimension_count", c->arch->arch);
    gguf_build_u32(b, key, *n_rot);
    return STATUS_OK;
}

static enum status write_linear(const struct hf_config *c, const struct source *s,
                                struct gguf_build *b, struct err *err)
{
    char key[64];
    double factor = 1;
    enum status st = read_number(s, "factor", &factor, err);
    snprintf(key, sizeof key, "%s.rope.scaling.type", c->arch->arch);
    gguf_build_string(b, key, "linear");
    snprintf(key, sizeof key, "%s.rope.scaling.factor", c->arch->arch);
    gguf_build_f32(b, key, (float)factor);
    return st;
}

/* Llama 3.1: pairs that turn more than `high` times within the original context stay, those that
 * turn less than `low` times are slowed by `factor`, those between partly. GGUF has that as a
 * divisor of each pair's frequency. */
static enum status make_llama3(struct hf_config *c, const struct source *s, uint32_t n_rot,
                               double base, struct err *err)
{
    double factor = 0, low = 0, high = 0, original = 0;
    enum status st = read_number(s, "factor", &factor, err);
    if (!st)
        st = read_number(s, "low_freq_factor", &low, err);
    if (!st)
        st = read_number(s, "high_freq_factor", &high, err);
    if (!st)
        st = read_number(s, "original_max_position_embeddings", &original, err);
    if (!st && high <= low)
        st = err_param(err, STATUS_INVALID, "high_freq_factor",
                       "%s.high_freq_factor: expected more than low_freq_factor %g, found %g",
                       s->name, low, high);
    if (st)
        return st;
    c->n_factors = n_rot / 2;
    c->rope_factors = mem_array(c->n_factors, sizeof *c->rope_factors);
    if (!c->rope_factors)
        return err_set(err, STATUS_NO_MEMORY, "no memory for rope factors");
    for (uint32_t i = 0; i < c->n_factors; i++) {
        double turns = original * pow(base, -2.0 * i / n_rot) / (2 * M_PI);
        double smooth = fmin(fmax((turns - low) / (high - low), 0), 1);
        c->rope_factors[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
    return STATUS_OK;
}

enum status hf_rope_read(struct hf_config *c, const json_t *json, struct gguf_build *b,
                         struct err *err)
{
    struct source s;
    char text[HF_VALUE_TEXT];
    double base = 0;
    uint32_t n_rot = 0;
    enum status st = find_source(json, &s, err);
    if (!st)
        st = write_base(c, json, &s, b, &base, err);
    if (!st)
        st = write_dims(c, json, &s, b, &n_rot, err);
    if (st || !s.object)
        return st;
    const json_t *type = json_object_get(s.object, "rope_type");
    if (!type)
        type = json_object_get(s.object, "type"); /* before transformers 4.45 */
    const char *name = json_string_value(type);
    if (!type || (name && strcmp(name, "default") == 0))
        return STATUS_OK;
    if (name && strcmp(name, "linear") == 0)
        return write_linear(c, &s, b, err);
    if (name && strcmp(name, "llama3") == 0)
        return make_llama3(c, &s, n_rot, base, err);
    return err_param(err, STATUS_UNSUPPORTED, s.name,
                     "%s.rope_type: expected default, linear or llama3, found %s, which is not "
                     "implemented",
                     s.name, hf_config_text(type, text));
}
