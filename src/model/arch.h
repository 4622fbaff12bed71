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
    ARCH_NONE,  /* no second dimension: a vector */
    ARCH_MODEL, /* d_model */
    ARCH_HEADS, /* n_heads * head_dim */
    ARCH_KV,    /* n_kv_heads * head_dim */
    ARCH_FF,    /* d_ff */
    ARCH_VOCAB, /* n_vocab */
    ARCH_PAIRS, /* n_rot / 2 */
};

enum arch_tensor_flags {
    ARCH_OPTIONAL = 1,
    ARCH_F32 = 2, /* read as float by the backends, so no other type will do */
};

/* One weight: its name in the file ("%u" is the layer) and the field that will point to it. */
struct arch_tensor {
    const char *name;
    size_t offset; /* in struct model_layer, or in struct model */
    enum arch_dim in;
    enum arch_dim out;
    unsigned flags;
};

struct arch {
    const char *name; /* general.architecture, and the prefix of the configuration's keys */
    enum rope_style rope_style;
    const struct arch_tensor *tensors; /* of the model */
    size_t n_tensors;
    const struct arch_tensor *layer_tensors; /* of each layer */
    size_t n_layer_tensors;
    /* Keys (without the prefix) which, present and not zero, ask for what is not implemented. */
    const char *const *refused_keys; /* NULL-terminated */
};

extern const struct arch arch_llama;

/* The row of general.architecture; an unknown one lists those that there are. */
enum status model_arch(const struct arch **out, const struct gguf *g, struct err *err);

/* An extent as a number; ARCH_NONE is 1. */
uint64_t model_dim(const struct model_config *c, enum arch_dim dim);

/* Reads and checks "<arch>.block_count" and the other keys that all architectures share. n_vocab is
 * left to the caller, who takes it from the embedding. */
enum status config_read(struct model_config *c, const struct arch *arch, const struct gguf *g,
                        struct err *err);

#endif
