#include "model/load/model_file.h"

#include "base/buf.h"
#include "base/limits.h"
#include "model/load/hf_folder.h"
#include "model/load/model_bind.h"
#include "weights/file_map.h"

#include <string.h>
#include <sys/stat.h>

#define KEY_ENDS "tokenizer.ggml.eos_token_ids"

static bool model_file_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum status model_file_open(struct model_file *out, const char *path, struct err *err)
{
    *out = (struct model_file){.source = model_file_is_folder(path) ? MODEL_FOLDER : MODEL_FILE};
    if (out->source == MODEL_FOLDER)
        return hf_folder_open(&out->gguf, &out->extra, path, err);
    return gguf_open(&out->gguf, path, err);
}

void model_file_close(struct model_file *f)
{
    gguf_close(f->gguf);
    *f = (struct model_file){0};
}

/* Folders have halves of heads that turn together, whatever the architecture's GGUF files have. */
static void apply_source(struct model_config *c, const struct model_file *f)
{
    if (f->source == MODEL_FOLDER)
        c->rope_style = ROPE_HALVES;
    if (f->extra.gelu_erf)
        c->activation = ACTIVATION_GELU_ERF;
}

enum status model_file_load(struct model **out, const struct model_file *f, struct err *err)
{
    char original[ARCH_NAME_BYTES];
    enum status st = model_bind(out, f->gguf, err);
    if (!st) {
        apply_source(&(*out)->config, f);
        return STATUS_OK;
    }
    if (f->source == MODEL_FOLDER && err->param[0] &&
        hf_folder_tensor(f->gguf, err->param, original))
        err_context(err, "%s", original);
    return err_context(err, "%s", gguf_path(f->gguf));
}

/* --- tokenizer ------------------------------------------------------------------------------ */

/* The end tokens that the folder's files name; returns how many. */
static size_t model_file_read_ends(const struct gguf *g, int32_t ids[static LIMIT_END_IDS])
{
    const struct gguf_value *v = gguf_value(g, KEY_ENDS);
    size_t n = v && v->count < LIMIT_END_IDS ? (size_t)v->count : v ? LIMIT_END_IDS : 0;
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)gguf_integer(v, i);
    return n;
}

/* Maps folder/name; a file that does not exist is no error unless it is required. */
static enum status map_file(struct file_map *m, const char *folder, const char *name, bool required,
                            struct err *err)
{
    struct buf path = {0};
    struct err here = {0};
    buf_printf(&path, "%s/%s", folder, name);
    enum status st = path.failed ? err_set(&here, STATUS_NO_MEMORY, "no memory to open %s", name)
                                 : file_map_open(m, buf_str(&path), &here);
    buf_fini(&path);
    if (st == STATUS_NOT_FOUND && !required)
        return STATUS_OK;
    if (!st && m->len > LIMIT_TOKENIZER_BYTES)
        st = err_set(&here, STATUS_TOO_LARGE, "expected up to %u bytes, found %zu",
                     LIMIT_TOKENIZER_BYTES, m->len);
    if (st)
        return err_set(err, st, "%s: %s", name, here.text);
    return STATUS_OK;
}

static enum status model_file_open_json(struct tokenizer **out, const struct gguf *g,
                                        struct err *err)
{
    int32_t ends[LIMIT_END_IDS];
    struct file_map text = {0}, config = {0};
    enum status st = map_file(&text, gguf_path(g), "tokenizer.json", true, err);
    if (!st)
        st = map_file(&config, gguf_path(g), "tokenizer_config.json", false, err);
    const struct tokenizer_json files = {
        .text = (const char *)text.bytes,
        .len = text.len,
        .config = (const char *)config.bytes,
        .config_len = config.len,
        .end_ids = ends,
        .n_end_ids = model_file_read_ends(g, ends),
    };
    if (!st)
        st = tokenizer_open_json(out, &files, err);
    file_map_close(&config);
    file_map_close(&text);
    return st;
}

enum status model_file_tokenizer(struct tokenizer **out, const struct model_file *f,
                                 struct err *err)
{
    enum status st = f->source == MODEL_FOLDER ? model_file_open_json(out, f->gguf, err)
                                               : tokenizer_open(out, f->gguf, err);
    return st ? err_context(err, "%s", gguf_path(f->gguf)) : STATUS_OK;
}
