/* GPT-2's byte alphabet: vocabularies of byte-level BPE spell each byte as one printable character,
 * so that a token is readable text (a space is U+0120). 33..126, 161..172 and 174..255 stand for
 * themselves; the 68 other bytes, in order, are U+0100 .. U+0143.
 * (Radford et al. 2019, bytes_to_unicode in openai/gpt-2's encoder.py)
 */
#ifndef FIRSTLIGHT_TEXT_TOKENIZER_BYTE_LEVEL_H
#define FIRSTLIGHT_TEXT_TOKENIZER_BYTE_LEVEL_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the bytes that `text` spells to out, which has room for len bytes, and sets *n. False when
 * text has a character that is not in the alphabet; what out holds then is undefined. */
bool byte_level_decode(const char *text, size_t len, char *out, size_t *n);

#endif
