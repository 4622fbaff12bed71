#include "model/load/hf_config.h"

#include "base/limits.h"
#include "base/mem.h"
#include "model/arch/hf_value.h"
#include "model/load/hf_rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define KEY_MAX 96

/* --- which architecture --------------------------------------------------------------------- */

static enum status unknown_type(const json_t *found, struct err *err)
{
    char known[256] = "", text[HF_VALUE_TEXT];
    const struct arch *arch;
    size_t n = 0;
    for (size_t i = 0; (arch = arch_at(i)); i++)
        for (const struct hf_type *t = arch->hf.types; t->name && n < sizeof known; t++)
            n += (size_t)snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", t->name);
    return err_param(err, found ? STATUS_UNSUPPORTED : STATUS_INVALID, "model_type",
                     "model_type: expected one of %s, found %s", known, hf_value_text(found, text));
}

/* A config whose weights other tools have quantised looks like any other. */
static enum status check_quantised(const json_t *json, struct err *err)
{
    char text[HF_VALUE_TEXT];
    const json_t *q = json_object_get(json, "quantization_config");
    if (hf_value_is_absent(q))
        return STATUS_OK;
    return err_param(err, STATUS_UNSUPPORTED, "quantization_config",
                     "quantization_config: expected F32, F16 or BF16 weights, found %s",
                     hf_value_text(q, text));
}

static const char *hf_config_word_of(const json_t *value)
{
    if (json_is_boolean(value))
        return json_is_true(value) ? "true" : "false";
    return json_string_value(value);
}

static enum status check_words(const struct hf_config *c, const json_t *json, struct err *err)
{
    char text[HF_VALUE_TEXT];
    for (const struct hf_word *w = c->arch->hf.words; w->name; w++) {
        const json_t *found = json_object_get(json, w->name);
        const char *word = hf_config_word_of(found);
        if (hf_value_is_absent(found) || (word && strcmp(word, w->value) == 0))
            continue;
        return err_param(err, STATUS_UNSUPPORTED, w->name,
                         "%s: expected %s, found %s, which is not implemented", w->name, w->value,
                         hf_value_text(found, text));
    }
    return STATUS_OK;
}

/* --- numbers -------------------------------------------------------------------------------- */

static enum status hf_config_read_number(const struct hf_key *key, const json_t *json, double *out,
                                         struct err *err)
{
    char text[HF_VALUE_TEXT];
    const json_t *value = json_object_get(json, key->name);
    double x = json_number_value(value);
    *out = key->fallback;
    if (hf_value_is_absent(value) && !key->required)
        return STATUS_OK;
    if (key->max == 0 && (!json_is_number(value) || !(x > 0) || !isfinite((float)x)))
        return err_param(err, STATUS_INVALID, key->name, "%s: expected a positive number, found %s",
                         key->name, hf_value_text(value, text));
    if (key->max != 0 && (!json_is_integer(value) || x < 1 || x > key->max))
        return err_param(err, STATUS_INVALID, key->name,
                         "%s: expected a whole number from 1 to %.0f, found %s", key->name,
                         key->max, hf_value_text(value, text));
    *out = x;
    return STATUS_OK;
}

static enum status write_numbers(const struct hf_config *c, const json_t *json,
                                 struct gguf_build *b, struct err *err)
{
    for (const struct hf_key *key = c->arch->hf.keys; key->name; key++) {
        char name[KEY_MAX];
        double x;
        enum status st = hf_config_read_number(key, json, &x, err);
        if (st)
            return st;
        snprintf(name, sizeof name, "%s.%s", c->arch->name, key->gguf);
        if (x != 0 && key->max == 0)
            gguf_build_f32(b, name, (float)x);
        else if (x != 0)
            gguf_build_u32(b, name, (uint32_t)x);
    }
    return STATUS_OK;
}

static const struct hf_key *key_of(const struct hf_config *c, const char *gguf)
{
    for (const struct hf_key *key = c->arch->hf.keys; key->name; key++)
        if (strcmp(key->gguf, gguf) == 0)
            return key;
    return NULL;
}

/* config.json's name for a GGUF key, as far as the architecture has one. */
static const char *hf_config_name_of(const struct hf_config *c, const char *gguf)
{
    const struct hf_key *key = key_of(c, gguf);
    return key ? key->name : gguf;
}

/* A number that write_numbers has checked; 0 when it is absent and means nothing then. */
static uint32_t number_of(const struct hf_config *c, const json_t *json, const char *gguf)
{
    const struct hf_key *key = key_of(c, gguf);
    const json_t *value = key ? json_object_get(json, key->name) : NULL;
    if (hf_value_is_absent(value))
        return key ? (uint32_t)key->fallback : 0;
    return (uint32_t)json_integer_value(value);
}

static enum status read_heads(struct hf_config *c, const json_t *json, struct err *err)
{
    uint32_t width = number_of(c, json, "embedding_length");
    uint32_t heads = number_of(c, json, "attention.head_count");
    uint32_t kv_heads = number_of(c, json, "attention.head_count_kv");
    if (kv_heads && heads % kv_heads) {
        const char *name = hf_config_name_of(c, "attention.head_count_kv");
        return err_param(err, STATUS_INVALID, name,
                         "%s: expected a divisor of the %u heads, found %u", name, heads, kv_heads);
    }
    c->head_dim = number_of(c, json, "attention.key_length");
    if (c->head_dim)
        return STATUS_OK;
    if (width % heads) {
        const char *name = hf_config_name_of(c, "embedding_length");
        return err_param(err, STATUS_INVALID, name,
                         "%s: expected a multiple of the %u heads, found %u", name, heads, width);
    }
    c->head_dim = width / heads;
    return STATUS_OK;
}

static const char sliding[] = "sliding_attention";

/* How many layers have the window, if it is used: layer_types lists them, or max_window_layers is
 * the first one. */
static uint32_t count_windows(const struct hf_config *c, const json_t *json)
{
    uint32_t n_layers = number_of(c, json, "block_count"), n = 0;
    const json_t *types = json_object_get(json, "layer_types");
    const json_t *first = json_object_get(json, "max_window_layers");
    if (json_is_array(types)) {
        for (size_t i = 0; i < json_array_size(types); i++) {
            const char *type = json_string_value(json_array_get(types, i));
            n += type && strcmp(type, sliding) == 0;
        }
        return n;
    }
    json_int_t at = json_is_integer(first) ? json_integer_value(first) : 0;
    return at <= 0 ? n_layers : at < n_layers ? n_layers - (uint32_t)at : 0;
}

/* A window that config.json has, and that some models use only when it says so, then for all layers
 * or none here. */
static enum status has_window(const struct hf_config *c, const json_t *json, bool *has,
                              struct err *err)
{
    char text[HF_VALUE_TEXT];
    const json_t *use = json_object_get(json, "use_sliding_window");
    bool asked = c->type->window == HF_WINDOW_ASKED;
    *has = asked ? json_is_true(use) : c->type->window == HF_WINDOW_USED;
    if (!hf_value_is_absent(use) && !json_is_boolean(use))
        return err_param(err, STATUS_INVALID, "use_sliding_window",
                         "use_sliding_window: expected true or false, found %s",
                         hf_value_text(use, text));
    if (!*has || !asked)
        return STATUS_OK;
    uint32_t n = count_windows(c, json), n_layers = number_of(c, json, "block_count");
    if (n > 0 && n < n_layers)
        return err_param(err, STATUS_UNSUPPORTED, "max_window_layers",
                         "max_window_layers, layer_types: expected all of the %u layers with the "
                         "window or none, found %u, which is not implemented",
                         n_layers, n);
    *has = n > 0;
    return STATUS_OK;
}

/* A window at least as long as the context changes nothing. */
static enum status write_window(const struct hf_config *c, const json_t *json, struct gguf_build *b,
                                struct err *err)
{
    struct hf_key key = {"sliding_window", NULL, UINT32_MAX, 0, false};
    char name[KEY_MAX];
    double window = 0;
    bool has;
    enum status st = has_window(c, json, &has, err);
    if (!json_object_get(json, key.name))
        key.fallback = c->type->window_default;
    if (!st && has)
        st = hf_config_read_number(&key, json, &window, err);
    snprintf(name, sizeof name, "%s.attention.sliding_window", c->arch->name);
    if (!st && window != 0 && window < number_of(c, json, "context_length"))
        gguf_build_u32(b, name, (uint32_t)window);
    return st;
}

static enum status read_tying(struct hf_config *c, const json_t *json, struct err *err)
{
    char text[HF_VALUE_TEXT];
    const json_t *tied = json_object_get(json, "tie_word_embeddings");
    c->tying = json_is_true(tied) ? HF_TYING_YES : tied ? HF_TYING_NO : HF_TYING_UNSAID;
    if (!tied && c->arch->hf.tied)
        c->tying = HF_TYING_YES;
    if (!tied || json_is_boolean(tied))
        return STATUS_OK;
    return err_param(err, STATUS_INVALID, "tie_word_embeddings",
                     "tie_word_embeddings: expected true or false, found %s",
                     hf_value_text(tied, text));
}

enum status hf_config_read(struct hf_config *c, const json_t *json, struct gguf_build *b,
                           struct err *err)
{
    const json_t *type = json_object_get(json, "model_type");
    *c = (struct hf_config){0};
    if (json_is_string(type))
        c->arch = arch_find_type(json_string_value(type), &c->type);
    if (!c->arch)
        return unknown_type(type, err);
    gguf_build_string(b, "general.architecture", c->arch->name);
    enum status st = check_quantised(json, err);
    if (!st)
        st = check_words(c, json, err);
    if (!st)
        st = write_numbers(c, json, b, err);
    if (!st)
        st = read_heads(c, json, err);
    if (!st)
        st = write_window(c, json, b, err);
    if (!st)
        st = read_tying(c, json, err);
    c->n_layers = number_of(c, json, "block_count");
    c->n_vocab = number_of(c, json, "vocab_size");
    if (!st && c->arch->hf.more)
        st = c->arch->hf.more(json, b, &c->extra, err);
    return st || c->arch->position == POSITION_LEARNED ? st : hf_rope_read(c, json, b, err);
}

void hf_config_fini(struct hf_config *c)
{
    for (uint32_t i = 0; i < c->n_vectors; i++)
        mem_free(c->vectors[i].values);
    c->n_vectors = 0;
}
