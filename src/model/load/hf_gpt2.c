/* What GPT-2's config.json says in its own way. */
#include "model/load/hf_config.h"
#include "model/load/hf_folder.h"

#include "base/limits.h"

#include <string.h>

/* The forms of GELU by transformers' names; GGUF's gpt2 means the first of them. */
static const struct {
    const char *name, *form;
} activations[] = {
    {"gelu_new", NULL},
    {"gelu_pytorch_tanh", NULL},
    {"gelu_fast", NULL},
    {"gelu", HF_FOLDER_ERF},
};

static enum status write_activation(const json_t *json, struct gguf_build *b, struct err *err)
{
    char text[HF_VALUE_TEXT];
    const json_t *found = json_object_get(json, "activation_function");
    const char *name = found ? json_string_value(found) : activations[0].name;
    for (size_t i = 0; name && i < sizeof activations / sizeof activations[0]; i++) {
        if (strcmp(name, activations[i].name) != 0)
            continue;
        if (activations[i].form)
            gguf_build_string(b, HF_FOLDER_ACTIVATION, activations[i].form);
        return STATUS_OK;
    }
    return err_param(err, STATUS_UNSUPPORTED, "activation_function",
                     "activation_function: expected gelu_new, gelu_pytorch_tanh, gelu_fast or "
                     "gelu, found %s, which is not implemented",
                     hf_config_text(found, text));
}

/* n_inner is null as a rule. */
enum status hf_gpt2_more(const json_t *json, struct gguf_build *b, struct err *err)
{
    json_int_t width = json_integer_value(json_object_get(json, "n_embd"));
    if (width > LIMIT_MODEL_WIDTH / 4)
        return err_param(err, STATUS_INVALID, "n_embd",
                         "n_embd: expected up to %u beside an n_inner of four times as much, "
                         "found %lld",
                         LIMIT_MODEL_WIDTH / 4, (long long)width);
    if (!json_is_integer(json_object_get(json, "n_inner")))
        gguf_build_u32(b, "gpt2.feed_forward_length", 4 * (uint32_t)width);
    return write_activation(json, b, err);
}
