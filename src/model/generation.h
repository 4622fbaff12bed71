/* What a model's publisher recommends for sampling: generation_config.json of a folder (which
 * hf_text.c turns into GGUF's keys), or general.sampling.* of a GGUF file. A request that says
 * otherwise wins. */
#ifndef FIRSTLIGHT_MODEL_GENERATION_H
#define FIRSTLIGHT_MODEL_GENERATION_H

#include "base/buf.h"
#include "base/err.h"
#include "weights/gguf.h"

enum generation_field {
    GENERATION_TEMPERATURE,
    GENERATION_TOP_K,
    GENERATION_TOP_P,
    GENERATION_MIN_P,
    GENERATION_REPETITION_PENALTY,
    GENERATION_FIELDS,
};

/* Zeroed: nothing is said. */
struct generation {
    bool said[GENERATION_FIELDS];
    double value[GENERATION_FIELDS];
};

/* "temperature", "top_k", ...: as generation_config.json and the API have it; GGUF's key. */
const char *generation_name(enum generation_field f);
const char *generation_key(enum generation_field f);
bool generation_is_whole(enum generation_field f);

/* A value out of its range is STATUS_INVALID and names file and key. */
enum status generation_read(struct generation *out, const struct gguf *g, struct err *err);

/* "sampling defaults from generation_config.json: temperature 0.7, top_p 0.8"; nothing where
 * nothing is said. */
void generation_describe(const struct generation *s, const struct gguf *g, struct buf *out);

#endif
