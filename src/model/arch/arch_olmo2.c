/* OLMo 2: llama with norms behind each half instead of before it, and norms of all queries and all
 * keys of a row before they turn (OLMo Team, arXiv:2501.00656). OLMo 3 has the same name
 * in GGUF files, and windows.
 */
#include "model/arch.h"

static const struct arch_tensor tensors[] = {
    {"token_embd.weight", MODEL(token_embd), ARCH_MODEL, ARCH_VOCAB, 0, NULL},
    {"output_norm.weight", MODEL(output_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"output.weight", MODEL(output), ARCH_MODEL, ARCH_VOCAB, ARCH_OPTIONAL, NULL},
};

static const struct arch_tensor layer_tensors[] = {
    {"blk.%u.attn_q.weight", LAYER(wq), ARCH_MODEL, ARCH_HEADS, 0, NULL},
    {"blk.%u.attn_k.weight", LAYER(wk), ARCH_MODEL, ARCH_KV, 0, NULL},
    {"blk.%u.attn_v.weight", LAYER(wv), ARCH_MODEL, ARCH_KV, 0, NULL},
    {"blk.%u.attn_q_norm.weight", LAYER(q_norm), ARCH_HEADS, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.attn_k_norm.weight", LAYER(k_norm), ARCH_KV, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.attn_output.weight", LAYER(wo), ARCH_HEADS, ARCH_MODEL, 0, NULL},
    {"blk.%u.post_attention_norm.weight", LAYER(post_attn_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32,
     NULL},
    {"blk.%u.ffn_gate.weight", LAYER(w_gate), ARCH_MODEL, ARCH_FF, 0, NULL},
    {"blk.%u.ffn_up.weight", LAYER(w_up), ARCH_MODEL, ARCH_FF, 0, NULL},
    {"blk.%u.ffn_down.weight", LAYER(w_down), ARCH_FF, ARCH_MODEL, 0, NULL},
    {"blk.%u.post_ffw_norm.weight", LAYER(post_ffn_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
};

static const char *const refused_keys[] = {"expert_count", "attention.sliding_window", NULL};

const struct arch arch_olmo2 = {
    .name = "olmo2",
    .rope_style = ROPE_HALVES,
    .tensors = tensors,
    .n_tensors = sizeof tensors / sizeof tensors[0],
    .layer_tensors = layer_tensors,
    .n_layer_tensors = sizeof layer_tensors / sizeof layer_tensors[0],
    .refused_keys = refused_keys,
};
