/* UTF-8, strictly (Unicode 15, table 3-7): no overlong forms, surrogates or code points past
 * U+10FFFF. What is not well-formed is cut into maximal invalid parts (section 3.9), each of which
 * a reader replaces by one U+FFFD.
 */
#ifndef FIRSTLIGHT_TEXT_UTF8_H
#define FIRSTLIGHT_TEXT_UTF8_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT     "\xef\xbf\xbd"
#define UTF8_REPLACEMENT_LEN 3

enum utf8_kind {
    UTF8_WHOLE,   /* *n bytes are one character */
    UTF8_INVALID, /* *n bytes are a maximal invalid part */
    UTF8_PARTIAL, /* all `len` bytes (*n = len <= 3) begin a character that more bytes could end */
};

/* Looks at what starts at bytes[0]; len >= 1. */
enum utf8_kind utf8_step(const char *bytes, size_t len, size_t *n);

/* How many of the first bytes are whole characters: len when all of it is well-formed. */
size_t utf8_valid_prefix(const char *bytes, size_t len);

/* The code point of a whole character of n bytes. */
uint32_t utf8_code_point(const char *bytes, size_t n);

/* Appends len bytes with each maximal invalid part replaced by U+FFFD, a partial end too. */
void utf8_append(struct buf *out, const char *bytes, size_t len);

#endif
