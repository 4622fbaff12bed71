/* Values of a parsed file: the reader has checked every byte of them, so nothing is checked here.
 */
#include "weights/gguf.h"
#include "weights/gguf_reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool gguf_type_is_number(enum gguf_type type)
{
    return type != GGUF_STRING && type != GGUF_ARRAY;
}

bool gguf_type_is_integer(enum gguf_type type)
{
    return gguf_type_is_number(type) && type != GGUF_F32 && type != GGUF_F64;
}

/* Bytes that the element of `type` at `p` takes in the file. */
static size_t element_bytes(enum gguf_type type, const unsigned char *p)
{
    if (type == GGUF_STRING)
        return 8 + gguf_reader_load_u64(p);
    if (type != GGUF_ARRAY)
        return gguf_reader_type_size(type);
    enum gguf_type inner = (enum gguf_type)gguf_reader_load_u32(p);
    uint64_t count = gguf_reader_load_u64(p + 4);
    size_t size = gguf_reader_type_size(inner);
    if (size != 0)
        return 12 + count * size;
    size_t total = 12;
    for (uint64_t i = 0; i < count; i++)
        total += element_bytes(inner, p + total);
    return total;
}

/* Moves the cursor to element i and returns its bytes. */
static const unsigned char *seek(const struct gguf_value *v, uint64_t i, struct gguf_cursor *c)
{
    const unsigned char *p = v->data;
    size_t size = gguf_reader_type_size(v->element);
    REQUIRE(i < v->count);
    if (size != 0)
        return p + i * size;
    if (c->next > i)
        *c = (struct gguf_cursor){0, 0};
    for (; c->next < i; c->next++)
        c->offset += element_bytes(v->element, p + c->offset);
    return p + c->offset;
}

struct gguf_value gguf_element(const struct gguf_value *v, uint64_t i, struct gguf_cursor *c)
{
    const unsigned char *p = seek(v, i, c);
    struct gguf_value out = {.type = v->element, .element = v->element, .count = 1, .data = p};
    if (v->type == GGUF_ARRAY && v->element == GGUF_ARRAY) {
        out.element = (enum gguf_type)gguf_reader_load_u32(p);
        out.count = gguf_reader_load_u64(p + 4);
        out.data = p + 12;
    }
    return out;
}

struct gguf_string gguf_array_string(const struct gguf_value *v, uint64_t i, struct gguf_cursor *c)
{
    REQUIRE(v->element == GGUF_STRING);
    const unsigned char *p = seek(v, i, c);
    return (struct gguf_string){(const char *)p + 8, gguf_reader_load_u64(p)};
}

/* The bytes of a number, in the low end of 64 zeroed bits. */
static uint64_t number_bits(const struct gguf_value *v, uint64_t i)
{
    size_t size = gguf_reader_type_size(v->element);
    uint64_t bits = 0;
    REQUIRE(i < v->count);
    memcpy(&bits, (const unsigned char *)v->data + i * size, size);
    return bits;
}

int64_t gguf_integer(const struct gguf_value *v, uint64_t i)
{
    REQUIRE(gguf_type_is_integer(v->element));
    uint64_t bits = number_bits(v, i);
    switch (v->element) {
    case GGUF_I8:
        return (int8_t)bits;
    case GGUF_I16:
        return (int16_t)bits;
    case GGUF_I32:
        return (int32_t)bits;
    case GGUF_I64:
        return (int64_t)bits;
    default:
        return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    }
}

uint64_t gguf_unsigned(const struct gguf_value *v, uint64_t i)
{
    REQUIRE(v->element == GGUF_U8 || v->element == GGUF_U16 || v->element == GGUF_U32 ||
            v->element == GGUF_U64 || v->element == GGUF_BOOL);
    return number_bits(v, i);
}

double gguf_number(const struct gguf_value *v, uint64_t i)
{
    REQUIRE(gguf_type_is_number(v->element));
    uint64_t bits = number_bits(v, i);
    float f;
    double d;
    switch (v->element) {
    case GGUF_F32:
        memcpy(&f, &bits, sizeof f);
        return (double)f;
    case GGUF_F64:
        memcpy(&d, &bits, sizeof d);
        return d;
    case GGUF_U64:
        return (double)bits;
    default:
        return (double)gguf_integer(v, i);
    }
}

static enum status find(const struct gguf *g, const char *key, const struct gguf_value **out,
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
    enum status s = find(g, key, &v, err);
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
    enum status s = find(g, key, &v, err);
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
    enum status s = find(g, key, &v, err);
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
    enum status s = find(g, key, &v, err);
    if (s != STATUS_OK)
        return s;
    if (v->type != GGUF_STRING)
        return wrong_type(key, "a string", v, err);
    struct gguf_cursor start = {0, 0};
    *out = gguf_array_string(v, 0, &start);
    return STATUS_OK;
}

/* One byte of quoted text, at most 4 characters; returns how many. */
static size_t quote_byte(unsigned char byte, char piece[5])
{
    bool plain = byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
    return (size_t)snprintf(piece, 5, plain ? "%c" : "\\x%02x", byte);
}

const char *gguf_string_text(struct gguf_string s, char *out, size_t out_size)
{
    static const char cut[] = "\"..."; /* what ends a cut text, and room kept for it */
    REQUIRE(out_size > sizeof cut);
    size_t len = 0;
    out[len++] = '"';
    for (size_t i = 0; i < s.len; i++) {
        char piece[5];
        size_t n = quote_byte((unsigned char)s.bytes[i], piece);
        if (len + n + sizeof cut > out_size) {
            memcpy(out + len, cut, sizeof cut);
            return out;
        }
        memcpy(out + len, piece, n);
        len += n;
    }
    memcpy(out + len, "\"", 2);
    return out;
}
