#include "model/arch/hf_value.h"

#include <string.h>

bool hf_value_is_absent(const json_t *value)
{
    return !value || json_is_null(value);
}

/* Of a text that does not fit jansson writes as much as comes in one piece. */
const char *hf_value_text(const json_t *value, char out[static HF_VALUE_TEXT])
{
    if (!value)
        return strcpy(out, "nothing");
    memset(out, 0, HF_VALUE_TEXT);
    size_t n = json_dumpb(value, out, HF_VALUE_TEXT - 4, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    if (n >= HF_VALUE_TEXT - 4) {
        out[HF_VALUE_TEXT - 4] = '\0';
        strcat(out, "...");
    }
    return out;
}
