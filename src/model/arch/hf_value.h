/* Values of config.json and its like, for whoever reads them and says what is wrong with one. */
#ifndef FIRSTLIGHT_MODEL_ARCH_HF_VALUE_H
#define FIRSTLIGHT_MODEL_ARCH_HF_VALUE_H

#include <jansson.h>
#include <stdbool.h>

/* Not there, or null. */
bool hf_value_is_absent(const json_t *value);

/* `value` as one line for an error: {"a": 1} and the like are cut to fit. */
#define HF_VALUE_TEXT 96
const char *hf_value_text(const json_t *value, char out[static HF_VALUE_TEXT]);

#endif
