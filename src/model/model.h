/* A model as data: configuration, features and bound weights. No arithmetic here.
 *
 * arch/arch_<name>.c holds the tables of an architecture, load/ reads a file or folder by them. A
 * backend interprets what is here, so an architecture needs no forward code of its own.
 * Weights are borrowed from the open file, which must outlive the model. Immutable after binding.
 */
#ifndef FIRSTLIGHT_MODEL_MODEL_H
#define FIRSTLIGHT_MODEL_MODEL_H

#include "base/err.h"
#include "kernels/kernels.h"
#include "weights/gguf.h"

#include <stdbool.h>
#include <stdint.h>

/* What turns an activation row's scale into 1: its root mean square, or mean and deviation. */
enum norm_kind { NORM_RMS, NORM_LAYER };

/* How a model knows positions: its queries and keys turn, or a row per position is added to the
 * embedding. */
enum position_kind { POSITION_ROPE, POSITION_LEARNED };

/* LONG: `factors_long` or `factors_short` of the model divide the frequencies, the former where the
 * context is longer than n_ctx_original (Ding et al., LongRoPE, arXiv:2402.13753).
 * YARN: pairs that turn often stay, the others are slowed (Peng et al., arXiv:2309.00071). */
enum rope_scaling { ROPE_SCALING_NONE, ROPE_SCALING_LINEAR, ROPE_SCALING_YARN, ROPE_SCALING_LONG };

/* One table of angles. */
struct model_rope {
    float base;
    enum rope_scaling scaling;
    float factor;            /* LINEAR, YARN: of the slowest; else 1 */
    float attn_factor;       /* cosines and sines times this */
    uint32_t n_ctx_original; /* YARN, LONG */
    float beta_fast;         /* YARN: turns within n_ctx_original from which on a pair stays */
    float beta_slow;         /* YARN: and up to which it is slowed by the whole factor */
};

/* Most models have the first only; LOCAL is that of layers with a window, where it differs. */
enum rope_table { ROPE_MAIN, ROPE_LOCAL, ROPE_TABLES };

/* What a model is read from. */
enum model_source { MODEL_FILE, MODEL_FOLDER };

/* What a folder's config.json may say that no key of GGUF does. */
struct model_extra {
    bool gelu_erf; /* the activation is the exact GELU, whatever the architecture's is */
};

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

    enum norm_kind norm;
    float norm_eps;
    enum activation activation; /* between the products of the feed-forward part */
    float embedding_scale;
    float attention_scale; /* of a query times a key; 1 / sqrt(head_dim) as a rule */
    uint32_t window;       /* positions that a layer with a window sees, its own included; or 0 */

    enum position_kind position;
    enum rope_style rope_style;
    uint32_t n_rot; /* dims of a head that turn; even, <= head_dim */
    struct model_rope rope[ROPE_TABLES];
    uint32_t n_ropes;
};

/* One block. Shapes as the backend sees them: (out, in). NULL where the architecture or the file
 * has none. Vectors and norms are F32. A matrix may be some rows of a larger one in the file.
 *
 *     x ─┬─ attn_norm ─ wq wk wv ─ q_norm k_norm ─ rope ─ attention ─ wo ─ post_attn_norm ─ + ─ x
 *        └──────────────────────────────────────────────────────────────────────────────────┘
 *     x ─┬─ ffn_norm ─ act(w_gate) * w_up ─ w_down ─ post_ffn_norm ─ + ─ x    without a gate:
 *        └───────────────────────────────────────────────────────────┘        act(w_up)
 */
struct model_layer {
    const struct tensor *attn_norm, *attn_norm_bias; /* (d_model); NULL: none before this half */
    const struct tensor *wq;                         /* (n_heads * head_dim, d_model) */
    const struct tensor *wk;                         /* (n_kv_heads * head_dim, d_model) */
    const struct tensor *wv;                         /* (n_kv_heads * head_dim, d_model) */
    const struct tensor *wo;                         /* (d_model, n_heads * head_dim) */
    const struct tensor *bq, *bk, *bv, *bo;
    const struct tensor *q_norm, *k_norm; /* (head_dim), of each head; or (rows of wq, of wk) */
    const struct tensor *post_attn_norm;  /* (d_model) */
    const struct tensor *ffn_norm, *ffn_norm_bias; /* (d_model); NULL as attn_norm */
    const struct tensor *w_gate;                   /* (d_ff, d_model) */
    const struct tensor *w_up;                     /* (d_ff, d_model) */
    const struct tensor *w_down;                   /* (d_model, d_ff) */
    const struct tensor *b_up, *b_down;
    const struct tensor *post_ffn_norm; /* (d_model) */

    uint32_t window;      /* the last positions that a query sees, its own included; 0: all */
    enum rope_table rope; /* < config.n_ropes */
};

struct model {
    struct model_config config;
    const struct tensor *token_embd;                     /* (n_vocab, d_model) */
    const struct tensor *position_embd;                  /* (n_ctx_train, d_model), if LEARNED */
    const struct tensor *output_norm, *output_norm_bias; /* (d_model), F32 */
    const struct tensor *output; /* (n_vocab, d_model); token_embd when tied */
    /* (n_rot / 2), F32, each NULL or what divides the frequencies of ROPE_MAIN */
    const struct tensor *rope_factors, *rope_factors_long, *rope_factors_short;
    struct model_layer *layers; /* n_layers */

    struct tensor *slices; /* (n_slices) rows of the file's tensors that layers point to */
    size_t n_slices;
};

void model_free(struct model *m);

/* Bytes of one KV block (KV_BLOCK positions, all layers, keys and values). */
size_t model_kv_block_bytes(const struct model_config *c, enum kv_type type);

#endif
