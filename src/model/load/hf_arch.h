/* What Hugging Face folders call things: one row per model_type of config.json. Private to model/.
 *
 * A row maps config.json's keys to GGUF's keys and the tensors' names to GGUF's names, so that a
 * folder becomes the GGUF file it would be converted to, and model_bind needs no second way. A new
 * architecture that model_bind knows is one more row in hf_arch.c.
 */
#ifndef FIRSTLIGHT_MODEL_LOAD_HF_ARCH_H
#define FIRSTLIGHT_MODEL_LOAD_HF_ARCH_H

#include "base/err.h"
#include "weights/gguf_build.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

enum hf_tensor_flags {
    HF_OPTIONAL = 1,
    HF_TIED = 2,      /* absent when the embedding is the output too; left unread if it is there */
    HF_QUERY = 4,     /* rows are rotary halves in a folder, in GGUF neighbours: by query heads */
    HF_KV_HEAD = 8,   /* the same by key heads */
    HF_PLUS_ONE = 16, /* a norm that is stored as what it is more than one */
    HF_TRANSPOSED = 32, /* a matrix stored as (in, out), as GPT-2's Conv1D has it */
};

/* A tensor's name ("%u" is the layer) without the prefix that some folders leave out. */
struct hf_tensor {
    const char *name;
    const char *gguf;
    unsigned flags;
};

/* UNKNOWN: transformers' model has no window, whatever config.json says, or `more` reads it. ASKED:
 * it is used if use_sliding_window is true. */
enum hf_window { HF_WINDOW_UNKNOWN, HF_WINDOW_USED, HF_WINDOW_ASKED };

struct hf_arch {
    const char *model_type;
    const char *arch;   /* general.architecture */
    const char *prefix; /* "model." */
    const struct hf_key *keys;
    size_t n_keys;
    const struct hf_word *words; /* ended by a NULL name */
    const struct hf_tensor *tensors;
    size_t n_tensors;
    const struct hf_tensor *layer_tensors;
    size_t n_layer_tensors;
    const char *const *ignored; /* endings of tensors that are no weights; NULL-terminated */
    enum hf_window window;      /* what sliding_window means */
    uint32_t window_default;    /* where config.json has none; 0: none */
    bool tied;              /* the embedding is the output head where config.json does not say */
    bool learned_positions; /* nothing turns */
    double rope_base;       /* where config.json does not say; 0: 10000 */
    /* What rows of keys cannot say, after them; may be NULL. */
    enum status (*more)(const json_t *json, struct gguf_build *b, struct err *err);
};

/* hf_gpt2.c, hf_gemma3.c: their rows' `more`. */
enum status hf_gpt2_more(const json_t *json, struct gguf_build *b, struct err *err);
enum status hf_gemma3_more(const json_t *json, struct gguf_build *b, struct err *err);

/* NULL when there is none; past the end. */
const struct hf_arch *hf_arch_find(const char *model_type);
const struct hf_arch *hf_arch_at(size_t i);

/* "layers.%u.x" with the layer's number, or the name as it is, into out. */
#define HF_NAME_BYTES 160
const char *hf_arch_name(char out[static HF_NAME_BYTES], const char *prefix, const char *name,
                         uint32_t layer);

/* The flags of the row that maps to the GGUF tensor `gguf` ("blk.3.attn_q.weight") of an
 * architecture, 0 when no row does; its name in a folder goes to `name`, which may be NULL. */
unsigned hf_arch_flags(const char *arch, const char *gguf, char *name);

#endif
