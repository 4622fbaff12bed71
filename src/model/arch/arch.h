/* What an architecture is: tables that binding, reading folders, converting and random weights
 * walk.
 *
 * A new architecture is one file arch_<name>.c and one line in ARCH_LIST. Its tables say what a
 * GGUF file calls things and what a Hugging Face folder does, so that a folder becomes the GGUF
 * file it would be converted to, and binding needs no second way.
 */
#ifndef FIRSTLIGHT_MODEL_ARCH_ARCH_H
#define FIRSTLIGHT_MODEL_ARCH_ARCH_H

#include "model/model.h"
#include "weights/gguf_build.h"

#include <jansson.h>
#include <stddef.h>

/* Each is arch_<name> of arch_<name>.c. */
#define ARCH_LIST(X)                                                                               \
    X(llama)                                                                                       \
    X(qwen2)                                                                                       \
    X(qwen3)                                                                                       \
    X(phi3)                                                                                        \
    X(olmo2)                                                                                       \
    X(gpt2)                                                                                        \
    X(gemma3)

/* --- tensors -------------------------------------------------------------------------------- */

/* Extents of a weight, taken from the configuration. */
enum arch_dim {
    ARCH_NONE,    /* no second dimension: a vector, which is F32, since backends read floats */
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
    /* In a folder: */
    HF_TIED = 2,      /* absent when the embedding is the output too; left unread if it is there */
    HF_QUERY = 4,     /* rows are rotary halves in a folder, in GGUF neighbours: by query heads */
    HF_KV_HEAD = 8,   /* the same by key heads */
    HF_PLUS_ONE = 16, /* a norm that is stored as what it is more than one */
    HF_TRANSPOSED = 32, /* a matrix stored as (in, out), as GPT-2's Conv1D has it */
};

/* Some rows of a fused tensor (of a vector: values), behind those of the parts before. */
struct arch_part {
    size_t offset; /* the field that points to them */
    enum arch_dim rows;
};

/* One weight: its names, and the field that will point to it. Those of layers are without what all
 * of a layer's names begin with. */
struct arch_tensor {
    const char *name; /* in GGUF */
    const char *hf;   /* in a folder; NULL: folders have none */
    size_t offset;    /* in struct model_layer, or in struct model; unused with parts */
    enum arch_dim in;
    enum arch_dim out;
    unsigned flags;
    const struct arch_part *parts; /* of a layer's fused tensor: its fields, ended by ARCH_NONE */
};

#define MODEL(field) offsetof(struct model, field)
#define LAYER(field) offsetof(struct model_layer, field)

/* --- folders -------------------------------------------------------------------------------- */

/* A number in config.json. */
struct hf_key {
    const char *name;
    const char *gguf; /* without the architecture's prefix */
    double max;       /* whole numbers, from 1; 0: a positive float */
    double fallback;  /* what transformers takes when it is absent; 0: nothing is written */
    bool required;
};

/* A key whose value must be this string, or "true", "false" or "null" if it is no string; absent
 * and null are as good. */
struct hf_word {
    const char *name;
    const char *value;
};

/* UNKNOWN: transformers' model has no window, whatever config.json says, or `more` reads it. ASKED:
 * it is used if use_sliding_window is true. */
enum hf_window { HF_WINDOW_UNKNOWN, HF_WINDOW_USED, HF_WINDOW_ASKED };

/* A model_type of config.json. */
struct hf_type {
    const char *name;
    enum hf_window window;   /* what sliding_window means */
    uint32_t window_default; /* where config.json has none; 0: none */
};

/* What Hugging Face folders call things. Tables end with a row without a name. */
struct arch_hf {
    const struct hf_type *types;
    const char *prefix; /* of all tensors, "model."; some folders leave it out */
    const char *layers; /* "layers", of "layers.3." */
    const struct hf_key *keys;
    const struct hf_word *words;
    const char *const *ignored; /* endings of tensors that are no weights; NULL-terminated */
    bool tied;        /* the embedding is the output head where config.json does not say */
    double rope_base; /* where config.json does not say; 0: 10000 */
    /* What rows of keys cannot say, after them; may be NULL. */
    enum status (*more)(const json_t *json, struct gguf_build *b, struct model_extra *extra,
                        struct err *err);
};

/* --- the whole ------------------------------------------------------------------------------ */

struct arch {
    const char *name; /* general.architecture, and the prefix of the configuration's keys */
    enum norm_kind norm;
    enum position_kind position;
    enum rope_style rope_style; /* of GGUF files; folders have halves */
    enum activation activation;
    bool embedding_scaled; /* by sqrt(d_model) */
    /* Each global_period-th layer sees all positions and turns by ROPE_MAIN, the others have the
     * window and turn by ROPE_LOCAL, whose base is local_rope_base where the file names none. 0:
     * all layers alike, with the window if there is one. */
    uint32_t global_period;
    float local_rope_base;
    /* A model with this number of layers scales queries by 1 / sqrt(d_model / n_heads), for which
     * its files have no key; 0: none does. */
    uint32_t wide_scale_layers;
    const struct arch_tensor *tensors; /* of the model */
    size_t n_tensors;
    const struct arch_tensor *layer_tensors; /* of each layer */
    size_t n_layer_tensors;
    /* Keys (without the prefix) which, present and not zero, ask for what is not implemented. */
    const char *const *refused_keys; /* NULL-terminated */
    struct arch_hf hf;
};

#define ARCH_DECLARE(name) extern const struct arch arch_##name;
ARCH_LIST(ARCH_DECLARE)
#undef ARCH_DECLARE

/* NULL past the end; of that name; and the one that has this model_type, whose row goes to *type.
 */
const struct arch *arch_at(size_t i);
const struct arch *arch_find(const char *name, size_t len);
const struct arch *arch_find_type(const char *model_type, const struct hf_type **type);

/* That of general.architecture; an unknown one lists those that there are. */
enum status arch_of(const struct arch **out, const struct gguf *g, struct err *err);

/* An extent as a number; ARCH_NONE is 1. */
uint64_t arch_extent(const struct model_config *c, enum arch_dim dim);

/* The tensor's name in a GGUF file, of layer `layer` or of the model, and in a folder; into out. */
#define ARCH_NO_LAYER   UINT32_MAX
#define ARCH_NAME_BYTES 160
const char *arch_gguf_name(char out[static ARCH_NAME_BYTES], const struct arch_tensor *row,
                           uint32_t layer);
const char *arch_hf_name(char out[static ARCH_NAME_BYTES], const struct arch *arch,
                         const char *prefix, const struct arch_tensor *row, uint32_t layer);

/* The row of the GGUF tensor `name` ("blk.3.attn_q.weight"), and its layer; NULL when none has it.
 */
const struct arch_tensor *arch_find_tensor(const struct arch *arch, const char *name,
                                           uint32_t *layer);

#endif
