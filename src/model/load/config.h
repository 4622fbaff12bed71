/* Reading a configuration from GGUF keys. Private to model/load. */
#ifndef FIRSTLIGHT_MODEL_LOAD_CONFIG_H
#define FIRSTLIGHT_MODEL_LOAD_CONFIG_H

#include "model/arch/arch.h"

/* config_key.c: "<arch>.<name>" into out, which is returned. */
#define CONFIG_KEY 96
const char *config_name(char out[static CONFIG_KEY], const struct arch *arch, const char *name);

/* A key that must be there: a whole number from 1 to max; a positive float. */
enum status config_whole(const struct gguf *g, const char *key, uint32_t max, uint32_t *out,
                         struct err *err);
enum status config_positive(const struct gguf *g, const char *key, float *out, struct err *err);

/* Reads and checks "<arch>.block_count" and the other keys that all architectures share. n_vocab is
 * left to the caller, who takes it from the embedding. */
enum status config_read(struct model_config *c, const struct arch *arch, const struct gguf *g,
                        struct err *err);

/* config_rope.c: the "<arch>.rope.*" keys but the number of dims. */
enum status config_read_rope(struct model_config *c, const struct arch *arch, const struct gguf *g,
                             struct err *err);

#endif
