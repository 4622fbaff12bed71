/* The configuration of a model from "<architecture>.<key>" metadata. */
#include "base/limits.h"
#include "model/arch.h"
#include "model/config.h"
#include "model/load/hf_folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A key that every architecture spells alike, the field it fills and the values that make sense.
 * One that is absent leaves the field as it is. */
struct config_key {
    const char *name;
    size_t offset;
    uint32_t max; /* whole numbers, from 1; 0: a positive float */
    bool required;
};

#define FIELD(name) offsetof(struct model_config, name)

static const struct config_key keys[] = {
    {"block_count", FIELD(n_layers), LIMIT_MODEL_LAYERS, true},
    {"embedding_length", FIELD(d_model), LIMIT_MODEL_WIDTH, true},
    {"feed_forward_length", FIELD(d_ff), LIMIT_MODEL_WIDTH, true},
    {"context_length", FIELD(n_ctx_train), UINT32_MAX, true},
    {"attention.head_count", FIELD(n_heads), LIMIT_MODEL_HEADS, true},
    {"attention.head_count_kv", FIELD(n_kv_heads), LIMIT_MODEL_HEADS, false},
    {"attention.key_length", FIELD(head_dim), LIMIT_MODEL_HEAD_DIM, false},
    {"attention.scale", FIELD(attention_scale), 0, false},
    {"rope.dimension_count", FIELD(n_rot), LIMIT_MODEL_HEAD_DIM, false},
};

/* The one of these that the architecture's kind of norm has. */
static const struct config_key norm_keys[] = {
    [NORM_RMS] = {"attention.layer_norm_rms_epsilon", FIELD(norm_eps), 0, true},
    [NORM_LAYER] = {"attention.layer_norm_epsilon", FIELD(norm_eps), 0, true},
};

const char *config_name(char out[static CONFIG_KEY], const struct arch *arch, const char *name)
{
    snprintf(out, CONFIG_KEY, "%s.%s", arch->name, name);
    return out;
}

enum status config_whole(const struct gguf *g, const char *key, uint32_t max, uint32_t *out,
                         struct err *err)
{
    uint32_t v;
    enum status st = gguf_get_u32(g, key, &v, err);
    if (st)
        return st;
    if (v < 1 || v > max)
        return err_param(err, STATUS_INVALID, key, "%s: expected 1 to %u, found %u", key, max, v);
    *out = v;
    return STATUS_OK;
}

enum status config_positive(const struct gguf *g, const char *key, float *out, struct err *err)
{
    float v;
    enum status st = gguf_get_f32(g, key, &v, err);
    if (st)
        return st;
    if (!isfinite(v) || v <= 0)
        return err_param(err, STATUS_INVALID, key, "%s: expected a positive number, found %g", key,
                         (double)v);
    *out = v;
    return STATUS_OK;
}

static enum status read_key(struct model_config *c, const struct config_key *row,
                            const struct arch *arch, const struct gguf *g, struct err *err)
{
    char key[CONFIG_KEY];
    void *field = (char *)c + row->offset;
    config_name(key, arch, row->name);
    if (!row->required && !gguf_value(g, key))
        return STATUS_OK;
    enum status st =
        row->max ? config_whole(g, key, row->max, field, err) : config_positive(g, key, field, err);
    return st ? err_context(err, "model configuration") : STATUS_OK;
}

static enum status read_keys(struct model_config *c, const struct arch *arch, const struct gguf *g,
                             struct err *err)
{
    enum status st = STATUS_OK;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0] && !st; i++)
        st = read_key(c, &keys[i], arch, g, err);
    return st ? st : read_key(c, &norm_keys[arch->norm], arch, g, err);
}

/* What absent keys mean. */
static enum status fill_defaults(struct model_config *c, const struct arch *arch, struct err *err)
{
    if (c->n_kv_heads == 0)
        c->n_kv_heads = c->n_heads;
    if (c->head_dim == 0) {
        if (c->d_model % c->n_heads)
            return err_set(err, STATUS_INVALID,
                           "%s.embedding_length: expected a multiple of the %u heads, found %u",
                           arch->name, c->n_heads, c->d_model);
        c->head_dim = c->d_model / c->n_heads;
    }
    if (c->n_rot == 0)
        c->n_rot = c->head_dim;
    bool wide = arch->wide_scale_layers > 0 && c->n_layers == arch->wide_scale_layers;
    if (c->attention_scale == 0)
        c->attention_scale =
            (float)(1 / sqrt(wide ? (double)(c->d_model / c->n_heads) : (double)c->head_dim));
    c->embedding_scale = arch->embedding_scaled ? sqrtf((float)c->d_model) : 1;
    return STATUS_OK;
}

static enum status check_heads(const struct model_config *c, const struct arch *arch,
                               const struct gguf *g, struct err *err)
{
    if (c->n_heads % c->n_kv_heads)
        return err_set(err, STATUS_INVALID,
                       "%s.attention.head_count_kv: expected a divisor of the %u heads, found %u",
                       arch->name, c->n_heads, c->n_kv_heads);
    if (c->head_dim > LIMIT_MODEL_HEAD_DIM)
        return err_set(err, STATUS_UNSUPPORTED, "head dimension: expected up to %u, found %u",
                       LIMIT_MODEL_HEAD_DIM, c->head_dim);
    if (c->n_rot % 2 || c->n_rot > c->head_dim)
        return err_set(
            err, STATUS_INVALID,
            "%s.rope.dimension_count: expected an even number up to the head's %u, found %u",
            arch->name, c->head_dim, c->n_rot);
    char key[CONFIG_KEY];
    uint32_t value_length = c->head_dim;
    config_name(key, arch, "attention.value_length");
    if (gguf_value(g, key) && gguf_get_u32(g, key, &value_length, err))
        return err->code;
    if (value_length != c->head_dim)
        return err_param(err, STATUS_UNSUPPORTED, key, "%s: expected the key length %u, found %u",
                         key, c->head_dim, value_length);
    return STATUS_OK;
}

/* Writers put a 0 where there is no window. */
static enum status read_window(struct model_config *c, const struct arch *arch,
                               const struct gguf *g, struct err *err)
{
    char key[CONFIG_KEY];
    config_name(key, arch, "attention.sliding_window");
    if (!gguf_value(g, key))
        return STATUS_OK;
    return gguf_get_u32(g, key, &c->window, err);
}

/* Models that were not read from a GGUF file may have their rotary pairs in another order. */
static enum status read_rope_style(struct model_config *c, const struct gguf *g, struct err *err)
{
    struct gguf_string style;
    if (!gguf_value(g, HF_FOLDER_ROPE))
        return STATUS_OK;
    enum status st = gguf_get_string(g, HF_FOLDER_ROPE, &style, err);
    if (st)
        return st;
    if (!config_string_is(style, "halves"))
        return err_param(err, STATUS_INVALID, HF_FOLDER_ROPE,
                         HF_FOLDER_ROPE ": expected \"halves\", found \"%.*s\"",
                         (int)(style.len < 64 ? style.len : 64), style.bytes);
    c->rope_style = ROPE_HALVES;
    return STATUS_OK;
}

/* The same of their activation, which GGUF takes for granted. */
static enum status read_activation(struct model_config *c, const struct gguf *g, struct err *err)
{
    struct gguf_string form;
    if (!gguf_value(g, HF_FOLDER_ACTIVATION))
        return STATUS_OK;
    enum status st = gguf_get_string(g, HF_FOLDER_ACTIVATION, &form, err);
    if (st)
        return st;
    if (!config_string_is(form, HF_FOLDER_ERF))
        return err_param(err, STATUS_INVALID, HF_FOLDER_ACTIVATION,
                         HF_FOLDER_ACTIVATION ": expected \"" HF_FOLDER_ERF "\", found \"%.*s\"",
                         (int)(form.len < 64 ? form.len : 64), form.bytes);
    c->activation = ACTIVATION_GELU_ERF;
    return STATUS_OK;
}

static enum status check_refused(const struct arch *arch, const struct gguf *g, struct err *err)
{
    for (const char *const *name = arch->refused_keys; *name; name++) {
        char key[CONFIG_KEY];
        uint32_t v;
        config_name(key, arch, *name);
        if (gguf_value(g, key) && (gguf_get_u32(g, key, &v, err) || v != 0))
            return err_param(err, STATUS_UNSUPPORTED, key,
                             "%s: this model needs a feature that is not implemented", key);
    }
    return STATUS_OK;
}

enum status config_read(struct model_config *c, const struct arch *arch, const struct gguf *g,
                        struct err *err)
{
    *c = (struct model_config){
        .arch = arch->name,
        .norm = arch->norm,
        .position = arch->position,
        .rope_style = arch->rope_style,
        .activation = arch->activation,
    };
    enum status st = check_refused(arch, g, err);
    if (!st)
        st = read_keys(c, arch, g, err);
    if (!st)
        st = fill_defaults(c, arch, err);
    if (!st)
        st = check_heads(c, arch, g, err);
    if (!st)
        st = read_window(c, arch, g, err);
    if (!st)
        st = config_read_rope(c, arch, g, err);
    if (!st)
        st = read_rope_style(c, g, err);
    if (!st)
        st = read_activation(c, g, err);
    return st;
}
