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
 * Query and key rows keep the folder's order, halves of a head that turn together, where some
 * architectures' GGUF files have neighbours. The tokenizer is not here: tokenizer_open_json reads
 * it.
 */
#ifndef FIRSTLIGHT_MODEL_LOAD_HF_FOLDER_H
#define FIRSTLIGHT_MODEL_LOAD_HF_FOLDER_H

#include "model/arch/arch.h"

/* Errors name file and key or tensor. The result is closed with gguf_close. */
enum status hf_folder_open(struct gguf **out, struct model_extra *extra, const char *path,
                           struct err *err);

/* The name that the tensor `name` of such a model has in its folder, into out; NULL: it has none.
 */
const char *hf_folder_tensor(const struct gguf *g, const char *name,
                             char out[static ARCH_NAME_BYTES]);

#endif
