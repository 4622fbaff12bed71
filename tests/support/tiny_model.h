/* A small random llama written to memory, whole or with one thing wrong.
 *
 *     struct tiny_model t = tiny_model_default;
 *     t.skip = "blk.0.attn_q.weight";
 *     enum status st = tiny_model_bind(&t, &err);   // t.model
 *     tiny_model_fini(&t);
 *
 * Head dimension 24 and feed-forward length 160 are odd on purpose: no power of two, yet whole
 * blocks. Weight types are mixed, so that one layer wants both forms of its input.
 */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_TINY_MODEL_H
#define FIRSTLIGHT_TESTS_SUPPORT_TINY_MODEL_H

#include "support/gguf_writer.h"
#include "support/random.h"

#include "base/mem.h"
#include "model/load/model_bind.h"

struct tiny_model {
    const char *arch;
    uint32_t n_layers, d_model, n_heads, n_kv_heads, head_dim, d_ff, n_vocab;
    bool biases;
    bool rope_factors;
    bool head_norms;
    uint32_t window;  /* 0: none */
    const char *skip; /* a key (without the prefix) or tensor left out */
    /* One wrong thing: a key with another number, a tensor of another type or shape. */
    const char *wrong_key;
    uint32_t wrong_value;
    const char *wrong_type;
    const char *wrong_shape;
    void (*more)(struct gguf_writer *w); /* further keys and tensors; may be NULL */

    struct gguf_writer writer;
    struct random random;
    struct gguf *gguf;
    struct model *model;
};

static const struct tiny_model tiny_model_default = {
    .arch = "llama",
    .n_layers = 3,
    .d_model = 64,
    .n_heads = 8,
    .n_kv_heads = 2,
    .head_dim = 24,
    .d_ff = 160,
    .n_vocab = 80,
};

static inline bool tiny_same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

static inline void tiny_key(struct tiny_model *t, const char *name, uint32_t value)
{
    char key[96];
    if (tiny_same(t->skip, name))
        return;
    snprintf(key, sizeof key, "%s.%s", t->arch, name);
    gguf_writer_u32(&t->writer, key, tiny_same(t->wrong_key, name) ? t->wrong_value : value);
}

/* Random bytes as quants, with scales that keep the weights below one. */
static inline void tiny_fill(struct tiny_model *t, enum tensor_type type, char *data, size_t size)
{
    const unsigned char scale[2] = {0x00, 0x24}; /* 2^-6 as binary16 */
    size_t block = tensor_type_block_bytes(type);
    for (size_t i = 0; i < size; i++)
        data[i] = (char)random_next(&t->random);
    for (size_t i = 0; i < size && type != TENSOR_F32; i += block)
        memcpy(data + i, scale, sizeof scale);
    for (size_t i = 0; i < size && type == TENSOR_F32; i += 4) {
        float x = (float)(random_unit(&t->random) - 0.5);
        memcpy(data + i, &x, sizeof x);
    }
}

static inline void tiny_tensor(struct tiny_model *t, const char *name, enum tensor_type type,
                               uint64_t in, uint64_t out)
{
    if (tiny_same(t->skip, name))
        return;
    if (tiny_same(t->wrong_type, name))
        type = TENSOR_F16;
    if (tiny_same(t->wrong_shape, name))
        in *= 2;
    size_t size = tensor_row_bytes(type, in) * out;
    char *data = mem_alloc(size);
    REQUIRE(data != NULL);
    tiny_fill(t, type, data, size);
    gguf_writer_tensor(&t->writer, name, type, out > 1 ? 2 : 1, (uint64_t[]){in, out}, data);
    mem_free(data);
}

static inline void tiny_layer_tensor(struct tiny_model *t, uint32_t layer, const char *name,
                                     enum tensor_type type, uint64_t in, uint64_t out)
{
    char full[64];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    tiny_tensor(t, full, type, in, out);
}

static inline void tiny_layer(struct tiny_model *t, uint32_t l)
{
    uint64_t d = t->d_model, q = t->n_heads * t->head_dim, kv = t->n_kv_heads * t->head_dim;
    tiny_layer_tensor(t, l, "attn_norm.weight", TENSOR_F32, d, 1);
    tiny_layer_tensor(t, l, "attn_q.weight", TENSOR_Q4_0, d, q);
    tiny_layer_tensor(t, l, "attn_k.weight", TENSOR_F32, d, kv);
    tiny_layer_tensor(t, l, "attn_v.weight", TENSOR_Q8_0, d, kv);
    tiny_layer_tensor(t, l, "attn_output.weight", l % 2 ? TENSOR_F32 : TENSOR_Q8_0, q, d);
    if (t->biases) {
        tiny_layer_tensor(t, l, "attn_q.bias", TENSOR_F32, q, 1);
        tiny_layer_tensor(t, l, "attn_k.bias", TENSOR_F32, kv, 1);
        tiny_layer_tensor(t, l, "attn_v.bias", TENSOR_F32, kv, 1);
        tiny_layer_tensor(t, l, "attn_output.bias", TENSOR_F32, d, 1);
    }
    if (t->head_norms) {
        tiny_layer_tensor(t, l, "attn_q_norm.weight", TENSOR_F32, t->head_dim, 1);
        tiny_layer_tensor(t, l, "attn_k_norm.weight", TENSOR_F32, t->head_dim, 1);
    }
    tiny_layer_tensor(t, l, "ffn_norm.weight", TENSOR_F32, d, 1);
    tiny_layer_tensor(t, l, "ffn_gate.weight", TENSOR_Q4_0, d, t->d_ff);
    tiny_layer_tensor(t, l, "ffn_up.weight", TENSOR_Q8_0, d, t->d_ff);
    tiny_layer_tensor(t, l, "ffn_down.weight", l % 2 ? TENSOR_F32 : TENSOR_Q4_0, t->d_ff, d);
}

static inline void tiny_write(struct tiny_model *t)
{
    char key[96];
    gguf_writer_init(&t->writer, 3);
    gguf_writer_string(&t->writer, "general.architecture", t->arch);
    tiny_key(t, "block_count", t->n_layers);
    tiny_key(t, "embedding_length", t->d_model);
    tiny_key(t, "feed_forward_length", t->d_ff);
    tiny_key(t, "context_length", 512);
    tiny_key(t, "attention.head_count", t->n_heads);
    tiny_key(t, "attention.head_count_kv", t->n_kv_heads);
    tiny_key(t, "attention.key_length", t->head_dim);
    tiny_key(t, "attention.value_length", t->head_dim);
    tiny_key(t, "rope.dimension_count", t->head_dim);
    tiny_key(t, "vocab_size", t->n_vocab);
    if (t->window)
        tiny_key(t, "attention.sliding_window", t->window);
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", t->arch);
    if (!tiny_same(t->skip, "attention.layer_norm_rms_epsilon"))
        gguf_writer_f32(&t->writer, key, 1e-5f);
    tiny_tensor(t, "token_embd.weight", TENSOR_Q8_0, t->d_model, t->n_vocab);
    tiny_tensor(t, "output_norm.weight", TENSOR_F32, t->d_model, 1);
    if (t->rope_factors)
        tiny_tensor(t, "rope_freqs.weight", TENSOR_F32, t->head_dim / 2, 1);
    for (uint32_t l = 0; l < t->n_layers; l++)
        tiny_layer(t, l);
    if (t->more)
        t->more(&t->writer);
}

static inline enum status tiny_model_bind(struct tiny_model *t, struct err *err)
{
    size_t len;
    tiny_write(t);
    const void *bytes = gguf_writer_finish(&t->writer, &len);
    enum status st = gguf_parse(&t->gguf, bytes, len, err);
    return st ? st : model_bind(&t->model, t->gguf, err);
}

static inline void tiny_model_fini(struct tiny_model *t)
{
    model_free(t->model);
    if (t->gguf)
        gguf_close(t->gguf);
    gguf_writer_fini(&t->writer);
    t->model = NULL;
    t->gguf = NULL;
}

#endif
