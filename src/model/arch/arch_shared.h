/* Rows of config.json that several architectures have, for their tables. Private to model/arch. */
#ifndef FIRSTLIGHT_MODEL_ARCH_ARCH_SHARED_H
#define FIRSTLIGHT_MODEL_ARCH_ARCH_SHARED_H

#include "base/limits.h"

/* LlamaConfig's and its relatives'; they differ in the norms' epsilon where config.json has none.
 */
#define ARCH_SHARED_KEYS(eps)                                                                      \
    {"num_hidden_layers", "block_count", LIMIT_MODEL_LAYERS, 0, true},                             \
        {"hidden_size", "embedding_length", LIMIT_MODEL_WIDTH, 0, true},                           \
        {"intermediate_size", "feed_forward_length", LIMIT_MODEL_WIDTH, 0, true},                  \
        {"max_position_embeddings", "context_length", UINT32_MAX, 0, true},                        \
        {"num_attention_heads", "attention.head_count", LIMIT_MODEL_HEADS, 0, true},               \
        {"num_key_value_heads", "attention.head_count_kv", LIMIT_MODEL_HEADS, 0, false},           \
        {"head_dim", "attention.key_length", LIMIT_MODEL_HEAD_DIM, 0, false},                      \
        {"head_dim", "attention.value_length", LIMIT_MODEL_HEAD_DIM, 0, false},                    \
        {"rms_norm_eps", "attention.layer_norm_rms_epsilon", 0, eps, false},                       \
    {                                                                                              \
        "vocab_size", "vocab_size", LIMIT_MODEL_VOCAB, 0, true                                     \
    }

/* Angles that older versions of transformers stored with the weights. */
#define ARCH_SHARED_IGNORED ".rotary_emb.inv_freq"

#endif
