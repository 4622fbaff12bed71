#include "weights/safetensors_file.h"

#include "base/limits.h"
#include "base/mem.h"
#include "weights/gguf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8
#define METADATA     "__metadata__"

/* dtype, bits of a value, the type it is here; TENSOR_TYPES: none that weights have */
static const struct dtype {
    const char *name;
    unsigned bits;
    enum tensor_type type;
} dtypes[] = {
    {"F32", 32, TENSOR_F32},      {"F16", 16, TENSOR_F16},      {"BF16", 16, TENSOR_BF16},
    {"F64", 64, TENSOR_TYPES},    {"I64", 64, TENSOR_TYPES},    {"I32", 32, TENSOR_TYPES},
    {"I16", 16, TENSOR_TYPES},    {"I8", 8, TENSOR_TYPES},      {"U64", 64, TENSOR_TYPES},
    {"U32", 32, TENSOR_TYPES},    {"U16", 16, TENSOR_TYPES},    {"U8", 8, TENSOR_TYPES},
    {"BOOL", 8, TENSOR_TYPES},    {"C64", 64, TENSOR_TYPES},    {"F8_E4M3", 8, TENSOR_TYPES},
    {"F8_E5M2", 8, TENSOR_TYPES}, {"F8_E8M0", 8, TENSOR_TYPES}, {"F6_E2M3", 6, TENSOR_TYPES},
    {"F6_E3M2", 6, TENSOR_TYPES}, {"F4", 4, TENSOR_TYPES},
};

const char *safetensors_show(const char *name, char out[static SAFETENSORS_SHOWN])
{
    return gguf_string_text((struct gguf_string){name, strlen(name)}, out, SAFETENSORS_SHOWN);
}

static enum status read_dtype(struct safetensors_tensor *t, const json_t *info, unsigned *bits,
                              struct err *err)
{
    char text[SAFETENSORS_SHOWN];
    const char *name = json_string_value(json_object_get(info, "dtype"));
    if (!name)
        return err_set(err, STATUS_INVALID, "dtype: expected a string such as \"BF16\"");
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(dtypes[i].name, name) != 0)
            continue;
        t->dtype = dtypes[i].name;
        t->type = dtypes[i].type;
        t->is_weight = dtypes[i].type != TENSOR_TYPES;
        *bits = dtypes[i].bits;
        return STATUS_OK;
    }
    return err_set(err, STATUS_UNSUPPORTED, "dtype: expected F32, F16, BF16 or the like, found %s",
                   safetensors_show(name, text));
}

/* A whole number from 0. */
static bool read_size(const json_t *value, uint64_t *out)
{
    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

static enum status safetensors_file_read_shape(struct safetensors_tensor *t, const json_t *info,
                                               uint64_t *values, struct err *err)
{
    const json_t *shape = json_object_get(info, "shape");
    size_t n = json_array_size(shape);
    if (!json_is_array(shape) || n > SAFETENSORS_MAX_DIMS)
        return err_set(err, STATUS_INVALID, "shape: expected an array of up to %d numbers%s",
                       SAFETENSORS_MAX_DIMS, json_is_array(shape) ? ", found more" : "");
    *values = 1;
    t->n_dims = (uint32_t)n;
    for (uint32_t d = 0; d < SAFETENSORS_MAX_DIMS; d++) {
        t->dims[d] = 1;
        if (d < n && !read_size(json_array_get(shape, d), &t->dims[d]))
            return err_set(err, STATUS_INVALID,
                           "shape: expected whole numbers from 0, number %u is none", d);
        if (__builtin_mul_overflow(*values, t->dims[d], values))
            return err_set(err, STATUS_INVALID, "shape: expected fewer than 2^64 values");
    }
    return STATUS_OK;
}

/* Offsets count from the data's first byte, `data`. */
static enum status read_extent(struct safetensors_tensor *t, const json_t *info, size_t data,
                               size_t file_size, struct err *err)
{
    uint64_t begin, end;
    const json_t *pair = json_object_get(info, "data_offsets");
    if (json_array_size(pair) != 2 || !read_size(json_array_get(pair, 0), &begin) ||
        !read_size(json_array_get(pair, 1), &end) || begin > end)
        return err_set(err, STATUS_INVALID, "data_offsets: expected [begin, end]");
    if (end > file_size - data)
        return err_set(err, STATUS_INVALID,
                       "data_offsets: expected an end up to %zu, which the file has, found "
                       "%" PRIu64,
                       file_size - data, end);
    t->offset = data + (size_t)begin;
    t->size = (size_t)(end - begin);
    return STATUS_OK;
}

static enum status check_size(const struct safetensors_tensor *t, uint64_t values, unsigned bits,
                              struct err *err)
{
    uint64_t n;
    if (__builtin_mul_overflow(values, (uint64_t)bits, &n))
        return err_set(err, STATUS_INVALID, "shape: expected fewer than 2^64 bits");
    if (n % 8 != 0 || n / 8 != t->size)
        return err_set(err, STATUS_INVALID,
                       "data_offsets: expected the %" PRIu64 " bytes of %" PRIu64
                       " %s values, found %zu",
                       n / 8, values, t->dtype, t->size);
    return STATUS_OK;
}

static enum status read_tensor(struct safetensors_tensor *t, const json_t *info, size_t data,
                               size_t file_size, struct err *err)
{
    uint64_t values = 0;
    unsigned bits = 0;
    if (!json_is_object(info))
        return err_set(err, STATUS_INVALID, "expected an object with dtype, shape, data_offsets");
    enum status s = read_dtype(t, info, &bits, err);
    if (s == STATUS_OK)
        s = safetensors_file_read_shape(t, info, &values, err);
    if (s == STATUS_OK)
        s = read_extent(t, info, data, file_size, err);
    if (s == STATUS_OK)
        s = check_size(t, values, bits, err);
    return s;
}

static enum status safetensors_file_read_tensors(struct safetensors_file *f,
                                                 const unsigned char *bytes, size_t data,
                                                 struct err *err)
{
    char text[SAFETENSORS_SHOWN];
    const char *name;
    json_t *info;
    json_object_foreach(f->header, name, info)
    {
        struct safetensors_tensor *t = &f->tensors[f->n_tensors];
        if (strcmp(name, METADATA) == 0)
            continue;
        t->name = name;
        t->file = f->path;
        enum status s = read_tensor(t, info, data, f->size, err);
        if (s != STATUS_OK)
            return err_context(err, "tensor %s", safetensors_show(name, text));
        t->data = bytes + t->offset;
        f->n_tensors++;
    }
    return STATUS_OK;
}

static int compare_offsets(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->size > y->size) - (x->size < y->size);
}

static int compare_names(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Each tensor begins where the one before ends: nothing overlaps, nothing is left out. */
static enum status check_cover(struct safetensors_file *f, size_t data, struct err *err)
{
    char text[SAFETENSORS_SHOWN];
    size_t at = data;
    qsort(f->tensors, f->n_tensors, sizeof *f->tensors, compare_offsets);
    for (size_t i = 0; i < f->n_tensors; i++) {
        const struct safetensors_tensor *t = &f->tensors[i];
        if (t->offset != at)
            return err_set(err, STATUS_INVALID,
                           "tensor %s: data_offsets: expected to begin at %zu, where the one "
                           "before ends, found %zu",
                           safetensors_show(t->name, text), at - data, t->offset - data);
        at += t->size;
    }
    if (at != f->size)
        return err_set(err, STATUS_INVALID,
                       "expected the file to end with its last tensor at byte %zu, found %zu bytes",
                       at, f->size);
    qsort(f->tensors, f->n_tensors, sizeof *f->tensors, compare_names);
    return STATUS_OK;
}

static enum status check_metadata(const json_t *header, struct err *err)
{
    const json_t *metadata = json_object_get(header, METADATA);
    const char *key;
    json_t *value;
    if (metadata && !json_is_object(metadata))
        return err_set(err, STATUS_INVALID, METADATA ": expected an object of strings");
    json_object_foreach((json_t *)metadata, key, value)
    {
        if (!json_is_string(value))
            return err_set(err, STATUS_INVALID, METADATA ": expected an object of strings");
    }
    return STATUS_OK;
}

static enum status load_header(struct safetensors_file *f, const unsigned char *bytes, size_t len,
                               struct err *err)
{
    json_error_t where;
    f->header = json_loadb((const char *)bytes, len, JSON_REJECT_DUPLICATES, &where);
    if (!f->header)
        return err_set(err, STATUS_INVALID, "header, byte %d: %s", LENGTH_BYTES + where.position,
                       where.text);
    if (!json_is_object(f->header))
        return err_set(err, STATUS_INVALID, "header: expected a JSON object");
    size_t n = json_object_size(f->header);
    if (n > LIMIT_GGUF_TENSORS)
        return err_set(err, STATUS_TOO_LARGE, "header: expected up to %d tensors, found %zu",
                       LIMIT_GGUF_TENSORS, n);
    f->tensors = mem_array(n + 1, sizeof *f->tensors);
    if (!f->tensors)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the index of %zu tensors", n);
    return check_metadata(f->header, err);
}

enum status safetensors_file_parse(struct safetensors_file *f, const void *bytes, size_t len,
                                   struct err *err)
{
    const unsigned char *p = bytes;
    uint64_t header = 0;
    f->size = len;
    if (len < LENGTH_BYTES)
        return err_set(err, STATUS_INVALID,
                       "expected a safetensors file of at least %d bytes, found %zu", LENGTH_BYTES,
                       len);
    for (int i = 0; i < LENGTH_BYTES; i++)
        header |= (uint64_t)p[i] << 8 * i;
    if (header > len - LENGTH_BYTES)
        return err_set(err, STATUS_INVALID,
                       "expected a safetensors file: a header of %" PRIu64
                       " bytes, found %zu bytes after its length",
                       header, len - LENGTH_BYTES);
    if (header > LIMIT_SAFETENSORS_HEADER)
        return err_set(err, STATUS_TOO_LARGE, "expected a header of up to %u bytes, found %" PRIu64,
                       LIMIT_SAFETENSORS_HEADER, header);
    size_t data = LENGTH_BYTES + (size_t)header;
    enum status s = load_header(f, p + LENGTH_BYTES, (size_t)header, err);
    if (s == STATUS_OK)
        s = safetensors_file_read_tensors(f, p, data, err);
    if (s == STATUS_OK)
        s = check_cover(f, data, err);
    return s;
}

enum status safetensors_file_open(struct safetensors_file *f, const char *path, struct err *err)
{
    *f = (struct safetensors_file){.path = mem_strdup(path)};
    if (!f->path)
        return err_set(err, STATUS_NO_MEMORY, "no memory to open %s", path);
    enum status s = file_map_open(&f->map, path, err);
    if (s == STATUS_OK)
        s = safetensors_file_parse(f, f->map.bytes, f->map.len, err);
    return s == STATUS_OK ? s : err_context(err, "%s", path);
}

void safetensors_file_close(struct safetensors_file *f)
{
    mem_free(f->tensors);
    json_decref(f->header);
    file_map_close(&f->map);
    mem_free(f->path);
    *f = (struct safetensors_file){0};
}

const struct safetensors_tensor *safetensors_file_find(const struct safetensors_file *f,
                                                       const char *name)
{
    struct safetensors_tensor key = {.name = name};
    return bsearch(&key, f->tensors, f->n_tensors, sizeof *f->tensors, compare_names);
}
