/* Split GGUF files: a model in parts "NAME-00001-of-00003.gguf", as llama-gguf-split writes them.
 *
 * Each part is a GGUF file; the first has the model's metadata, and each says which part of how
 * many it is (split.no, from 0; split.count) and how many tensors the parts have together
 * (split.tensors.count). Private to src/weights.
 */
#ifndef FIRSTLIGHT_WEIGHTS_GGUF_SPLIT_H
#define FIRSTLIGHT_WEIGHTS_GGUF_SPLIT_H

#include "weights/gguf.h"

/* Does the file say that it is one of several parts? */
bool gguf_split_is_part(const struct gguf *g);

/* Replaces *g, any one part, by the whole, with the first part's path and metadata. *g is closed,
 * and after an error NULL. */
enum status gguf_split_join(struct gguf **g, struct err *err);

#endif
