/* Phi-3 and Phi-4: llama with queries, keys and values in one tensor and gate and up in one, and of
 * each head only the first dims turning in some (Abdin et al., arXiv:2404.14219). */
#include "model/arch/arch.h"
#include "model/arch/arch_shared.h"

static const struct arch_tensor tensors[] = {
    {"token_embd.weight", "embed_tokens.weight", MODEL(token_embd), ARCH_MODEL, ARCH_VOCAB, 0,
     NULL},
    {"output_norm.weight", "norm.weight", MODEL(output_norm), ARCH_MODEL, ARCH_NONE, 0, NULL},
    {"output.weight", "lm_head.weight", MODEL(output), ARCH_MODEL, ARCH_VOCAB,
     ARCH_OPTIONAL | HF_TIED, NULL},
    {"rope_factors_long.weight", NULL, MODEL(rope_factors_long), ARCH_PAIRS, ARCH_NONE,
     ARCH_OPTIONAL, NULL},
    {"rope_factors_short.weight", NULL, MODEL(rope_factors_short), ARCH_PAIRS, ARCH_NONE,
     ARCH_OPTIONAL, NULL},
};

static const struct arch_part qkv[] = {
    {LAYER(wq), ARCH_HEADS}, {LAYER(wk), ARCH_KV}, {LAYER(wv), ARCH_KV}, {0, ARCH_NONE}};
static const struct arch_part gate_up[] = {
    {LAYER(w_gate), ARCH_FF}, {LAYER(w_up), ARCH_FF}, {0, ARCH_NONE}};

static const struct arch_tensor layer_tensors[] = {
    {"attn_norm.weight", "input_layernorm.weight", LAYER(attn_norm), ARCH_MODEL, ARCH_NONE, 0,
     NULL},
    {"attn_qkv.weight", "self_attn.qkv_proj.weight", 0, ARCH_MODEL, ARCH_QKV, 0, qkv},
    {"attn_output.weight", "self_attn.o_proj.weight", LAYER(wo), ARCH_HEADS, ARCH_MODEL, 0, NULL},
    {"ffn_norm.weight", "post_attention_layernorm.weight", LAYER(ffn_norm), ARCH_MODEL, ARCH_NONE,
     0, NULL},
    {"ffn_up.weight", "mlp.gate_up_proj.weight", 0, ARCH_MODEL, ARCH_GATE_UP, 0, gate_up},
    {"ffn_down.weight", "mlp.down_proj.weight", LAYER(w_down), ARCH_FF, ARCH_MODEL, 0, NULL},
};

static const char *const refused_keys[] = {"expert_count", NULL};

/* --- folders -------------------------------------------------------------------------------- */

static const struct hf_type model_types[] = {{"phi3", HF_WINDOW_USED, 0}, {0}};

static const struct hf_key keys[] = {ARCH_SHARED_KEYS(1e-5), {0}};

static const struct hf_word words[] = {{"hidden_act", "silu"}, {0}};

static const char *const ignored[] = {ARCH_SHARED_IGNORED, NULL};

const struct arch arch_phi3 = {
    .name = "phi3",
    .rope_style = ROPE_HALVES,
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
        },
};
