#include "weights/gguf.h"

#include "base/limits.h"
#include "base/mem.h"
#include "weights/file_map.h"
#include "weights/gguf_reader.h"
#include "weights/map_guard.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEFAULT_ALIGNMENT 32
/* Below this the values of a tensor (F32 at the widest) could lie across their own boundary. */
#define LEAST_ALIGNMENT 8
#define HEADER_BYTES    24
/* A pair takes at least a key's length, a type and a one-byte value. */
#define LEAST_PAIR_BYTES (8 + 4 + 1)
/* A tensor takes at least a name's length, a dimension count, a dimension, a type and an offset. */
#define LEAST_TENSOR_BYTES (8 + 4 + 8 + 4 + 8)
/* Names in errors are cut to this. */
#define NAME_TEXT 128

/*  bytes ┬ magic, version, counts │ pairs │ tensor infos │ padding │ tensor data ┐ len
 *        │                          ^ values[i].data       data_start^  ^ tensors[i].data
 *
 * by_key and by_name point into values and tensors, in the order of their names. */
struct gguf {
    char *path;
    struct file_map map; /* empty when the bytes are the caller's */
    const unsigned char *bytes;
    size_t len;
    size_t file_size; /* of all files together */
    uint32_t version;
    uint32_t alignment;
    size_t data_start;

    struct gguf_value *values; /* (n_values) */
    const struct gguf_value **by_key;
    size_t n_values;

    struct tensor *tensors; /* (n_tensors) */
    const struct tensor **by_name;
    char (*names)[LIMIT_GGUF_TENSOR_NAME + 1]; /* the tensors' names, with a NUL each */
    size_t *offsets; /* (n_tensors) in the tensors' own files; NULL: they are in bytes */
    size_t n_tensors;

    void (*release)(void *take_owned); /* of an assembled one; may be NULL */
    void *take_owned;
};

static enum status gguf_no_memory(struct err *err, const char *what, size_t count)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for the index of %zu %s", count, what);
}

/* Header. */

static enum status check_magic(const struct gguf *g, struct err *err)
{
    char text[32];
    struct gguf_string found = {(const char *)g->bytes, g->len < 4 ? g->len : 4};
    if (g->len == 0)
        return err_set(err, STATUS_INVALID, "expected a GGUF file, found an empty file");
    if (found.len == 4 && memcmp(found.bytes, "GGUF", 4) == 0)
        return STATUS_OK;
    return err_set(err, STATUS_INVALID, "expected a GGUF file (first bytes \"GGUF\"), found %s",
                   gguf_string_text(found, text, sizeof text));
}

static enum status check_version(uint32_t version, struct err *err)
{
    if (version == 2 || version == 3)
        return STATUS_OK;
    uint32_t swapped = __builtin_bswap32(version);
    if (swapped >= 1 && swapped <= 3)
        return err_set(err, STATUS_UNSUPPORTED,
                       "expected a little-endian GGUF file, found a big-endian one (version "
                       "%" PRIu32 " with its bytes swapped)",
                       swapped);
    return err_set(err, STATUS_UNSUPPORTED, "expected GGUF version 2 or 3, found version %" PRIu32,
                   version);
}

static enum status gguf_read_header(struct gguf *g, struct gguf_reader *r)
{
    uint32_t magic;
    uint64_t n_tensors, n_values;
    enum status s = check_magic(g, r->err);
    if (s == STATUS_OK)
        s = gguf_reader_u32(r, "magic", &magic);
    if (s == STATUS_OK)
        s = gguf_reader_u32(r, "version", &g->version);
    if (s == STATUS_OK)
        s = check_version(g->version, r->err);
    if (s == STATUS_OK)
        s = gguf_reader_u64(r, "tensor count", &n_tensors);
    if (s == STATUS_OK)
        s = gguf_reader_u64(r, "metadata count", &n_values);
    if (s == STATUS_OK)
        s = gguf_reader_check_count(r, "tensor count", n_tensors, LEAST_TENSOR_BYTES,
                                    LIMIT_GGUF_TENSORS);
    if (s == STATUS_OK)
        s = gguf_reader_check_count(r, "metadata count", n_values, LEAST_PAIR_BYTES,
                                    LIMIT_GGUF_KEYS);
    if (s != STATUS_OK)
        return s;
    g->n_tensors = n_tensors;
    g->n_values = n_values;
    return STATUS_OK;
}

/* Metadata. */

static enum status read_pair(struct gguf_reader *r, size_t i, struct gguf_value *v)
{
    char text[NAME_TEXT];
    enum status s = gguf_reader_string(r, "key", LIMIT_GGUF_KEY_BYTES, &v->key);
    if (s == STATUS_OK && v->key.len == 0)
        s = err_set(r->err, STATUS_INVALID, "expected a key, found an empty one");
    if (s != STATUS_OK) {
        err_context(r->err, "metadata pair %zu", i);
        return s;
    }
    s = gguf_reader_value(r, v);
    if (s != STATUS_OK)
        err_context(r->err, "key %s", gguf_string_text(v->key, text, sizeof text));
    return s;
}

static int compare_strings(struct gguf_string a, struct gguf_string b)
{
    int c = memcmp(a.bytes, b.bytes, a.len < b.len ? a.len : b.len);
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static int compare_values(const void *a, const void *b)
{
    const struct gguf_value *const *x = a, *const *y = b;
    return compare_strings((*x)->key, (*y)->key);
}

static enum status index_values(struct gguf *g, struct err *err)
{
    char text[NAME_TEXT];
    for (size_t i = 0; i < g->n_values; i++)
        g->by_key[i] = &g->values[i];
    qsort(g->by_key, g->n_values, sizeof *g->by_key, compare_values);
    for (size_t i = 1; i < g->n_values; i++)
        if (compare_values(&g->by_key[i - 1], &g->by_key[i]) == 0)
            return err_set(err, STATUS_INVALID, "key %s: expected once, found twice",
                           gguf_string_text(g->by_key[i]->key, text, sizeof text));
    return STATUS_OK;
}

static enum status read_alignment(struct gguf *g, struct err *err)
{
    g->alignment = DEFAULT_ALIGNMENT;
    if (!gguf_value(g, "general.alignment"))
        return STATUS_OK;
    enum status s = gguf_get_u32(g, "general.alignment", &g->alignment, err);
    if (s != STATUS_OK)
        return s;
    if (g->alignment < LEAST_ALIGNMENT || (g->alignment & (g->alignment - 1)) != 0)
        return err_param(err, STATUS_INVALID, "general.alignment",
                         "key \"general.alignment\": expected a power of two of at least %d, found "
                         "%" PRIu32,
                         LEAST_ALIGNMENT, g->alignment);
    return STATUS_OK;
}

static enum status gguf_read_metadata(struct gguf *g, struct gguf_reader *r)
{
    g->values = mem_array(g->n_values, sizeof *g->values);
    g->by_key = mem_array(g->n_values, sizeof *g->by_key);
    if (!g->values || !g->by_key)
        return gguf_no_memory(r->err, "metadata pairs", g->n_values);
    enum status s = STATUS_OK;
    for (size_t i = 0; i < g->n_values && s == STATUS_OK; i++)
        s = read_pair(r, i, &g->values[i]);
    if (s == STATUS_OK)
        s = index_values(g, r->err);
    if (s == STATUS_OK)
        s = read_alignment(g, r->err);
    return s;
}

/* Tensors. */

static enum status gguf_read_name(struct gguf_reader *r, char name[LIMIT_GGUF_TENSOR_NAME + 1])
{
    struct gguf_string found;
    enum status s = gguf_reader_string(r, "name", LIMIT_GGUF_TENSOR_NAME, &found);
    if (s != STATUS_OK)
        return s;
    if (found.len == 0)
        return err_set(r->err, STATUS_INVALID, "expected a name, found an empty one");
    if (memchr(found.bytes, '\0', found.len))
        return err_set(r->err, STATUS_INVALID, "expected a name, found one with a NUL in it");
    memcpy(name, found.bytes, found.len);
    name[found.len] = '\0';
    return STATUS_OK;
}

static enum status read_dims(struct gguf_reader *r, struct tensor *t)
{
    enum status s = gguf_reader_u32(r, "dimension count", &t->n_dims);
    if (s != STATUS_OK)
        return s;
    if (t->n_dims < 1 || t->n_dims > TENSOR_MAX_DIMS)
        return err_set(r->err, STATUS_INVALID, "expected 1 to %d dimensions, found %" PRIu32,
                       TENSOR_MAX_DIMS, t->n_dims);
    for (uint32_t d = 0; d < TENSOR_MAX_DIMS; d++) {
        t->dims[d] = 1;
        if (d < t->n_dims && (s = gguf_reader_u64(r, "dimension", &t->dims[d])) != STATUS_OK)
            return s;
        if (t->dims[d] == 0)
            return err_set(r->err, STATUS_INVALID,
                           "dimension %" PRIu32 ": expected at least 1, found 0", d);
    }
    return STATUS_OK;
}

static enum status gguf_read_type(struct gguf_reader *r, struct tensor *t)
{
    uint32_t number;
    enum status s = gguf_reader_u32(r, "type", &number);
    if (s != STATUS_OK || tensor_type_from_gguf(number, &t->type))
        return s;
    const char *name = tensor_gguf_type_name(number);
    return err_set(r->err, STATUS_UNSUPPORTED,
                   "type %s (number %" PRIu32 ") cannot be read by this program",
                   name ? name : "unknown", number);
}

/* t->size from its dimensions and type. */
static enum status set_size(struct tensor *t, struct err *err)
{
    char shape[96];
    uint64_t block = tensor_type_block_values(t->type);
    if (t->dims[0] % block != 0)
        return err_set(err, STATUS_INVALID,
                       "%s rows must be a multiple of %" PRIu64 " values, found %" PRIu64,
                       tensor_type_name(t->type), block, t->dims[0]);
    uint64_t values = 1;
    bool overflow = false;
    for (uint32_t d = 0; d < t->n_dims; d++)
        overflow |= __builtin_mul_overflow(values, t->dims[d], &values);
    if (overflow || !mem_mul(values / block, tensor_type_block_bytes(t->type), &t->size))
        return err_set(err, STATUS_INVALID, "shape %s: expected a size below 2^64, found more",
                       tensor_shape_text(t, shape, sizeof shape));
    return STATUS_OK;
}

/* Puts "tensor NAME: " (or its number while it has no name) in front of the error. */
static enum status name_tensor(enum status s, const struct tensor *t, size_t i, struct err *err)
{
    char text[NAME_TEXT];
    if (s == STATUS_OK)
        return s;
    if (t->name[0] == '\0')
        err_context(err, "tensor %zu", i);
    else
        err_context(
            err, "tensor %s",
            gguf_string_text((struct gguf_string){t->name, strlen(t->name)}, text, sizeof text));
    return s;
}

static enum status read_info(struct gguf *g, struct gguf_reader *r, size_t i, uint64_t *offset)
{
    struct tensor *t = &g->tensors[i];
    t->name = g->names[i];
    enum status s = gguf_read_name(r, g->names[i]);
    if (s == STATUS_OK)
        s = read_dims(r, t);
    if (s == STATUS_OK)
        s = gguf_read_type(r, t);
    if (s == STATUS_OK)
        s = gguf_reader_u64(r, "offset", offset);
    if (s == STATUS_OK)
        s = set_size(t, r->err);
    return name_tensor(s, t, i, r->err);
}

/* Points t->data at `offset` bytes into the file's tensor data. */
static enum status gguf_place(const struct gguf *g, struct tensor *t, uint64_t offset,
                              struct err *err)
{
    size_t start, end;
    if (offset % g->alignment != 0)
        return err_set(err, STATUS_INVALID,
                       "offset %" PRIu64 ": expected a multiple of the alignment %" PRIu32, offset,
                       g->alignment);
    if (!mem_add(g->data_start, offset, &start) || !mem_add(start, t->size, &end) || end > g->len)
        return err_set(err, STATUS_INVALID,
                       "expected %zu bytes at %zu + %" PRIu64 ", found the file's end at byte %zu",
                       t->size, g->data_start, offset, g->len);
    t->data = g->bytes + start;
    return STATUS_OK;
}

static int gguf_compare_tensors(const void *a, const void *b)
{
    const struct tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static enum status index_tensors(struct gguf *g, struct err *err)
{
    for (size_t i = 0; i < g->n_tensors; i++)
        g->by_name[i] = &g->tensors[i];
    qsort(g->by_name, g->n_tensors, sizeof *g->by_name, gguf_compare_tensors);
    for (size_t i = 1; i < g->n_tensors; i++)
        if (gguf_compare_tensors(&g->by_name[i - 1], &g->by_name[i]) == 0)
            return name_tensor(err_set(err, STATUS_INVALID, "expected once, found twice"),
                               g->by_name[i], i, err);
    return STATUS_OK;
}

/* The infos come first and the alignment of what follows them fixes where offsets count from, so
 * the offsets wait in `offsets` until all infos have been read. */
static enum status gguf_read_tensors(struct gguf *g, struct gguf_reader *r, uint64_t *offsets)
{
    enum status s = STATUS_OK;
    for (size_t i = 0; i < g->n_tensors && s == STATUS_OK; i++)
        s = read_info(g, r, i, &offsets[i]);
    if (s == STATUS_OK)
        s = index_tensors(g, r->err);
    if (s != STATUS_OK)
        return s;
    if (!mem_add(r->pos, g->alignment - 1, &g->data_start))
        return err_set(r->err, STATUS_INVALID, "the tensors' data would start past 2^64");
    g->data_start &= ~(size_t)(g->alignment - 1);
    for (size_t i = 0; i < g->n_tensors && s == STATUS_OK; i++) {
        s = gguf_place(g, &g->tensors[i], offsets[i], r->err);
        s = name_tensor(s, &g->tensors[i], i, r->err);
    }
    return s;
}

static enum status alloc_and_read_tensors(struct gguf *g, struct gguf_reader *r)
{
    g->tensors = mem_array(g->n_tensors, sizeof *g->tensors);
    g->by_name = mem_array(g->n_tensors, sizeof *g->by_name);
    g->names = mem_array(g->n_tensors, sizeof *g->names);
    uint64_t *offsets = mem_array(g->n_tensors, sizeof *offsets);
    enum status s;
    if (g->tensors && g->by_name && g->names && offsets)
        s = gguf_read_tensors(g, r, offsets);
    else
        s = gguf_no_memory(r->err, "tensors", g->n_tensors);
    mem_free(offsets);
    return s;
}

/* Opening. */

static enum status gguf_own_parse(struct gguf *g, struct err *err)
{
    struct gguf_reader r = {.bytes = g->bytes, .len = g->len, .pos = 0, .err = err};
    enum status s = gguf_read_header(g, &r);
    if (s == STATUS_OK)
        s = gguf_read_metadata(g, &r);
    if (s == STATUS_OK)
        s = alloc_and_read_tensors(g, &r);
    return s;
}

static enum status gguf_create(struct gguf **out, const char *path, struct err *err)
{
    struct gguf *g = mem_zalloc(sizeof *g);
    if (g)
        g->path = mem_strdup(path);
    if (!g || !g->path) {
        mem_free(g);
        return err_set(err, STATUS_NO_MEMORY, "no memory to open a file");
    }
    *out = g;
    return STATUS_OK;
}

enum status gguf_parse(struct gguf **out, const void *bytes, size_t len, struct err *err)
{
    struct gguf *g = NULL;
    enum status s = gguf_create(&g, "(memory)", err);
    if (s != STATUS_OK)
        return s;
    g->bytes = bytes;
    g->file_size = g->len = len;
    s = gguf_own_parse(g, err);
    if (s == STATUS_OK)
        *out = g;
    else
        gguf_close(g);
    return s;
}

enum status gguf_open_part(struct gguf **out, const char *path, struct err *err)
{
    struct gguf *g = NULL;
    enum status s = gguf_create(&g, path, err);
    if (s != STATUS_OK)
        return s;
    s = file_map_open(&g->map, path, err);
    g->bytes = g->map.bytes; /* an empty file is left for check_magic to refuse */
    g->file_size = g->len = g->map.len;
    if (s == STATUS_OK)
        s = gguf_own_parse(g, err);
    enum status whole = map_guard_check(err); /* zeros are no fault of the format */
    if (s != STATUS_OK || whole != STATUS_OK) {
        if (whole == STATUS_OK)
            err_context(err, "%s", path);
        gguf_close(g);
        return whole == STATUS_OK ? s : whole;
    }
    *out = g;
    return STATUS_OK;
}

/* Assembling. */

/* The tensors as the caller has them; names are copied. */
static enum status adopt_tensors(struct gguf *g, const struct gguf_assembly *a, struct err *err)
{
    g->n_tensors = a->n_tensors;
    g->tensors = mem_array(g->n_tensors, sizeof *g->tensors);
    g->by_name = mem_array(g->n_tensors, sizeof *g->by_name);
    g->names = mem_array(g->n_tensors, sizeof *g->names);
    g->offsets = mem_array(g->n_tensors, sizeof *g->offsets);
    if (!g->tensors || !g->by_name || !g->names || !g->offsets)
        return gguf_no_memory(err, "tensors", g->n_tensors);
    for (size_t i = 0; i < g->n_tensors; i++) {
        size_t len = strlen(a->tensors[i].name);
        REQUIRE(len <= LIMIT_GGUF_TENSOR_NAME);
        memcpy(g->names[i], a->tensors[i].name, len + 1);
        g->tensors[i] = a->tensors[i];
        g->tensors[i].name = g->names[i];
        if (a->offsets)
            g->offsets[i] = a->offsets[i];
    }
    return index_tensors(g, err);
}

enum status gguf_assemble(struct gguf **out, const struct gguf_assembly *a, struct err *err)
{
    struct gguf *g = NULL;
    enum status s = gguf_create(&g, a->path, err);
    if (s != STATUS_OK)
        return s;
    struct gguf_reader r = {.bytes = a->metadata, .len = a->metadata_len, .pos = 0, .err = err};
    g->bytes = a->metadata;
    g->len = a->metadata_len;
    g->file_size = a->file_size;
    s = gguf_read_header(g, &r);
    g->n_tensors = 0; /* those of the metadata's own file are none of ours */
    if (s == STATUS_OK)
        s = gguf_read_metadata(g, &r);
    if (s == STATUS_OK)
        s = adopt_tensors(g, a, err);
    if (s != STATUS_OK) {
        gguf_close(g);
        return s;
    }
    g->release = a->release;
    g->take_owned = a->take_owned;
    *out = g;
    return STATUS_OK;
}

void gguf_release(const struct gguf *g, const struct tensor *t)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)t->data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)t->data + t->size) / page * page;
    bool in_file = g->map.len > 0 || (g->offsets && gguf_tensor_offset(g, t) != 0);
    if (in_file && begin < end)
        madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void gguf_close(struct gguf *g)
{
    if (!g)
        return;
    file_map_close(&g->map);
    mem_free(g->offsets);
    mem_free(g->names);
    mem_free(g->by_name);
    mem_free(g->tensors);
    mem_free(g->by_key);
    mem_free(g->values);
    mem_free(g->path);
    if (g->release)
        g->release(g->take_owned);
    mem_free(g);
}

/* Access. */

const char *gguf_path(const struct gguf *g)
{
    return g->path;
}

uint32_t gguf_version(const struct gguf *g)
{
    return g->version;
}

size_t gguf_file_size(const struct gguf *g)
{
    return g->file_size;
}

size_t gguf_tensor_count(const struct gguf *g)
{
    return g->n_tensors;
}

const void *gguf_bytes(const struct gguf *g, size_t *len)
{
    *len = g->len;
    return g->bytes;
}

const struct tensor *gguf_tensor_at(const struct gguf *g, size_t i)
{
    REQUIRE(i < g->n_tensors);
    return &g->tensors[i];
}

const struct tensor *gguf_tensor(const struct gguf *g, const char *name)
{
    struct tensor wanted = {.name = name};
    const struct tensor *key = &wanted;
    const struct tensor *const *found =
        bsearch(&key, g->by_name, g->n_tensors, sizeof *g->by_name, gguf_compare_tensors);
    return found ? *found : NULL;
}

size_t gguf_tensor_offset(const struct gguf *g, const struct tensor *t)
{
    if (g->offsets)
        return g->offsets[t - g->tensors];
    return (size_t)((const unsigned char *)t->data - g->bytes);
}

size_t gguf_value_count(const struct gguf *g)
{
    return g->n_values;
}

const struct gguf_value *gguf_value_at(const struct gguf *g, size_t i)
{
    REQUIRE(i < g->n_values);
    return &g->values[i];
}

const struct gguf_value *gguf_value(const struct gguf *g, const char *key)
{
    struct gguf_value wanted = {.key = {key, strlen(key)}};
    const struct gguf_value *k = &wanted;
    const struct gguf_value *const *found =
        bsearch(&k, g->by_key, g->n_values, sizeof *g->by_key, compare_values);
    return found ? *found : NULL;
}

/* Typed look-ups. */

static enum status gguf_find(const struct gguf *g, const char *key, const struct gguf_value **out,
                             struct err *err)
{
    *out = gguf_value(g, key);
    if (!*out)
        return err_param(err, STATUS_NOT_FOUND, key, "key \"%s\" is missing", key);
    return STATUS_OK;
}

static enum status wrong_type(const char *key, const char *expected, const struct gguf_value *v,
                              struct err *err)
{
    return err_param(err, STATUS_INVALID, key, "key \"%s\": expected %s, found %s", key, expected,
                     gguf_type_name(v->type));
}

enum status gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out, struct err *err)
{
    const struct gguf_value *v;
    enum status s = gguf_find(g, key, &v, err);
    if (s != STATUS_OK)
        return s;
    if (!gguf_type_is_integer(v->type) || v->type == GGUF_BOOL)
        return wrong_type(key, "an integer", v, err);
    int64_t x = gguf_integer(v, 0);
    if (x < 0 || x > UINT32_MAX)
        return err_param(err, STATUS_INVALID, key,
                         "key \"%s\": expected 0 to %" PRIu32 ", found %s%" PRId64, key, UINT32_MAX,
                         x == INT64_MAX ? "at least " : "", x);
    *out = (uint32_t)x;
    return STATUS_OK;
}

enum status gguf_get_f32(const struct gguf *g, const char *key, float *out, struct err *err)
{
    const struct gguf_value *v;
    enum status s = gguf_find(g, key, &v, err);
    if (s != STATUS_OK)
        return s;
    if (!gguf_type_is_number(v->type) || v->type == GGUF_BOOL)
        return wrong_type(key, "a number", v, err);
    double x = gguf_number(v, 0);
    if (!isfinite(x) || !isfinite((float)x))
        return err_param(err, STATUS_INVALID, key,
                         "key \"%s\": expected a finite 32-bit number, found %g", key, x);
    *out = (float)x;
    return STATUS_OK;
}

enum status gguf_get_bool(const struct gguf *g, const char *key, bool *out, struct err *err)
{
    const struct gguf_value *v;
    enum status s = gguf_find(g, key, &v, err);
    if (s != STATUS_OK)
        return s;
    if (v->type != GGUF_BOOL)
        return wrong_type(key, "a bool", v, err);
    *out = gguf_integer(v, 0) != 0;
    return STATUS_OK;
}

enum status gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out,
                            struct err *err)
{
    const struct gguf_value *v;
    enum status s = gguf_find(g, key, &v, err);
    if (s != STATUS_OK)
        return s;
    if (v->type != GGUF_STRING)
        return wrong_type(key, "a string", v, err);
    struct gguf_cursor start = {0, 0};
    *out = gguf_array_string(v, 0, &start);
    return STATUS_OK;
}
