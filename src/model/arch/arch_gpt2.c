/* GPT-2: learned positions, LayerNorm before each half, queries, keys and values as one matrix, a
 * plain MLP with GELU, biases everywhere, the embedding as output head.
 * Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
 */
#include "base/limits.h"
#include "model/arch/arch.h"
#include "model/arch/hf_value.h"

#include <string.h>

static const struct arch_tensor tensors[] = {
    {"token_embd.weight", "wte.weight", MODEL(token_embd), ARCH_MODEL, ARCH_VOCAB, 0, NULL},
    {"position_embd.weight", "wpe.weight", MODEL(position_embd), ARCH_MODEL, ARCH_CONTEXT, 0, NULL},
    {"output_norm.weight", "ln_f.weight", MODEL(output_norm), ARCH_MODEL, ARCH_NONE, 0, NULL},
    {"output_norm.bias", "ln_f.bias", MODEL(output_norm_bias), ARCH_MODEL, ARCH_NONE, 0, NULL},
    {"output.weight", "lm_head.weight", MODEL(output), ARCH_MODEL, ARCH_VOCAB,
     ARCH_OPTIONAL | HF_TIED, NULL},
};

static const struct arch_part qkv[] = {
    {LAYER(wq), ARCH_HEADS}, {LAYER(wk), ARCH_KV}, {LAYER(wv), ARCH_KV}, {0, ARCH_NONE}};
static const struct arch_part qkv_bias[] = {
    {LAYER(bq), ARCH_HEADS}, {LAYER(bk), ARCH_KV}, {LAYER(bv), ARCH_KV}, {0, ARCH_NONE}};

static const struct arch_tensor layer_tensors[] = {
    {"attn_norm.weight", "ln_1.weight", LAYER(attn_norm), ARCH_MODEL, ARCH_NONE, 0, NULL},
    {"attn_norm.bias", "ln_1.bias", LAYER(attn_norm_bias), ARCH_MODEL, ARCH_NONE, 0, NULL},
    {"attn_qkv.weight", "attn.c_attn.weight", 0, ARCH_MODEL, ARCH_QKV, HF_TRANSPOSED, qkv},
    {"attn_qkv.bias", "attn.c_attn.bias", 0, ARCH_QKV, ARCH_NONE, 0, qkv_bias},
    {"attn_output.weight", "attn.c_proj.weight", LAYER(wo), ARCH_HEADS, ARCH_MODEL, HF_TRANSPOSED,
     NULL},
    {"attn_output.bias", "attn.c_proj.bias", LAYER(bo), ARCH_MODEL, ARCH_NONE, 0, NULL},
    {"ffn_norm.weight", "ln_2.weight", LAYER(ffn_norm), ARCH_MODEL, ARCH_NONE, 0, NULL},
    {"ffn_norm.bias", "ln_2.bias", LAYER(ffn_norm_bias), ARCH_MODEL, ARCH_NONE, 0, NULL},
    {"ffn_up.weight", "mlp.c_fc.weight", LAYER(w_up), ARCH_MODEL, ARCH_FF, HF_TRANSPOSED, NULL},
    {"ffn_up.bias", "mlp.c_fc.bias", LAYER(b_up), ARCH_FF, ARCH_NONE, 0, NULL},
    {"ffn_down.weight", "mlp.c_proj.weight", LAYER(w_down), ARCH_FF, ARCH_MODEL, HF_TRANSPOSED,
     NULL},
    {"ffn_down.bias", "mlp.c_proj.bias", LAYER(b_down), ARCH_MODEL, ARCH_NONE, 0, NULL},
};

static const char *const refused_keys[] = {"expert_count", "attention.sliding_window", NULL};

/* --- folders -------------------------------------------------------------------------------- */

static const struct hf_type model_types[] = {{"gpt2", HF_WINDOW_UNKNOWN, 0}, {0}};

static const struct hf_key keys[] = {
    {"n_layer", "block_count", LIMIT_MODEL_LAYERS, 0, true},
    {"n_embd", "embedding_length", LIMIT_MODEL_WIDTH, 0, true},
    {"n_inner", "feed_forward_length", LIMIT_MODEL_WIDTH, 0, false},
    {"n_positions", "context_length", UINT32_MAX, 0, true},
    {"n_head", "attention.head_count", LIMIT_MODEL_HEADS, 0, true},
    {"layer_norm_epsilon", "attention.layer_norm_epsilon", 0, 1e-5, false},
    {"vocab_size", "vocab_size", LIMIT_MODEL_VOCAB, 0, true},
    {0},
};

static const struct hf_word words[] = {{"scale_attn_weights", "true"},
                                       {"scale_attn_by_inverse_layer_idx", "false"},
                                       {"add_cross_attention", "false"},
                                       {0}};

/* Which positions see which: published files have that too. */
static const char *const ignored[] = {".attn.bias", ".attn.masked_bias", NULL};

/* The forms of GELU by transformers' names; GGUF's gpt2 means the first of them. */
static const struct {
    const char *name;
    bool erf;
} activations[] = {
    {"gelu_new", false},
    {"gelu_pytorch_tanh", false},
    {"gelu_fast", false},
    {"gelu", true},
};

static enum status read_activation(const json_t *json, struct model_extra *extra, struct err *err)
{
    char text[HF_VALUE_TEXT];
    const json_t *found = json_object_get(json, "activation_function");
    const char *name = found ? json_string_value(found) : activations[0].name;
    for (size_t i = 0; name && i < sizeof activations / sizeof activations[0]; i++) {
        if (strcmp(name, activations[i].name) != 0)
            continue;
        extra->gelu_erf = activations[i].erf;
        return STATUS_OK;
    }
    return err_param(err, STATUS_UNSUPPORTED, "activation_function",
                     "activation_function: expected gelu_new, gelu_pytorch_tanh, gelu_fast or "
                     "gelu, found %s, which is not implemented",
                     hf_value_text(found, text));
}

/* n_inner is null as a rule. */
static enum status arch_gpt2_read_more(const json_t *json, struct gguf_build *b,
                                       struct model_extra *extra, struct err *err)
{
    json_int_t width = json_integer_value(json_object_get(json, "n_embd"));
    if (width > LIMIT_MODEL_WIDTH / 4)
        return err_param(err, STATUS_INVALID, "n_embd",
                         "n_embd: expected up to %u beside an n_inner of four times as much, "
                         "found %lld",
                         LIMIT_MODEL_WIDTH / 4, (long long)width);
    if (!json_is_integer(json_object_get(json, "n_inner")))
        gguf_build_u32(b, "gpt2.feed_forward_length", 4 * (uint32_t)width);
    return read_activation(json, extra, err);
}

const struct arch arch_gpt2 = {
    .name = "gpt2",
    .norm = NORM_LAYER,
    .position = POSITION_LEARNED,
    .activation = ACTIVATION_GELU_TANH,
    .tensors = tensors,
    .n_tensors = sizeof tensors / sizeof tensors[0],
    .layer_tensors = layer_tensors,
    .n_layer_tensors = sizeof layer_tensors / sizeof layer_tensors[0],
    .refused_keys = refused_keys,
    .hf =
        {
            .types = model_types,
            .prefix = "transformer.",
            .layers = "h",
            .keys = keys,
            .words = words,
            .ignored = ignored,
            .tied = true,
            .more = arch_gpt2_read_more,
        },
};
