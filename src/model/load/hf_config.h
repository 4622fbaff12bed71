/* config.json of a Hugging Face folder, checked, as GGUF metadata. Private to model/load. */
#ifndef FIRSTLIGHT_MODEL_LOAD_HF_CONFIG_H
#define FIRSTLIGHT_MODEL_LOAD_HF_CONFIG_H

#include "base/err.h"
#include "model/arch/arch.h"
#include "weights/gguf_build.h"

#include <jansson.h>

enum hf_tying { HF_TYING_UNSAID, HF_TYING_NO, HF_TYING_YES };

/* Numbers of config.json that are a tensor in GGUF: what divides the frequency of each pair. */
#define HF_VECTORS 2
struct hf_vector {
    const char *name;
    float *values; /* (n) */
    uint32_t n;
};

struct hf_config {
    const struct arch *arch;
    const struct hf_type *type; /* the row of its model_type */
    struct model_extra extra;
    uint32_t n_layers;
    uint32_t n_vocab;
    uint32_t head_dim; /* given, or hidden_size / num_attention_heads */
    enum hf_tying tying;
    struct hf_vector vectors[HF_VECTORS]; /* freed by hf_config_fini */
    uint32_t n_vectors;
};

/* Reads `json` and appends general.architecture and the "<arch>.*" pairs to `b`. Errors name the
 * key, what was expected and what was found, but not the file. */
enum status hf_config_read(struct hf_config *c, const json_t *json, struct gguf_build *b,
                           struct err *err);
void hf_config_fini(struct hf_config *c); /* also after an error */

#endif
