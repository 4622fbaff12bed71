/* Phi-3 and Phi-4: llama with queries, keys and values in one tensor and gate and up in one, and of
 * each head only the first dims turning in some (Abdin et al., arXiv:2404.14219). */
#include "model/arch.h"

static const struct arch_tensor tensors[] = {
    {"token_embd.weight", MODEL(token_embd), ARCH_MODEL, ARCH_VOCAB, 0, NULL},
    {"output_norm.weight", MODEL(output_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"output.weight", MODEL(output), ARCH_MODEL, ARCH_VOCAB, ARCH_OPTIONAL, NULL},
    {"rope_factors_long.weight", MODEL(rope_factors_long), ARCH_PAIRS, ARCH_NONE,
     ARCH_OPTIONAL | ARCH_F32, NULL},
    {"rope_factors_short.weight", MODEL(rope_factors_short), ARCH_PAIRS, ARCH_NONE,
     ARCH_OPTIONAL | ARCH_F32, NULL},
};

static const struct arch_part qkv[] = {
    {LAYER(wq), ARCH_HEADS}, {LAYER(wk), ARCH_KV}, {LAYER(wv), ARCH_KV}, {0, ARCH_NONE}};
static const struct arch_part gate_up[] = {
    {LAYER(w_gate), ARCH_FF}, {LAYER(w_up), ARCH_FF}, {0, ARCH_NONE}};

static const struct arch_tensor layer_tensors[] = {
    {"blk.%u.attn_norm.weight", LAYER(attn_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.attn_qkv.weight", 0, ARCH_MODEL, ARCH_QKV, 0, qkv},
    {"blk.%u.attn_output.weight", LAYER(wo), ARCH_HEADS, ARCH_MODEL, 0, NULL},
    {"blk.%u.ffn_norm.weight", LAYER(ffn_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.ffn_up.weight", 0, ARCH_MODEL, ARCH_GATE_UP, 0, gate_up},
    {"blk.%u.ffn_down.weight", LAYER(w_down), ARCH_FF, ARCH_MODEL, 0, NULL},
};

static const char *const refused_keys[] = {"expert_count", NULL};

const struct arch arch_phi3 = {
    .name = "phi3",
    .rope_style = ROPE_HALVES,
    .tensors = tensors,
    .n_tensors = sizeof tensors / sizeof tensors[0],
    .layer_tensors = layer_tensors,
    .n_layer_tensors = sizeof layer_tensors / sizeof layer_tensors[0],
    .refused_keys = refused_keys,
};
