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

/* Whether it does something to the text around it where it is shown: U+0000 to U+001F, U+007F to
 * U+009F, and the embeddings, overrides and isolates of direction (U+202A to U+202E, U+2066 to
 * U+2069). */
bool utf8_is_control(uint32_t code_point);

/* Makes text of unknown origin fit to be shown in a terminal: each byte of a control becomes a
 * space, but for line ends where they are to be kept. NUL-terminated. */
void utf8_make_plain(char *text, bool keep_lines);

/* Appends len bytes with each maximal invalid part replaced by U+FFFD, a partial end too. */
void utf8_append(struct buf *out, const char *bytes, size_t len);

#endif
