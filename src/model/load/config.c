/* The configuration of a model from "<architecture>.<key>" metadata. */
#include "model/load/config.h"
#include "base/limits.h"

#include <math.h>

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
    return st ? st : config_read_rope(c, arch, g, err);
}
