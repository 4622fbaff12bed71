/* What a Hugging Face folder says besides weights and configuration: chat template, end tokens and
 * sampling defaults, as GGUF pairs. Private to model/load. */
#ifndef FIRSTLIGHT_MODEL_LOAD_HF_TEXT_H
#define FIRSTLIGHT_MODEL_LOAD_HF_TEXT_H

#include "base/err.h"
#include "weights/gguf_build.h"

#include <jansson.h>

/* tokenizer.chat_template, from chat_template.jinja or tokenizer_config.json (of several templates
 * the one named "default"); nothing when neither has one. Errors name the file. */
enum status hf_text_template(const char *folder, struct gguf_build *b, struct err *err);

/* general.sampling.* and tokenizer.ggml.eos_token_ids, from generation_config.json, if there is
 * one, and the eos_token_id of `config`. */
enum status hf_text_generation(const char *folder, const json_t *config, struct gguf_build *b,
                               struct err *err);

#endif
