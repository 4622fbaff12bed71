#include "model/load/hf_arch.h"

#include "base/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* --- llama and mistral (transformers' LlamaConfig, MistralConfig) --------------------------- */

/* All but the norms' epsilon where config.json has none is alike. */
#define LLAMA_KEYS(eps)                                                                            \
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

static const struct hf_key llama_keys[] = {LLAMA_KEYS(1e-6)};
static const struct hf_key phi3_keys[] = {LLAMA_KEYS(1e-5)}; /* and olmo2 */

static const struct hf_word llama_words[] = {{"hidden_act", "silu"}, {NULL, NULL}};

static const struct hf_tensor llama_tensors[] = {
    {"embed_tokens.weight", "token_embd.weight", 0},
    {"norm.weight", "output_norm.weight", 0},
    {"lm_head.weight", "output.weight", HF_TIED},
};

static const struct hf_tensor llama_layer_tensors[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", 0},
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", HF_QUERY},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", HF_KV_HEAD},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", 0},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", 0},
    {"layers.%u.self_attn.q_proj.bias", "blk.%u.attn_q.bias", HF_OPTIONAL | HF_QUERY},
    {"layers.%u.self_attn.k_proj.bias", "blk.%u.attn_k.bias", HF_OPTIONAL | HF_KV_HEAD},
    {"layers.%u.self_attn.v_proj.bias", "blk.%u.attn_v.bias", HF_OPTIONAL},
    {"layers.%u.self_attn.o_proj.bias", "blk.%u.attn_output.bias", HF_OPTIONAL},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", 0},
    {"layers.%u.mlp.gate_proj.weight", "blk.%u.ffn_gate.weight", 0},
    {"layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight", 0},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", 0},
};

/* Angles that older versions of transformers stored with the weights. */
static const char *const llama_ignored[] = {".rotary_emb.inv_freq", NULL};

#define LLAMA(type, window_, default_)                                                             \
    {                                                                                              \
        .model_type = type, .arch = "llama", .prefix = "model.", .keys = llama_keys,               \
        .n_keys = COUNT(llama_keys), .words = llama_words, .tensors = llama_tensors,               \
        .n_tensors = COUNT(llama_tensors), .layer_tensors = llama_layer_tensors,                   \
        .n_layer_tensors = COUNT(llama_layer_tensors), .ignored = llama_ignored,                   \
        .window = window_, .window_default = default_,                                             \
    }

/* --- qwen2 and qwen3 (Qwen2Config, Qwen3Config) ---------------------------------------------- */

static const struct hf_tensor qwen_layer_tensors[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", 0},
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", 0},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", 0},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", 0},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", 0},
    {"layers.%u.self_attn.q_proj.bias", "blk.%u.attn_q.bias", HF_OPTIONAL},
    {"layers.%u.self_attn.k_proj.bias", "blk.%u.attn_k.bias", HF_OPTIONAL},
    {"layers.%u.self_attn.v_proj.bias", "blk.%u.attn_v.bias", HF_OPTIONAL},
    {"layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", HF_OPTIONAL},
    {"layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", HF_OPTIONAL},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", 0},
    {"layers.%u.mlp.gate_proj.weight", "blk.%u.ffn_gate.weight", 0},
    {"layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight", 0},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", 0},
};

#define QWEN(type)                                                                                 \
    {                                                                                              \
        .model_type = type, .arch = type, .prefix = "model.", .keys = llama_keys,                  \
        .n_keys = COUNT(llama_keys), .words = llama_words, .tensors = llama_tensors,               \
        .n_tensors = COUNT(llama_tensors), .layer_tensors = qwen_layer_tensors,                    \
        .n_layer_tensors = COUNT(qwen_layer_tensors), .ignored = llama_ignored,                    \
        .window = HF_WINDOW_ASKED,                                                                 \
    }

/* --- phi3 (Phi3Config) ---------------------------------------------------------------------- */

static const struct hf_tensor phi3_layer_tensors[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", 0},
    {"layers.%u.self_attn.qkv_proj.weight", "blk.%u.attn_qkv.weight", 0},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", 0},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", 0},
    {"layers.%u.mlp.gate_up_proj.weight", "blk.%u.ffn_up.weight", 0},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", 0},
};

#define PHI3(type)                                                                                 \
    {                                                                                              \
        .model_type = type, .arch = type, .prefix = "model.", .keys = phi3_keys,                   \
        .n_keys = COUNT(phi3_keys), .words = llama_words, .tensors = llama_tensors,                \
        .n_tensors = COUNT(llama_tensors), .layer_tensors = phi3_layer_tensors,                    \
        .n_layer_tensors = COUNT(phi3_layer_tensors), .ignored = llama_ignored,                    \
        .window = HF_WINDOW_USED,                                                                  \
    }

/* --- olmo2 (Olmo2Config) -------------------------------------------------------------------- */

static const struct hf_word olmo2_words[] = {
    {"hidden_act", "silu"}, {"attention_bias", "false"}, {NULL, NULL}};

static const struct hf_tensor olmo2_layer_tensors[] = {
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", 0},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", 0},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", 0},
    {"layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", 0},
    {"layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", 0},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", 0},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", 0},
    {"layers.%u.mlp.gate_proj.weight", "blk.%u.ffn_gate.weight", 0},
    {"layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight", 0},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", 0},
    {"layers.%u.post_feedforward_layernorm.weight", "blk.%u.post_ffw_norm.weight", 0},
};

/* --- gpt2 (GPT2Config) ---------------------------------------------------------------------- */

static const struct hf_key gpt2_keys[] = {
    {"n_layer", "block_count", LIMIT_MODEL_LAYERS, 0, true},
    {"n_embd", "embedding_length", LIMIT_MODEL_WIDTH, 0, true},
    {"n_inner", "feed_forward_length", LIMIT_MODEL_WIDTH, 0, false},
    {"n_positions", "context_length", UINT32_MAX, 0, true},
    {"n_head", "attention.head_count", LIMIT_MODEL_HEADS, 0, true},
    {"layer_norm_epsilon", "attention.layer_norm_epsilon", 0, 1e-5, false},
    {"vocab_size", "vocab_size", LIMIT_MODEL_VOCAB, 0, true},
};

static const struct hf_word gpt2_words[] = {{"scale_attn_weights", "true"},
                                            {"scale_attn_by_inverse_layer_idx", "false"},
                                            {"add_cross_attention", "false"},
                                            {NULL, NULL}};

static const struct hf_tensor gpt2_tensors[] = {
    {"wte.weight", "token_embd.weight", 0},       {"wpe.weight", "position_embd.weight", 0},
    {"ln_f.weight", "output_norm.weight", 0},     {"ln_f.bias", "output_norm.bias", 0},
    {"lm_head.weight", "output.weight", HF_TIED},
};

static const struct hf_tensor gpt2_layer_tensors[] = {
    {"h.%u.ln_1.weight", "blk.%u.attn_norm.weight", 0},
    {"h.%u.ln_1.bias", "blk.%u.attn_norm.bias", 0},
    {"h.%u.attn.c_attn.weight", "blk.%u.attn_qkv.weight", HF_TRANSPOSED},
    {"h.%u.attn.c_attn.bias", "blk.%u.attn_qkv.bias", 0},
    {"h.%u.attn.c_proj.weight", "blk.%u.attn_output.weight", HF_TRANSPOSED},
    {"h.%u.attn.c_proj.bias", "blk.%u.attn_output.bias", 0},
    {"h.%u.ln_2.weight", "blk.%u.ffn_norm.weight", 0},
    {"h.%u.ln_2.bias", "blk.%u.ffn_norm.bias", 0},
    {"h.%u.mlp.c_fc.weight", "blk.%u.ffn_up.weight", HF_TRANSPOSED},
    {"h.%u.mlp.c_fc.bias", "blk.%u.ffn_up.bias", 0},
    {"h.%u.mlp.c_proj.weight", "blk.%u.ffn_down.weight", HF_TRANSPOSED},
    {"h.%u.mlp.c_proj.bias", "blk.%u.ffn_down.bias", 0},
};

/* Which positions see which: published files have that too. */
static const char *const gpt2_ignored[] = {".attn.bias", ".attn.masked_bias", NULL};

/* --- gemma3_text (Gemma3TextConfig) --------------------------------------------------------- */

static const struct hf_key gemma3_keys[] = {
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
};

static const struct hf_word gemma3_words[] = {
    {"hidden_activation", "gelu_pytorch_tanh"}, {"attention_bias", "false"},
    {"use_bidirectional_attention", "false"},   {"attn_logit_softcapping", "null"},
    {"final_logit_softcapping", "null"},        {NULL, NULL}};

static const struct hf_tensor gemma3_tensors[] = {
    {"embed_tokens.weight", "token_embd.weight", 0},
    {"norm.weight", "output_norm.weight", HF_PLUS_ONE},
    {"lm_head.weight", "output.weight", HF_TIED},
};

static const struct hf_tensor gemma3_layer_tensors[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", HF_PLUS_ONE},
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", 0},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", 0},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", 0},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", 0},
    {"layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", HF_PLUS_ONE},
    {"layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", HF_PLUS_ONE},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", HF_PLUS_ONE},
    {"layers.%u.pre_feedforward_layernorm.weight", "blk.%u.ffn_norm.weight", HF_PLUS_ONE},
    {"layers.%u.mlp.gate_proj.weight", "blk.%u.ffn_gate.weight", 0},
    {"layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight", 0},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", 0},
    {"layers.%u.post_feedforward_layernorm.weight", "blk.%u.post_ffw_norm.weight", HF_PLUS_ONE},
};

static const struct hf_arch rows[] = {
    LLAMA("llama", HF_WINDOW_UNKNOWN, 0),
    LLAMA("mistral", HF_WINDOW_USED, 4096),
    QWEN("qwen2"),
    QWEN("qwen3"),
    PHI3("phi3"),
    {
        .model_type = "olmo2",
        .arch = "olmo2",
        .prefix = "model.",
        .keys = phi3_keys,
        .n_keys = COUNT(phi3_keys),
        .words = olmo2_words,
        .tensors = llama_tensors,
        .n_tensors = COUNT(llama_tensors),
        .layer_tensors = olmo2_layer_tensors,
        .n_layer_tensors = COUNT(olmo2_layer_tensors),
        .ignored = llama_ignored,
    },
    {
        .model_type = "gpt2",
        .arch = "gpt2",
        .prefix = "transformer.",
        .keys = gpt2_keys,
        .n_keys = COUNT(gpt2_keys),
        .words = gpt2_words,
        .tensors = gpt2_tensors,
        .n_tensors = COUNT(gpt2_tensors),
        .layer_tensors = gpt2_layer_tensors,
        .n_layer_tensors = COUNT(gpt2_layer_tensors),
        .ignored = gpt2_ignored,
        .tied = true,
        .learned_positions = true,
        .more = hf_gpt2_more,
    },
    {
        .model_type = "gemma3_text",
        .arch = "gemma3",
        .prefix = "model.",
        .keys = gemma3_keys,
        .n_keys = COUNT(gemma3_keys),
        .words = gemma3_words,
        .tensors = gemma3_tensors,
        .n_tensors = COUNT(gemma3_tensors),
        .layer_tensors = gemma3_layer_tensors,
        .n_layer_tensors = COUNT(gemma3_layer_tensors),
        .ignored = llama_ignored,
        .tied = true,
        .rope_base = 1e6,
        .more = hf_gemma3_more,
    },
};

/* --- look-ups ------------------------------------------------------------------------------- */

const struct hf_arch *hf_arch_at(size_t i)
{
    return i < COUNT(rows) ? &rows[i] : NULL;
}

const struct hf_arch *hf_arch_find(const char *model_type)
{
    for (size_t i = 0; i < COUNT(rows); i++)
        if (strcmp(rows[i].model_type, model_type) == 0)
            return &rows[i];
    return NULL;
}

const char *hf_arch_name(char out[static HF_NAME_BYTES], const char *prefix, const char *name,
                         uint32_t layer)
{
    const char *number = strstr(name, "%u");
    if (number)
        snprintf(out, HF_NAME_BYTES, "%s%.*s%u%s", prefix, (int)(number - name), name, layer,
                 number + 2);
    else
        snprintf(out, HF_NAME_BYTES, "%s%s", prefix, name);
    return out;
}

/* Is `gguf` what the row maps to, in some layer? */
static bool is_row(const struct hf_tensor *row, const char *gguf, uint32_t *layer)
{
    char name[HF_NAME_BYTES];
    const char *number = strstr(row->gguf, "%u");
    *layer = 0;
    if (number && strncmp(row->gguf, gguf, (size_t)(number - row->gguf)) == 0)
        *layer = (uint32_t)strtoul(gguf + (number - row->gguf), NULL, 10);
    return strcmp(hf_arch_name(name, "", row->gguf, *layer), gguf) == 0;
}

static bool find_row(const struct hf_tensor *table, size_t n, const char *gguf,
                     const struct hf_tensor **out, uint32_t *layer)
{
    for (size_t i = 0; i < n; i++) {
        *out = &table[i];
        if (is_row(&table[i], gguf, layer))
            return true;
    }
    return false;
}

unsigned hf_arch_flags(const char *arch, const char *gguf, char *name)
{
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct hf_arch *a = &rows[i];
        const struct hf_tensor *row;
        uint32_t layer;
        if (strcmp(a->arch, arch) != 0 ||
            (!find_row(a->tensors, a->n_tensors, gguf, &row, &layer) &&
             !find_row(a->layer_tensors, a->n_layer_tensors, gguf, &row, &layer)))
            continue;
        if (name)
            hf_arch_name(name, row->flags & HF_TIED ? "" : a->prefix, row->name, layer);
        return row->flags;
    }
    return 0;
}
