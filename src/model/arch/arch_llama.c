/* Llama and its relatives that share the graph (Llama 2 and 3, Mistral, SmolLM2, TinyLlama):
 * RMSNorm before each half, rotary positions, grouped queries, a gated MLP with SiLU.
 * Touvron et al., arXiv:2302.13971. GGUF files hold the rotary pairs as neighbours.
 */
#include "model/arch.h"

static const struct arch_tensor tensors[] = {
    {"token_embd.weight", MODEL(token_embd), ARCH_MODEL, ARCH_VOCAB, 0, NULL},
    {"output_norm.weight", MODEL(output_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"output.weight", MODEL(output), ARCH_MODEL, ARCH_VOCAB, ARCH_OPTIONAL, NULL},
    {"rope_freqs.weight", MODEL(rope_factors), ARCH_PAIRS, ARCH_NONE, ARCH_OPTIONAL | ARCH_F32,
     NULL},
};

static const struct arch_tensor layer_tensors[] = {
    {"blk.%u.attn_norm.weight", LAYER(attn_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.attn_q.weight", LAYER(wq), ARCH_MODEL, ARCH_HEADS, 0, NULL},
    {"blk.%u.attn_k.weight", LAYER(wk), ARCH_MODEL, ARCH_KV, 0, NULL},
    {"blk.%u.attn_v.weight", LAYER(wv), ARCH_MODEL, ARCH_KV, 0, NULL},
    {"blk.%u.attn_output.weight", LAYER(wo), ARCH_HEADS, ARCH_MODEL, 0, NULL},
    {"blk.%u.attn_q.bias", LAYER(bq), ARCH_HEADS, ARCH_NONE, ARCH_OPTIONAL | ARCH_F32, NULL},
    {"blk.%u.attn_k.bias", LAYER(bk), ARCH_KV, ARCH_NONE, ARCH_OPTIONAL | ARCH_F32, NULL},
    {"blk.%u.attn_v.bias", LAYER(bv), ARCH_KV, ARCH_NONE, ARCH_OPTIONAL | ARCH_F32, NULL},
    {"blk.%u.attn_output.bias", LAYER(bo), ARCH_MODEL, ARCH_NONE, ARCH_OPTIONAL | ARCH_F32, NULL},
    {"blk.%u.ffn_norm.weight", LAYER(ffn_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.ffn_gate.weight", LAYER(w_gate), ARCH_MODEL, ARCH_FF, 0, NULL},
    {"blk.%u.ffn_up.weight", LAYER(w_up), ARCH_MODEL, ARCH_FF, 0, NULL},
    {"blk.%u.ffn_down.weight", LAYER(w_down), ARCH_FF, ARCH_MODEL, 0, NULL},
};

static const char *const refused_keys[] = {"expert_count", NULL};

const struct arch arch_llama = {
    .name = "llama",
    .rope_style = ROPE_NEIGHBOURS,
    .tensors = tensors,
    .n_tensors = sizeof tensors / sizeof tensors[0],
    .layer_tensors = layer_tensors,
    .n_layer_tensors = sizeof layer_tensors / sizeof layer_tensors[0],
    .refused_keys = refused_keys,
};
