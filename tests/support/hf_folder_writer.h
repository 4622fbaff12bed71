/* A tiny Hugging Face folder of architecture llama in a temporary directory, whole or with things
 * changed. One layer, width 8, two heads. */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_HF_FOLDER_WRITER_H
#define FIRSTLIGHT_TESTS_SUPPORT_HF_FOLDER_WRITER_H

#include "support/safetensors_writer.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

struct hf_folder_writer {
    char path[32];
    /* JSON members that come last in config.json ("\"vocab_size\": 7"); keys here are left out of
     * the rest. NULL: none. */
    const char *config;
    const char *skip;  /* a tensor that is left out */
    const char *shape; /* a tensor that is one row longer */
    const char *dtype; /* of every tensor; NULL: F16 */
    const char *more;  /* a further tensor of two values */
};

static inline void hf_writer_tensor(struct hf_folder_writer *f, struct safetensors_writer *w,
                                    const char *name, int rows, int columns)
{
    static const char zeros[4096];
    char shape[32];
    const char *dtype = f->dtype ? f->dtype : "F16";
    size_t size = strcmp(dtype, "F32") == 0 ? 4 : strcmp(dtype, "F64") == 0 ? 8 : 2;
    if (f->skip && strcmp(f->skip, name) == 0)
        return;
    rows += f->shape && strcmp(f->shape, name) == 0;
    if (columns)
        snprintf(shape, sizeof shape, "%d,%d", rows, columns);
    else
        snprintf(shape, sizeof shape, "%d", rows);
    size *= (size_t)rows * (size_t)(columns ? columns : 1);
    REQUIRE(size <= sizeof zeros);
    safetensors_writer_tensor(w, name, dtype, shape, zeros, size);
}

static inline void hf_writer_config(struct hf_folder_writer *f)
{
    static const char *const members[] = {
        "\"model_type\": \"llama\"",
        "\"hidden_size\": 8",
        "\"intermediate_size\": 12",
        "\"num_hidden_layers\": 1",
        "\"num_attention_heads\": 2",
        "\"num_key_value_heads\": 1",
        "\"max_position_embeddings\": 64",
        "\"rms_norm_eps\": 1e-05",
        "\"rope_theta\": 1000.0",
        "\"tie_word_embeddings\": true",
        "\"vocab_size\": 10",
    };
    struct buf json = {0};
    buf_puts(&json, "{");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(members[i], ":"), members[i]);
        if (!f->config || !strstr(f->config, key))
            buf_printf(&json, "%s%s", json.len > 1 ? ", " : "", members[i]);
    }
    if (f->config && *f->config == '"')
        buf_printf(&json, ", %s", f->config);
    buf_puts(&json, "}");
    REQUIRE(!json.failed);
    safetensors_writer_put(f->path, "config.json", json.data, json.len);
    buf_fini(&json);
}

static inline void hf_writer_write(struct hf_folder_writer *f)
{
    struct safetensors_writer w = {0};
#define LAYER "model.layers.0."
    strcpy(f->path, "/tmp/hf-XXXXXX");
    REQUIRE(mkdtemp(f->path));
    hf_writer_config(f);
    hf_writer_tensor(f, &w, "model.embed_tokens.weight", 10, 8);
    hf_writer_tensor(f, &w, "model.norm.weight", 8, 0);
    hf_writer_tensor(f, &w, LAYER "input_layernorm.weight", 8, 0);
    hf_writer_tensor(f, &w, LAYER "self_attn.q_proj.weight", 8, 8);
    hf_writer_tensor(f, &w, LAYER "self_attn.k_proj.weight", 4, 8);
    hf_writer_tensor(f, &w, LAYER "self_attn.v_proj.weight", 4, 8);
    hf_writer_tensor(f, &w, LAYER "self_attn.o_proj.weight", 8, 8);
    hf_writer_tensor(f, &w, LAYER "post_attention_layernorm.weight", 8, 0);
    hf_writer_tensor(f, &w, LAYER "mlp.gate_proj.weight", 12, 8);
    hf_writer_tensor(f, &w, LAYER "mlp.up_proj.weight", 12, 8);
    hf_writer_tensor(f, &w, LAYER "mlp.down_proj.weight", 8, 12);
#undef LAYER
    if (f->more)
        hf_writer_tensor(f, &w, f->more, 2, 0);
    safetensors_writer_save(&w, f->path, "model.safetensors");
    safetensors_writer_fini(&w);
}

static inline void hf_writer_put(struct hf_folder_writer *f, const char *name, const char *text)
{
    safetensors_writer_put(f->path, name, text, strlen(text));
}

static inline void hf_writer_remove(struct hf_folder_writer *f)
{
    DIR *d = opendir(f->path);
    REQUIRE(d);
    for (struct dirent *e; (e = readdir(d));) {
        char path[320];
        snprintf(path, sizeof path, "%s/%s", f->path, e->d_name);
        unlink(path); /* not "." and ".." */
    }
    closedir(d);
    rmdir(f->path);
}

#endif
