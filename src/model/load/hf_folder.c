#include "model/load/hf_folder.h"

#include "base/buf.h"
#include "base/limits.h"
#include "base/mem.h"
#include "kernels/half.h"
#include "model/load/hf_config.h"
#include "model/load/hf_text.h"
#include "weights/json_file.h"
#include "weights/safetensors.h"

#include <stdio.h>
#include <string.h>

#define LINE   64
#define SQUARE 32 /* values of a side */

/* What the assembled model keeps: owned by it, freed by folder_close. */
struct folder {
    struct safetensors *weights;
    struct buf head; /* the metadata's bytes */
    char *copies;    /* of the tensors that cannot stay where they are */
};

/* A tensor of the model and where it comes from. */
struct part {
    struct tensor tensor;
    char name[LIMIT_GGUF_TENSOR_NAME + 1];
    const struct safetensors_tensor *from; /* NULL: made here */
    unsigned flags;                        /* enum arch_tensor_flags */
    bool copy;
};

/* One opening. */
struct opening {
    const char *path;
    struct folder *folder;
    struct hf_config config;
    struct part *parts; /* (max_parts) */
    size_t n_parts;
    size_t n_left_out; /* tensors of the folder that are not wanted */
};

static enum status hf_folder_no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for a model's index");
}

static void folder_close(void *arg)
{
    struct folder *f = arg;
    if (!f)
        return;
    safetensors_close(f->weights);
    buf_fini(&f->head);
    mem_free(f->copies);
    mem_free(f);
}

/* --- metadata ------------------------------------------------------------------------------- */

/* The folder's own name. */
static void write_name(const char *path, struct gguf_build *b)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    gguf_build_bytes(b, "general.name", path + begin, end - begin);
}

static enum status hf_folder_read_config(struct opening *o, json_t **json, struct gguf_build *b,
                                         struct err *err)
{
    struct buf path = {0};
    buf_printf(&path, "%s/config.json", o->path);
    enum status st = path.failed ? hf_folder_no_memory(err)
                                 : json_file_load(json, buf_str(&path), LIMIT_CONFIG_BYTES, err);
    if (st == STATUS_NOT_FOUND)
        st = err_set(err, STATUS_INVALID,
                     "%s: expected a GGUF file, or a folder with config.json, found a folder "
                     "without it",
                     o->path);
    if (!st && hf_config_read(&o->config, *json, b, err))
        st = err_context(err, "%s", buf_str(&path));
    buf_fini(&path);
    return st;
}

static enum status hf_folder_read_metadata(struct opening *o, struct err *err)
{
    struct gguf_build b = {0};
    json_t *json = NULL;
    enum status st = hf_folder_read_config(o, &json, &b, err);
    if (!st) {
        write_name(o->path, &b);
        st = hf_text_template(o->path, &b, err);
    }
    if (!st)
        st = hf_text_generation(o->path, json, &b, err);
    gguf_build_header(&b, 0, &o->folder->head);
    if (!st && o->folder->head.failed)
        st = hf_folder_no_memory(err);
    json_decref(json);
    gguf_build_fini(&b);
    return st;
}

/* --- tensors -------------------------------------------------------------------------------- */

static const struct safetensors_tensor *find_tensor(const struct opening *o,
                                                    const struct arch_tensor *row, uint32_t layer,
                                                    char name[static ARCH_NAME_BYTES])
{
    char bare[ARCH_NAME_BYTES];
    const struct arch *arch = o->config.arch;
    const struct safetensors *weights = o->folder->weights;
    const struct safetensors_tensor *t =
        safetensors_find(weights, arch_hf_name(name, arch, arch->hf.prefix, row, layer));
    return t ? t : safetensors_find(weights, arch_hf_name(bare, arch, "", row, layer));
}

static enum status take_shape(struct part *p, struct err *err)
{
    const struct safetensors_tensor *from = p->from;
    struct tensor *t = &p->tensor;
    if (!from->is_weight)
        return err_set(err, STATUS_UNSUPPORTED, "expected F32, F16 or BF16, found %s", from->dtype);
    if (from->n_dims < 1 || from->n_dims > TENSOR_MAX_DIMS)
        return err_set(err, STATUS_INVALID, "expected 1 to %d dimensions, found %u",
                       TENSOR_MAX_DIMS, from->n_dims);
    t->n_dims = from->n_dims;
    for (uint32_t d = 0; d < TENSOR_MAX_DIMS; d++)
        t->dims[d] = d < t->n_dims ? from->dims[t->n_dims - 1 - d] : 1;
    if (from->size == 0)
        return err_set(err, STATUS_INVALID, "expected at least one value, found none");
    return STATUS_OK;
}

static bool is_turned(const struct part *p)
{
    return (p->flags & HF_TRANSPOSED) && p->tensor.n_dims == 2;
}

/* Vectors are read as floats by the backends; matrices stay where they are unless they have to be
 * turned round. */
static void hf_folder_place(struct part *p)
{
    const struct safetensors_tensor *from = p->from;
    struct tensor *t = &p->tensor;
    if (is_turned(p)) {
        t->dims[0] = from->dims[0];
        t->dims[1] = from->dims[1];
    }
    size_t step = tensor_type_block_bytes(from->type);
    t->type = t->n_dims == 1 ? TENSOR_F32 : from->type;
    t->data = from->data;
    t->size = from->size / step * tensor_type_block_bytes(t->type);
    p->copy = is_turned(p) || (p->flags & HF_PLUS_ONE) || t->type != from->type ||
              (uintptr_t)from->data % step != 0;
}

static enum status hf_folder_add_part(struct opening *o, const struct arch_tensor *row,
                                      uint32_t layer, struct err *err)
{
    char name[ARCH_NAME_BYTES], gguf[ARCH_NAME_BYTES], shown[SAFETENSORS_SHOWN];
    const struct safetensors_tensor *from = find_tensor(o, row, layer, name);
    bool tied = (row->flags & HF_TIED) &&
                (o->config.tying == HF_TYING_YES || (!from && o->config.tying == HF_TYING_UNSAID));
    bool optional = (row->flags & (ARCH_OPTIONAL | HF_TIED)) == ARCH_OPTIONAL;
    if (tied || (!from && optional)) {
        o->n_left_out += from != NULL;
        return STATUS_OK;
    }
    if (!from)
        return err_param(err, STATUS_INVALID, name, "%s: tensor %s is missing", o->path,
                         row->flags & HF_TIED ? row->hf : name);
    struct part *p = &o->parts[o->n_parts++];
    p->from = from;
    p->flags = row->flags;
    snprintf(p->name, sizeof p->name, "%s", arch_gguf_name(gguf, row, layer));
    p->tensor.name = p->name;
    enum status st = take_shape(p, err);
    if (st)
        return err_context(err, "%s: tensor %s", from->file, safetensors_show(from->name, shown));
    hf_folder_place(p);
    return STATUS_OK;
}

static enum status hf_folder_add_rows(struct opening *o, const struct arch_tensor *rows, size_t n,
                                      uint32_t layer, struct err *err)
{
    enum status st = STATUS_OK;
    for (size_t i = 0; i < n && !st; i++)
        if (rows[i].hf)
            st = hf_folder_add_part(o, &rows[i], layer, err);
    return st;
}

static enum status hf_folder_add_parts(struct opening *o, struct err *err)
{
    const struct arch *arch = o->config.arch;
    size_t max = arch->n_tensors + o->config.n_layers * arch->n_layer_tensors + HF_VECTORS;
    o->parts = mem_array(max, sizeof *o->parts);
    enum status st = o->parts ? STATUS_OK : hf_folder_no_memory(err);
    if (!st)
        st = hf_folder_add_rows(o, arch->tensors, arch->n_tensors, ARCH_NO_LAYER, err);
    for (uint32_t layer = 0; layer < o->config.n_layers && !st; layer++)
        st = hf_folder_add_rows(o, arch->layer_tensors, arch->n_layer_tensors, layer, err);
    return st;
}

static void add_vectors(struct opening *o)
{
    for (uint32_t i = 0; i < o->config.n_vectors; i++) {
        const struct hf_vector *v = &o->config.vectors[i];
        struct part *p = &o->parts[o->n_parts++];
        snprintf(p->name, sizeof p->name, "%s", v->name);
        p->tensor = (struct tensor){
            .name = p->name,
            .type = TENSOR_F32,
            .n_dims = 1,
            .dims = {v->n, 1, 1, 1},
            .data = v->values,
            .size = v->n * sizeof(float),
        };
        p->copy = true;
    }
}

static bool is_taken(const struct opening *o, const struct safetensors_tensor *t)
{
    size_t len = strlen(t->name);
    for (size_t i = 0; i < o->n_parts; i++)
        if (o->parts[i].from == t)
            return true;
    for (const char *const *end = o->config.arch->hf.ignored; *end; end++)
        if (len >= strlen(*end) && strcmp(t->name + len - strlen(*end), *end) == 0)
            return true;
    return o->config.tying == HF_TYING_YES && strcmp(t->name, "lm_head.weight") == 0;
}

/* A tensor that no row names belongs to a feature the forward pass would silently leave out. */
static enum status hf_folder_check_all_taken(const struct opening *o, struct err *err)
{
    char shown[SAFETENSORS_SHOWN];
    size_t n = safetensors_count(o->folder->weights);
    if (o->n_parts + o->n_left_out == n)
        return STATUS_OK;
    for (size_t i = 0; i < n; i++) {
        const struct safetensors_tensor *t = safetensors_at(o->folder->weights, i);
        if (!is_taken(o, t))
            return err_param(err, STATUS_UNSUPPORTED, t->name,
                             "%s: tensor %s: no part of a %s model with %u layers as implemented "
                             "here",
                             t->file, safetensors_show(t->name, shown), o->config.type->name,
                             o->config.n_layers);
    }
    return STATUS_OK;
}

/* The vocabulary that config.json states is checked here, where the error can name it. */
static enum status hf_folder_check_vocab(const struct opening *o, struct err *err)
{
    for (size_t i = 0; i < o->n_parts; i++) {
        const struct part *p = &o->parts[i];
        if (strcmp(p->name, "token_embd.weight") == 0 && p->tensor.dims[1] != o->config.n_vocab)
            return err_param(err, STATUS_INVALID, "vocab_size",
                             "%s/config.json: vocab_size: expected the %llu rows of %s, found %u",
                             o->path, (unsigned long long)p->tensor.dims[1], p->from->name,
                             o->config.n_vocab);
    }
    return STATUS_OK;
}

/* --- copies --------------------------------------------------------------------------------- */

/* in (rows, columns) to out (columns, rows), in squares that stay in cache. */
static void transpose(char *out, const char *in, size_t rows, size_t columns, size_t size)
{
    for (size_t r0 = 0; r0 < rows; r0 += SQUARE)
        for (size_t c0 = 0; c0 < columns; c0 += SQUARE)
            for (size_t r = r0; r < rows && r < r0 + SQUARE; r++)
                for (size_t c = c0; c < columns && c < c0 + SQUARE; c++)
                    memcpy(out + (c * rows + r) * size, in + (r * columns + c) * size, size);
}

static void hf_folder_copy_part(const struct part *p, void *out)
{
    const unsigned char *in = p->tensor.data;
    const struct tensor *t = &p->tensor;
    float *to = out;
    if (is_turned(p)) {
        transpose(out, p->tensor.data, t->dims[0], t->dims[1], tensor_type_block_bytes(t->type));
        return;
    }
    if (!p->from || p->from->type == t->type)
        memcpy(out, in, t->size);
    for (size_t i = 0; p->from && p->from->type != t->type && i < t->size / sizeof(float); i++) {
        uint16_t half;
        memcpy(&half, in + 2 * i, sizeof half);
        to[i] = p->from->type == TENSOR_F16 ? half_to_float(half) : bf16_to_float(half);
    }
    for (size_t i = 0; (p->flags & HF_PLUS_ONE) && i < t->size / sizeof(float); i++)
        to[i] += 1.0f;
}

static size_t hf_folder_padded(size_t size)
{
    return (size + LINE - 1) / LINE * LINE;
}

static enum status make_copies(struct opening *o, struct err *err)
{
    size_t total = 0, at = 0;
    for (size_t i = 0; i < o->n_parts; i++)
        total += o->parts[i].copy ? hf_folder_padded(o->parts[i].tensor.size) : 0;
    o->folder->copies = mem_aligned(total ? total : LINE);
    if (!o->folder->copies)
        return hf_folder_no_memory(err);
    for (size_t i = 0; i < o->n_parts; i++) {
        struct part *p = &o->parts[i];
        if (!p->copy)
            continue;
        hf_folder_copy_part(p, o->folder->copies + at);
        p->tensor.data = o->folder->copies + at;
        at += hf_folder_padded(p->tensor.size);
    }
    return STATUS_OK;
}

/* --- the whole ------------------------------------------------------------------------------ */

static enum status hf_folder_read_tensors(struct opening *o, struct err *err)
{
    enum status st = safetensors_open_folder(&o->folder->weights, o->path, err);
    if (!st)
        st = hf_folder_add_parts(o, err);
    if (!st)
        st = hf_folder_check_all_taken(o, err);
    if (!st)
        st = hf_folder_check_vocab(o, err);
    if (st)
        return st;
    add_vectors(o);
    return make_copies(o, err);
}

static enum status hf_folder_assemble(struct gguf **out, struct opening *o, struct err *err)
{
    struct tensor *tensors = mem_array(o->n_parts, sizeof *tensors);
    size_t *offsets = mem_array(o->n_parts, sizeof *offsets);
    enum status st = tensors && offsets ? STATUS_OK : hf_folder_no_memory(err);
    for (size_t i = 0; i < o->n_parts && !st; i++) {
        tensors[i] = o->parts[i].tensor;
        offsets[i] = o->parts[i].copy ? 0 : o->parts[i].from->offset;
    }
    const struct gguf_assembly a = {
        .path = o->path,
        .metadata = o->folder->head.data,
        .metadata_len = o->folder->head.len,
        .tensors = tensors,
        .offsets = offsets,
        .n_tensors = o->n_parts,
        .file_size = safetensors_file_size(o->folder->weights),
        .release = folder_close,
        .take_owned = o->folder,
    };
    if (!st)
        st = gguf_assemble(out, &a, err);
    mem_free(offsets);
    mem_free(tensors);
    return st;
}

enum status hf_folder_open(struct gguf **out, struct model_extra *extra, const char *path,
                           struct err *err)
{
    struct opening o = {.path = path, .folder = mem_zalloc(sizeof *o.folder)};
    enum status st = o.folder ? hf_folder_read_metadata(&o, err) : hf_folder_no_memory(err);
    if (!st)
        st = hf_folder_read_tensors(&o, err);
    if (!st)
        st = hf_folder_assemble(out, &o, err);
    *extra = o.config.extra;
    if (st)
        folder_close(o.folder);
    mem_free(o.parts);
    hf_config_fini(&o.config);
    return st;
}

const char *hf_folder_tensor(const struct gguf *g, const char *name,
                             char out[static ARCH_NAME_BYTES])
{
    const struct arch *arch;
    struct err ignored;
    uint32_t layer;
    if (arch_of(&arch, g, &ignored))
        return NULL;
    const struct arch_tensor *row = arch_find_tensor(arch, name, &layer);
    if (!row || !row->hf)
        return NULL;
    return arch_hf_name(out, arch, row->flags & HF_TIED ? "" : arch->hf.prefix, row, layer);
}
