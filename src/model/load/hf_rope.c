#include "model/load/hf_rope.h"

#include "base/mem.h"
#include "model/arch/hf_value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define KEY 96

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
                     s->name, key, hf_value_text(found, text));
}

static enum status hf_rope_read_number(const struct source *s, const char *key, double *out,
                                       struct err *err)
{
    const json_t *value = json_object_get(s->object, key);
    double x = json_number_value(value);
    if (!json_is_number(value) || !(x > 0) || !isfinite((float)x))
        return bad_number(s, key, value, err);
    *out = x;
    return STATUS_OK;
}

/* A model with several kinds of layers has an object of parameters for each kind; what layers with
 * a window have is the architecture's to read. */
static enum status find_source(const json_t *json, struct source *s, struct err *err)
{
    char text[HF_VALUE_TEXT];
    s->name = "rope_parameters";
    s->object = json_object_get(json, s->name);
    if (json_is_object(json_object_get(s->object, "full_attention"))) {
        s->name = "rope_parameters.full_attention";
        s->object = json_object_get(s->object, "full_attention");
    }
    if (!s->object || json_is_null(s->object)) {
        s->name = "rope_scaling";
        s->object = json_object_get(json, s->name);
    }
    if (json_is_null(s->object))
        s->object = NULL;
    if (s->object && !json_is_object(s->object))
        return err_param(err, STATUS_INVALID, s->name, "%s: expected an object or null, found %s",
                         s->name, hf_value_text(s->object, text));
    return STATUS_OK;
}

static enum status write_base(const struct hf_config *c, const json_t *json, const struct source *s,
                              struct gguf_build *b, double *base, struct err *err)
{
    char key[KEY];
    struct source top = {json, "config"};
    *base = c->arch->hf.rope_base > 0 ? c->arch->hf.rope_base : 10000;
    enum status st = STATUS_OK;
    if (json_object_get(s->object, "rope_theta"))
        st = hf_rope_read_number(s, "rope_theta", base, err);
    else if (json_object_get(json, "rope_theta"))
        st = hf_rope_read_number(&top, "rope_theta", base, err);
    snprintf(key, sizeof key, "%s.rope.freq_base", c->arch->name);
    gguf_build_f32(b, key, (float)*base);
    return st;
}

/* How many dims of a head turn: a part of them, if either place says so. */
static enum status write_dims(const struct hf_config *c, const json_t *json, const struct source *s,
                              struct gguf_build *b, uint32_t *n_rot, struct err *err)
{
    char key[KEY];
    double part = 1;
    struct source top = {json, "config"};
    enum status st = STATUS_OK;
    if (json_object_get(s->object, "partial_rotary_factor"))
        st = hf_rope_read_number(s, "partial_rotary_factor", &part, err);
    else if (json_object_get(json, "partial_rotary_factor"))
        st = hf_rope_read_number(&top, "partial_rotary_factor", &part, err);
    if (st)
        return st;
    if (part > 1)
        return err_param(err, STATUS_INVALID, "partial_rotary_factor",
                         "partial_rotary_factor: expected up to 1, found %g", part);
    *n_rot = (uint32_t)(c->head_dim * part);
    snprintf(key, sizeof key, "%s.rope.dimension_count", c->arch->name);
    gguf_build_u32(b, key, *n_rot);
    return STATUS_OK;
}

static void hf_rope_put_string(const struct hf_config *c, const char *name, const char *value,
                               struct gguf_build *b)
{
    char key[KEY];
    snprintf(key, sizeof key, "%s.rope.%s", c->arch->name, name);
    gguf_build_string(b, key, value);
}

static void put_f32(const struct hf_config *c, const char *name, double value, struct gguf_build *b)
{
    char key[KEY];
    snprintf(key, sizeof key, "%s.rope.%s", c->arch->name, name);
    gguf_build_f32(b, key, (float)value);
}

/* Scaling under way. */
struct scaling {
    struct source s;
    const json_t *json; /* all of config.json */
    uint32_t n_rot;
    double base;
};

static enum status write_linear(struct hf_config *c, const struct scaling *w, struct gguf_build *b,
                                struct err *err)
{
    double factor = 1;
    enum status st = hf_rope_read_number(&w->s, "factor", &factor, err);
    hf_rope_put_string(c, "scaling.type", "linear", b);
    put_f32(c, "scaling.factor", factor, b);
    return st;
}

static enum status add_vector(struct hf_config *c, const char *name, uint32_t n, float **out,
                              struct err *err)
{
    struct hf_vector *v = &c->vectors[c->n_vectors++];
    REQUIRE(c->n_vectors <= HF_VECTORS);
    *v = (struct hf_vector){name, mem_array(n, sizeof(float)), n};
    *out = v->values;
    return v->values ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for rope factors");
}

/* Llama 3.1: pairs that turn more than `high` times within the original context stay, those that
 * turn less than `low` times are slowed by `factor`, those between partly. GGUF has that as a
 * divisor of each pair's frequency. */
static enum status write_llama3(struct hf_config *c, const struct scaling *w, struct gguf_build *b,
                                struct err *err)
{
    double factor = 0, low = 0, high = 0, original = 0;
    float *out;
    (void)b;
    enum status st = hf_rope_read_number(&w->s, "factor", &factor, err);
    if (!st)
        st = hf_rope_read_number(&w->s, "low_freq_factor", &low, err);
    if (!st)
        st = hf_rope_read_number(&w->s, "high_freq_factor", &high, err);
    if (!st)
        st = hf_rope_read_number(&w->s, "original_max_position_embeddings", &original, err);
    if (!st && high <= low)
        st = err_param(err, STATUS_INVALID, "high_freq_factor",
                       "%s.high_freq_factor: expected more than low_freq_factor %g, found %g",
                       w->s.name, low, high);
    if (!st)
        st = add_vector(c, "rope_freqs.weight", w->n_rot / 2, &out, err);
    for (uint32_t i = 0; i < w->n_rot / 2 && !st; i++) {
        double turns = original * pow(w->base, -2.0 * i / w->n_rot) / (2 * M_PI);
        double smooth = fmin(fmax((turns - low) / (high - low), 0), 1);
        out[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
    return st;
}

/* The context before it was made longer: beside the object, in it, or what the model has. */
static enum status write_original(struct hf_config *c, const struct scaling *w, double *original,
                                  struct gguf_build *b, struct err *err)
{
    static const char name[] = "original_max_position_embeddings";
    char key[KEY], text[HF_VALUE_TEXT];
    const json_t *value = json_object_get(w->json, name);
    if (!value)
        value = json_object_get(w->s.object, name);
    if (!value)
        value = json_object_get(w->json, "max_position_embeddings");
    *original = json_number_value(value);
    if (!json_is_integer(value) || *original < 1 || *original > UINT32_MAX)
        return err_param(err, STATUS_INVALID, name, "%s: expected a whole number from 1, found %s",
                         name, hf_value_text(value, text));
    snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", c->arch->name);
    gguf_build_u32(b, key, (uint32_t)*original);
    return STATUS_OK;
}

static bool hf_rope_has(const struct scaling *w, const char *key)
{
    const json_t *value = json_object_get(w->s.object, key);
    return value && !json_is_null(value);
}

/* By how much the context is longer. */
static enum status read_factor(const struct scaling *w, double original, double *factor,
                               struct err *err)
{
    *factor = json_number_value(json_object_get(w->json, "max_position_embeddings")) / original;
    return hf_rope_has(w, "factor") ? hf_rope_read_number(&w->s, "factor", factor, err) : STATUS_OK;
}

/* transformers' factor for cosines and sines: given, or 1 + 0.1 ln(factor); two further numbers, of
 * deepseek models, make it a ratio. */
static enum status read_yarn_attention(const struct scaling *w, double factor, double *out,
                                       struct err *err)
{
    double m = 0, all = 0, more = factor > 1 ? 0.1 * log(factor) : 0;
    enum status st = STATUS_OK;
    *out = 1 + more;
    if (hf_rope_has(w, "attention_factor"))
        return hf_rope_read_number(&w->s, "attention_factor", out, err);
    if (!hf_rope_has(w, "mscale") || !hf_rope_has(w, "mscale_all_dim"))
        return STATUS_OK;
    st = hf_rope_read_number(&w->s, "mscale", &m, err);
    if (!st)
        st = hf_rope_read_number(&w->s, "mscale_all_dim", &all, err);
    *out = (1 + m * more) / (1 + all * more);
    return st;
}

/* GGUF's attn_factor comes on top of yarn's own 1 + 0.1 ln(factor). */
static enum status write_yarn(struct hf_config *c, const struct scaling *w, struct gguf_build *b,
                              struct err *err)
{
    double original = 0, factor = 1, attention = 1, fast = 0, slow = 0;
    enum status st = write_original(c, w, &original, b, err);
    if (!st)
        st = read_factor(w, original, &factor, err);
    if (!st)
        st = read_yarn_attention(w, factor, &attention, err);
    if (!st && hf_rope_has(w, "beta_fast"))
        st = hf_rope_read_number(&w->s, "beta_fast", &fast, err);
    if (!st && hf_rope_has(w, "beta_slow"))
        st = hf_rope_read_number(&w->s, "beta_slow", &slow, err);
    if (st)
        return st;
    if (json_is_false(json_object_get(w->s.object, "truncate")))
        return err_param(err, STATUS_UNSUPPORTED, "truncate",
                         "%s.truncate: expected true, found false, which is not implemented",
                         w->s.name);
    hf_rope_put_string(c, "scaling.type", "yarn", b);
    put_f32(c, "scaling.factor", factor, b);
    double own = factor > 1 ? 1 + 0.1 * log(factor) : 1;
    if (fabs(attention / own - 1) > 1e-9)
        put_f32(c, "scaling.attn_factor", attention / own, b);
    if (fast > 0)
        put_f32(c, "scaling.yarn_beta_fast", fast, b);
    if (slow > 0)
        put_f32(c, "scaling.yarn_beta_slow", slow, b);
    return STATUS_OK;
}

static enum status add_list(struct hf_config *c, const struct scaling *w, const char *key,
                            const char *name, struct err *err)
{
    char text[HF_VALUE_TEXT];
    const json_t *list = json_object_get(w->s.object, key);
    float *out;
    if (!json_is_array(list) || json_array_size(list) != w->n_rot / 2)
        return err_param(err, STATUS_INVALID, key, "%s.%s: expected a list of %u numbers, found %s",
                         w->s.name, key, w->n_rot / 2, hf_value_text(list, text));
    enum status st = add_vector(c, name, w->n_rot / 2, &out, err);
    for (uint32_t i = 0; i < w->n_rot / 2 && !st; i++) {
        const json_t *x = json_array_get(list, i);
        out[i] = (float)json_number_value(x);
        if (!json_is_number(x) || !(out[i] > 0) || !isfinite(out[i]))
            st = bad_number(&w->s, key, x, err);
    }
    return st;
}

/* Ding et al., LongRoPE, arXiv:2402.13753. */
static enum status write_long(struct hf_config *c, const struct scaling *w, struct gguf_build *b,
                              struct err *err)
{
    double original = 0, factor = 1, attention = 1;
    enum status st = add_list(c, w, "long_factor", "rope_factors_long.weight", err);
    if (!st)
        st = add_list(c, w, "short_factor", "rope_factors_short.weight", err);
    if (!st)
        st = write_original(c, w, &original, b, err);
    if (!st)
        st = read_factor(w, original, &factor, err);
    if (!st && factor > 1 && original > 1)
        attention = sqrt(1 + log(factor) / log(original));
    if (!st && hf_rope_has(w, "attention_factor"))
        st = hf_rope_read_number(&w->s, "attention_factor", &attention, err);
    hf_rope_put_string(c, "scaling.type", "longrope", b);
    put_f32(c, "scaling.attn_factor", attention, b);
    return st;
}

static enum status write_nothing(struct hf_config *c, const struct scaling *w, struct gguf_build *b,
                                 struct err *err)
{
    (void)c, (void)w, (void)b, (void)err;
    return STATUS_OK;
}

static const struct {
    const char *type;
    enum status (*write)(struct hf_config *c, const struct scaling *w, struct gguf_build *b,
                         struct err *err);
} types[] = {
    {"default", write_nothing}, {"linear", write_linear}, {"llama3", write_llama3},
    {"yarn", write_yarn},       {"longrope", write_long}, {"su", write_long},
};

static enum status write_scaling(struct hf_config *c, const struct scaling *w, struct gguf_build *b,
                                 struct err *err)
{
    char text[HF_VALUE_TEXT];
    const json_t *type = json_object_get(w->s.object, "rope_type");
    if (!type)
        type = json_object_get(w->s.object, "type"); /* before transformers 4.45 */
    const char *name = json_string_value(type);
    if (!type)
        return STATUS_OK;
    if (hf_rope_has(w, "short_factor")) /* older phi3 folders call it yarn */
        return write_long(c, w, b, err);
    for (size_t i = 0; i < sizeof types / sizeof types[0] && name; i++)
        if (strcmp(name, types[i].type) == 0)
            return types[i].write(c, w, b, err);
    return err_param(err, STATUS_UNSUPPORTED, w->s.name,
                     "%s.rope_type: expected default, linear, llama3, yarn or longrope, found %s, "
                     "which is not implemented",
                     w->s.name, hf_value_text(type, text));
}

enum status hf_rope_read(struct hf_config *c, const json_t *json, struct gguf_build *b,
                         struct err *err)
{
    struct scaling w = {.json = json};
    enum status st = find_source(json, &w.s, err);
    if (!st)
        st = write_base(c, json, &w.s, b, &w.base, err);
    if (!st)
        st = write_dims(c, json, &w.s, b, &w.n_rot, err);
    return st || !w.s.object ? st : write_scaling(c, &w, b, err);
}
