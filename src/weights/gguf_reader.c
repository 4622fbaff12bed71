#include "weights/gguf_reader.h"

#include "base/limits.h"

#include <inttypes.h>
#include <string.h>

/* An array's header: the elements' type and their count. */
#define ARRAY_HEADER_BYTES 12
/* A string's header: its length. */
#define STRING_HEADER_BYTES 8

static const struct {
    const char *name;
    size_t size;
} types[GGUF_TYPES] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

const char *gguf_type_name(enum gguf_type type)
{
    REQUIRE((unsigned)type < GGUF_TYPES);
    return types[type].name;
}

size_t gguf_reader_type_size(enum gguf_type type)
{
    REQUIRE((unsigned)type < GGUF_TYPES);
    return types[type].size;
}

uint32_t gguf_reader_load_u32(const void *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

uint64_t gguf_reader_load_u64(const void *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

size_t gguf_reader_left(const struct gguf_reader *r)
{
    return r->len - r->pos;
}

/* The next n bytes, passed over; NULL (STATUS_INVALID) when fewer are left. */
static const unsigned char *gguf_reader_take(struct gguf_reader *r, const char *what, uint64_t n)
{
    const unsigned char *p = r->bytes + r->pos;
    if (n > gguf_reader_left(r)) {
        err_set(r->err, STATUS_INVALID,
                "%s: expected %" PRIu64 " bytes at byte %zu, found %zu before the file ends", what,
                n, r->pos, gguf_reader_left(r));
        return NULL;
    }
    r->pos += n;
    return p;
}

enum status gguf_reader_u32(struct gguf_reader *r, const char *what, uint32_t *out)
{
    const unsigned char *p = gguf_reader_take(r, what, sizeof *out);
    if (!p)
        return STATUS_INVALID;
    *out = gguf_reader_load_u32(p);
    return STATUS_OK;
}

enum status gguf_reader_u64(struct gguf_reader *r, const char *what, uint64_t *out)
{
    const unsigned char *p = gguf_reader_take(r, what, sizeof *out);
    if (!p)
        return STATUS_INVALID;
    *out = gguf_reader_load_u64(p);
    return STATUS_OK;
}

enum status gguf_reader_string(struct gguf_reader *r, const char *what, uint64_t limit,
                               struct gguf_string *out)
{
    uint64_t len;
    enum status s = gguf_reader_u64(r, what, &len);
    if (s != STATUS_OK)
        return s;
    const unsigned char *p = gguf_reader_take(r, what, len);
    if (!p)
        return STATUS_INVALID;
    if (len > limit)
        return err_set(r->err, STATUS_TOO_LARGE,
                       "%s: expected at most %" PRIu64 " bytes, found %" PRIu64, what, limit, len);
    *out = (struct gguf_string){(const char *)p, len};
    return STATUS_OK;
}

enum status gguf_reader_check_count(const struct gguf_reader *r, const char *what, uint64_t count,
                                    size_t each, uint64_t limit)
{
    size_t left = gguf_reader_left(r);
    if (count > left / each)
        return err_set(r->err, STATUS_INVALID,
                       "%s: %" PRIu64 " of at least %zu bytes each do not fit in the %zu bytes "
                       "left at byte %zu",
                       what, count, each, left, r->pos);
    if (count > limit)
        return err_set(r->err, STATUS_TOO_LARGE, "%s: expected at most %" PRIu64 ", found %" PRIu64,
                       what, limit, count);
    return STATUS_OK;
}

static enum status gguf_reader_read_type(struct gguf_reader *r, const char *what,
                                         enum gguf_type *out)
{
    uint32_t number;
    enum status s = gguf_reader_u32(r, what, &number);
    if (s != STATUS_OK)
        return s;
    if (number >= GGUF_TYPES)
        return err_set(r->err, STATUS_INVALID, "%s: expected 0 to %d, found %" PRIu32, what,
                       GGUF_TYPES - 1, number);
    *out = (enum gguf_type)number;
    return STATUS_OK;
}

/* The fewest bytes an element of `type` takes. */
static size_t least_bytes(enum gguf_type type)
{
    if (type == GGUF_ARRAY)
        return ARRAY_HEADER_BYTES;
    return type == GGUF_STRING ? STRING_HEADER_BYTES : gguf_reader_type_size(type);
}

static enum status check_bools(struct gguf_reader *r, const unsigned char *p, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (p[i] > 1)
            return err_set(r->err, STATUS_INVALID, "bool: expected 0 or 1, found %d", p[i]);
    return STATUS_OK;
}

/* `count` values of a type of fixed size. */
static enum status skip_fixed(struct gguf_reader *r, enum gguf_type type, uint64_t count)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(count, gguf_reader_type_size(type), &bytes))
        return err_set(r->err, STATUS_INVALID, "array of %" PRIu64 " %s is too large", count,
                       gguf_type_name(type));
    const unsigned char *p = gguf_reader_take(r, gguf_type_name(type), bytes);
    if (!p)
        return STATUS_INVALID;
    return type == GGUF_BOOL ? check_bools(r, p, count) : STATUS_OK;
}

static enum status skip_array(struct gguf_reader *r, struct gguf_value *out, int depth);

static enum status skip_element(struct gguf_reader *r, enum gguf_type type, int depth)
{
    if (type == GGUF_STRING) {
        struct gguf_string ignored;
        return gguf_reader_string(r, "string", LIMIT_GGUF_STRING, &ignored);
    }
    struct gguf_value ignored;
    return skip_array(r, &ignored, depth + 1);
}

/* An array's header and its elements. Time is linear in the bytes passed over: each element takes
 * at least one byte, and the recursion is at most LIMIT_GGUF_ARRAY_DEPTH deep. */
static enum status skip_array(struct gguf_reader *r, struct gguf_value *out, int depth)
{
    if (depth > LIMIT_GGUF_ARRAY_DEPTH)
        return err_set(r->err, STATUS_TOO_LARGE, "array: expected at most %d levels, found more",
                       LIMIT_GGUF_ARRAY_DEPTH);
    enum status s = gguf_reader_read_type(r, "array element type", &out->element);
    if (s == STATUS_OK)
        s = gguf_reader_u64(r, "array length", &out->count);
    if (s == STATUS_OK)
        s = gguf_reader_check_count(r, "array length", out->count, least_bytes(out->element),
                                    UINT64_MAX);
    if (s != STATUS_OK)
        return s;
    out->type = GGUF_ARRAY;
    out->data = r->bytes + r->pos;
    if (gguf_reader_type_size(out->element) != 0)
        return skip_fixed(r, out->element, out->count);
    for (uint64_t i = 0; i < out->count && s == STATUS_OK; i++)
        s = skip_element(r, out->element, depth);
    return s;
}

enum status gguf_reader_value(struct gguf_reader *r, struct gguf_value *out)
{
    enum status s = gguf_reader_read_type(r, "value type", &out->type);
    if (s != STATUS_OK)
        return s;
    if (out->type == GGUF_ARRAY)
        return skip_array(r, out, 1);
    out->element = out->type;
    out->count = 1;
    out->data = r->bytes + r->pos;
    if (out->type == GGUF_STRING)
        return skip_element(r, GGUF_STRING, 0);
    return skip_fixed(r, out->type, 1);
}
