/* A Hugging Face folder as if it were a GGUF file: config.json becomes the metadata that the
 * converted file would have, tensors are pointers into the mapped safetensors files under GGUF's
 * names. Copied are only vectors that are not F32, norms that are stored as what they are more than
 * one, matrices that are stored transposed, and what lies at an odd address.
 *
 *     DIR/config.json                     -> general.architecture, <arch>.*
 *     DIR/generation_config.json          -> general.sampling.*, tokenizer.ggml.eos_token_ids
 *     DIR/chat_template.jinja, tokenizer_config.json -> tokenizer.chat_template
 *     DIR/model.safetensors[.index.json]  -> tensors
 *
 * Query and key rows keep the folder's order, halves of a head that turn together, where a GGUF
 * file has neighbours; HF_FOLDER_ROPE says so. The tokenizer is not here: tokenizer_open_json reads
 * it.
 */
#ifndef FIRSTLIGHT_MODEL_LOAD_HF_FOLDER_H
#define FIRSTLIGHT_MODEL_LOAD_HF_FOLDER_H

#include "base/err.h"
#include "weights/gguf.h"

/* The pair whose value "halves" marks such a model. */
#define HF_FOLDER_ROPE "firstlight.rope_style"

/* The pair whose value says another activation than the architecture's. */
#define HF_FOLDER_ACTIVATION "firstlight.activation"
#define HF_FOLDER_ERF        "gelu_erf"

/* Is `path` a folder with a config.json? */
bool hf_folder_is(const char *path);

/* Errors name file and key or tensor. The result is closed with gguf_close. */
enum status hf_folder_open(struct gguf **out, const char *path, struct err *err);

/* The name that a tensor of such a model has in its folder, into out; `name` when it has none. */
const char *hf_folder_tensor(const struct gguf *g, const char *name, char *out, size_t out_size);

#endif
