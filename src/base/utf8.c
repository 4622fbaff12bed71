#include "base/utf8.h"

#include <string.h>

/* Bytes that follow lead byte `lead`, and the range of the first of them; the others are 80..BF.
 * 0 for a byte that starts no character of several bytes. */
static int follow_count(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf)
        return 1;
    if (lead >= 0xe0 && lead <= 0xef) {
        if (lead == 0xe0)
            *low = 0xa0; /* below: overlong */
        if (lead == 0xed)
            *high = 0x9f; /* above: surrogates */
        return 2;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        if (lead == 0xf0)
            *low = 0x90; /* below: overlong */
        if (lead == 0xf4)
            *high = 0x8f; /* above: past U+10FFFF */
        return 3;
    }
    return 0;
}

enum utf8_kind utf8_step(const char *bytes, size_t len, size_t *n)
{
    const unsigned char *b = (const unsigned char *)bytes;
    unsigned char low, high;

    *n = 1;
    if (b[0] < 0x80)
        return UTF8_WHOLE;
    size_t follow = (size_t)follow_count(b[0], &low, &high);
    if (follow == 0)
        return UTF8_INVALID;
    for (; *n <= follow; ++*n) {
        if (*n == len)
            return UTF8_PARTIAL;
        if (b[*n] < low || b[*n] > high)
            return UTF8_INVALID;
        low = 0x80;
        high = 0xbf;
    }
    return UTF8_WHOLE;
}

size_t utf8_valid_prefix(const char *bytes, size_t len)
{
    size_t at = 0;

    while (at < len) {
        uint64_t eight;
        while (len - at >= sizeof eight) { /* ASCII, eight bytes at a time */
            memcpy(&eight, bytes + at, sizeof eight);
            if (eight & 0x8080808080808080u)
                break;
            at += sizeof eight;
        }
        size_t n;
        if (at == len || utf8_step(bytes + at, len - at, &n) != UTF8_WHOLE)
            break;
        at += n;
    }
    return at;
}

uint32_t utf8_code_point(const char *bytes, size_t n)
{
    static const unsigned char lead_mask[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t cp = (unsigned char)bytes[0] & lead_mask[n];

    for (size_t i = 1; i < n; i++)
        cp = cp << 6 | ((unsigned char)bytes[i] & 0x3f);
    return cp;
}

bool utf8_is_control(uint32_t code_point)
{
    return code_point < 0x20 || (code_point >= 0x7f && code_point <= 0x9f) ||
           (code_point >= 0x202a && code_point <= 0x202e) ||
           (code_point >= 0x2066 && code_point <= 0x2069);
}

void utf8_make_plain(char *text, bool keep_lines)
{
    size_t left = strlen(text), n;
    for (; left > 0; text += n, left -= n) {
        bool is_character = utf8_step(text, left, &n) == UTF8_WHOLE;
        if (is_character && utf8_is_control(utf8_code_point(text, n)) &&
            !(keep_lines && *text == '\n'))
            memset(text, ' ', n);
    }
}

void utf8_append(struct buf *out, const char *bytes, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = utf8_valid_prefix(bytes + at, len - at);
        if (n > 0) {
            buf_append(out, bytes + at, n);
            continue;
        }
        utf8_step(bytes + at, len - at, &n);
        buf_puts(out, UTF8_REPLACEMENT);
    }
}
