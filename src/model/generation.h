/* What a model's publisher recommends for sampling: generation_config.json of a folder (which
 * hf_text.c turns into GGUF's keys), or general.sampling.* of a GGUF file. A request that says
 * otherwise wins. */
#ifndef FIRSTLIGHT_MODEL_GENERATION_H
#define FIRSTLIGHT_MODEL_GENERATION_H

#include "base/buf.h"
#include "base/err.h"
#include "model/model.h"
#include "params/sampling.h"

/* A value out of its range is STATUS_INVALID and names file and key. */
enum status generation_read(struct sampling_values *out, const struct gguf *g,
                            enum model_source source, struct err *err);

/* "sampling defaults from generation_config.json: temperature 0.7, top_p 0.8"; nothing where
 * nothing is said. */
void generation_describe(const struct sampling_values *v, enum model_source source,
                         struct buf *out);

#endif
