/* Models by their Hugging Face name, from what is on this machine: nothing is downloaded. */
#ifndef FIRSTLIGHT_CLI_HF_CACHE_H
#define FIRSTLIGHT_CLI_HF_CACHE_H

#include "base/err.h"

/* *out: the path of the one GGUF file of `id` (of a split one, its first part), or of its folder
 * when that has safetensors instead, to be freed by mem_free. `id` is a GGUF file, a folder, or a
 * name such as "org/name" in the local cache ($HF_HUB_CACHE, $HF_HOME/hub,
 * ~/.cache/huggingface/hub; laid out as the Hub's documentation of its cache says). */
enum status hf_cache_find(char **out, const char *id, struct err *err);

#endif
