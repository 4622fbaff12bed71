/* Qwen2 and Qwen2.5: llama with biases on queries, keys and values (Yang et al., arXiv:2407.10671).
 */
#include "model/arch/arch.h"
#include "model/arch/arch_shared.h"

static const struct arch_tensor tensors[] = {
    {"token_embd.weight", "embed_tokens.weight", MODEL(token_embd), ARCH_MODEL, ARCH_VOCAB, 0,
     NULL},
    {"output_norm.weight", "norm.weight", MODEL(output_norm), ARCH_MODEL, ARCH_NONE, 0, NULL},
    {"output.weight", "lm_head.weight", MODEL(output), ARCH_MODEL, ARCH_VOCAB,
     ARCH_OPTIONAL | HF_TIED, NULL},
};

static const struct arch_tensor layer_tensors[] = {
    {"attn_norm.weight", "input_layernorm.weight", LAYER(attn_norm), ARCH_MODEL, ARCH_NONE, 0,
     NULL},
    {"attn_q.weight", "self_attn.q_proj.weight", LAYER(wq), ARCH_MODEL, ARCH_HEADS, 0, NULL},
    {"attn_k.weight", "self_attn.k_proj.weight", LAYER(wk), ARCH_MODEL, ARCH_KV, 0, NULL},
    {"attn_v.weight", "self_attn.v_proj.weight", LAYER(wv), ARCH_MODEL, ARCH_KV, 0, NULL},
    {"attn_output.weight", "self_attn.o_proj.weight", LAYER(wo), ARCH_HEADS, ARCH_MODEL, 0, NULL},
    {"attn_q.bias", "self_attn.q_proj.bias", LAYER(bq), ARCH_HEADS, ARCH_NONE, 0, NULL},
    {"attn_k.bias", "self_attn.k_proj.bias", LAYER(bk), ARCH_KV, ARCH_NONE, 0, NULL},
    {"attn_v.bias", "self_attn.v_proj.bias", LAYER(bv), ARCH_KV, ARCH_NONE, 0, NULL},
    {"ffn_norm.weight", "post_attention_layernorm.weight", LAYER(ffn_norm), ARCH_MODEL, ARCH_NONE,
     0, NULL},
    {"ffn_gate.weight", "mlp.gate_proj.weight", LAYER(w_gate), ARCH_MODEL, ARCH_FF, 0, NULL},
    {"ffn_up.weight", "mlp.up_proj.weight", LAYER(w_up), ARCH_MODEL, ARCH_FF, 0, NULL},
    {"ffn_down.weight", "mlp.down_proj.weight", LAYER(w_down), ARCH_FF, ARCH_MODEL, 0, NULL},
};

static const char *const refused_keys[] = {"expert_count", NULL};

/* --- folders -------------------------------------------------------------------------------- */

static const struct hf_type model_types[] = {{"qwen2", HF_WINDOW_ASKED, 0}, {0}};

static const struct hf_key keys[] = {ARCH_SHARED_KEYS(1e-6), {0}};

static const struct hf_word words[] = {{"hidden_act", "silu"}, {0}};

static const char *const ignored[] = {ARCH_SHARED_IGNORED, NULL};

const struct arch arch_qwen2 = {
    .name = "qwen2",
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
