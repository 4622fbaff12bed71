/* Writes GGUF files in memory, for tests that need a tiny model or a broken one.
 *
 *     struct gguf_writer w;
 *     gguf_writer_init(&w, 3);
 *     gguf_writer_string(&w, "general.architecture", "llama");
 *     gguf_writer_tensor(&w, "token_embd.weight", TENSOR_F32, 2, (uint64_t[]){4, 3}, floats);
 *     const void *bytes = gguf_writer_finish(&w, &len);   // the writer's, until the next finish
 *     gguf_writer_fini(&w);
 *
 * Nothing is checked, so that hostile files can be written: gguf_writer_pair and gguf_writer_info
 * take anything, and `magic`, `version`, `n_values`, `n_tensors` may be set before finishing. The
 * file ends with the last tensor's last byte, without padding, so that every truncation is one.
 */
#ifndef FIRSTLIGHT_TESTS_SUPPORT_GGUF_WRITER_H
#define FIRSTLIGHT_TESTS_SUPPORT_GGUF_WRITER_H

#include "base/buf.h"
#include "base/err.h"
#include "weights/gguf.h"
#include "weights/tensor.h"

#include <stdio.h>
#include <string.h>

struct gguf_writer {
    char magic[4];
    uint32_t version;
    uint32_t alignment; /* of the tensors; writes no general.alignment key */
    uint64_t n_values;
    uint64_t n_tensors;
    struct buf pairs;
    struct buf infos;
    struct buf data;
    struct buf file;
};

static inline void gguf_writer_init(struct gguf_writer *w, uint32_t version)
{
    *w = (struct gguf_writer){.version = version, .alignment = 32};
    memcpy(w->magic, "GGUF", 4);
}

static inline void gguf_writer_fini(struct gguf_writer *w)
{
    buf_fini(&w->pairs);
    buf_fini(&w->infos);
    buf_fini(&w->data);
    buf_fini(&w->file);
}

static inline void gguf_writer_put(struct buf *b, const void *bytes, size_t len)
{
    if (len != 0)
        REQUIRE(buf_append(b, bytes, len));
}

static inline void gguf_writer_put_u32(struct buf *b, uint32_t x)
{
    gguf_writer_put(b, &x, sizeof x);
}

static inline void gguf_writer_put_u64(struct buf *b, uint64_t x)
{
    gguf_writer_put(b, &x, sizeof x);
}

static inline void gguf_writer_put_string(struct buf *b, const char *s)
{
    gguf_writer_put_u64(b, strlen(s));
    gguf_writer_put(b, s, strlen(s));
}

static inline void gguf_writer_pad(struct buf *b, size_t alignment)
{
    while (b->len % alignment != 0)
        REQUIRE(buf_putc(b, '\0'));
}

/* A pair whose value is `len` raw bytes after the type number. */
static inline void gguf_writer_pair(struct gguf_writer *w, const char *key, uint32_t type,
                                    const void *bytes, size_t len)
{
    gguf_writer_put_string(&w->pairs, key);
    gguf_writer_put_u32(&w->pairs, type);
    gguf_writer_put(&w->pairs, bytes, len);
    w->n_values++;
}

static inline void gguf_writer_u32(struct gguf_writer *w, const char *key, uint32_t x)
{
    gguf_writer_pair(w, key, GGUF_U32, &x, sizeof x);
}

static inline void gguf_writer_f32(struct gguf_writer *w, const char *key, float x)
{
    gguf_writer_pair(w, key, GGUF_F32, &x, sizeof x);
}

static inline void gguf_writer_bool(struct gguf_writer *w, const char *key, bool x)
{
    unsigned char byte = x;
    gguf_writer_pair(w, key, GGUF_BOOL, &byte, sizeof byte);
}

static inline void gguf_writer_string(struct gguf_writer *w, const char *key, const char *s)
{
    gguf_writer_pair(w, key, GGUF_STRING, NULL, 0);
    gguf_writer_put_string(&w->pairs, s);
}

/* An array of numbers, `len` bytes together; or, with len 0, an array whose elements follow. */
static inline void gguf_writer_array(struct gguf_writer *w, const char *key, uint32_t element,
                                     uint64_t count, const void *bytes, size_t len)
{
    gguf_writer_pair(w, key, GGUF_ARRAY, NULL, 0);
    gguf_writer_put_u32(&w->pairs, element);
    gguf_writer_put_u64(&w->pairs, count);
    gguf_writer_put(&w->pairs, bytes, len);
}

static inline void gguf_writer_strings(struct gguf_writer *w, const char *key, uint64_t count,
                                       const char *const *strings)
{
    gguf_writer_array(w, key, GGUF_STRING, count, NULL, 0);
    for (uint64_t i = 0; i < count; i++)
        gguf_writer_put_string(&w->pairs, strings[i]);
}

/* A tensor's info alone, with any numbers. `type` is GGUF's number. */
static inline void gguf_writer_info(struct gguf_writer *w, const char *name, uint32_t n_dims,
                                    const uint64_t *dims, uint32_t type, uint64_t offset)
{
    gguf_writer_put_string(&w->infos, name);
    gguf_writer_put_u32(&w->infos, n_dims);
    gguf_writer_put(&w->infos, dims, n_dims * sizeof *dims);
    gguf_writer_put_u32(&w->infos, type);
    gguf_writer_put_u64(&w->infos, offset);
    w->n_tensors++;
}

static inline uint32_t gguf_writer_type_number(enum tensor_type type)
{
    static const uint32_t numbers[TENSOR_TYPES] = {
#define X(id, gguf, name, values, bytes) [TENSOR_##id] = gguf,
        TENSOR_TYPE_MAP(X)
#undef X
    };
    return numbers[type];
}

/* A tensor and its data, whose size follows from type and dims; NULL data writes zeros. */
static inline void gguf_writer_tensor(struct gguf_writer *w, const char *name,
                                      enum tensor_type type, uint32_t n_dims, const uint64_t *dims,
                                      const void *data)
{
    size_t size = tensor_row_bytes(type, dims[0]);
    for (uint32_t d = 1; d < n_dims; d++)
        size *= dims[d];
    gguf_writer_pad(&w->data, w->alignment);
    gguf_writer_info(w, name, n_dims, dims, gguf_writer_type_number(type), w->data.len);
    if (data)
        gguf_writer_put(&w->data, data, size);
    for (size_t i = 0; !data && i < size; i++)
        REQUIRE(buf_putc(&w->data, '\0'));
}

/* Puts the parts together. The bytes are the writer's until the next call. */
static inline const void *gguf_writer_finish(struct gguf_writer *w, size_t *len)
{
    buf_clear(&w->file);
    gguf_writer_put(&w->file, w->magic, sizeof w->magic);
    gguf_writer_put_u32(&w->file, w->version);
    gguf_writer_put_u64(&w->file, w->n_tensors);
    gguf_writer_put_u64(&w->file, w->n_values);
    gguf_writer_put(&w->file, w->pairs.data, w->pairs.len);
    gguf_writer_put(&w->file, w->infos.data, w->infos.len);
    if (w->data.len != 0)
        gguf_writer_pad(&w->file, w->alignment);
    gguf_writer_put(&w->file, w->data.data, w->data.len);
    *len = w->file.len;
    return w->file.data;
}

/* Writes the file to `path`; false when that failed. */
static inline bool gguf_writer_save(struct gguf_writer *w, const char *path)
{
    size_t len;
    const void *bytes = gguf_writer_finish(w, &len);
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    bool written = fwrite(bytes, 1, len, f) == len;
    return fclose(f) == 0 && written;
}

#endif
