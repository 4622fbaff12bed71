/* A model's tables filled from its file. Private to model/load. */
#ifndef FIRSTLIGHT_MODEL_LOAD_MODEL_BIND_H
#define FIRSTLIGHT_MODEL_LOAD_MODEL_BIND_H

#include "model/model.h"

/* Reads the configuration and binds every tensor, dtype and shape checked. Errors name key or
 * tensor, expected and found; an unknown architecture lists the known ones. */
enum status model_bind(struct model **out, const struct gguf *g, struct err *err);

#endif
