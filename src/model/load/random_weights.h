/* Random weights of a real model's shape, for measuring speed where the weights are not at hand. */
#ifndef FIRSTLIGHT_MODEL_LOAD_RANDOM_WEIGHTS_H
#define FIRSTLIGHT_MODEL_LOAD_RANDOM_WEIGHTS_H

#include "model/load/model_file.h"

/* Makes the model that the config.json at `path` describes, matrices of `type` (one that
 * quantize_has) as requantize_choose gives it to each, and a tokenizer of bytes. The same every
 * time. Its text is noise. Closed with model_file_close. */
enum status random_weights_open(struct model_file *out, const char *path, enum tensor_type type,
                                struct err *err);

#endif
