/* Rotary positions as config.json has them: rope_theta and rope_scaling, or the newer
 * rope_parameters (transformers 5) with everything in one object. Private to model/load.
 */
#ifndef FIRSTLIGHT_MODEL_LOAD_HF_ROPE_H
#define FIRSTLIGHT_MODEL_LOAD_HF_ROPE_H

#include "model/load/hf_config.h"

/* After c->arch and c->head_dim: appends the "<arch>.rope.*" pairs and sets the factors. */
enum status hf_rope_read(struct hf_config *c, const json_t *json, struct gguf_build *b,
                         struct err *err);

#endif
