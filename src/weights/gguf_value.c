/* Values of a parsed file: the reader has checked every byte of them, so nothing is checked here.
 */
#include "weights/gguf.h"
#include "weights/gguf_reader.h"

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
