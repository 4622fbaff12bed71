/* Writes a model as a GGUF file, version 3, that llama.cpp reads too. */
#ifndef FIRSTLIGHT_MODEL_WRITE_CONVERT_H
#define FIRSTLIGHT_MODEL_WRITE_CONVERT_H

#include "model/load/loader.h"
#include "model/requantize.h"

struct convert_result {
    size_t bytes;
    size_t n_tensors;
};

/* Writes the model of `l` (opened model_only will do) to `path`, matrices in o->type where
 * requantize_choose says so. What was a folder gets its tokenizer's keys and, where the
 * architecture's GGUF files have rotary pairs as neighbours, its query and key rows in that order.
 * The file takes its name when it is complete. */
enum status convert_write(const struct loader *l, const char *path,
                          const struct requantize_options *o, struct convert_result *out,
                          struct err *err);

#endif
