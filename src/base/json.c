#include "base/json.h"

#include "base/json_memory.h"
#include "base/limits.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Is this one of the characters of a number, true, false or null? */
static bool is_plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-' || c == '+' || c == '.' ||
           c == 'E';
}

/* Values and their nesting, as brackets, quotes and the rest tell them. Looked at before parsing,
 * so that they cost no memory; text that is no JSON may count wrong, and is refused by the parser
 * then.
 */
static bool json_own_count(const char *text, size_t len, struct json_count *n)
{
    size_t depth = 0;
    bool plain = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool was_plain = plain;
        plain = is_plain(c);
        if (plain) {
            n->numbers += !was_plain;
        } else if (c == '"') {
            n->strings++;
            while (++i < len && text[i] != '"')
                i += text[i] == '\\';
        } else if (c == '[' || c == '{') {
            n->containers++;
            if (++depth > LIMIT_JSON_DEPTH)
                return false;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
    }
    return true;
}

enum status json_count_check(const struct json_count *n, struct err *err)
{
    if (n->containers > LIMIT_JSON_CONTAINERS)
        return err_set(err, STATUS_TOO_LARGE, "the body has %zu objects and arrays, at most %u",
                       n->containers, LIMIT_JSON_CONTAINERS);
    if (n->strings > LIMIT_JSON_STRINGS)
        return err_set(err, STATUS_TOO_LARGE, "the body has %zu names and strings, at most %u",
                       n->strings, LIMIT_JSON_STRINGS);
    if (n->numbers > LIMIT_JSON_NUMBERS)
        return err_set(err, STATUS_TOO_LARGE, "the body has %zu numbers, at most %u", n->numbers,
                       LIMIT_JSON_NUMBERS);
    return STATUS_OK;
}

/* What JSON allows and this server does not take is not called invalid JSON. */
static enum status bad_json(const json_error_t *fault, struct err *err)
{
    const char *what = "not valid JSON";
    const char *why = fault->text;
    switch (json_error_code(fault)) {
    case json_error_null_character:
    case json_error_null_byte_in_key:
        what = "not taken";
        why = "a string holds the character \\u0000";
        break;
    case json_error_numeric_overflow:
        what = "not taken";
        break;
    default:
        break;
    }
    return err_set(err, STATUS_INVALID, "the body is %s: line %d, column %d: %s", what, fault->line,
                   fault->column, why);
}

enum status json_parse(const char *text, size_t len, json_t **out, struct err *err)
{
    if (len == 0)
        return err_set(err, STATUS_INVALID, "the body is empty: expected a JSON object");
    struct json_count n = {0};
    if (!json_own_count(text, len, &n))
        return err_set(err, STATUS_INVALID, "the body nests deeper than %d levels",
                       LIMIT_JSON_DEPTH);
    enum status st = json_count_check(&n, err);
    if (st)
        return st;
    json_error_t fault;
    bool no_memory;
    json_t *v = json_memory_read(text, len, JSON_REJECT_DUPLICATES, &fault, &no_memory);
    if (no_memory)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a body of %zu bytes", len);
    if (!v)
        return bad_json(&fault, err);
    if (!json_is_object(v)) {
        char found[64];
        json_found(v, found, sizeof found);
        json_decref(v);
        return err_set(err, STATUS_INVALID, "the body must be a JSON object, found %s", found);
    }
    *out = v;
    return STATUS_OK;
}

const char *json_found(const json_t *v, char *out, size_t out_size)
{
    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_INTEGER:
        snprintf(out, out_size, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        break;
    case JSON_REAL:
        snprintf(out, out_size, "%.15g", json_real_value(v));
        break;
    case JSON_TRUE:
        snprintf(out, out_size, "true");
        break;
    case JSON_FALSE:
        snprintf(out, out_size, "false");
        break;
    case JSON_STRING:
        snprintf(out, out_size, "a string");
        break;
    case JSON_ARRAY:
        snprintf(out, out_size, "an array of %zu", json_array_size(v));
        break;
    case JSON_OBJECT:
        snprintf(out, out_size, "an object");
        break;
    default:
        snprintf(out, out_size, "null");
    }
    return out;
}

static enum status json_wrong(const json_t *v, const char *name, const char *expected,
                              struct err *err)
{
    char found[64];
    return err_param(err, STATUS_INVALID, name, "%s: must be %s, found %s", name, expected,
                     json_found(v, found, sizeof found));
}

enum status json_whole(const json_t *v, const char *name, int64_t min, int64_t max, int64_t *out,
                       struct err *err)
{
    char expected[80];
    snprintf(expected, sizeof expected, "a whole number between %" PRId64 " and %" PRId64, min,
             max);
    int64_t n;
    if (json_is_integer(v)) {
        n = json_integer_value(v);
    } else {
        /* beyond 2^53 a real no longer says which whole number was meant */
        double d = json_is_real(v) ? json_real_value(v) : NAN;
        if (!(fabs(d) <= 9007199254740992.0) || d != floor(d))
            return json_wrong(v, name, expected, err);
        n = (int64_t)d;
    }
    if (n < min || n > max)
        return json_wrong(v, name, expected, err);
    *out = n;
    return STATUS_OK;
}

enum status json_number(const json_t *v, const char *name, bool above, double min, double max,
                        double *out, struct err *err)
{
    double d = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(d <= max) || (above ? !(d > min) : !(d >= min))) {
        char expected[80];
        snprintf(expected, sizeof expected,
                 above ? "a number above %g, at most %g" : "a number between %g and %g", min, max);
        return json_wrong(v, name, expected, err);
    }
    *out = d;
    return STATUS_OK;
}

static const json_t *json_given(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_null(v) ? NULL : v;
}

enum status json_field_bool(const json_t *o, const char *name, bool *out, struct err *err)
{
    const json_t *v = json_given(o, name);
    if (!v)
        return STATUS_OK;
    if (!json_is_boolean(v))
        return json_wrong(v, name, "true or false", err);
    *out = json_is_true(v);
    return STATUS_OK;
}

enum status json_field_int(const json_t *o, const char *name, int64_t min, int64_t max,
                           int64_t *out, struct err *err)
{
    const json_t *v = json_given(o, name);
    return v ? json_whole(v, name, min, max, out, err) : STATUS_OK;
}

enum status json_field_real(const json_t *o, const char *name, bool above, double min, double max,
                            float *out, struct err *err)
{
    const json_t *v = json_given(o, name);
    double d = 0;
    if (!v)
        return STATUS_OK;
    enum status st = json_number(v, name, above, min, max, &d, err);
    if (st == STATUS_OK)
        *out = (float)d;
    return st;
}

enum status json_field_text(const json_t *o, const char *name, const char **out, struct err *err)
{
    const json_t *v = json_given(o, name);
    if (!v)
        return STATUS_OK;
    if (!json_is_string(v))
        return json_wrong(v, name, "a string", err);
    *out = json_string_value(v);
    return STATUS_OK;
}

/* The length of the UTF-8 sequence at p, 0 when there is none (RFC 3629). */
static size_t sequence(const unsigned char *p, size_t n)
{
    size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (len == 0 || p[0] > 0xf4 || len > n)
        return 0;
    for (size_t i = 1; i < len; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return len;
}

/* The escape that this character needs, NULL when it may stand as it is. */
static const char *escape_of(const unsigned char *p, size_t len, char *room)
{
    if (len == 0)
        return "\\ufffd";
    if (p[0] == '"')
        return "\\\"";
    if (p[0] == '\\')
        return "\\\\";
    if (p[0] == '\n')
        return "\\n";
    if (p[0] < 0x20 || p[0] == 0x7f) {
        snprintf(room, 8, "\\u%04x", p[0]);
        return room;
    }
    if (len == 2 && p[0] == 0xc2 && p[1] == 0x85)
        return "\\u0085";
    if (len == 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9))
        return p[2] == 0xa8 ? "\\u2028" : "\\u2029";
    return NULL;
}

void json_put_text(struct buf *out, const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t plain = 0; /* bytes before i that are not yet written */
    buf_putc(out, '"');
    for (size_t i = 0; i < len;) {
        char room[8];
        size_t n = sequence(p + i, len - i);
        const char *escape = escape_of(p + i, n, room);
        if (escape) {
            buf_append(out, text + i - plain, plain);
            buf_puts(out, escape);
            plain = 0;
        } else {
            plain += n;
        }
        i += n ? n : 1;
    }
    buf_append(out, text + len - plain, plain);
    buf_putc(out, '"');
}

void json_put(struct buf *out, const char *text)
{
    if (text)
        json_put_text(out, text, strlen(text));
    else
        buf_puts(out, "null");
}

void json_put_ms(struct buf *out, int64_t us)
{
    uint64_t magnitude = us < 0 ? (uint64_t)-us : (uint64_t)us;
    buf_printf(out, "%s%" PRIu64 ".%03u", us < 0 ? "-" : "", magnitude / 1000,
               (unsigned)(magnitude % 1000));
}
