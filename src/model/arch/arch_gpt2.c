/* GPT-2: learned positions, LayerNorm before each half, queries, keys and values as one matrix, a
 * plain MLP with GELU, biases everywhere, the embedding as output head.
 * Radford et al., Language Models are Unsupervised Multitask Learners, 2019.
 */
#include "model/arch.h"

static const struct arch_tensor tensors[] = {
    {"token_embd.weight", MODEL(token_embd), ARCH_MODEL, ARCH_VOCAB, 0, NULL},
    {"position_embd.weight", MODEL(position_embd), ARCH_MODEL, ARCH_CONTEXT, 0, NULL},
    {"output_norm.weight", MODEL(output_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"output_norm.bias", MODEL(output_norm_bias), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"output.weight", MODEL(output), ARCH_MODEL, ARCH_VOCAB, ARCH_OPTIONAL, NULL},
};

static const struct arch_part qkv[] = {
    {LAYER(wq), ARCH_HEADS}, {LAYER(wk), ARCH_KV}, {LAYER(wv), ARCH_KV}, {0, ARCH_NONE}};
static const struct arch_part qkv_bias[] = {
    {LAYER(bq), ARCH_HEADS}, {LAYER(bk), ARCH_KV}, {LAYER(bv), ARCH_KV}, {0, ARCH_NONE}};

static const struct arch_tensor layer_tensors[] = {
    {"blk.%u.attn_norm.weight", LAYER(attn_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.attn_norm.bias", LAYER(attn_norm_bias), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.attn_qkv.weight", 0, ARCH_MODEL, ARCH_QKV, 0, qkv},
    {"blk.%u.attn_qkv.bias", 0, ARCH_QKV, ARCH_NONE, ARCH_F32, qkv_bias},
    {"blk.%u.attn_output.weight", LAYER(wo), ARCH_HEADS, ARCH_MODEL, 0, NULL},
    {"blk.%u.attn_output.bias", LAYER(bo), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.ffn_norm.weight", LAYER(ffn_norm), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.ffn_norm.bias", LAYER(ffn_norm_bias), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.ffn_up.weight", LAYER(w_up), ARCH_MODEL, ARCH_FF, 0, NULL},
    {"blk.%u.ffn_up.bias", LAYER(b_up), ARCH_FF, ARCH_NONE, ARCH_F32, NULL},
    {"blk.%u.ffn_down.weight", LAYER(w_down), ARCH_FF, ARCH_MODEL, 0, NULL},
    {"blk.%u.ffn_down.bias", LAYER(b_down), ARCH_MODEL, ARCH_NONE, ARCH_F32, NULL},
};

static const char *const refused_keys[] = {"expert_count", "attention.sliding_window", NULL};

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
};
