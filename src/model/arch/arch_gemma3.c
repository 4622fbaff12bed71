/* Gemma 3, the text part: embeddings times sqrt(d_model), norms before and after each half and of
 * each head, five layers with a window and a rope of their own to one that sees everything, a gated
 * MLP with GELU, the embedding as output head. Gemma Team, arXiv:2503.19786. GGUF files hold the
 * norms' weights with the 1 that the model adds to them, and the rotary pairs as halves.
 */
#include "base/limits.h"
#include "model/arch/arch.h"
#include "model/arch/arch_shared.h"
#include "model/arch/hf_value.h"

#include <math.h>
#include <string.h>

static const struct arch_tensor tensors[] = {
    {"token_embd.weight", "embed_tokens.weight", MODEL(token_embd), ARCH_MODEL, ARCH_VOCAB, 0,
     NULL},
    {"output_norm.weight", "norm.weight", MODEL(output_norm), ARCH_MODEL, ARCH_NONE, HF_PLUS_ONE,
     NULL},
    {"output.weight", "lm_head.weight", MODEL(output), ARCH_MODEL, ARCH_VOCAB,
     ARCH_OPTIONAL | HF_TIED, NULL},
};

static const struct arch_tensor layer_tensors[] = {
    {"attn_norm.weight", "input_layernorm.weight", LAYER(attn_norm), ARCH_MODEL, ARCH_NONE,
     HF_PLUS_ONE, NULL},
    {"attn_q.weight", "self_attn.q_proj.weight", LAYER(wq), ARCH_MODEL, ARCH_HEADS, 0, NULL},
    {"attn_k.weight", "self_attn.k_proj.weight", LAYER(wk), ARCH_MODEL, ARCH_KV, 0, NULL},
    {"attn_v.weight", "self_attn.v_proj.weight", LAYER(wv), ARCH_MODEL, ARCH_KV, 0, NULL},
    {"attn_output.weight", "self_attn.o_proj.weight", LAYER(wo), ARCH_HEADS, ARCH_MODEL, 0, NULL},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", LAYER(q_norm), ARCH_HEAD, ARCH_NONE,
     HF_PLUS_ONE, NULL},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", LAYER(k_norm), ARCH_HEAD, ARCH_NONE,
     HF_PLUS_ONE, NULL},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", LAYER(post_attn_norm),
     ARCH_MODEL, ARCH_NONE, HF_PLUS_ONE, NULL},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight", LAYER(ffn_norm), ARCH_MODEL, ARCH_NONE,
     HF_PLUS_ONE, NULL},
    {"ffn_gate.weight", "mlp.gate_proj.weight", LAYER(w_gate), ARCH_MODEL, ARCH_FF, 0, NULL},
    {"ffn_up.weight", "mlp.up_proj.weight", LAYER(w_up), ARCH_MODEL, ARCH_FF, 0, NULL},
    {"ffn_down.weight", "mlp.down_proj.weight", LAYER(w_down), ARCH_FF, ARCH_MODEL, 0, NULL},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight", LAYER(post_ffn_norm), ARCH_MODEL,
     ARCH_NONE, HF_PLUS_ONE, NULL},
};

static const char *const refused_keys[] = {"expert_count", "attn_logit_softcapping",
                                           "final_logit_softcapping", NULL};

/* --- folders -------------------------------------------------------------------------------- */

static const struct hf_type model_types[] = {{"gemma3_text", HF_WINDOW_UNKNOWN, 0}, {0}};

static const struct hf_key keys[] = {
    {"num_hidden_layers", "block_count", LIMIT_MODEL_LAYERS, 0, true},
    {"hidden_size", "embedding_length", LIMIT_MODEL_WIDTH, 0, true},
    {"intermediate_size", "feed_forward_length", LIMIT_MODEL_WIDTH, 0, true},
    {"max_position_embeddings", "context_length", UINT32_MAX, 131072, false},
    {"num_attention_heads", "attention.head_count", LIMIT_MODEL_HEADS, 8, false},
    {"num_key_value_heads", "attention.head_count_kv", LIMIT_MODEL_HEADS, 4, false},
    {"head_dim", "attention.key_length", LIMIT_MODEL_HEAD_DIM, 256, false},
    {"head_dim", "attention.value_length", LIMIT_MODEL_HEAD_DIM, 256, false},
    {"rms_norm_eps", "attention.layer_norm_rms_epsilon", 0, 1e-6, false},
    {"vocab_size", "vocab_size", LIMIT_MODEL_VOCAB, 0, true},
    {0},
};

static const struct hf_word words[] = {
    {"hidden_activation", "gelu_pytorch_tanh"}, {"attention_bias", "false"},
    {"use_bidirectional_attention", "false"},   {"attn_logit_softcapping", "null"},
    {"final_logit_softcapping", "null"},        {0}};

static const char *const ignored[] = {ARCH_SHARED_IGNORED, NULL};

/* What transformers' Gemma3TextConfig takes where the file is silent. */
#define DEFAULT_HEAD_DIM 256
#define DEFAULT_SCALAR   256
#define DEFAULT_WINDOW   4096
#define DEFAULT_PERIOD   6 /* and of GGUF files */
#define DEFAULT_BASE     10000

static enum status arch_gemma3_bad(struct err *err, const char *key, const char *expected,
                                   const json_t *found)
{
    char text[HF_VALUE_TEXT];
    return err_param(err, STATUS_INVALID, key, "%s: expected %s, found %s", key, expected,
                     hf_value_text(found, text));
}

/* A whole number from 1 on. */
static enum status arch_gemma3_read_whole(const json_t *json, const char *key, uint32_t fallback,
                                          uint32_t *out, struct err *err)
{
    const json_t *value = json_object_get(json, key);
    json_int_t n = json_integer_value(value);
    *out = fallback;
    if (hf_value_is_absent(value))
        return STATUS_OK;
    if (!json_is_integer(value) || n < 1 || n > UINT32_MAX)
        return arch_gemma3_bad(err, key, "a whole number from 1 to 4294967295", value);
    *out = (uint32_t)n;
    return STATUS_OK;
}

/* --- which layers have the window ----------------------------------------------------------- */

struct layers {
    uint32_t n;
    uint32_t windows[LIMIT_MODEL_LAYERS]; /* 1 where a layer has it */
};

static enum status arch_gemma3_read_types(const json_t *types, struct layers *l, struct err *err)
{
    if (!json_is_array(types) || json_array_size(types) != l->n)
        return arch_gemma3_bad(err, "layer_types",
                               "an array with a word for each of num_hidden_layers", types);
    for (uint32_t i = 0; i < l->n; i++) {
        const json_t *type = json_array_get(types, i);
        const char *word = json_string_value(type);
        l->windows[i] = word && strcmp(word, "sliding_attention") == 0;
        if (!word || (!l->windows[i] && strcmp(word, "full_attention") != 0))
            return arch_gemma3_bad(err, "layer_types", "full_attention or sliding_attention", type);
    }
    return STATUS_OK;
}

static enum status read_layers(const json_t *json, struct layers *l, struct err *err)
{
    const json_t *types = json_object_get(json, "layer_types");
    uint32_t period;
    l->n = (uint32_t)json_integer_value(json_object_get(json, "num_hidden_layers"));
    if (!hf_value_is_absent(types))
        return arch_gemma3_read_types(types, l, err);
    enum status st =
        arch_gemma3_read_whole(json, "_sliding_window_pattern", DEFAULT_PERIOD, &period, err);
    if (!st)
        st = arch_gemma3_read_whole(json, "sliding_window_pattern", period, &period, err);
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
        st = arch_gemma3_read_whole(json, "sliding_window", DEFAULT_WINDOW, &window, err);
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
    double scalar = hf_value_is_absent(value) ? DEFAULT_SCALAR : json_number_value(value);
    enum status st = arch_gemma3_read_whole(json, "head_dim", DEFAULT_HEAD_DIM, &head_dim, err);
    if (!st && !(scalar > 0 && isfinite((float)scalar)))
        st = arch_gemma3_bad(err, "query_pre_attn_scalar", "a positive number", value);
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
    if (!hf_value_is_absent(type) && !(word && strcmp(word, "default") == 0))
        return arch_gemma3_bad(err, key, "a rope_type default", type);
    if (!base) {
        key = "rope_local_base_freq";
        base = json_object_get(json, key);
    }
    double x = hf_value_is_absent(base) ? DEFAULT_BASE : json_number_value(base);
    if (!(x > 0 && isfinite((float)x)))
        return arch_gemma3_bad(err, key, "a positive base", base);
    gguf_build_f32(b, "gemma3.rope.freq_base_swa", (float)x);
    return STATUS_OK;
}

static enum status arch_gemma3_read_more(const json_t *json, struct gguf_build *b,
                                         struct model_extra *extra, struct err *err)
{
    (void)extra;
    enum status st = write_layers(json, b, err);
    if (!st)
        st = write_scale(json, b, err);
    return st ? st : write_local_base(json, b, err);
}

const struct arch arch_gemma3 = {
    .name = "gemma3",
    .rope_style = ROPE_HALVES,
    .activation = ACTIVATION_GELU_TANH,
    .embedding_scaled = true,
    .global_period = 6,
    .local_rope_base = 10000,
    .wide_scale_layers = 62, /* 27B */
    .tensors = tensors,
    .n_tensors = sizeof tensors / sizeof tensors[0],
    .layer_tensors = layer_tensors,
    .n_layer_tensors = sizeof layer_tensors / sizeof layer_tensors[0],
    .refused_keys = refused_keys,
    .hf =
        {
            .types = model_types,
            .prefix = "model.",
            .layers = "layers",
            .keys = keys,
            .words = words,
            .ignored = ignored,
            .tied = true,
            .rope_base = 1e6,
            .more = arch_gemma3_read_more,
        },
};
