#include "weights/gguf_build.h"

#include "weights/gguf_reader.h"

#include <string.h>

/* enum gguf_type has the format's own numbers. */

static void put_u32(struct buf *b, uint32_t x)
{
    buf_append(b, &x, sizeof x);
}

static void put_u64(struct buf *b, uint64_t x)
{
    buf_append(b, &x, sizeof x);
}

static void gguf_build_put_string(struct buf *b, const void *bytes, size_t len)
{
    put_u64(b, len);
    buf_append(b, bytes, len);
}

static void gguf_build_put_key(struct gguf_build *b, const char *key, enum gguf_type type)
{
    gguf_build_put_string(&b->pairs, key, strlen(key));
    put_u32(&b->pairs, (uint32_t)type);
    b->n_pairs++;
}

void gguf_build_fini(struct gguf_build *b)
{
    buf_fini(&b->pairs);
    *b = (struct gguf_build){0};
}

void gguf_build_u32(struct gguf_build *b, const char *key, uint32_t value)
{
    gguf_build_put_key(b, key, GGUF_U32);
    put_u32(&b->pairs, value);
}

void gguf_build_f32(struct gguf_build *b, const char *key, float value)
{
    gguf_build_put_key(b, key, GGUF_F32);
    buf_append(&b->pairs, &value, sizeof value);
}

void gguf_build_bool(struct gguf_build *b, const char *key, bool value)
{
    gguf_build_put_key(b, key, GGUF_BOOL);
    buf_putc(&b->pairs, (char)value);
}

void gguf_build_string(struct gguf_build *b, const char *key, const char *value)
{
    gguf_build_bytes(b, key, value, strlen(value));
}

void gguf_build_bytes(struct gguf_build *b, const char *key, const void *bytes, size_t len)
{
    gguf_build_put_key(b, key, GGUF_STRING);
    gguf_build_put_string(&b->pairs, bytes, len);
}

void gguf_build_array(struct gguf_build *b, const char *key, enum gguf_type element, uint64_t count)
{
    gguf_build_put_key(b, key, GGUF_ARRAY);
    put_u32(&b->pairs, (uint32_t)element);
    put_u64(&b->pairs, count);
}

void gguf_build_element_string(struct gguf_build *b, const char *bytes, size_t len)
{
    gguf_build_put_string(&b->pairs, bytes, len);
}

void gguf_build_element_u32(struct gguf_build *b, uint32_t value)
{
    put_u32(&b->pairs, value);
}

void gguf_build_element_f32(struct gguf_build *b, float value)
{
    buf_append(&b->pairs, &value, sizeof value);
}

/* The elements of v, or v itself; arrays in arrays carry their own head each. */
static void put_elements(struct gguf_build *b, const struct gguf_value *v)
{
    struct gguf_cursor cursor = {0};
    size_t size = gguf_reader_type_size(v->element);
    if (size) {
        buf_append(&b->pairs, v->data, size * (size_t)v->count);
        return;
    }
    for (uint64_t i = 0; i < v->count; i++) {
        if (v->element == GGUF_STRING) {
            struct gguf_string s = gguf_array_string(v, i, &cursor);
            gguf_build_put_string(&b->pairs, s.bytes, s.len);
            continue;
        }
        struct gguf_value inner = gguf_element(v, i, &cursor);
        put_u32(&b->pairs, (uint32_t)inner.element);
        put_u64(&b->pairs, inner.count);
        put_elements(b, &inner);
    }
}

void gguf_build_copy(struct gguf_build *b, const struct gguf_value *v)
{
    gguf_build_put_string(&b->pairs, v->key.bytes, v->key.len);
    put_u32(&b->pairs, (uint32_t)v->type);
    b->n_pairs++;
    if (v->type == GGUF_ARRAY) {
        put_u32(&b->pairs, (uint32_t)v->element);
        put_u64(&b->pairs, v->count);
    }
    put_elements(b, v);
}

void gguf_build_header(const struct gguf_build *b, uint64_t n_tensors, struct buf *out)
{
    buf_puts(out, "GGUF");
    put_u32(out, 3);
    put_u64(out, n_tensors);
    put_u64(out, b->n_pairs);
    buf_append(out, buf_str(&b->pairs), b->pairs.len);
    out->failed |= b->pairs.failed;
}

void gguf_build_info(struct buf *out, const struct tensor *t, uint64_t offset)
{
    gguf_build_put_string(out, t->name, strlen(t->name));
    put_u32(out, t->n_dims);
    for (uint32_t d = 0; d < t->n_dims; d++)
        put_u64(out, t->dims[d]);
    put_u32(out, tensor_type_to_gguf(t->type));
    put_u64(out, offset);
}
