/* The flags that every subcommand with a model shares, and what they mean together. */
#ifndef FIRSTLIGHT_CLI_OPTIONS_H
#define FIRSTLIGHT_CLI_OPTIONS_H

#include "backend/backend.h"
#include "base/err.h"
#include "cli/flags.h"
#include "engine/engine.h"
#include "model/load/loader.h"

#include <stdint.h>

/* What `make model` fetches. */
#define OPTIONS_DEFAULT_MODEL "models/SmolLM2-135M-Instruct.Q4_1.gguf"

enum sampling_source { SAMPLING_OF_MODEL, SAMPLING_OF_NOBODY };

/* Starts as options_default; the flags write into it; options_check completes it. */
struct options {
    const char *model;         /* required by options_check */
    const char *chat_template; /* a file; NULL: the model's own */
    int sampling_defaults;     /* enum sampling_source */
    const char *dummy;         /* a config.json instead of the model; NULL: none */
    int dtype; /* enum tensor_type that the weights are quantised to; -1: as they are */
    const char *engine_name; /* see engine_kind_find */
    /* What the flags say of an engine. Until options_check cpu_levels is a mask of what the machine
     * has, and kv_type is KV_TYPES: as the activations want it. Only a server has to bound its
     * queue, so max_queue_ms is ENGINE_NONE at first. */
    struct engine_options engine;
};
extern const struct options options_default;

/* For a flag_set: what every forward pass needs, what an engine needs besides, and what whoever
 * answers a person does. */
struct flag_group options_model_flags(struct options *o);
struct flag_group options_engine_flags(struct options *o);
struct flag_group options_text_flags(struct options *o); /* chat template, sampling */

/* Fills in what was left to the program. Refuses a processor without AVX2 unless the mask asks for
 * plain C. */
enum status options_check(struct options *o, struct err *err);

/* After options_check: threads, levels, activations and KV type; rows, outputs, sequences and n_ctx
 * are the caller's. */
struct backend_options options_backend(const struct options *o);

/* After options_check: o->engine with its kind; slots and batch are the caller's. An engine that is
 * unknown, or not available here, is an error. */
enum status options_engine(const struct options *o, struct engine_options *out, struct err *err);

/* loader_open with progress on stderr when that is a terminal. */
enum status options_load(const struct options *o, struct loader *out, struct err *err);

/* One line about what the model recommends for sampling, to stderr; none where it is silent. */
void options_tell_sampling(const struct loader *l);

/* The same without tokenizer and chat template. */
enum status options_load_model(const struct options *o, struct loader *out, struct err *err);

/* FLAG_CUSTOM of an int: the tensor type that a name stands for ("q4_0"). */
enum status options_parse_dtype(void *field, const char *text, struct err *err);

#endif
