#include "model/write/convert.h"

#include "base/mem.h"
#include "base/pool.h"
#include "model/arch/arch.h"
#include "model/write/hf_tokenizer.h"
#include "weights/gguf_build.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bytes that are converted, then written, at a time. */
#define CHUNK ((size_t)8 << 20)

/* A file under way. */
struct writer {
    const struct loader *l;
    const struct requantize_options *o;
    struct pool *pool;
    FILE *file;
    char *chunk; /* (CHUNK), or one row if that is longer */
    size_t chunk_size;
    size_t done; /* bytes of tensors */
    size_t total;
    uint32_t *order; /* (most rows of a query or key matrix) where a row comes from */
};

static enum status convert_no_memory(struct err *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory to write a model");
}

static size_t align(size_t n)
{
    return (n + GGUF_BUILD_ALIGNMENT - 1) / GGUF_BUILD_ALIGNMENT * GGUF_BUILD_ALIGNMENT;
}

/* --- metadata ------------------------------------------------------------------------------- */

/* llama.cpp's numbers of file types (enum llama_ftype). */
static uint32_t file_type(enum tensor_type type)
{
    switch (type) {
    case TENSOR_F32:
        return 0;
    case TENSOR_F16:
        return 1;
    case TENSOR_BF16:
        return 32;
    case TENSOR_Q8_0:
        return 7;
    default:
        return 2; /* Q4_0 */
    }
}

/* Keys that are about the file that was read, not about the model. */
static bool is_of_the_file(const struct gguf_value *v)
{
    static const char *const keys[] = {"general.file_type", "general.quantization_version",
                                       "general.alignment", "split.no",
                                       "split.count",       "split.tensors.count"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strlen(keys[i]) == v->key.len && memcmp(keys[i], v->key.bytes, v->key.len) == 0)
            return true;
    return false;
}

/* No key of GGUF says which form of an activation is meant: readers take the usual one. */
static enum status check_activation(const struct model_file *f, struct err *err)
{
    if (!f->extra.gelu_erf)
        return STATUS_OK;
    return err_param(err, STATUS_UNSUPPORTED, "activation_function",
                     "%s/config.json: activation_function: expected one that GGUF files of this "
                     "architecture mean, found another, which readers would not know of",
                     gguf_path(f->gguf));
}

static enum status write_metadata(const struct writer *w, struct gguf_build *b, struct err *err)
{
    const struct gguf *g = w->l->file.gguf;
    gguf_build_u32(b, "general.file_type", file_type(w->o->type));
    gguf_build_u32(b, "general.quantization_version", 2);
    for (size_t i = 0; i < gguf_value_count(g); i++)
        if (!is_of_the_file(gguf_value_at(g, i)))
            gguf_build_copy(b, gguf_value_at(g, i));
    if (w->l->file.source != MODEL_FOLDER)
        return STATUS_OK;
    return hf_tokenizer_write(gguf_path(g), w->l->model->config.n_vocab, b, err);
}

static size_t rows_of(const struct tensor *t)
{
    return (size_t)(t->dims[1] * t->dims[2] * t->dims[3]);
}

/* The tensor as it will be written. */
static struct tensor target_of(const struct writer *w, const struct tensor *t)
{
    struct tensor out = *t;
    out.type = requantize_choose(w->l->file.gguf, t, w->o->type);
    out.size = rows_of(t) * tensor_row_bytes(out.type, (size_t)t->dims[0]);
    return out;
}

/* Everything before the tensors' data. */
static enum status convert_write_head(struct writer *w, struct err *err)
{
    const struct gguf *g = w->l->file.gguf;
    struct gguf_build b = {0};
    struct buf head = {0};
    enum status st = write_metadata(w, &b, err);
    gguf_build_header(&b, gguf_tensor_count(g), &head);
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        struct tensor t = target_of(w, gguf_tensor_at(g, i));
        gguf_build_info(&head, &t, w->total);
        w->total += align(t.size);
    }
    while (!head.failed && head.len % GGUF_BUILD_ALIGNMENT)
        buf_putc(&head, '\0');
    if (!st && head.failed)
        st = convert_no_memory(err);
    if (!st)
        fwrite(head.data, 1, head.len, w->file);
    buf_fini(&head);
    gguf_build_fini(&b);
    return st;
}

/* --- tensors -------------------------------------------------------------------------------- */

/* A folder's head has the first half of its pairs, then the second; GGUF's has pair by pair:
 *
 *     folder  0 1 2 3 | 4 5 6 7         file  0 4 1 5 2 6 3 7        (n_rot = 8)
 */
static void order_neighbours(uint32_t *order, size_t n_rows, uint32_t head_dim, uint32_t n_rot)
{
    for (uint32_t i = 0; i < n_rows; i++) {
        uint32_t at = i % head_dim;
        order[i] = at < n_rot ? i - at + at / 2 + at % 2 * (n_rot / 2) : i;
    }
}

/* Does the file want the tensor's rows in another order? */
static bool is_reordered(const struct writer *w, const struct tensor *t)
{
    uint32_t layer;
    const char *name = w->l->model->config.arch;
    const struct arch_tensor *row =
        arch_find_tensor(arch_find(name, strlen(name)), t->name, &layer);
    return w->l->file.source == MODEL_FOLDER && row && (row->flags & (HF_QUERY | HF_KV_HEAD));
}

static enum status write_rows(struct writer *w, const struct tensor *shown,
                              struct requantize_rows *rows, size_t n_rows, struct err *err)
{
    size_t row_bytes = tensor_row_bytes(rows->to, (size_t)rows->from->dims[0]);
    size_t step = w->chunk_size / row_bytes;
    for (rows->begin = 0; rows->begin < n_rows; rows->begin = rows->end) {
        rows->end = n_rows - rows->begin < step ? n_rows : rows->begin + step;
        rows->out = w->chunk;
        if (!requantize_rows(w->pool, rows))
            return err_param(err, STATUS_INVALID, shown->name,
                             "%s: tensor %s: expected values that %s can hold, found one that is "
                             "not finite or too large",
                             gguf_path(w->l->file.gguf), shown->name, tensor_type_name(rows->to));
        size_t bytes = (rows->end - rows->begin) * row_bytes;
        fwrite(w->chunk, 1, bytes, w->file);
        w->done += bytes;
        if (w->o->progress)
            w->o->progress(w->o->arg, "writing", (double)w->done / (double)w->total);
    }
    return STATUS_OK;
}

static enum status write_tensor(struct writer *w, const struct tensor *t, struct err *err)
{
    static const char zeros[GGUF_BUILD_ALIGNMENT];
    const struct model_config *c = &w->l->model->config;
    struct tensor target = target_of(w, t), column = *t;
    struct requantize_rows rows = {.from = t, .to = target.type};
    size_t n_rows = rows_of(t);
    if (is_reordered(w, t)) {
        if (t->n_dims == 1) { /* a bias: its values are rows of one */
            column.dims[1] = t->dims[0];
            column.dims[0] = 1;
            rows.from = &column;
            n_rows = (size_t)t->dims[0];
        }
        order_neighbours(w->order, n_rows, c->head_dim, c->n_rot);
        rows.source = w->order;
    }
    enum status st = write_rows(w, t, &rows, n_rows, err);
    size_t padding = align(target.size) - target.size;
    fwrite(zeros, 1, padding, w->file);
    w->done += padding;
    return st;
}

static enum status convert_prepare(struct writer *w, struct err *err)
{
    const struct gguf *g = w->l->file.gguf;
    const struct model_config *c = &w->l->model->config;
    w->chunk_size = CHUNK;
    for (size_t i = 0; i < gguf_tensor_count(g); i++) {
        struct tensor t = target_of(w, gguf_tensor_at(g, i));
        size_t row = tensor_row_bytes(t.type, (size_t)t.dims[0]);
        w->chunk_size = row > w->chunk_size ? row : w->chunk_size;
    }
    w->chunk = mem_alloc(w->chunk_size);
    w->order = mem_array((size_t)c->n_heads * c->head_dim, sizeof *w->order);
    if (!w->chunk || !w->order)
        return convert_no_memory(err);
    return pool_create(&w->pool, w->o->n_threads, err);
}

static enum status convert_write_all(struct writer *w, struct err *err)
{
    const struct gguf *g = w->l->file.gguf;
    enum status st = check_activation(&w->l->file, err);
    if (!st)
        st = convert_prepare(w, err);
    if (!st)
        st = convert_write_head(w, err);
    for (size_t i = 0; i < gguf_tensor_count(g) && !st; i++)
        st = write_tensor(w, gguf_tensor_at(g, i), err);
    pool_destroy(w->pool);
    mem_free(w->order);
    mem_free(w->chunk);
    return st;
}

/* --- the file ------------------------------------------------------------------------------- */

static enum status convert_io_error(const char *path, struct err *err)
{
    return err_set(err, STATUS_IO, "cannot write %s: %s", path, strerror(errno));
}

/* `part` becomes `path` when all of it is on the disk. */
static enum status convert_write_file(struct writer *w, const char *part, const char *path,
                                      struct convert_result *out, struct err *err)
{
    w->file = fopen(part, "wb");
    if (!w->file)
        return convert_io_error(part, err);
    enum status st = convert_write_all(w, err), whole = loader_check(w->l, err);
    st = whole ? whole : st; /* a write of pages that are gone fails, too */
    if (!st && (fflush(w->file) != 0 || ferror(w->file) || fsync(fileno(w->file)) != 0))
        st = convert_io_error(part, err);
    out->bytes = st ? 0 : (size_t)ftell(w->file);
    if (fclose(w->file) != 0 && !st)
        st = convert_io_error(part, err);
    if (!st && rename(part, path) != 0)
        st = convert_io_error(path, err);
    if (st)
        unlink(part);
    return st;
}

enum status convert_write(const struct loader *l, const char *path,
                          const struct requantize_options *o, struct convert_result *out,
                          struct err *err)
{
    struct writer w = {.l = l, .o = o};
    struct buf part = {0};
    buf_printf(&part, "%s.part", path);
    out->n_tensors = gguf_tensor_count(l->file.gguf);
    enum status st = part.failed ? convert_no_memory(err)
                                 : convert_write_file(&w, buf_str(&part), path, out, err);
    buf_fini(&part);
    return st;
}
