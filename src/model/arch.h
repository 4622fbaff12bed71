/* What an architecture is: one row of tables that model_bind walks. Private to model/.
 *
 * A new architecture is one file arch_<name>.c and one entry in model.c's list.
 */
#ifndef FIRSTLIGHT_MODEL_ARCH_H
#define FIRSTLIGHT_MODEL_ARCH_H

#include "model/model.h"

#include <stddef.h>

/* Extents of a weight, taken from the configuration. */
enum arch_dim {
    ARCH_NONE,    /* no second dimension: a vector */
    ARCH_MODEL,   /* d_model */
    ARCH_HEADS,   /* n_heads * head_dim */
    ARCH_KV,      /* n_kv_heads * head_dim */
    ARCH_HEAD,    /* head_dim */
    ARCH_FF,      /* d_ff */
    ARCH_VOCAB,   /* n_vocab */
    ARCH_CONTEXT, /* n_ctx_train */
    ARCH_PAIRS,   /* n_rot / 2 */
    ARCH_QKV,     /* queries, keys, values: ARCH_HEADS + 2 * ARCH_KV */
    ARCH_GATE_UP, /* 2 * ARCH_FF */
};

enum arch_tensor_flags {
    ARCH_OPTIONAL = 1,
    ARCH_F32 = 2, /* read as float by the backends, so no other type will do */
};

/* Some rows of a fused tensor (of a vector: values), behind those of the parts before. */
struct arch_part {
    size_t offset; /* the field that points to them */
    enum arch_dim rows;
};

/* One weight: its name in the file ("%u" is the layer) and the field that will point to it. */
struct arch_tensor {
    const char *name;
    size_t offset; /* in struct model_layer, or in struct model; unused with parts */
    enum arch_dim in;
    enum arch_dim out;
    unsigned flags;
    const struct arch_part *parts; /* of a layer's fused tensor: its fields, ended by ARCH_NONE */
};

#define MODEL(field) offsetof(struct model, field)
#define LAYER(field) offsetof(struct model_layer, field)

struct arch {
    const char *name; /* general.architecture, and the prefix of the configuration's keys */
    enum norm_kind norm;
    enum position_kind position;
    enum rope_style rope_style;
    enum activation activation;
    bool embedding_scaled; /* by sqrt(d_model) */
    /* Every so-manieth layer sees all positions and turns by ROPE_MAIN, the others have the window
     * and turn by ROPE_LOCAL, whose base is local_rope_base where the file names none. 0: all
     * layers alike, with the window if there is one. */
    uint32_t global_period;
    float local_rope_base;
    /* A model of so many layers scales queries by 1 / sqrt(d_model / n_heads), for which its files
     * have no key; 0: none does. */
    uint32_t wide_scale_layers;
    const struct arch_tensor *tensors; /* of the model */
    size_t n_tensors;
    const struct arch_tensor *layer_tensors; /* of each layer */
    size_t n_layer_tensors;
    /* Keys (without the prefix) which, present and not zero, ask for what is not implemented. */
    const char *const *refused_keys; /* NULL-terminated */
};

extern const struct arch arch_llama;
extern const struct arch arch_qwen2;
extern const struct arch arch_qwen3;
extern const struct arch arch_phi3;
extern const struct arch arch_olmo2;
extern const struct arch arch_gpt2;
extern const struct arch arch_gemma3;

/* The row of general.architecture; an unknown one lists those that there are. */
enum status model_arch(const struct arch **out, const struct gguf *g, struct err *err);

/* An extent as a number; ARCH_NONE is 1. */
uint64_t model_dim(const struct model_config *c, enum arch_dim dim);

#endif
