/* A model by its path, whatever its format: a GGUF file, one part of a split one, or a Hugging Face
 * folder. */
#ifndef FIRSTLIGHT_MODEL_LOAD_MODEL_FILE_H
#define FIRSTLIGHT_MODEL_LOAD_MODEL_FILE_H

#include "base/err.h"
#include "model/model.h"
#include "text/tokenizer/tokenizer.h"

/* Closed with gguf_close. */
enum status model_file_open(struct gguf **out, const char *path, struct err *err);

/* The model and the tokenizer of an open source. Errors name path and tensor or key, tensors by the
 * names that the source has for them. */
enum status model_file_load(struct model **out, const struct gguf *g, struct err *err);
enum status model_file_tokenizer(struct tokenizer **out, const struct gguf *g, struct err *err);

#endif
