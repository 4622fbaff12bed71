/* What Gemma 3's config.json says in its own way: which layers have the window, the scale of
 * queries, the rope of layers with a window. */
#include "model/load/hf_config.h"

#include "base/limits.h"

#include <math.h>
#include <string.h>

/* What transformers' Gemma3TextConfig takes where the file is silent. */
#define DEFAULT_HEAD_DIM 256
#define DEFAULT_SCALAR   256
#define DEFAULT_WINDOW   4096
#define DEFAULT_PERIOD   6 /* and of GGUF files */
#define DEFAULT_BASE     10000

static enum status bad(struct err *err, const char *key, const char *expected, const json_t *found)
{
    char text[HF_VALUE_TEXT];
    return err_param(err, STATUS_INVALID, key, "%s: expected %s, found %s", key, expected,
                     hf_config_text(found, text));
}

static bool is_absent(const json_t *value)
{
    return !value || json_is_null(value);
}

/* A whole number from 1 on. */
static enum status read_whole(const json_t *json, const char *key, uint32_t fallback, uint32_t *out,
                              struct err *err)
{
    const json_t *value = json_object_get(json, key);
    json_int_t n = json_integer_value(value);
    *out = fallback;
    if (is_absent(value))
        return STATUS_OK;
    if (!json_is_integer(value) || n < 1 || n > UINT32_MAX)
        return bad(err, key, "a whole number from 1 to 4294967295", value);
    *out = (uint32_t)n;
    return STATUS_OK;
}

/* --- which layers have the window ----------------------------------------------------------- */

struct layers {
    uint32_t n;
    uint32_t windows[LIMIT_MODEL_LAYERS]; /* 1 where a layer has it */
};

static enum status read_types(const json_t *types, struct layers *l, struct err *err)
{
    if (!json_is_array(types) || json_array_size(types) != l->n)
        return bad(err, "layer_types", "an array with a word for each of num_hidden_layers", types);
    for (uint32_t i = 0; i < l->n; i++) {
        const json_t *type = json_array_get(types, i);
        const char *word = json_string_value(type);
        l->windows[i] = word && strcmp(word, "sliding_attention") == 0;
        if (!word || (!l->windows[i] && strcmp(word, "full_attention") != 0))
            return bad(err, "layer_types", "full_attention or sliding_attention", type);
    }
    return STATUS_OK;
}

static enum status read_layers(const json_t *json, struct layers *l, struct err *err)
{
    const json_t *types = json_object_get(json, "layer_types");
    uint32_t period;
    l->n = (uint32_t)json_integer_value(json_object_get(json, "num_hidden_layers"));
    if (!is_absent(types))
        return read_types(types, l, err);
    enum status st = read_whole(json, "_sliding_window_pattern", DEFAULT_PERIOD, &period, err);
    if (!st)
        st = read_whole(json, "sliding_window_pattern", period, &period, err);
    for (uint32_t i = 0; i < l->n; i++)
        l->windows[i] = !st && (i + 1) % period != 0;
    return st;
}

/* GGUF takes every sixth layer for one that sees everything unless a key lists them; without a
 * window all do. */
static enum status write_layers(const json_t *json, struct gguf_build *b, struct err *err)
{
    static const char key[] = "gemma3.attention.sliding_window_pattern";
    struct layers l = {0};
    uint32_t window;
    bool usual = true, any = false;
    enum status st = read_layers(json, &l, err);
    if (!st)
        st = read_whole(json, "sliding_window", DEFAULT_WINDOW, &window, err);
    if (st)
        return st;
    for (uint32_t i = 0; i < l.n; i++) {
        usual = usual && l.windows[i] == ((i + 1) % DEFAULT_PERIOD != 0);
        any = any || l.windows[i];
    }
    if (any)
        gguf_build_u32(b, "gemma3.attention.sliding_window", window);
    if (usual || !any)
        return STATUS_OK;
    gguf_build_array(b, key, GGUF_U32, l.n);
    for (uint32_t i = 0; i < l.n; i++)
        gguf_build_element_u32(b, l.windows[i]);
    return STATUS_OK;
}

/* --- scale and rope ------------------------------------------------------------------------- */

/* Queries times query_pre_attn_scalar^-0.5, as a rule that of a head's size, which is no news. */
static enum status write_scale(const json_t *json, struct gguf_build *b, struct err *err)
{
    uint32_t head_dim;
    const json_t *value = json_object_get(json, "query_pre_attn_scalar");
    double scalar = is_absent(value) ? DEFAULT_SCALAR : json_number_value(value);
    enum status st = read_whole(json, "head_dim", DEFAULT_HEAD_DIM, &head_dim, err);
    if (!st && !(scalar > 0 && isfinite((float)scalar)))
        st = bad(err, "query_pre_attn_scalar", "a positive number", value);
    if (!st && scalar != head_dim)
        gguf_build_f32(b, "gemma3.attention.scale", (float)(1 / sqrt(scalar)));
    return st;
}

/* The base of layers with a window: in rope_parameters, or in older files by itself. Their rope is
 * never scaled. */
static enum status write_local_base(const json_t *json, struct gguf_build *b, struct err *err)
{
    const json_t *local =
        json_object_get(json_object_get(json, "rope_parameters"), "sliding_attention");
    const json_t *type = json_object_get(local, "rope_type");
    const json_t *base = json_object_get(local, "rope_theta");
    const char *word = json_string_value(type), *key = "rope_parameters.sliding_attention";
    if (!is_absent(type) && !(word && strcmp(word, "default") == 0))
        return bad(err, key, "a rope_type default", type);
    if (!base) {
        key = "rope_local_base_freq";
        base = json_object_get(json, key);
    }
    double x = is_absent(base) ? DEFAULT_BASE : json_number_value(base);
    if (!(x > 0 && isfinite((float)x)))
        return bad(err, key, "a positive base", base);
    gguf_build_f32(b, "gemma3.rope.freq_base_swa", (float)x);
    return STATUS_OK;
}

enum status hf_gemma3_more(const json_t *json, struct gguf_build *b, struct err *err)
{
    enum status st = write_layers(json, b, err);
    if (!st)
        st = write_scale(json, b, err);
    return st ? st : write_local_base(json, b, err);
}
