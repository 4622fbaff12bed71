#include "text/template/jinja_utf8.h"

#include "base/utf8.h"

#include <utf8proc.h>

/* Bytes of the sequence that starts with `lead`; 0 when none does. */
static size_t sequence_len(uint8_t lead)
{
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 2;
    if (lead >= 0xe0 && lead <= 0xef)
        return 3;
    return lead >= 0xf0 && lead <= 0xf4 ? 4 : 0;
}

static bool is_continuation(char c)
{
    return ((uint8_t)c & 0xc0) == 0x80;
}

size_t jinja_utf8_count(const char *bytes, size_t len)
{
    size_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += !is_continuation(bytes[i]);
    return count;
}

uint32_t jinja_utf8_next(const char *bytes, size_t len, size_t *pos)
{
    uint8_t lead = (uint8_t)bytes[*pos];
    size_t n = sequence_len(lead);
    uint32_t code = lead;
    if (n > 1 && n <= len - *pos) {
        code = utf8_code_point(bytes + *pos, n);
        *pos += n;
    } else {
        *pos += 1;
    }
    return code;
}

size_t jinja_utf8_before(const char *bytes, size_t pos)
{
    do {
        pos--;
    } while (pos > 0 && is_continuation(bytes[pos]));
    return pos;
}

int jinja_utf8_cut(const char *bytes, size_t len, size_t max)
{
    if (len <= max)
        return (int)len;
    while (max > 0 && is_continuation(bytes[max]))
        max--;
    return (int)max;
}

size_t jinja_utf8_encode(uint32_t code, char out[4])
{
    if (!utf8proc_codepoint_valid((utf8proc_int32_t)code))
        return 0;
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)code, (utf8proc_uint8_t *)out);
}

bool jinja_utf8_is_space(uint32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= '\t' && code <= '\r') || (code >= 0x1c && code <= 0x1f);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

size_t jinja_utf8_space_prefix(const char *bytes, size_t len)
{
    size_t pos = 0;
    while (pos < len) {
        size_t next = pos;
        if (!jinja_utf8_is_space(jinja_utf8_next(bytes, len, &next)))
            break;
        pos = next;
    }
    return pos;
}

size_t jinja_utf8_trimmed_len(const char *bytes, size_t len)
{
    while (len > 0) {
        size_t start = jinja_utf8_before(bytes, len), pos = start;
        if (!jinja_utf8_is_space(jinja_utf8_next(bytes, len, &pos)))
            break;
        len = start;
    }
    return len;
}
