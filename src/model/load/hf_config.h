/* config.json of a Hugging Face folder, checked, as GGUF metadata. Private to model/. */
#ifndef FIRSTLIGHT_MODEL_LOAD_HF_CONFIG_H
#define FIRSTLIGHT_MODEL_LOAD_HF_CONFIG_H

#include "base/err.h"
#include "model/load/hf_arch.h"
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
    const struct hf_arch *arch;
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

/* `value` as one line for an error: {"a": 1} and the like are cut to fit. */
#define HF_VALUE_TEXT 96
const char *hf_config_text(const json_t *value, char out[static HF_VALUE_TEXT]);

#endif
