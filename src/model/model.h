/* A model as data: configuration, features and bound weights. No arithmetic here.
 *
 * model/arch_<name>.c holds one table per architecture: which metadata keys make the configuration,
 * which tensors with which shapes make the weights, and which features a block has. A backend
 * interprets that description, so an architecture needs no forward code of its own.
 * Weights are borrowed from the open file, which must outlive the model. Immutable after binding.
 */
#ifndef FIRSTLIGHT_MODEL_MODEL_H
#define FIRSTLIGHT_MODEL_MODEL_H

#include "base/err.h"
#include "kernels/kernels.h"
#include "weights/gguf.h"

#include <stdbool.h>
#include <stdint.h>

enum rope_scaling { ROPE_SCALING_NONE, ROPE_SCALING_LINEAR };

struct model_config {
    const char *arch; /* the row's name */
    uint32_t n_layers;
    uint32_t d_model;
    uint32_t n_heads;    /* query heads */
    uint32_t n_kv_heads; /* divides n_heads */
    uint32_t head_dim;
    uint32_t d_ff;
    uint32_t n_vocab;
    uint32_t n_ctx_train; /* positions the model was trained for */
    float norm_eps;

    enum rope_style rope_style;
    uint32_t n_rot; /* dims of a head that turn; even, <= head_dim */
    float rope_base;
    enum rope_scaling rope_scaling;
    float rope_factor;
};

/* One block. Shapes as the backend sees them: (out, in). NULL where the architecture or the file
 * has none. */
struct model_layer {
    const struct tensor *attn_norm;         /* (d_model), F32 */
    const struct tensor *wq;                /* (n_heads * head_dim, d_model) */
    const struct tensor *wk;                /* (n_kv_heads * head_dim, d_model) */
    const struct tensor *wv;                /* (n_kv_heads * head_dim, d_model) */
    const struct tensor *wo;                /* (d_model, n_heads * head_dim) */
    const struct tensor *bq, *bk, *bv, *bo; /* F32 */
    const struct tensor *ffn_norm;          /* (d_model), F32 */
    const struct tensor *w_gate;            /* (d_ff, d_model) */
    const struct tensor *w_up;              /* (d_ff, d_model) */
    const struct tensor *w_down;            /* (d_model, d_ff) */
};

struct model {
    struct model_config config;
    const struct tensor *token_embd;   /* (n_vocab, d_model) */
    const struct tensor *output_norm;  /* (d_model), F32 */
    const struct tensor *output;       /* (n_vocab, d_model); token_embd when tied */
    const struct tensor *rope_factors; /* (n_rot / 2), F32: divides each frequency; may be NULL */
    struct model_layer *layers;        /* n_layers */
};

/* Reads the configuration and binds every tensor, dtype and shape checked. Errors name key or
 * tensor, expected and found; an unknown architecture lists the known ones. */
enum status model_bind(struct model **out, const struct gguf *g, struct err *err);
void model_free(struct model *m);

/* Bytes of one KV block (KV_BLOCK positions, all layers, keys and values). */
size_t model_kv_block_bytes(const struct model_config *c, enum kv_type type);

#endif
