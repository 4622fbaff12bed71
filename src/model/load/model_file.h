/* A model by its path, whatever its format: a GGUF file, one part of a split one, or a Hugging Face
 * folder. */
#ifndef FIRSTLIGHT_MODEL_LOAD_MODEL_FILE_H
#define FIRSTLIGHT_MODEL_LOAD_MODEL_FILE_H

#include "model/model.h"
#include "text/tokenizer/tokenizer.h"

/* An open model: its metadata and tensors as a GGUF file has them, and what that cannot say.
 * Zeroed: closed. */
struct model_file {
    struct gguf *gguf;
    enum model_source source;
    struct model_extra extra;
};

enum status model_file_open(struct model_file *out, const char *path, struct err *err);
void model_file_close(struct model_file *f); /* also after a failed open */

/* The model and the tokenizer of an open source. Errors name path and tensor or key, tensors by the
 * names that the source has for them. */
enum status model_file_load(struct model **out, const struct model_file *f, struct err *err);
enum status model_file_tokenizer(struct tokenizer **out, const struct model_file *f,
                                 struct err *err);

#endif
