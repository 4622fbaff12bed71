/* How positions turn a head's pairs, from "<architecture>.rope.*" metadata. */
#include "model/load/config.h"

#include <math.h>
#include <string.h>

static bool config_rope_is_word(struct gguf_string s, const char *word)
{
    return s.len == strlen(word) && memcmp(s.bytes, word, s.len) == 0;
}

/* As published with YaRN (arXiv:2309.00071, section 3.2). */
#define YARN_BETA_FAST 32
#define YARN_BETA_SLOW 1

/* A positive number that may be absent. */
static enum status read_optional(float *out, const struct arch *arch, const struct gguf *g,
                                 const char *name, struct err *err)
{
    char key[CONFIG_KEY];
    config_name(key, arch, name);
    return gguf_value(g, key) ? config_positive(g, key, out, err) : STATUS_OK;
}

static enum status read_original(struct model_rope *r, const struct arch *arch,
                                 const struct gguf *g, struct err *err)
{
    char key[CONFIG_KEY];
    config_name(key, arch, "rope.scaling.original_context_length");
    return gguf_value(g, key) ? config_whole(g, key, UINT32_MAX, &r->n_ctx_original, err)
                              : STATUS_OK;
}

/* Cosines and sines grow with the context: by 1 + 0.1 ln(factor) unless the file has another number
 * for yarn, and by rope.scaling.attn_factor. */
static enum status read_yarn(struct model_rope *r, const struct arch *arch, const struct gguf *g,
                             struct err *err)
{
    char key[CONFIG_KEY];
    float off = 1, attention;
    r->scaling = ROPE_SCALING_YARN;
    r->beta_fast = YARN_BETA_FAST;
    r->beta_slow = YARN_BETA_SLOW;
    enum status st =
        config_positive(g, config_name(key, arch, "rope.scaling.factor"), &r->factor, err);
    if (!st)
        st = read_optional(&r->beta_fast, arch, g, "rope.scaling.yarn_beta_fast", err);
    if (!st)
        st = read_optional(&r->beta_slow, arch, g, "rope.scaling.yarn_beta_slow", err);
    attention = r->factor > 1 ? 1 + 0.1f * logf(r->factor) : 1;
    if (!st)
        st = read_optional(&attention, arch, g, "rope.scaling.yarn_attn_factor", err);
    if (!st)
        st = read_optional(&off, arch, g, "rope.scaling.yarn_ext_factor", err);
    if (st)
        return st;
    if (off != 1)
        return err_param(err, STATUS_UNSUPPORTED, "rope.scaling.yarn_ext_factor",
                         "%s.rope.scaling.yarn_ext_factor: expected 1, found %g", arch->name,
                         (double)off);
    if (r->n_ctx_original == 0)
        return err_param(err, STATUS_INVALID, "rope.scaling.original_context_length",
                         "%s.rope.scaling.original_context_length: expected a whole number beside "
                         "scaling type yarn, found nothing",
                         arch->name);
    r->attn_factor *= attention;
    return STATUS_OK;
}

static enum status read_linear(struct model_rope *r, const struct gguf *g, const char *key,
                               struct err *err)
{
    r->scaling = ROPE_SCALING_LINEAR;
    return config_positive(g, key, &r->factor, err);
}

/* "rope.scaling.type" and its factor, or the older "rope.scale_linear". Of longrope the type is
 * often left out: its factors' tensors tell. */
static enum status read_scaling(struct model_rope *r, const struct arch *arch, const struct gguf *g,
                                struct err *err)
{
    char key[CONFIG_KEY], factor[CONFIG_KEY];
    struct gguf_string type = {"none", 4};
    config_name(key, arch, "rope.scaling.type");
    if (gguf_value(g, key) && gguf_get_string(g, key, &type, err))
        return err->code;
    if (config_rope_is_word(type, "linear"))
        return read_linear(r, g, config_name(factor, arch, "rope.scaling.factor"), err);
    if (config_rope_is_word(type, "yarn"))
        return read_yarn(r, arch, g, err);
    if (config_rope_is_word(type, "longrope")) {
        r->scaling = ROPE_SCALING_LONG;
        return STATUS_OK;
    }
    if (!config_rope_is_word(type, "none"))
        return err_param(err, STATUS_UNSUPPORTED, key,
                         "%s: expected none, linear, yarn or longrope, found \"%.*s\", which is "
                         "not implemented",
                         key, (int)(type.len < 64 ? type.len : 64), type.bytes);
    config_name(factor, arch, "rope.scale_linear");
    return gguf_value(g, factor) ? read_linear(r, g, factor, err) : STATUS_OK;
}

enum status config_read_rope(struct model_config *c, const struct arch *arch, const struct gguf *g,
                             struct err *err)
{
    struct model_rope *r = &c->rope[ROPE_MAIN], *local = &c->rope[ROPE_LOCAL];
    *r = (struct model_rope){.base = 10000, .factor = 1, .attn_factor = 1};
    *local = *r;
    c->n_ropes = arch->local_rope_base > 0 ? 2 : 1;
    local->base = arch->local_rope_base;
    enum status st = read_optional(&r->base, arch, g, "rope.freq_base", err);
    if (!st && c->n_ropes > ROPE_LOCAL)
        st = read_optional(&local->base, arch, g, "rope.freq_base_swa", err);
    if (!st)
        st = read_optional(&r->attn_factor, arch, g, "rope.scaling.attn_factor", err);
    if (!st)
        st = read_original(r, arch, g, err);
    if (!st)
        st = read_scaling(r, arch, g, err);
    return st;
}
