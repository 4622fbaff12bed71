/* UTF-8 that is known to be valid: code points, their count, Python's idea of white space. */
#ifndef FIRSTLIGHT_TEXT_TEMPLATE_JINJA_UTF8_H
#define FIRSTLIGHT_TEXT_TEMPLATE_JINJA_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Code points in `len` bytes. */
size_t jinja_utf8_count(const char *bytes, size_t len);

/* Reads the code point at *pos, which must be < len, and moves *pos behind it. */
uint32_t jinja_utf8_next(const char *bytes, size_t len, size_t *pos);

/* `len`, or less: at most `max` bytes that end with a whole code point. For error texts. */
int jinja_utf8_cut(const char *bytes, size_t len, size_t max);

/* The start of the code point that ends at `pos` > 0. */
size_t jinja_utf8_before(const char *bytes, size_t pos);

/* Writes 1-4 bytes and returns how many; 0 for a surrogate or a number out of range. */
size_t jinja_utf8_encode(uint32_t code, char out[4]);

/* str.isspace() of one code point. */
bool jinja_utf8_is_space(uint32_t code);

/* Bytes of white space at the start, and `len` without the white space at the end. */
size_t jinja_utf8_space_prefix(const char *bytes, size_t len);
size_t jinja_utf8_trimmed_len(const char *bytes, size_t len);

#endif
