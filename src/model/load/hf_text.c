#include "model/load/hf_text.h"

#include "base/limits.h"
#include "model/arch/hf_value.h"
#include "params/sampling.h"
#include "weights/file_map.h"
#include "weights/json_file.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define TEMPLATE_KEY "tokenizer.chat_template"

static enum status hf_text_no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for a folder's metadata");
}

/* folder/name into path; false when there is no such file. */
static bool hf_text_find(const char *folder, const char *name, struct buf *path)
{
    struct stat st;
    buf_clear(path);
    buf_printf(path, "%s/%s", folder, name);
    return !path->failed && stat(buf_str(path), &st) == 0;
}

/* --- chat template -------------------------------------------------------------------------- */

static enum status template_file(const char *path, struct gguf_build *b, struct err *err)
{
    struct file_map map;
    enum status st = file_map_open(&map, path, err);
    if (!st && map.len > LIMIT_TEMPLATE_BYTES)
        st = err_set(err, STATUS_TOO_LARGE, "expected a template of up to %u bytes, found %zu",
                     LIMIT_TEMPLATE_BYTES, map.len);
    if (!st)
        gguf_build_bytes(b, TEMPLATE_KEY, map.bytes, map.len);
    file_map_close(&map);
    return st ? err_context(err, "%s", path) : STATUS_OK;
}

/* [{"name": "default", "template": "..."}, {"name": "tool_use", ...}] */
static const json_t *named_default(const json_t *list)
{
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)list, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        if (name && strcmp(name, "default") == 0)
            return json_object_get(row, "template");
    }
    return NULL;
}

static enum status template_of(const json_t *config, struct gguf_build *b, struct err *err)
{
    const json_t *t = json_object_get(config, "chat_template");
    if (json_is_array(t))
        t = named_default(t);
    if (!t || json_is_null(t))
        return STATUS_OK;
    if (!json_is_string(t))
        return err_param(err, STATUS_INVALID, "chat_template",
                         "chat_template: expected a string, or a list with one named default");
    gguf_build_bytes(b, TEMPLATE_KEY, json_string_value(t), json_string_length(t));
    return STATUS_OK;
}

enum status hf_text_template(const char *folder, struct gguf_build *b, struct err *err)
{
    struct buf path = {0};
    json_t *json = NULL;
    enum status st = STATUS_OK;
    if (hf_text_find(folder, "chat_template.jinja", &path)) {
        st = template_file(buf_str(&path), b, err);
    } else if (hf_text_find(folder, "tokenizer_config.json", &path)) {
        st = json_file_load(&json, buf_str(&path), LIMIT_CONFIG_BYTES, err);
        if (!st && template_of(json, b, err))
            st = err_context(err, "%s", buf_str(&path));
    }
    if (!st && path.failed)
        st = hf_text_no_memory(err);
    json_decref(json);
    buf_fini(&path);
    return st;
}

/* --- generation ----------------------------------------------------------------------------- */

static enum status hf_text_write_value(const json_t *value, const struct sampling_row *row,
                                       struct gguf_build *b, struct err *err)
{
    char text[HF_VALUE_TEXT];
    double x = json_number_value(value);
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!(row->whole ? json_is_integer(value) : json_is_number(value)))
        return err_param(err, STATUS_INVALID, row->name, "%s: expected a %snumber, found %s",
                         row->name, row->whole ? "whole " : "", hf_value_text(value, text));
    if (row->whole && x >= -1 && x <= UINT32_MAX)
        gguf_build_u32(b, row->gguf_key, x < 0 ? 0 : (uint32_t)x); /* -1: off */
    else
        gguf_build_f32(b, row->gguf_key, (float)fmax(fmin(x, FLT_MAX), -FLT_MAX));
    return STATUS_OK;
}

/* do_sample false is greedy, whatever else was left behind. Where it is absent what is said counts,
 * as in vLLM; transformers would be greedy. */
static enum status write_sampling(const json_t *json, struct gguf_build *b, struct err *err)
{
    enum status st = STATUS_OK;
    if (json_is_false(json_object_get(json, "do_sample")))
        gguf_build_f32(b, sampling_rows[SAMPLING_temperature].gguf_key, 0);
    else
        for (const struct sampling_row *row = sampling_rows;
             row < sampling_rows + SAMPLING_PARAMS && !st; row++)
            if (row->gguf_key)
                st = hf_text_write_value(json_object_get(json, row->name), row, b, err);
    return st;
}

struct end_ids {
    uint32_t ids[LIMIT_END_IDS];
    uint32_t n;
};

static enum status add_id(struct end_ids *ends, const json_t *value, struct err *err)
{
    char text[HF_VALUE_TEXT];
    json_int_t id = json_integer_value(value);
    if (!json_is_integer(value) || id < 0 || id >= LIMIT_MODEL_VOCAB)
        return err_param(err, STATUS_INVALID, "eos_token_id",
                         "eos_token_id: expected an id, or a list of ids, found %s",
                         hf_value_text(value, text));
    for (uint32_t i = 0; i < ends->n; i++)
        if (ends->ids[i] == (uint32_t)id)
            return STATUS_OK;
    if (ends->n == LIMIT_END_IDS)
        return err_param(err, STATUS_TOO_LARGE, "eos_token_id",
                         "eos_token_id: expected up to %d ids, found more", LIMIT_END_IDS);
    ends->ids[ends->n++] = (uint32_t)id;
    return STATUS_OK;
}

static enum status add_ids(struct end_ids *ends, const json_t *json, struct err *err)
{
    const json_t *value = json_object_get(json, "eos_token_id");
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_array(value))
        return add_id(ends, value, err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        enum status st = add_id(ends, json_array_get(value, i), err);
        if (st)
            return st;
    }
    return STATUS_OK;
}

static void write_ends(const struct end_ids *ends, struct gguf_build *b)
{
    if (ends->n == 0)
        return;
    gguf_build_array(b, "tokenizer.ggml.eos_token_ids", GGUF_U32, ends->n);
    for (uint32_t i = 0; i < ends->n; i++)
        gguf_build_element_u32(b, ends->ids[i]);
}

/* The ids of generation_config.json come first: of several, the first is the file's eos. */
enum status hf_text_generation(const char *folder, const json_t *config, struct gguf_build *b,
                               struct err *err)
{
    struct buf path = {0};
    struct end_ids ends = {.n = 0};
    json_t *json = NULL;
    enum status st = STATUS_OK;
    if (hf_text_find(folder, "generation_config.json", &path)) {
        st = json_file_load(&json, buf_str(&path), LIMIT_CONFIG_BYTES, err);
        if (!st && (write_sampling(json, b, err) || add_ids(&ends, json, err)))
            st = err_context(err, "%s", buf_str(&path));
    }
    if (!st && path.failed)
        st = hf_text_no_memory(err);
    if (!st && add_ids(&ends, config, err))
        st = err_context(err, "%s/config.json", folder);
    write_ends(&ends, b);
    json_decref(json);
    buf_fini(&path);
    return st;
}
